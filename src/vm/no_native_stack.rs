//! The stand-in for `native_stack` on systems that do not tell.

/// Not known.
pub(crate) fn low() -> Option<usize> {
    None
}

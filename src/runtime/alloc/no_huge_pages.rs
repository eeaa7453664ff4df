//! The stand-in for `huge_pages` on systems without mappings: constants lie on the heap.

/// From this size on a constant is large.
pub const LEAST: usize = 64 << 10;

/// A part of a mapping; there is none.
pub struct Part(std::convert::Infallible);

impl Part {
    /// None: the system has no mappings.
    pub(crate) fn of_large(_len: usize) -> Option<Part> {
        None
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0 {}
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0 {}
    }
}

//! Checked arguments.

use reflex_runtime::value::Any;

/// Arguments of a call, checked against the function's signature and ready to use again.
pub struct Prepared {
    pub(crate) func: u32,
    pub(crate) args: Vec<Any>,
}

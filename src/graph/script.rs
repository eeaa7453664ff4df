//! TVMScript text to graph modules.

pub(crate) mod metadata;
pub(crate) mod table;

//! Memory for tensor data.

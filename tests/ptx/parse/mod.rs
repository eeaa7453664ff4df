//! PTX text to a tree of what is written.

pub mod error;
pub mod lex;
pub mod read;
pub mod tree;

//! Registers that lanes of a vector are in.

use reflex_tir::{Buffer, Expr};

use crate::print::text::Text;

/// Elements of memory that are in registers while lanes are printed.
pub struct Register {
    /// The buffer.
    pub buffer: Buffer,
    /// Where the elements are, by the variable of the lanes.
    pub position: Expr,
    /// The array of registers.
    pub name: String,
    /// The lane's number in it.
    pub lane: Text,
}

//! Work that goes on in a GPU while a thread runs the code behind it: products of warpgroups and copies.

use std::collections::{HashMap, HashSet};

use inkwell::values::{BasicValueEnum, PointerValue};
use reflex_tir::{Buffer, Stmt};

/// Sums of products that were issued.
#[derive(Debug, Clone)]
pub struct InFlight<'c> {
    /// Their places.
    pub sums: Sums<'c>,
    /// The registers, which nothing may read before they are waited for.
    pub values: Vec<BasicValueEnum<'c>>,
}

/// Where the sums of a product are in the thread's memory, which LLVM turns into registers.
#[derive(Debug, Clone)]
pub struct Sums<'c> {
    /// The buffer.
    pub buffer: Buffer,
    /// The number of the first of them in the buffer.
    pub first: u64,
    /// Their addresses.
    pub places: Vec<PointerValue<'c>>,
}

/// The waits of a launch.
#[derive(Debug, Default)]
pub struct CopyWaits {
    /// Before a statement: the most recent groups that go on.
    pub left: HashMap<*const Stmt, usize>,
    /// Loops behind which a group is committed.
    pub groups: HashSet<*const Stmt>,
}

impl CopyWaits {
    /// The groups that may go on at a statement, if it has to wait for others.
    pub fn left(&self, s: &Stmt) -> Option<usize> {
        self.left.get(&std::ptr::from_ref(s)).copied()
    }

    /// Whether a statement ends a group of copies.
    pub fn is_group(&self, s: &Stmt) -> bool {
        self.groups.contains(&std::ptr::from_ref(s))
    }
}

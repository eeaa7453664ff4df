//! Lifetimes of values in registers, and instructions that show reference counts to others.

use super::super::ir::{Ins, VReg};

/// Most instructions that a value is followed for.
const REACH: usize = 256;

/// The life of a register's value, from an instruction on.
pub(super) struct Lifetime {
    from: usize,
    /// Its register before each instruction.
    pub(super) places: Vec<VReg>,
    /// The instruction that ends it, or one up to which it was followed.
    pub(super) end: usize,
}

impl Lifetime {
    /// Follows the value of a register from move to move.
    pub(super) fn of(code: &[Ins], from: usize, mut vreg: VReg) -> Lifetime {
        let mut places = Vec::new();
        for (at, ins) in code.iter().enumerate().skip(from).take(REACH) {
            places.push(vreg);
            let moves = |(dst, src): &(VReg, VReg)| [*dst, *src].contains(&vreg);
            match ins {
                Ins::Move { dst, src } if *src == vreg => vreg = *dst,
                _ if ins.writes().contains(&Some(vreg)) || ins.moved().iter().any(moves) => {
                    return Lifetime { from, places, end: at };
                }
                _ => {}
            }
        }
        let end = from + places.len();
        Lifetime { from, places, end }
    }

    /// Its register before the instruction at `at`.
    pub(super) fn place(&self, at: usize) -> Option<VReg> {
        self.places.get(at.checked_sub(self.from)?).copied()
    }
}

/// Returns true if host code runs that may be given a value, and so could read its reference count. A
/// destructor has no value but those that it holds references to itself.
pub(super) fn shows_counts(ins: &Ins) -> bool {
    ins.may_run_host_code()
        && !matches!(ins, Ins::Release { .. } | Ins::ReleaseOwned { .. } | Ins::DropResult { .. })
}

//! Merging of retains: several copies of a value add their references at once.
//!
//! A recursion passes a closure on from level to level, and each level's frame holds it. The first copies
//! in an iteration borrow it from the register that they copy, and the last one adds the references of
//! all. A side exit in between adds those that are missing.
//!
//! No function that is given the value may be called in between, since it could see too low a count.
//!
//! Decision: docs/decisions/0090-free-tensors.md

use reflex_vm::program::Program;

use super::super::ir::{Arg, Ins, Trace, VReg};
use super::lifetimes::{Lifetime, shows_counts};

/// A copy that borrows.
struct BorrowingCopy {
    at: usize,
    /// The copy that adds its reference.
    until: usize,
    /// For each instruction between them, its register before the instruction.
    places: Vec<VReg>,
}

/// Merges the retains of copies of one value.
pub(super) fn merge_retains(_: &Program, trace: &mut Trace) {
    let mut copies: Vec<BorrowingCopy> = Vec::new();
    for at in 0..trace.code.len() {
        let Some((until, places)) = next_copy(&trace.code, at) else { continue };
        copies.push(BorrowingCopy { at, until, places });
    }
    if copies.is_empty() {
        return;
    }
    trace.change_snapshots(|at, exit| {
        let mut exit = exit.clone();
        for copy in &copies {
            // Its reference may wait for a later copy than the next one.
            let mut waits = copy;
            while let Some(next) = copies.iter().find(|next| next.at == waits.until) {
                waits = next;
            }
            if copy.at < at && at < waits.until {
                exit.borrowed.extend(copy.places.get(at - copy.at - 1));
            }
        }
        exit
    });
    for copy in &copies {
        let Ins::Copy { refs, .. } = &mut trace.code[copy.at] else { continue };
        let waiting = std::mem::take(refs);
        if let Ins::Copy { refs, .. } = &mut trace.code[copy.until] {
            *refs += waiting;
        }
    }
}

/// The next copy of the value that is copied at `at`, and the registers of the copy up to the end of its life.
fn next_copy(code: &[Ins], at: usize) -> Option<(usize, Vec<VReg>)> {
    let Ins::Copy { dst, src: Arg::Reg(src, _), .. } = code[at] else { return None };
    let (copy, original) = (Lifetime::of(code, at + 1, dst), Lifetime::of(code, at + 1, src));
    let until = code.iter().enumerate().skip(at + 1).find_map(|(until, ins)| {
        if shows_counts(ins) || until >= copy.end || until >= original.end {
            return Some(None);
        }
        match ins {
            Ins::Copy { src: Arg::Reg(of, _), .. } => {
                let same = [&copy, &original].iter().any(|life| life.place(until) == Some(*of));
                same.then_some(Some(until))
            }
            _ => None,
        }
    })??;
    Some((until, copy.places))
}

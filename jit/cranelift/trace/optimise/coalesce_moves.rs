//! Move coalescing: a value that moves twice moves once.
//!
//! Calls move arguments into frames and results out of them. If nothing happens in between, the
//! value moves directly to its last register.

use reflex_vm::program::Program;

use super::super::ir::{Ins, Trace, VReg};

/// Most stores of scalars that are searched for the move before them.
const REACH: usize = 8;

/// Merges a move with the move or copy that wrote its source.
pub(super) fn coalesce_moves(_: &Program, trace: &mut Trace) {
    let old = std::mem::take(&mut trace.code);
    let mut code: Vec<Ins> = Vec::with_capacity(old.len());
    for ins in old {
        let Ins::Move { dst, src } = ins else {
            code.push(ins);
            continue;
        };
        match filling(&code, src, dst) {
            Some(at) => match &mut code[at] {
                Ins::Move { src: first, .. } if *first == dst => {
                    code.remove(at);
                }
                Ins::Move { dst: via, .. } | Ins::Copy { dst: via, .. } => *via = dst,
                _ => code.push(ins),
            },
            None => code.push(ins),
        }
    }
    trace.code = code;
}

/// The last instruction that writes `via`, if no later one reads or writes `via` or `last`.
fn filling(code: &[Ins], via: VReg, last: VReg) -> Option<usize> {
    for (at, ins) in code.iter().enumerate().rev().take(REACH) {
        match ins {
            Ins::Move { dst, .. } | Ins::Copy { dst, .. } if *dst == via => return Some(at),
            Ins::Store { dst, .. } if *dst != via && *dst != last => {}
            _ => return None,
        }
    }
    None
}

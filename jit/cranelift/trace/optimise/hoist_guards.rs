//! Guard hoisting: guards of loop-invariant values move to the loop's preheader.
//!
//! Values are tracked from register to register. A value that is in the same register at the start
//! and at the end of the loop is invariant, also if each iteration is a level of a recursion. Hoisted
//! guards leave at the start of the loop, with every register in memory. They may move above effects:
//! if one fails, no effect has happened, and the interpreter runs the iteration.

use std::collections::HashMap;

use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::ir::{Arg, End, ExitId, FrameId, Ins, Scalar, Snapshot, Trace, VReg};

/// For each register: the register of frame 0 that held its value at the start of the loop.
type Origins = HashMap<VReg, u32>;

/// Moves invariant guards of a loop to its preheader.
pub(super) fn hoist_guards(_: &Program, trace: &mut Trace) {
    let last = match trace.end {
        End::Loop => FrameId(0),
        End::Recursion { frame } => frame,
        End::Return { .. } | End::Function { .. } | End::Site { .. } | End::Interpreter(_) => {
            return;
        }
    };
    let root = |reg| VReg { frame: FrameId(0), reg };
    let start: Origins = (0..trace.frame(FrameId(0)).num_regs).map(|r| (root(r), r)).collect();
    let mut origins = start.clone();
    trace.code.iter().for_each(|ins| follow(&mut origins, ins));
    let stays = |reg: &u32| origins.get(&VReg { frame: last, reg: *reg }) == Some(reg);
    let mut at = start;
    let old = std::mem::take(&mut trace.code);
    for mut ins in old {
        follow(&mut at, &ins);
        let first = |vreg: &VReg| at.get(vreg).filter(|reg| stays(reg)).map(|&reg| root(reg));
        match hoisted(&mut ins, first) {
            Some(check) => trace.preheader.push(check),
            None => trace.code.push(ins),
        }
    }
    if trace.preheader.is_empty() {
        return;
    }
    let id = ExitId(trace.snapshots.len() as u32);
    trace.snapshots.push(Snapshot::at(FrameId(0), trace.start_pc));
    for exit in trace.preheader.iter_mut().filter_map(Ins::exit_mut) {
        *exit = id;
    }
}

/// Tracks values through an instruction.
fn follow(origins: &mut Origins, ins: &Ins) {
    let moved = match ins {
        Ins::Move { dst, src } => Some((*dst, origins.get(src).copied())),
        Ins::Copy { dst, src: Arg::Reg(src, _), .. } => Some((*dst, origins.get(src).copied())),
        _ => None,
    };
    for vreg in ins.writes().into_iter().flatten() {
        origins.remove(&vreg);
    }
    if let Some((dst, Some(origin))) = moved {
        origins.insert(dst, origin);
    }
}

/// A guard whose values are invariant, on the registers that `first` maps to.
fn hoisted(ins: &mut Ins, first: impl Fn(&VReg) -> Option<VReg>) -> Option<Ins> {
    let fits = match ins {
        Ins::GuardType { vreg, .. }
        | Ins::GuardFact { vreg, .. }
        | Ins::GuardShapeRank { vreg, .. }
        | Ins::GuardClosure { vreg, .. } => first(vreg).is_some(),
        Ins::GuardSameDim { vreg, other, .. } => first(vreg).is_some() && first(other).is_some(),
        Ins::CallBuiltin { builtin, inline: true, args, .. } => {
            matches!(args.first(), Some(Arg::Reg(vreg, Some(_))) if first(vreg).is_some())
                && only_checks(*builtin, args)
        }
        _ => false,
    };
    let mut check = fits.then(|| ins.clone())?;
    for vreg in check.reads_mut() {
        *vreg = first(vreg)?;
    }
    Some(check)
}

/// Returns true if a builtin is a check of its first argument against constants.
fn only_checks(builtin: Builtin, args: &[Arg]) -> bool {
    let rest = &args[1..];
    let constant = |arg: &Arg| matches!(arg, Arg::Scalar(Scalar::Const { .. }) | Arg::Const(_));
    builtin.lowering().is_check() && rest.iter().all(constant)
}

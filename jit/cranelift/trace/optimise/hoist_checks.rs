//! Checks of what a loop does not change are made once, before it.
//!
//! Values are followed from register to register: one that is at the end of the loop where it was
//! at its start is the same in every iteration, also when each is a level of a recursion. The exit
//! of the checks is the loop's start, where nothing has run and everything is in its place. They
//! may move above effects: a failure leaves before any of them, and the interpreter runs the
//! iteration.

use std::collections::HashMap;

use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::ir::{Arg, End, Exit, ExitId, FrameId, Ins, Place, Plain, Trace};

/// For places: the register of the first frame whose value at the loop's start they hold.
type Origins = HashMap<Place, u32>;

/// Moves invariant checks of a loop before it.
pub(super) fn hoist_checks(_: &Program, trace: &mut Trace) {
    let last = match trace.end {
        End::Loop => FrameId(0),
        End::Shift { frame } => frame,
        End::Return { .. } | End::Into { .. } | End::Site { .. } | End::Exit(_) => return,
    };
    let root = |reg| Place { frame: FrameId(0), reg };
    let start: Origins = (0..trace.frame(FrameId(0)).num_regs).map(|r| (root(r), r)).collect();
    let mut origins = start.clone();
    trace.code.iter().for_each(|ins| follow(&mut origins, ins));
    let stays = |reg: &u32| origins.get(&Place { frame: last, reg: *reg }) == Some(reg);
    let mut at = start;
    let old = std::mem::take(&mut trace.code);
    for mut ins in old {
        follow(&mut at, &ins);
        let first = |place: &Place| at.get(place).filter(|reg| stays(reg)).map(|&reg| root(reg));
        match hoisted(&mut ins, first) {
            Some(check) => trace.before.push(check),
            None => trace.code.push(ins),
        }
    }
    if trace.before.is_empty() {
        return;
    }
    let id = ExitId(trace.exits.len() as u32);
    trace.exits.push(Exit::at(FrameId(0), trace.start_pc));
    for exit in trace.before.iter_mut().filter_map(Ins::exit_mut) {
        *exit = id;
    }
}

/// Follows values through an instruction.
fn follow(origins: &mut Origins, ins: &Ins) {
    let moved = match ins {
        Ins::Move { dst, src } => Some((*dst, origins.get(src).copied())),
        Ins::Copy { dst, src: Arg::Place(src, _) } => Some((*dst, origins.get(src).copied())),
        _ => None,
    };
    for place in ins.writes().into_iter().flatten() {
        origins.remove(&place);
    }
    if let Some((dst, Some(origin))) = moved {
        origins.insert(dst, origin);
    }
}

/// A check of values that `first` knows the registers of at the loop's start, made there.
fn hoisted(ins: &mut Ins, first: impl Fn(&Place) -> Option<Place>) -> Option<Ins> {
    let fits = match ins {
        Ins::Tag { place, .. }
        | Ins::Is { place, .. }
        | Ins::Dims { place, .. }
        | Ins::Closure { place, .. } => first(place).is_some(),
        Ins::Alike { place, other, .. } => first(place).is_some() && first(other).is_some(),
        Ins::Builtin { builtin, inline: true, args, .. } => {
            matches!(args.first(), Some(Arg::Place(place, Some(_))) if first(place).is_some())
                && only_checks(*builtin, args)
        }
        _ => false,
    };
    let mut check = fits.then(|| ins.clone())?;
    for place in check.reads_mut() {
        *place = first(place)?;
    }
    Some(check)
}

/// Whether a builtin reads its first argument and constants, and nothing else.
fn only_checks(builtin: Builtin, args: &[Arg]) -> bool {
    let rest = &args[1..];
    let constant = |arg: &Arg| matches!(arg, Arg::Plain(Plain::Const { .. }) | Arg::Const(_));
    builtin.lowering().is_check() && rest.iter().all(constant)
}

//! Checks of what a loop does not change are made once, before it.
//!
//! Their exit is the loop's start, where nothing has run and everything is in its place. They may
//! move above effects: a failure leaves before any of them, and the interpreter runs the
//! iteration.

use std::collections::HashSet;

use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::ir::{Arg, End, Exit, ExitId, FrameId, Ins, Place, Plain, Trace};

/// Moves invariant checks of a loop before it.
pub(super) fn hoist_checks(_: &Program, trace: &mut Trace) {
    if trace.end != End::Loop {
        return;
    }
    let written: HashSet<Place> = trace.code.iter().flat_map(Ins::writes).flatten().collect();
    let invariant = |place: Place| place.frame == FrameId(0) && !written.contains(&place);
    let old = std::mem::take(&mut trace.code);
    let (before, code) = old.into_iter().partition(|ins| match ins {
        Ins::Tag { place, .. } | Ins::Is { place, .. } => invariant(*place),
        Ins::Alike { place, other, .. } => invariant(*place) && invariant(*other),
        Ins::Builtin { builtin, inline: true, args, .. } => {
            matches!(args.first(), Some(Arg::Place(place, Some(_))) if invariant(*place))
                && only_checks(*builtin, args)
        }
        _ => false,
    });
    (trace.before, trace.code) = (before, code);
    if trace.before.is_empty() {
        return;
    }
    let start = Exit {
        frame: FrameId(0),
        pc: trace.start_pc,
        entered: FrameId(0),
        refund: 0,
        plain: Vec::new(),
        copies: Vec::new(),
        objects: Vec::new(),
    };
    let id = ExitId(trace.exits.len() as u32);
    trace.exits.push(start);
    for exit in trace.before.iter_mut().filter_map(Ins::exit_mut) {
        *exit = id;
    }
}

/// Whether a builtin reads its first argument and constants, and nothing else.
fn only_checks(builtin: Builtin, args: &[Arg]) -> bool {
    let rest = &args[1..];
    let constant = |arg: &Arg| matches!(arg, Arg::Plain(Plain::Const { .. }) | Arg::Const(_));
    builtin.native().checks() && rest.iter().all(constant)
}

//! What happens to a recorded trace before it becomes code: a list of passes over the trace IR.
//!
//! Each is a function in its own file. None moves an effect, and each keeps what an exit finds.

mod arena;
mod drop_checks;
mod escape;
mod hoist_checks;
mod join_moves;
mod join_results;
mod merge_charges;
mod pair_counts;
mod share_copies;
mod sink_frames;
mod sink_moves;
mod sink_stores;

use reflex_vm::program::Program;

use super::ir::Trace;

type Pass = fn(&Program, &mut Trace);

/// The passes, in order.
const PASSES: [(&str, Pass); 12] = [
    ("share_copies", share_copies::share_copies),
    ("drop_checks", drop_checks::drop_checks),
    ("hoist_checks", hoist_checks::hoist_checks),
    ("escape", escape::escape),
    // Of numbers of shapes, this left checks of its own.
    ("drop_checks", drop_checks::drop_checks),
    ("sink_stores", sink_stores::sink_stores),
    ("pair_counts", pair_counts::pair_counts),
    ("sink_moves", sink_moves::sink_moves),
    ("sink_frames", sink_frames::sink_frames),
    ("merge_charges", merge_charges::merge_charges),
    ("join_moves", join_moves::join_moves),
    ("join_results", join_results::join_results),
];

/// Runs every pass.
pub(crate) fn optimise(program: &Program, trace: &mut Trace) {
    for (_, pass) in PASSES {
        pass(program, trace);
    }
}

/// The trace as each pass leaves it that changes something, as text.
pub(crate) fn stages(program: &Program, mut trace: Trace) -> Vec<(&'static str, String)> {
    let mut last = trace.to_string();
    let mut stages = Vec::new();
    for (name, pass) in PASSES {
        pass(program, &mut trace);
        let text = trace.to_string();
        if text != last {
            last.clone_from(&text);
            stages.push((name, text));
        }
    }
    stages
}

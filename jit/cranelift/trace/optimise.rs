//! What happens to a recorded trace before it becomes code: a list of passes over the trace IR.
//!
//! Each is a function in its own file. None moves an effect, and each keeps what an exit finds.

mod arena;
mod coalesce_moves;
mod coalesce_results;
mod elide_copies;
mod elide_refcounts;
mod eliminate_guards;
mod hoist_guards;
mod merge_fuel_checks;
mod sink_allocations;
mod sink_frames;
mod sink_moves;
mod sink_stores;

use reflex_vm::program::Program;

use super::ir::Trace;

type Pass = fn(&Program, &mut Trace);

/// The passes, in order.
const PASSES: [(&str, Pass); 12] = [
    ("elide_copies", elide_copies::elide_copies),
    ("eliminate_guards", eliminate_guards::eliminate_guards),
    ("hoist_guards", hoist_guards::hoist_guards),
    ("sink_allocations", sink_allocations::sink_allocations),
    // Of numbers of shapes, this left checks of its own.
    ("eliminate_guards", eliminate_guards::eliminate_guards),
    ("sink_stores", sink_stores::sink_stores),
    ("elide_refcounts", elide_refcounts::elide_refcounts),
    ("sink_moves", sink_moves::sink_moves),
    ("sink_frames", sink_frames::sink_frames),
    ("merge_fuel_checks", merge_fuel_checks::merge_fuel_checks),
    ("coalesce_moves", coalesce_moves::coalesce_moves),
    ("coalesce_results", coalesce_results::coalesce_results),
];

/// Reentrancy every pass.
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

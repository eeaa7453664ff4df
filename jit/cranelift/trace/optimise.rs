//! The optimiser: a list of passes over the trace IR.
//!
//! Each pass is a function in its own file. No pass moves an effect, and each preserves the state
//! that side exits restore.

mod arena;
mod borrow_items;
mod coalesce_moves;
mod coalesce_results;
mod elide_copies;
mod elide_refcounts;
mod eliminate_guards;
mod fuse_allocations;
mod hoist_guards;
mod lifetimes;
mod merge_fuel_checks;
mod merge_retains;
mod sink_allocations;
mod sink_frames;
mod sink_moves;
mod sink_stores;

use reflex_vm::program::Program;

use super::ir::Trace;

type Pass = fn(&Program, &mut Trace);

/// The passes, in order.
const PASSES: [(&str, Pass); 15] = [
    ("elide_copies", elide_copies::elide_copies),
    ("eliminate_guards", eliminate_guards::eliminate_guards),
    ("hoist_guards", hoist_guards::hoist_guards),
    ("sink_allocations", sink_allocations::sink_allocations),
    // Allocation sinking adds guards of dimensions.
    ("eliminate_guards", eliminate_guards::eliminate_guards),
    ("sink_stores", sink_stores::sink_stores),
    ("elide_refcounts", elide_refcounts::elide_refcounts),
    ("borrow_items", borrow_items::borrow_items),
    ("merge_retains", merge_retains::merge_retains),
    ("sink_moves", sink_moves::sink_moves),
    ("sink_frames", sink_frames::sink_frames),
    ("merge_fuel_checks", merge_fuel_checks::merge_fuel_checks),
    ("coalesce_moves", coalesce_moves::coalesce_moves),
    ("coalesce_results", coalesce_results::coalesce_results),
    ("fuse_allocations", fuse_allocations::fuse_allocations),
];

/// Runs every pass.
pub(crate) fn optimise(program: &Program, trace: &mut Trace) {
    for (_, pass) in PASSES {
        pass(program, trace);
    }
}

/// The name of each pass that changes the trace, and the text of the trace after it.
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

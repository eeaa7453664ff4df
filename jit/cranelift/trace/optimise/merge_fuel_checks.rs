//! Merging of fuel checks: the fuel of several calls is taken by one check.
//!
//! Fuel is visible only to instructions that may run host code. Between two of these, the first check
//! takes the fuel of all. A side exit in between refunds the fuel of operations that have not run. A
//! run with less fuel leaves at the first check, and the interpreter finds the operation where the
//! fuel ends.

use reflex_vm::program::Program;

use super::super::ir::{Ins, Trace};

/// Merges the fuel checks of each stretch without host code into its first one.
pub(super) fn merge_fuel_checks(_: &Program, trace: &mut Trace) {
    let old = std::mem::take(&mut trace.code);
    let mut code: Vec<Ins> = Vec::with_capacity(old.len());
    // For each instruction: the check (an index of `code`) whose fuel it runs on, and the units
    // used so far.
    let mut runs_on: Vec<Option<(usize, u32)>> = Vec::with_capacity(old.len());
    let mut current: Option<(usize, u32)> = None;
    for ins in old {
        if ins.may_run_host_code() {
            current = None;
        }
        if let Ins::CheckFuel { units: more, .. } = ins {
            if let Some((first, used)) = &mut current
                && let Ins::CheckFuel { units, .. } = &mut code[*first]
            {
                *units += more;
                *used += more;
                continue;
            }
            // Its own exit is taken before any fuel is.
            runs_on.push(None);
            current = Some((code.len(), more));
        } else {
            runs_on.push(current);
        }
        code.push(ins);
    }
    runs_on.push(current);
    let taken: Vec<u32> = code
        .iter()
        .map(|ins| if let Ins::CheckFuel { units, .. } = ins { *units } else { 0 })
        .collect();
    trace.code = code;
    trace.change_snapshots(|at, exit| {
        let mut exit = exit.clone();
        exit.refund = runs_on[at].map_or(0, |(first, used)| taken[first] - used);
        exit
    });
}

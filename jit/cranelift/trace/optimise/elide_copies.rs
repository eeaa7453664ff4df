//! Copy elision: omits copies that are released before their originals.
//!
//! A call copies an argument that the caller still needs into the callee's frame, and the return
//! releases the copy. If no instruction in between can read the reference count, uses of the copy
//! become uses of the original. A side exit in between makes the copy.

use reflex_vm::program::Program;

use super::super::ir::{Arg, Ins, Trace, VReg};

/// Most instructions between a copy and its release.
const REACH: usize = 512;

/// An elided copy: the instructions that make and release it, and its registers.
struct ElidedCopy {
    from: usize,
    until: usize,
    dst: VReg,
    src: VReg,
}

/// Elides copies whose originals outlive them.
pub(super) fn elide_copies(_: &Program, trace: &mut Trace) {
    let mut all: Vec<ElidedCopy> = Vec::new();
    for at in 0..trace.code.len() {
        let Ins::Copy { dst, src: Arg::Reg(src, _), .. } = trace.code[at] else { continue };
        let gone = |at: usize| all.iter().any(|shared| shared.until == at);
        let Some(until) = released_at(&trace.code, at, Copied { dst, src }, gone) else { continue };
        for ins in &mut trace.code[at + 1..until] {
            for vreg in ins.reads_mut().into_iter().filter(|vreg| **vreg == dst) {
                *vreg = src;
            }
        }
        all.push(ElidedCopy { from: at, until, dst, src });
    }
    if all.is_empty() {
        return;
    }
    trace.change_snapshots(|at, exit| {
        let mut exit = exit.clone();
        let inside = all.iter().filter(|shared| shared.from < at && at < shared.until);
        exit.copies.extend(inside.map(|shared| (shared.dst, shared.src)));
        exit
    });
    let mut at = 0;
    trace.code.retain(|_| {
        at += 1;
        !all.iter().any(|shared| [shared.from, shared.until].contains(&(at - 1)))
    });
}

/// A copy and its original.
#[derive(Clone, Copy)]
struct Copied {
    dst: VReg,
    src: VReg,
}

/// The instruction that releases the copy made at `at`. `None` unless both the copy and its
/// original stay in their registers until then, and nothing reads the reference count.
fn released_at(
    code: &[Ins],
    at: usize,
    Copied { dst, src }: Copied,
    gone: impl Fn(usize) -> bool,
) -> Option<usize> {
    for (until, ins) in code.iter().enumerate().skip(at + 1).take(REACH) {
        if let Ins::Release { vreg, .. } | Ins::Recycle { vreg, .. } = ins
            && *vreg == dst
        {
            return Some(until);
        }
        let moved = ins.writes().into_iter().flatten().any(|vreg| [dst, src].contains(&vreg));
        if moved || ins.may_run_host_code() && !gone(until) {
            return None;
        }
    }
    None
}

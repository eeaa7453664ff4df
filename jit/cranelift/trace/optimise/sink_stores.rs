//! Store sinking and dead-store elimination: scalars are stored only where memory is read.
//!
//! A store of a scalar is delayed: instructions use the scalar instead of the register, and a side
//! exit stores it if the register still holds it. A scalar that is overwritten before that is never
//! stored. Loops carry scalars from one iteration to the next. If a register holds None at the end of
//! each iteration, or a number that the next iteration reads, a guard in the preheader checks that
//! the first iteration starts with the same type, and the loop carries the value (a phi).
//!
//! Decision: docs/decisions/0011-store-sinking.md

use std::collections::{BTreeMap, BTreeSet};

use reflex_vm::program::Program;

use super::super::ir::{
    Arg, Carried, End, ExitId, FrameId, Ins, Scalar, Snapshot, Trace, VReg, Var,
};

/// Most delayed stores at the same time: each is listed in every snapshot.
const MAX: usize = 32;

/// Most side exits that a store is delayed over: the store is repeated in each of them.
const FAR: usize = 4;

/// Registers of frame 0 that are scalars at the start of an iteration, and their values.
type CarriedScalars = BTreeMap<u32, Scalar>;

/// Delays every store of a scalar, over a few side exits at most.
pub(super) fn sink_stores(_: &Program, trace: &mut Trace) {
    let first = StoreSinking::through(trace, CarriedScalars::new());
    let begins = candidates(trace, &first);
    let mut sink = StoreSinking::through(trace, begins);
    loop {
        let carried: CarriedScalars = sink
            .begins
            .clone()
            .into_iter()
            .filter(|&(reg, begin)| sink.is_carried(reg, begin))
            .collect();
        if carried.len() == sink.begins.len() {
            break;
        }
        sink = StoreSinking::through(trace, carried);
    }
    let StoreSinking { begins, code, pending, pending_at, next, .. } = sink;
    trace.code = code;
    check_before(trace, &begins, |reg| next.and_then(|frame| pending.get(&VReg { frame, reg })));
    trace.change_snapshots(|at, exit| with_pending(exit, &pending_at[at]));
}

/// The frame 0 of the next iteration.
fn next_frame(trace: &Trace) -> Option<FrameId> {
    match trace.end {
        End::Loop => Some(FrameId(0)),
        End::Recursion { frame } => Some(frame),
        End::Return { .. } | End::Function { .. } | End::Site { .. } | End::Interpreter(_) => None,
    }
}

/// Registers that a loop may carry: those with delayed stores at its end.
fn candidates(trace: &mut Trace, sink: &StoreSinking) -> CarriedScalars {
    let mut begins = CarriedScalars::new();
    for (vreg, value) in sink.ends.iter().filter(|(vreg, _)| Some(vreg.frame) == sink.next) {
        let begin = match value.tag() {
            _ if *value == Scalar::NONE => Scalar::NONE,
            tag => {
                trace.vars += 1;
                Scalar::Var { tag, var: Var(trace.vars - 1) }
            }
        };
        begins.insert(vreg.reg, begin);
    }
    begins
}

/// Adds guards to the preheader that the first iteration starts as the others do.
fn check_before<'p>(
    trace: &mut Trace,
    begins: &CarriedScalars,
    at_end: impl Fn(u32) -> Option<&'p Scalar>,
) {
    if begins.is_empty() {
        return;
    }
    let there = trace.preheader.iter_mut().find_map(Ins::exit_mut).copied();
    let exit = there.unwrap_or_else(|| {
        trace.snapshots.push(Snapshot::at(FrameId(0), trace.start_pc));
        ExitId(trace.snapshots.len() as u32 - 1)
    });
    for (&reg, &inside) in begins {
        let Some(&next) = at_end(reg) else { continue };
        let vreg = VReg { frame: FrameId(0), reg };
        trace.preheader.push(Ins::GuardType { vreg, tag: inside.tag(), exit });
        let first = matches!(inside, Scalar::Var { .. }).then(|| {
            trace.vars += 1;
            Var(trace.vars - 1)
        });
        trace.preheader.extend(first.map(|var| Ins::LoadPayload { var, vreg }));
        trace.carried.push(Carried { vreg, inside, first, next });
    }
}

/// A snapshot with the delayed stores.
fn with_pending(exit: &Snapshot, pending: &BTreeMap<VReg, Scalar>) -> Snapshot {
    let mut exit = exit.clone();
    let copies = std::mem::take(&mut exit.copies);
    for (dst, of) in copies {
        match pending.get(&of) {
            Some(&value) => exit.scalars.push((dst, value)),
            None => exit.copies.push((dst, of)),
        }
    }
    // A listed register was overwritten since its store was delayed.
    let listed = |vreg: &VReg| {
        exit.scalars.iter().any(|(at, _)| at == vreg)
            || exit.copies.iter().any(|(at, _)| at == vreg)
            || exit.objects.iter().any(|(at, _)| at == vreg)
    };
    let more: Vec<_> = pending.iter().filter(|(vreg, _)| !listed(vreg)).collect();
    exit.scalars.extend(more.into_iter().map(|(&vreg, &value)| (vreg, value)));
    exit
}

/// One pass over a trace.
struct StoreSinking {
    begins: CarriedScalars,
    /// The frame 0 of the next iteration.
    next: Option<FrameId>,
    /// The frame that just returned: only its result is still to be moved out.
    left: Option<FrameId>,
    /// Delayed stores.
    pending: BTreeMap<VReg, Scalar>,
    /// For each delayed store: the side exits before it.
    since: BTreeMap<VReg, usize>,
    exits: usize,
    /// The delayed stores at the end, before the remaining ones are made.
    ends: BTreeMap<VReg, Scalar>,
    /// Registers whose values at the start were read, and those that had another type.
    read: BTreeSet<u32>,
    refuted: BTreeSet<u32>,
    code: Vec<Ins>,
    /// The delayed stores before each instruction of `code`, and before the end.
    pending_at: Vec<BTreeMap<VReg, Scalar>>,
}

impl StoreSinking {
    /// Processes a trace whose iterations start with `begins`.
    fn through(trace: &Trace, begins: CarriedScalars) -> Self {
        let root = |reg| VReg { frame: FrameId(0), reg };
        let mut sink = StoreSinking {
            next: next_frame(trace),
            left: None,
            pending: begins.iter().map(|(&reg, &value)| (root(reg), value)).collect(),
            since: BTreeMap::new(),
            exits: 0,
            begins,
            ends: BTreeMap::new(),
            read: BTreeSet::new(),
            refuted: BTreeSet::new(),
            code: Vec::with_capacity(trace.code.len()),
            pending_at: Vec::with_capacity(trace.code.len()),
        };
        for ins in &trace.code {
            sink.instruction(ins.clone());
        }
        sink.forget_left();
        sink.ends = sink.pending.clone();
        if !matches!(trace.end, End::Interpreter(_)) {
            let (next, begins) = (sink.next, sink.begins.clone());
            sink.flush(|vreg| Some(vreg.frame) != next || !begins.contains_key(&vreg.reg));
        }
        sink.pending_at.push(sink.pending.clone());
        sink
    }

    /// Returns true if a register ends an iteration with a value of the kind that it starts with.
    /// Numbers are carried only if an iteration reads them: others are as cheap to store.
    fn is_carried(&self, reg: u32, begin: Scalar) -> bool {
        let end = self.next.and_then(|frame| self.ends.get(&VReg { frame, reg }));
        let same = end.is_some_and(|end| match begin {
            Scalar::Const { .. } => *end == begin,
            Scalar::Var { tag, .. } => end.tag() == tag && self.read.contains(&reg),
        });
        same && !self.refuted.contains(&reg)
    }

    fn instruction(&mut self, mut ins: Ins) {
        // Another frame may use that memory by then.
        if matches!(ins, Ins::Store { dst, .. } if Some(dst.frame) == self.left) {
            return;
        }
        if !matches!(ins, Ins::Move { src, .. } if Some(src.frame) == self.left) {
            self.forget_left();
        }
        match ins {
            Ins::Store { dst, value } | Ins::Copy { dst, src: Arg::Scalar(value), .. } => {
                return self.assign(dst, value);
            }
            Ins::Move { dst, src } => {
                if let Some(value) = self.pending.remove(&src) {
                    return self.assign(dst, value);
                }
            }
            Ins::Copy { dst, src: Arg::Reg(src, _), .. } => {
                if let Some(value) = self.value(src) {
                    return self.assign(dst, value);
                }
            }
            // A scalar needs no release.
            Ins::Release { vreg, .. } if self.pending.remove(&vreg).is_some() => return,
            Ins::GuardType { vreg, tag, .. } if self.is(vreg, tag) => return,
            Ins::LoadPayload { var, vreg } => {
                if let Some(value) = self.value(vreg) {
                    return self.emit(Ins::Let { var, value });
                }
            }
            Ins::LeaveFrame { frame } => self.left = Some(frame),
            Ins::CallPacked { ref mut args, .. }
            | Ins::CallFunction { ref mut args, .. }
            | Ins::CallBuiltin { ref mut args, .. } => {
                for arg in args {
                    if let Arg::Reg(vreg, _) = *arg
                        && let Some(value) = self.value(vreg)
                    {
                        *arg = Arg::Scalar(value);
                    }
                }
            }
            _ => {}
        }
        let (read, written) = (ins.reads(), ins.writes());
        self.flush(|vreg| read.contains(&vreg));
        self.emit(ins);
        for vreg in written.into_iter().flatten() {
            self.pending.remove(&vreg);
        }
    }

    /// The scalar of a register with a delayed store, which is read.
    fn value(&mut self, vreg: VReg) -> Option<Scalar> {
        let value = *self.pending.get(&vreg)?;
        if let Scalar::Var { var, .. } = value {
            let begin = |begin: &Scalar| matches!(begin, Scalar::Var { var: of, .. } if *of == var);
            let at_start = self.begins.iter().find(|(_, value)| begin(value));
            self.read.extend(at_start.map(|(&reg, _)| reg));
        }
        Some(value)
    }

    /// Returns true if a register with a delayed store holds a value of a type. If it holds another
    /// type, no iteration starts with it.
    fn is(&mut self, vreg: VReg, tag: i32) -> bool {
        let Some(value) = self.value(vreg) else { return false };
        if value.tag() != tag && vreg.frame == FrameId(0) {
            self.refuted.insert(vreg.reg);
        }
        value.tag() == tag
    }

    fn assign(&mut self, dst: VReg, value: Scalar) {
        self.pending.insert(dst, value);
        self.since.insert(dst, self.exits);
        if self.pending.len() > MAX {
            self.flush(|_| true);
        }
    }

    /// Drops the registers of a frame that returned.
    fn forget_left(&mut self) {
        if let Some(left) = self.left.take() {
            self.pending.retain(|vreg, _| vreg.frame != left);
        }
    }

    /// Makes the delayed stores of registers.
    fn flush(&mut self, wanted: impl Fn(VReg) -> bool) {
        let places: Vec<VReg> = self.pending.keys().copied().filter(|&at| wanted(at)).collect();
        for dst in places {
            let Some(value) = self.pending.remove(&dst) else { continue };
            self.emit(Ins::Store { dst, value });
        }
    }

    fn emit(&mut self, mut ins: Ins) {
        if ins.exit_mut().is_some() {
            self.exits += 1;
            let far = |since: &usize| self.exits - since > FAR;
            let old = |at: &VReg| self.since.get(at).is_some_and(far);
            let old: Vec<VReg> = self.pending.keys().copied().filter(old).collect();
            self.flush(|at| old.contains(&at));
        }
        self.code.push(ins);
        self.pending_at.push(self.pending.clone());
    }
}

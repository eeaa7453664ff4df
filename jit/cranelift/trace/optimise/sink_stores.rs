//! Plain values stay out of the register file until somebody looks there.
//!
//! A store of a plain value is put off: instructions take the value instead of the register, an exit
//! stores it if the register still holds it, and what is overwritten before that is never stored. A
//! loop ends with the registers that its next round begins with: where one holds None at the end of
//! each round, or a number that the next round reads, a check before the loop sees that the first
//! round begins so too, and the value goes round without being stored.

use std::collections::{BTreeMap, BTreeSet};

use reflex_vm::program::Program;

use super::super::ir::{Arg, Carried, End, Exit, ExitId, FrameId, Ins, Place, Plain, Trace, Var};

/// Most values that are not stored at once: each appears in every exit.
const MAX: usize = 32;

/// Most exits that a store is put off over: it costs what it saves in each of them.
const FAR: usize = 4;

/// Registers of the first frame that a round begins with, and what they hold.
type Begins = BTreeMap<u32, Plain>;

/// Puts off every store of a plain value, over a few exits at most.
pub(super) fn sink_stores(_: &Program, trace: &mut Trace) {
    let first = Sink::through(trace, Begins::new());
    let begins = candidates(trace, &first);
    let mut sink = Sink::through(trace, begins);
    loop {
        let kept: Begins = sink.begins.clone().into_iter().filter(|at| sink.keeps(*at)).collect();
        if kept.len() == sink.begins.len() {
            break;
        }
        sink = Sink::through(trace, kept);
    }
    let Sink { begins, code, pending, pending_at, next, .. } = sink;
    trace.code = code;
    check_before(trace, &begins, |reg| next.and_then(|frame| pending.get(&Place { frame, reg })));
    trace.change_exits(|at, exit| with_pending(exit, &pending_at[at]));
}

/// The frame that the next round begins in.
fn next_round(trace: &Trace) -> Option<FrameId> {
    match trace.end {
        End::Loop => Some(FrameId(0)),
        End::Shift { frame } => Some(frame),
        End::Return { .. } | End::Into { .. } | End::Site { .. } | End::Exit(_) => None,
    }
}

/// Registers that may go round: those that are not in their places at the end.
fn candidates(trace: &mut Trace, sink: &Sink) -> Begins {
    let mut begins = Begins::new();
    for (place, value) in sink.ends.iter().filter(|(place, _)| Some(place.frame) == sink.next) {
        let begin = match value.tag() {
            _ if *value == Plain::NONE => Plain::NONE,
            tag => {
                trace.vars += 1;
                Plain::Var { tag, var: Var(trace.vars - 1) }
            }
        };
        begins.insert(place.reg, begin);
    }
    begins
}

/// Checks before a loop that its first round begins as the others do.
fn check_before<'p>(trace: &mut Trace, begins: &Begins, at_end: impl Fn(u32) -> Option<&'p Plain>) {
    if begins.is_empty() {
        return;
    }
    let there = trace.before.iter_mut().find_map(Ins::exit_mut).copied();
    let exit = there.unwrap_or_else(|| {
        trace.exits.push(Exit::at(FrameId(0), trace.start_pc));
        ExitId(trace.exits.len() as u32 - 1)
    });
    for (&reg, &inside) in begins {
        let Some(&again) = at_end(reg) else { continue };
        let place = Place { frame: FrameId(0), reg };
        trace.before.push(Ins::Tag { place, tag: inside.tag(), exit });
        let first = matches!(inside, Plain::Var { .. }).then(|| {
            trace.vars += 1;
            Var(trace.vars - 1)
        });
        trace.before.extend(first.map(|var| Ins::Payload { var, place }));
        trace.carried.push(Carried { place, inside, first, again });
    }
}

/// An exit that stores what is not in its place.
fn with_pending(exit: &Exit, pending: &BTreeMap<Place, Plain>) -> Exit {
    let mut exit = exit.clone();
    let copies = std::mem::take(&mut exit.copies);
    for (dst, of) in copies {
        match pending.get(&of) {
            Some(&value) => exit.plain.push((dst, value)),
            None => exit.copies.push((dst, of)),
        }
    }
    // What was written without an instruction has taken the place of a store.
    let listed = |place: &Place| {
        exit.plain.iter().any(|(at, _)| at == place)
            || exit.copies.iter().any(|(at, _)| at == place)
            || exit.objects.iter().any(|(at, _)| at == place)
    };
    let more: Vec<_> = pending.iter().filter(|(place, _)| !listed(place)).collect();
    exit.plain.extend(more.into_iter().map(|(&place, &value)| (place, value)));
    exit
}

/// One way through a trace.
struct Sink {
    begins: Begins,
    /// The frame that the next round begins in.
    next: Option<FrameId>,
    /// A frame that the trace has just left: only its result is still to be moved out.
    left: Option<FrameId>,
    /// Registers that are not in their places.
    pending: BTreeMap<Place, Plain>,
    /// How many exits came before the store of each was put off.
    since: BTreeMap<Place, usize>,
    exits: usize,
    /// The same at the end, before what must be stored was.
    ends: BTreeMap<Place, Plain>,
    /// Registers whose values at the start were looked at, and that were of another type.
    read: BTreeSet<u32>,
    refuted: BTreeSet<u32>,
    code: Vec<Ins>,
    /// For each instruction of `code`, and the end: what is pending before it.
    pending_at: Vec<BTreeMap<Place, Plain>>,
}

impl Sink {
    /// Follows a trace whose rounds begin as `begins` says.
    fn through(trace: &Trace, begins: Begins) -> Self {
        let root = |reg| Place { frame: FrameId(0), reg };
        let mut sink = Sink {
            next: next_round(trace),
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
        if !matches!(trace.end, End::Exit(_)) {
            let (next, begins) = (sink.next, sink.begins.clone());
            sink.flush(|place| Some(place.frame) != next || !begins.contains_key(&place.reg));
        }
        sink.pending_at.push(sink.pending.clone());
        sink
    }

    /// Whether a register ends a round as it begins one; numbers only if a round reads them, since
    /// others are stored as cheaply as they would be kept.
    fn keeps(&self, (reg, begin): (u32, Plain)) -> bool {
        let end = self.next.and_then(|frame| self.ends.get(&Place { frame, reg }));
        let same = end.is_some_and(|end| match begin {
            Plain::Const { .. } => *end == begin,
            Plain::Var { tag, .. } => end.tag() == tag && self.read.contains(&reg),
        });
        same && !self.refuted.contains(&reg)
    }

    fn instruction(&mut self, mut ins: Ins) {
        // Where it would be stored another frame may be by then.
        if matches!(ins, Ins::Store { dst, .. } if Some(dst.frame) == self.left) {
            return;
        }
        if !matches!(ins, Ins::Move { src, .. } if Some(src.frame) == self.left) {
            self.forget_left();
        }
        match ins {
            Ins::Store { dst, value } | Ins::Copy { dst, src: Arg::Plain(value) } => {
                return self.put(dst, value);
            }
            Ins::Move { dst, src } => {
                if let Some(value) = self.pending.remove(&src) {
                    return self.put(dst, value);
                }
            }
            Ins::Copy { dst, src: Arg::Place(src, _) } => {
                if let Some(value) = self.value(src) {
                    return self.put(dst, value);
                }
            }
            // What it holds is no object.
            Ins::Release { place, .. } if self.pending.remove(&place).is_some() => return,
            Ins::Tag { place, tag, .. } if self.is(place, tag) => return,
            Ins::Payload { var, place } => {
                if let Some(value) = self.value(place) {
                    return self.keep(Ins::Let { var, value });
                }
            }
            Ins::Leave { frame } => self.left = Some(frame),
            Ins::Packed { ref mut args, .. }
            | Ins::Invoke { ref mut args, .. }
            | Ins::Builtin { ref mut args, .. } => {
                for arg in args {
                    if let Arg::Place(place, _) = *arg
                        && let Some(value) = self.value(place)
                    {
                        *arg = Arg::Plain(value);
                    }
                }
            }
            _ => {}
        }
        let (read, written) = (ins.reads(), ins.writes());
        self.flush(|place| read.contains(&place));
        self.keep(ins);
        for place in written.into_iter().flatten() {
            self.pending.remove(&place);
        }
    }

    /// The value of a register that is not in its place, which is looked at.
    fn value(&mut self, place: Place) -> Option<Plain> {
        let value = *self.pending.get(&place)?;
        if let Plain::Var { var, .. } = value {
            let begin = |begin: &Plain| matches!(begin, Plain::Var { var: of, .. } if *of == var);
            let at_start = self.begins.iter().find(|(_, value)| begin(value));
            self.read.extend(at_start.map(|(&reg, _)| reg));
        }
        Some(value)
    }

    /// Whether a register that is not in its place holds a value of a type; if it holds another, no
    /// round begins so.
    fn is(&mut self, place: Place, tag: i32) -> bool {
        let Some(value) = self.value(place) else { return false };
        if value.tag() != tag && place.frame == FrameId(0) {
            self.refuted.insert(place.reg);
        }
        value.tag() == tag
    }

    fn put(&mut self, dst: Place, value: Plain) {
        self.pending.insert(dst, value);
        self.since.insert(dst, self.exits);
        if self.pending.len() > MAX {
            self.flush(|_| true);
        }
    }

    /// Registers of a frame that was left are gone.
    fn forget_left(&mut self) {
        if let Some(left) = self.left.take() {
            self.pending.retain(|place, _| place.frame != left);
        }
    }

    /// Stores the values of registers.
    fn flush(&mut self, wanted: impl Fn(Place) -> bool) {
        let places: Vec<Place> = self.pending.keys().copied().filter(|&at| wanted(at)).collect();
        for dst in places {
            let Some(value) = self.pending.remove(&dst) else { continue };
            self.keep(Ins::Store { dst, value });
        }
    }

    fn keep(&mut self, mut ins: Ins) {
        if ins.exit_mut().is_some() {
            self.exits += 1;
            let far = |since: &usize| self.exits - since > FAR;
            let old = |at: &Place| self.since.get(at).is_some_and(far);
            let old: Vec<Place> = self.pending.keys().copied().filter(old).collect();
            self.flush(|at| old.contains(&at));
        }
        self.code.push(ins);
        self.pending_at.push(self.pending.clone());
    }
}

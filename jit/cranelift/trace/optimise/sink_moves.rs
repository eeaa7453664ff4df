//! Move sinking: moves are delayed until their destination must be in memory.
//!
//! Calls move arguments into frames and results out of them, through many levels of a recursion.
//! Instructions read the register that holds the value; side exits and the end of the trace make the
//! delayed moves. A move is made earlier only if its source is overwritten, or if its frame is
//! released.
//!
//! Decision: docs/decisions/0011-store-sinking.md
//! Decision: docs/decisions/0013-recursion-in-traces.md

use std::collections::{BTreeMap, BTreeSet};

use reflex_vm::program::Program;

use super::super::ir::{End, FrameId, Ins, Trace, VReg};

/// Most delayed moves at the same time: each is listed in every snapshot.
const MAX: usize = 32;

/// Delays every move as far as possible.
pub(super) fn sink_moves(_: &Program, trace: &mut Trace) {
    let old = std::mem::take(&mut trace.code);
    let (code, moves_at) = {
        let mut sink = MoveSinking {
            trace: &*trace,
            frame: FrameId(0),
            left: None,
            at: BTreeMap::new(),
            code: Vec::with_capacity(old.len()),
            moves_at: Vec::with_capacity(old.len()),
        };
        for ins in old {
            sink.instruction(ins);
        }
        sink.forget_left();
        if !matches!(trace.end, End::Interpreter(_)) {
            sink.flush(|_, _| true);
        }
        sink.moves_at.push(sink.at.clone());
        (sink.code, sink.moves_at)
    };
    trace.code = code;
    trace.change_snapshots(|number, exit| {
        let mut exit = exit.clone();
        let at = &moves_at[number];
        for (_, of) in &mut exit.copies {
            *of = at.get(of).copied().unwrap_or(*of);
        }
        for vreg in &mut exit.borrowed {
            *vreg = at.get(vreg).copied().unwrap_or(*vreg);
        }
        // A register that became a scalar or virtual object since has no delayed move.
        let elsewhere = |dst: &VReg| {
            exit.scalars.iter().any(|(vreg, _)| vreg == dst)
                || exit.objects.iter().any(|(vreg, _)| vreg == dst)
        };
        let moves = at.iter().filter(|(dst, _)| !elsewhere(dst));
        exit.moves = moves.map(|(&dst, &src)| (dst, src)).collect();
        exit
    });
}

struct MoveSinking<'t> {
    trace: &'t Trace,
    /// The current frame of the trace.
    frame: FrameId,
    /// The frame that just returned: only its result is still to be moved.
    left: Option<FrameId>,
    /// Delayed moves: the destination, and the register that holds the value.
    at: BTreeMap<VReg, VReg>,
    code: Vec<Ins>,
    /// The delayed moves before each instruction of `code`.
    moves_at: Vec<BTreeMap<VReg, VReg>>,
}

impl MoveSinking<'_> {
    fn instruction(&mut self, mut ins: Ins) {
        if !matches!(ins, Ins::Move { src, .. } if Some(src.frame) == self.left) {
            self.forget_left();
        }
        if let Ins::Move { dst, src } = ins {
            let from = self.at.remove(&src).unwrap_or(src);
            self.at.remove(&dst);
            if from != dst {
                self.at.insert(dst, from);
            }
            if self.at.len() > MAX {
                self.flush(|_, _| true);
            }
            return;
        }
        match ins {
            Ins::EnterFrame { frame } => self.go_to(frame),
            Ins::LeaveFrame { frame } => {
                let caller = self.trace.frame(frame).caller;
                self.frame = caller.map_or(frame, |caller| caller.frame);
                self.left = Some(frame);
            }
            // The host runs frames of its own above the current one.
            _ if ins.may_run_host_code() => self.go_to(self.frame),
            _ => {}
        }
        let (read, written) = (ins.reads(), ins.writes());
        for vreg in written.into_iter().flatten() {
            // An instruction that releases a value does not write the slot.
            if !read.contains(&vreg) {
                self.at.remove(&vreg);
                self.vacate_slot(vreg);
            }
        }
        // That may have moved values that the instruction reads.
        let mut gone = Vec::new();
        for vreg in ins.reads_mut() {
            if written.contains(&Some(*vreg)) {
                gone.push(*vreg);
            }
            *vreg = self.at.get(vreg).copied().unwrap_or(*vreg);
        }
        for vreg in gone {
            self.at.remove(&vreg);
        }
        self.emit(ins);
    }

    /// Drops the registers of a frame that returned.
    fn forget_left(&mut self) {
        if let Some(left) = self.left.take() {
            self.at.retain(|dst, _| dst.frame != left);
        }
    }

    fn emit(&mut self, ins: Ins) {
        self.code.push(ins);
        self.moves_at.push(self.at.clone());
    }

    /// Only frames that are active in `frame` keep their memory.
    fn go_to(&mut self, frame: FrameId) {
        self.frame = frame;
        let active = self.trace.callers(frame);
        self.flush(|_, src| !active.contains(&src.frame));
    }

    /// Makes the moves out of the slot of a register, which is about to be written.
    fn vacate_slot(&mut self, vreg: VReg) {
        let trace = self.trace;
        let slot = trace.slot(vreg);
        self.flush(|_, src| trace.slot(src) == slot);
    }

    /// Makes the moves that `wanted` selects, and those out of the slots that they write.
    fn flush(&mut self, wanted: impl Fn(VReg, VReg) -> bool) {
        let trace = self.trace;
        let mut slots = BTreeSet::new();
        let mut moves: BTreeMap<VReg, VReg> = BTreeMap::new();
        loop {
            let found = self
                .at
                .iter()
                .find(|&(&dst, &src)| wanted(dst, src) || slots.contains(&trace.slot(src)));
            let Some((&dst, &src)) = found else { break };
            self.at.remove(&dst);
            slots.insert(trace.slot(dst));
            moves.insert(dst, src);
        }
        match moves.len() {
            0 => {}
            1 => {
                for (dst, src) in moves {
                    self.emit(Ins::Move { dst, src });
                }
            }
            _ => self.emit(Ins::ParallelMove(moves.into_iter().collect())),
        }
    }
}

//! Returns: to frames of the trace, and to callers of frame 0 in a recursion.
//!
//! A trace that starts at the return of a recursive call follows the returns of several levels. Each
//! is guarded: the caller must be the same function at the same operation. The trace then loops, that
//! many levels higher (LuaJIT: down-recursion).
//!
//! Decision: docs/decisions/0013-recursion-in-traces.md

use reflex_vm::abi::DISCARD;
use reflex_vm::decode::{FuncCode, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, CallerFrame, Step};

use super::{
    MAX_DEPTH, MAX_SAME, RegState, StartKind, StepOutcome, TraceBuilder, frame_data, internal,
};
use crate::facts::registers::{RegFact, RegFacts, moved};
use crate::penalty::Attempt;
use crate::trace::ir::{Arg, Caller, End, FrameId, Ins, VReg};

impl TraceBuilder {
    pub(super) fn return_from(&mut self, step: &Step<'_>, result: Source) -> StepOutcome {
        let mut closes = false;
        if self.active.len() == 1 {
            if self.start.kind == StartKind::Loop {
                return StepOutcome::Abort(Bailout::NoLoop);
            }
            let Some(below) = step.caller.filter(|&below| self.follows_return(step.program, below))
            else {
                if self.start.attempt == Attempt::MayRetry && self.is_end_of_recursion(step) {
                    return StepOutcome::Abort(Bailout::NoLoop);
                }
                self.recycle_frame(step, result);
                self.spill_frame();
                return StepOutcome::Complete(End::Return { frame: self.frame(), pc: step.pc });
            };
            closes = self.closes(below);
            self.open_below(step, below);
        }
        let source = self.arg(step.program, result);
        let frame = self.frame();
        let Some(Caller { frame: caller, dst, .. }) = self.frames[frame.0 as usize].caller else {
            return StepOutcome::Abort(internal("a return from the first frame"));
        };
        for reg in 0..step.func.num_regs {
            let vreg = VReg { frame, reg };
            if !matches!(source, Arg::Reg(result, _) if result == vreg) {
                self.release(vreg);
            }
        }
        let moved = match source {
            Arg::Reg(vreg, _) => Some(vreg),
            _ => None,
        };
        // Values are released in the frame that returns.
        match (dst, moved) {
            (DISCARD, Some(vreg)) => self.release(vreg),
            (DISCARD, None) => {}
            (dst, _) => self.release(VReg { frame: caller, reg: dst }),
        }
        self.code.push(Ins::LeaveFrame { frame });
        if dst != DISCARD {
            self.transfer(VReg { frame: caller, reg: dst }, source, moved);
        }
        if let Some((_, contents)) = self.active.pop() {
            let scalar = |content: &&RegState| matches!(content, RegState::Scalar(_));
            self.scalars -= contents.iter().filter(scalar).count();
        }
        if closes {
            self.spill_frame();
            return StepOutcome::Complete(End::Recursion { frame: caller });
        }
        StepOutcome::Continue
    }

    /// Gives what the frame allocated to its next run, but for its result.
    fn recycle_frame(&mut self, step: &Step<'_>, result: Source) {
        let (result, frame) = (self.arg(step.program, result), self.frame());
        for reg in 0..step.func.num_regs {
            let vreg = VReg { frame, reg };
            let is_result = matches!(result, Arg::Reg(of, _) if of == vreg);
            if !is_result && matches!(self.content(vreg), RegState::Allocated(..)) {
                self.release(vreg);
            }
        }
    }

    /// Returns true if the trace follows a return to a caller of frame 0.
    fn follows_return(&self, program: &Program, below: CallerFrame) -> bool {
        let may = self.start.kind == StartKind::Return && self.lowest > -(2 * MAX_DEPTH as i32);
        may && is_recursive(program, below)
    }

    /// Returns true if the return that ends the trace is that of the innermost level of a deep
    /// recursion, or of the outermost level: all other levels take another path.
    fn is_end_of_recursion(&self, step: &Step<'_>) -> bool {
        let inner = step.caller.filter(|&below| is_recursive(step.program, below));
        match self.start.kind {
            StartKind::Entry => inner.is_some_and(|below| below.activations >= MAX_SAME as u32),
            StartKind::Return => inner.is_none(),
            StartKind::Loop | StartKind::SideExit => false,
        }
    }

    /// Returns true if the trace loops at the return to this caller.
    fn closes(&self, below: CallerFrame) -> bool {
        let start = (self.frames[0].func, self.start.pc);
        let passed = |frame: &&super::FrameData| {
            frame.caller.is_some_and(|caller| {
                (self.frames[caller.frame.0 as usize].func, caller.return_pc) == start
            })
        };
        let levels = self.lowest.unsigned_abs() as usize + 1;
        let times = self.frames.iter().filter(passed).count() + 1;
        let cycle = levels / times;
        (below.func, below.return_pc) == start && (times >= MAX_SAME || levels + cycle > MAX_DEPTH)
    }

    /// Opens the frame that the outermost active frame returns to.
    fn open_below(&mut self, step: &Step<'_>, below: CallerFrame) {
        let Some(func) = step.program.function(below.func) else { return };
        let exit = self.exit(step.pc);
        let frame = self.frame();
        let base = self.frames[frame.0 as usize].base - func.frame_slots as i32;
        let caller = FrameId(self.frames.len() as u32);
        self.frames.push(frame_data(step.program, func, base, None));
        let call = Caller { frame: caller, return_pc: below.return_pc, dst: below.dst };
        self.frames[frame.0 as usize].caller = Some(call);
        self.code.push(Ins::GuardCaller { frame, exit });
        let contents = self.states_while_calling(step.program, func, below.return_pc);
        self.active.insert(0, (caller, contents));
        self.lowest -= 1;
    }

    /// The states of the registers of a frame before its operation `pc`, from the facts of the code.
    pub(super) fn states_before(
        &mut self,
        program: &Program,
        func: &FuncCode,
        pc: u32,
    ) -> Vec<RegState> {
        let mut holds = Vec::new();
        RegFacts::of(program, func).for_each(program, func, |at, state| {
            if at == pc as usize {
                holds = state.to_vec();
            }
        });
        self.contents(program, func, &holds)
    }

    /// The states of a frame that waits for the call before `return_pc`: moved arguments are None.
    fn states_while_calling(
        &mut self,
        program: &Program,
        func: &FuncCode,
        return_pc: u32,
    ) -> Vec<RegState> {
        let mut holds = Vec::new();
        RegFacts::of(program, func).for_each(program, func, |at, state| {
            if at + 1 == return_pc as usize {
                holds = state.to_vec();
            }
        });
        if let Some(reflex_vm::decode::Op::CallVm { args, .. }) =
            func.ops.get(return_pc as usize - 1)
        {
            for reg in moved(func, *args) {
                if let Some(fact) = holds.get_mut(reg as usize) {
                    *fact = RegFact::NONE;
                }
            }
        }
        self.contents(program, func, &holds)
    }

    fn contents(&mut self, program: &Program, func: &FuncCode, holds: &[RegFact]) -> Vec<RegState> {
        let plans = self.plans(program, func);
        let content = |reg| match holds.get(reg as usize) {
            Some(&RegFact::Tag(tag)) => RegState::Known(tag),
            Some(&RegFact::Allocated(pc)) => {
                let free_entry = plans.get(pc).filter(|free_entry| free_entry.plan.in_traces());
                free_entry.map_or(RegState::Unknown, |free_entry| {
                    RegState::Allocated(free_entry.tag(), free_entry.on_release())
                })
            }
            Some(RegFact::Scalar | RegFact::Unknown) | None => RegState::Unknown,
        };
        (0..func.num_regs).map(content).collect()
    }
}

/// Returns true if a frame waits for a recursive call.
fn is_recursive(program: &Program, below: CallerFrame) -> bool {
    let func = program.function(below.func);
    func.is_some_and(|func| func.return_site(below.return_pc).is_some())
}

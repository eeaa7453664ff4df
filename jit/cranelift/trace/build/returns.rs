//! Returns: to frames of the trace, and on to frames below it that wait for a recursive call.
//!
//! A trace that begins where a recursive call comes back to follows the returns of several levels,
//! behind guards that the frame below is of the same function and waits at the same place; then it
//! begins again, so many levels higher.

use reflex_vm::abi::DISCARD;
use reflex_vm::decode::{FuncCode, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, CallerFrame, Step};

use super::{Builder, Content, Flow, Kind, MAX_DEPTH, MAX_SAME, frame_data, internal};
use crate::facts::{Facts, Holds, moved};
use crate::trace::ir::{Arg, End, FrameId, Ins, Place};
use crate::tries::Chance;

impl Builder {
    pub(super) fn ret(&mut self, step: &Step<'_>, result: Source) -> Flow {
        let mut closes = false;
        if self.active.len() == 1 {
            if self.start.kind == Kind::Loop {
                return Flow::Stop(Bailout::NoLoop);
            }
            let Some(below) = step.caller.filter(|&below| self.goes_on(step.program, below)) else {
                if self.start.chance == Chance::Another && self.is_end_of_recursion(step) {
                    return Flow::Stop(Bailout::NoLoop);
                }
                self.settle_frame();
                return Flow::End(End::Return { frame: self.frame(), pc: step.pc });
            };
            closes = self.closes(below);
            self.open_below(step, below);
        }
        let source = self.arg(step.program, result);
        let frame = self.frame();
        let Some((caller, _, dst)) = self.frames[frame.0 as usize].called else {
            return Flow::Stop(internal("a return from the first frame"));
        };
        for reg in 0..step.func.num_regs {
            let place = Place { frame, reg };
            if !matches!(source, Arg::Place(kept, _) if kept == place) {
                self.empty(place);
            }
        }
        let moved = match source {
            Arg::Place(place, _) => Some(place),
            _ => None,
        };
        // Whatever is given up is given up in the frame that is left.
        match (dst, moved) {
            (DISCARD, Some(place)) => self.empty(place),
            (DISCARD, None) => {}
            (dst, _) => self.empty(Place { frame: caller, reg: dst }),
        }
        self.code.push(Ins::Leave { frame });
        if dst != DISCARD {
            self.transfer(Place { frame: caller, reg: dst }, source, moved);
        }
        if let Some((_, contents)) = self.active.pop() {
            let plain = |content: &&Content| matches!(content, Content::Plain(_));
            self.plain -= contents.iter().filter(plain).count();
        }
        if closes {
            self.settle_frame();
            return Flow::End(End::Shift { frame: caller });
        }
        Flow::Continue
    }

    /// Whether the trace follows a return to a frame below its own.
    fn goes_on(&self, program: &Program, below: CallerFrame) -> bool {
        let may = self.start.kind == Kind::Return && self.lowest > -(2 * MAX_DEPTH as i32);
        may && is_recursive(program, below)
    }

    /// Whether the return that ends the trace is of the innermost level of a recursion, which is more
    /// than a trace would follow, or of the outermost one: all other levels go another way.
    fn is_end_of_recursion(&self, step: &Step<'_>) -> bool {
        let inner = step.caller.filter(|&below| is_recursive(step.program, below));
        match self.start.kind {
            Kind::Entry => inner.is_some_and(|below| below.activations >= MAX_SAME as u32),
            Kind::Return => inner.is_none(),
            Kind::Loop | Kind::Exit => false,
        }
    }

    /// Whether the trace begins again in the frame below.
    fn closes(&self, below: CallerFrame) -> bool {
        let start = (self.frames[0].func, self.start.pc);
        let passed = |frame: &&super::FrameData| {
            frame.called.is_some_and(|(caller, return_pc, _)| {
                (self.frames[caller.0 as usize].func, return_pc) == start
            })
        };
        let levels = self.lowest.unsigned_abs() as usize + 1;
        let times = self.frames.iter().filter(passed).count() + 1;
        let cycle = levels / times;
        (below.func, below.return_pc) == start && (times >= MAX_SAME || levels + cycle > MAX_DEPTH)
    }

    /// Opens the frame that the outermost one returns to.
    fn open_below(&mut self, step: &Step<'_>, below: CallerFrame) {
        let Some(func) = step.program.function(below.func) else { return };
        let exit = self.exit(step.pc);
        let frame = self.frame();
        let base = self.frames[frame.0 as usize].base - func.frame_slots as i32;
        let caller = FrameId(self.frames.len() as u32);
        self.frames.push(frame_data(step.program, func, base, None));
        self.frames[frame.0 as usize].called = Some((caller, below.return_pc, below.dst));
        self.code.push(Ins::Below { frame, exit });
        let contents = self.waiting(step.program, func, below.return_pc);
        self.active.insert(0, (caller, contents));
        self.lowest -= 1;
    }

    /// What the code tells of the registers of a frame before its operation `pc`.
    pub(super) fn known(&mut self, program: &Program, func: &FuncCode, pc: u32) -> Vec<Content> {
        let mut holds = Vec::new();
        Facts::of(program, func).for_each(program, func, |at, state| {
            if at == pc as usize {
                holds = state.to_vec();
            }
        });
        self.contents(program, func, &holds)
    }

    /// The same of a frame that waits for the call before `return_pc`: what it passed is gone.
    fn waiting(&mut self, program: &Program, func: &FuncCode, return_pc: u32) -> Vec<Content> {
        let mut holds = Vec::new();
        Facts::of(program, func).for_each(program, func, |at, state| {
            if at + 1 == return_pc as usize {
                holds = state.to_vec();
            }
        });
        if let Some(reflex_vm::decode::Op::CallVm { args, .. }) =
            func.ops.get(return_pc as usize - 1)
        {
            for reg in moved(func, *args) {
                if let Some(fact) = holds.get_mut(reg as usize) {
                    *fact = Holds::NONE;
                }
            }
        }
        self.contents(program, func, &holds)
    }

    fn contents(&mut self, program: &Program, func: &FuncCode, holds: &[Holds]) -> Vec<Content> {
        let plans = self.plans(program, func);
        let content = |reg| match holds.get(reg as usize) {
            Some(&Holds::Tag(tag)) => Content::Known(tag),
            Some(&Holds::Made(pc)) => {
                let kept = plans.get(pc).filter(|kept| kept.plan.in_traces());
                kept.map_or(Content::Unknown, |kept| Content::Made(kept.tag(), kept.give()))
            }
            Some(Holds::Plain | Holds::Any) | None => Content::Unknown,
        };
        (0..func.num_regs).map(content).collect()
    }
}

/// Whether a frame waits for a recursive call.
fn is_recursive(program: &Program, below: CallerFrame) -> bool {
    let func = program.function(below.func);
    func.is_some_and(|func| func.return_site(below.return_pc).is_some())
}

//! Calls: of functions of the program, which become part of the trace, and through closures.

use reflex_runtime::abi::type_index;
use reflex_runtime::function::Function;
use reflex_vm::builtins::Closure;
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::{
    Builder, Content, Flow, Kind, MAX_DEPTH, MAX_FRAMES, MAX_SAME, constant, frame_data, internal,
    observed,
};
use crate::trace::ir::{Arg, End, FrameId, Ins, Place, Plain};

impl Builder {
    pub(super) fn call_vm(&mut self, step: &Step<'_>, func: u32, args: ArgRange, dst: u32) -> Flow {
        let Some(callee) = step.program.function(func) else {
            return Flow::Stop(internal("a call of no function"));
        };
        if callee.is_foreign {
            return self.give_back(step.pc);
        }
        self.call(step, callee, dst, |builder, caller, frame| {
            for (at, &source) in step.func.args(args).iter().enumerate() {
                builder.pass(step.program, caller, source, Place { frame, reg: at as u32 });
            }
        })
    }

    /// A call of a function of the program, which becomes part of the trace, or its end; `pass` writes
    /// the parameters of the new frame.
    fn call(
        &mut self,
        step: &Step<'_>,
        callee: &FuncCode,
        dst: u32,
        pass: impl FnOnce(&mut Self, FrameId, FrameId),
    ) -> Flow {
        let func = callee.index;
        let again = self.start.kind == Kind::Entry && func == self.frames[0].func;
        let inline = self.may_inline(func) && !(again && self.is_deep());
        if !inline && again && self.branches(step.program) {
            // One way through it is not enough: it comes back to several places.
            return Flow::Stop(Bailout::Recursive);
        }
        let exit = self.exit(step.pc);
        if !inline && !again {
            self.code.push(Ins::Native { func, exit });
        }
        self.code.push(Ins::Charge { units: 1, exit });
        let caller = self.frame();
        let frame = self.open(step.program, callee, (caller, step.pc + 1, dst));
        pass(self, caller, frame);
        if inline {
            return self.enter(frame, callee);
        }
        self.code.push(Ins::Enter { frame });
        self.settle_all();
        Flow::End(if again { End::Shift { frame } } else { End::Into { func } })
    }

    /// Whether as many frames again as since the last call of the first function would be too many.
    fn is_deep(&self) -> bool {
        let first = self.frames[0].func;
        let same = |(frame, _): &&(FrameId, _)| self.frames[frame.0 as usize].func == first;
        let levels = self.active.iter().filter(same).count();
        self.active.len() + self.active.len() / levels.max(1) > MAX_DEPTH
    }

    /// Whether a function that is called now makes recursive calls at several places: through
    /// closures, at places where one was seen.
    fn branches(&self, program: &Program) -> bool {
        let called = |func: u32, pc: u32| {
            self.active.iter().any(|(frame, _)| {
                let called = self.frames[frame.0 as usize].called;
                called.is_some_and(|(caller, return_pc, _)| {
                    (self.frames[caller.0 as usize].func, return_pc) == (func, pc)
                })
            })
        };
        let counts = |func: &FuncCode, pc: u32| match func.ops[pc as usize - 1] {
            Op::InvokeClosure { .. } => called(func.index, pc),
            _ => true,
        };
        let func = |(frame, _): &(FrameId, _)| program.function(self.frames[frame.0 as usize].func);
        self.active
            .iter()
            .filter_map(func)
            .any(|func| func.returns.iter().filter(|&&(pc, _)| counts(func, pc)).count() > 1)
    }

    /// Writes every plain value to its place.
    pub(super) fn settle_all(&mut self) {
        let sizes = self.active.iter().map(|(frame, contents)| (*frame, contents.len() as u32));
        for (frame, count) in sizes.collect::<Vec<_>>() {
            for reg in 0..count {
                self.settle(Place { frame, reg });
            }
        }
    }

    /// Passes one argument of the frame `caller` to a parameter of a frame being opened.
    pub(super) fn pass(&mut self, program: &Program, caller: FrameId, source: Source, dst: Place) {
        // Sources are read in the caller, which is not the innermost frame any more.
        let register = |reg| Place { frame: caller, reg };
        let (arg, moved) = match source.get() {
            ArgSource::Reg(reg) => (self.register_arg(register(reg)), None),
            ArgSource::LastUse(reg) => (self.register_arg(register(reg)), Some(register(reg))),
            ArgSource::Const(index) => (constant(program.consts(), index), None),
            ArgSource::Vm => (Arg::Vm, None),
        };
        self.transfer(dst, arg, moved);
    }

    pub(super) fn register_arg(&self, place: Place) -> Arg {
        match self.content(place) {
            Content::Unknown => Arg::Place(place, None),
            Content::Known(tag) | Content::Made(tag, _) => Arg::Place(place, Some(tag)),
            Content::Plain(plain) => Arg::Plain(plain),
        }
    }

    pub(super) fn may_inline(&self, func: u32) -> bool {
        let same = |(frame, _): &&(FrameId, _)| self.frames[frame.0 as usize].func == func;
        self.active.len() < MAX_DEPTH
            && self.frames.len() < MAX_FRAMES
            && self.active.iter().filter(same).count() < MAX_SAME
    }

    /// Opens a frame of `callee` in which every register is None and empty.
    pub(super) fn open(
        &mut self,
        program: &Program,
        callee: &FuncCode,
        called: (FrameId, u32, u32),
    ) -> FrameId {
        let caller = &self.frames[called.0.0 as usize];
        let base = caller.base + caller.slots as i32;
        let frame = FrameId(self.frames.len() as u32);
        self.frames.push(frame_data(program, callee, base, Some(called)));
        let contents = vec![Content::Plain(Plain::NONE); callee.num_regs as usize];
        self.plain += contents.len();
        self.active.push((frame, contents));
        frame
    }

    /// After the parameters are passed. Keeps exits small when the frame is large.
    pub(super) fn enter(&mut self, frame: FrameId, callee: &FuncCode) -> Flow {
        self.code.push(Ins::Enter { frame });
        if self.plain > self.most_plain() {
            for reg in 0..callee.num_regs {
                self.settle(Place { frame, reg });
            }
        }
        Flow::Continue
    }

    pub(super) fn invoke(&mut self, step: &Step<'_>, range: ArgRange, dst: u32) -> Flow {
        let sources = step.func.args(range);
        let [_, callee, values @ ..] = sources else {
            return Flow::Stop(internal("a call of nothing"));
        };
        let seen = observed(step, std::slice::from_ref(callee));
        let Some(seen) = seen[0] else {
            return self.give_back(step.pc);
        };
        let arg = self.arg(step.program, *callee);
        if seen.downcast_ref::<Function>().is_some() {
            let exit = self.exit(step.pc);
            if let Arg::Place(place, _) = arg {
                self.establish(place, type_index::FUNCTION, exit);
            }
            let callee = self.arg(step.program, *callee);
            let args = values.iter().map(|&value| self.arg(step.program, value)).collect();
            let frame = self.frame();
            self.code.push(Ins::Invoke { frame, callee, args, dst: None, exit });
            self.take(dst, Content::Unknown);
            return Flow::Continue;
        }
        match (Closure::of(&seen), arg) {
            (Some(closure), Arg::Place(..) | Arg::Const(_)) => {
                self.call_closure(step, closure, arg, values, dst)
            }
            _ => self.give_back(step.pc),
        }
    }

    fn call_closure(
        &mut self,
        step: &Step<'_>,
        closure: &Closure,
        arg: Arg,
        values: &[Source],
        dst: u32,
    ) -> Flow {
        let program = step.program;
        let captured = closure.captured.len() as u32;
        let own = program.function(closure.func).filter(|_| closure.program == program.id());
        let given = values.len() as u32 + captured;
        let Some(callee) = own.filter(|own| given == own.num_args && !own.is_foreign) else {
            // The run is about to fail, or to enter code that cannot be seen.
            return self.give_back(step.pc);
        };
        let exit = self.exit(step.pc);
        if let Arg::Place(place, _) = arg {
            self.code.push(Ins::Closure { place, func: closure.func, captured, exit });
        }
        self.call(step, callee, dst, |builder, caller, frame| {
            for (at, &source) in values.iter().enumerate() {
                builder.pass(program, caller, source, Place { frame, reg: at as u32 });
            }
            for index in 0..captured {
                let dst = Place { frame, reg: values.len() as u32 + index };
                builder.code.push(Ins::Captured { dst, closure: arg, index });
                builder.set(dst, Content::Unknown);
            }
        })
    }
}

//! Calls of VM functions, which are inlined into the trace, also through closures.

use reflex_runtime::abi::type_index;
use reflex_runtime::function::Function;
use reflex_vm::builtins::Closure;
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::{
    MAX_DEPTH, MAX_FRAMES, MAX_SAME, RegState, StartKind, StepOutcome, TraceBuilder, constant,
    frame_data, internal, observed,
};
use crate::trace::ir::{Arg, Caller, End, FrameId, Ins, Scalar, VReg};

impl TraceBuilder {
    pub(super) fn call_vm(
        &mut self,
        step: &Step<'_>,
        func: u32,
        args: ArgRange,
        dst: u32,
    ) -> StepOutcome {
        let Some(callee) = step.program.function(func) else {
            return StepOutcome::Abort(internal("a call of no function"));
        };
        if callee.is_foreign {
            return self.return_to_interpreter(step.pc);
        }
        self.call(step, callee, dst, |builder, caller, frame| {
            for (at, &source) in step.func.args(args).iter().enumerate() {
                builder.pass(step.program, caller, source, VReg { frame, reg: at as u32 });
            }
        })
    }

    /// Records a call of a VM function, which is inlined or ends the trace. `pass` writes the
    /// parameters of the new frame.
    fn call(
        &mut self,
        step: &Step<'_>,
        callee: &FuncCode,
        dst: u32,
        pass: impl FnOnce(&mut Self, FrameId, FrameId),
    ) -> StepOutcome {
        let func = callee.index;
        let again = self.start.kind == StartKind::Entry && func == self.frames[0].func;
        // All paths of a method matter, and a trace would see one.
        let inline =
            self.may_inline(func) && !(again && self.is_deep()) && !(self.limits.is_method)(func);
        if !inline && again && self.branches(step.program) {
            // A trace covers one recursive call only, but the function has several.
            return StepOutcome::Abort(Bailout::Recursive);
        }
        let exit = self.exit(step.pc);
        if !inline && !again {
            self.code.push(Ins::GuardCompiled { func, exit });
        }
        self.code.push(Ins::CheckFuel { units: 1, exit });
        let caller = self.frame();
        let call = Caller { frame: caller, return_pc: step.pc + 1, dst };
        let frame = self.open(step.program, callee, call);
        pass(self, caller, frame);
        if inline {
            return self.enter(frame, callee);
        }
        self.code.push(Ins::EnterFrame { frame });
        self.spill_all();
        StepOutcome::Complete(if again { End::Recursion { frame } } else { End::Function { func } })
    }

    /// Returns true if one more level of the recursion would exceed the limit of frames.
    fn is_deep(&self) -> bool {
        let first = self.frames[0].func;
        let same = |(frame, _): &&(FrameId, _)| self.frames[frame.0 as usize].func == first;
        let levels = self.active.iter().filter(same).count();
        self.active.len() + self.active.len() / levels.max(1) > MAX_DEPTH
    }

    /// Returns true if an active function makes recursive calls at several operations. Calls of
    /// closures count if the recording has seen one there.
    fn branches(&self, program: &Program) -> bool {
        let called = |func: u32, pc: u32| {
            self.active.iter().any(|(frame, _)| {
                let caller = self.frames[frame.0 as usize].caller;
                caller.is_some_and(|caller| {
                    (self.frames[caller.frame.0 as usize].func, caller.return_pc) == (func, pc)
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

    /// Stores every scalar to memory.
    pub(super) fn spill_all(&mut self) {
        let sizes = self.active.iter().map(|(frame, contents)| (*frame, contents.len() as u32));
        for (frame, count) in sizes.collect::<Vec<_>>() {
            for reg in 0..count {
                self.spill(VReg { frame, reg });
            }
        }
    }

    /// Passes one argument of the frame `caller` to a parameter of a frame being opened.
    pub(super) fn pass(&mut self, program: &Program, caller: FrameId, source: Source, dst: VReg) {
        // Sources are read in the caller, which is no longer the innermost frame.
        let register = |reg| VReg { frame: caller, reg };
        let (arg, moved) = match source.get() {
            ArgSource::Reg(reg) => (self.register_arg(register(reg)), None),
            ArgSource::LastUse(reg) => (self.register_arg(register(reg)), Some(register(reg))),
            ArgSource::Const(index) => (constant(program.consts(), index), None),
            ArgSource::Vm => (Arg::Vm, None),
        };
        self.transfer(dst, arg, moved);
    }

    pub(super) fn register_arg(&self, vreg: VReg) -> Arg {
        match self.content(vreg) {
            RegState::Unknown => Arg::Reg(vreg, None),
            RegState::Known(tag) | RegState::Allocated(tag, _) => Arg::Reg(vreg, Some(tag)),
            RegState::Scalar(scalar) => Arg::Scalar(scalar),
        }
    }

    pub(super) fn may_inline(&self, func: u32) -> bool {
        let same = |(frame, _): &&(FrameId, _)| self.frames[frame.0 as usize].func == func;
        self.active.len() < MAX_DEPTH
            && self.frames.len() < MAX_FRAMES
            && self.active.iter().filter(same).count() < MAX_SAME
    }

    /// Opens a frame of `callee` in which every register is None and empty.
    pub(super) fn open(&mut self, program: &Program, callee: &FuncCode, caller: Caller) -> FrameId {
        let below = &self.frames[caller.frame.0 as usize];
        let base = below.base + below.slots as i32;
        let frame = FrameId(self.frames.len() as u32);
        self.frames.push(frame_data(program, callee, base, Some(caller)));
        let contents = vec![RegState::Scalar(Scalar::NONE); callee.num_regs as usize];
        self.scalars += contents.len();
        self.active.push((frame, contents));
        frame
    }

    /// Enters a frame after its parameters are passed. Limits the size of snapshots for large frames.
    pub(super) fn enter(&mut self, frame: FrameId, callee: &FuncCode) -> StepOutcome {
        self.code.push(Ins::EnterFrame { frame });
        if self.scalars > self.max_scalars() {
            for reg in 0..callee.num_regs {
                self.spill(VReg { frame, reg });
            }
        }
        StepOutcome::Continue
    }

    pub(super) fn call_value(&mut self, step: &Step<'_>, range: ArgRange, dst: u32) -> StepOutcome {
        let sources = step.func.args(range);
        let [_, callee, values @ ..] = sources else {
            return StepOutcome::Abort(internal("a call of nothing"));
        };
        let seen = observed(step, std::slice::from_ref(callee));
        let Some(seen) = seen[0] else {
            return self.return_to_interpreter(step.pc);
        };
        let arg = self.arg(step.program, *callee);
        if seen.downcast_ref::<Function>().is_some() {
            let exit = self.exit(step.pc);
            if let Arg::Reg(vreg, _) = arg {
                self.guard_type(vreg, type_index::FUNCTION, exit);
            }
            let callee = self.arg(step.program, *callee);
            let args = values.iter().map(|&value| self.arg(step.program, value)).collect();
            let frame = self.frame();
            self.code.push(Ins::CallFunction { frame, callee, args, dst: None, exit });
            self.take_result(dst, RegState::Unknown);
            return StepOutcome::Continue;
        }
        match (Closure::of(&seen), arg) {
            (Some(closure), Arg::Reg(..) | Arg::Const(_)) => {
                self.call_closure(step, closure, arg, values, dst)
            }
            _ => self.return_to_interpreter(step.pc),
        }
    }

    fn call_closure(
        &mut self,
        step: &Step<'_>,
        closure: &Closure,
        arg: Arg,
        values: &[Source],
        dst: u32,
    ) -> StepOutcome {
        let program = step.program;
        let captured = closure.captured.len() as u32;
        let own = program.function(closure.func).filter(|_| closure.program == program.id());
        let given = values.len() as u32 + captured;
        let Some(callee) = own.filter(|own| given == own.num_args && !own.is_foreign) else {
            // The operation is about to raise an error, or to run code that is not bytecode.
            return self.return_to_interpreter(step.pc);
        };
        let exit = self.exit(step.pc);
        if let Arg::Reg(vreg, _) = arg {
            self.code.push(Ins::GuardClosure { vreg, func: closure.func, captured, exit });
        }
        self.call(step, callee, dst, |builder, caller, frame| {
            for (at, &source) in values.iter().enumerate() {
                builder.pass(program, caller, source, VReg { frame, reg: at as u32 });
            }
            for index in 0..captured {
                let dst = VReg { frame, reg: values.len() as u32 + index };
                builder.code.push(Ins::LoadCaptured { dst, closure: arg, index });
                builder.set(dst, RegState::Unknown);
            }
        })
    }
}

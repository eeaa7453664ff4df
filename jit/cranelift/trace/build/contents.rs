//! The states of registers, and snapshots of them.

use reflex_runtime::abi::type_index;
use reflex_vm::abi::DISCARD;
use reflex_vm::decode::{ArgRange, ArgSource, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::{MAX_SAME, MAX_SCALARS, RegState, StepOutcome, TraceBuilder, constant};
use crate::trace::ir::{Arg, End, ExitId, FrameId, Ins, Scalar, Snapshot, VReg, Var};

impl TraceBuilder {
    pub(super) fn frame(&self) -> FrameId {
        self.active.last().map_or(FrameId(0), |(frame, _)| *frame)
    }

    pub(super) fn vreg(&self, reg: u32) -> VReg {
        VReg { frame: self.frame(), reg }
    }

    pub(super) fn content(&self, vreg: VReg) -> RegState {
        let found = self.active.iter().find(|(frame, _)| *frame == vreg.frame);
        found.map_or(RegState::Unknown, |(_, contents)| contents[vreg.reg as usize])
    }

    pub(super) fn set(&mut self, vreg: VReg, content: RegState) {
        if !matches!(content, RegState::Known(type_index::TENSOR)) {
            self.guarded.remove(&vreg);
        }
        let Some((_, contents)) = self.active.iter_mut().find(|(frame, _)| *frame == vreg.frame)
        else {
            return;
        };
        let old = std::mem::replace(&mut contents[vreg.reg as usize], content);
        self.scalars += usize::from(matches!(content, RegState::Scalar(_)));
        self.scalars -= usize::from(matches!(old, RegState::Scalar(_)));
    }

    /// Releases the value of a register, which is empty afterwards.
    pub(super) fn release(&mut self, vreg: VReg) {
        match self.content(vreg) {
            RegState::Known(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => {
                self.code.push(Ins::Release { vreg, tag: Some(tag) });
            }
            RegState::Unknown => self.code.push(Ins::Release { vreg, tag: None }),
            RegState::Allocated(_, to) => self.code.push(Ins::Recycle { vreg, to }),
            RegState::Known(_) | RegState::Scalar(_) => {}
        }
        self.set(vreg, RegState::Scalar(Scalar::NONE));
    }

    /// Marks a register as empty after its value was moved out.
    pub(super) fn mark_empty(&mut self, vreg: VReg) {
        self.set(vreg, RegState::Scalar(Scalar::NONE));
        self.limit_scalars(vreg);
    }

    pub(super) fn set_scalar(&mut self, vreg: VReg, value: Scalar) {
        self.release(vreg);
        self.set(vreg, RegState::Scalar(value));
        self.limit_scalars(vreg);
    }

    /// Limits the size of snapshots: stores a scalar to memory if there are too many.
    pub(super) fn limit_scalars(&mut self, vreg: VReg) {
        if self.scalars > self.max_scalars() {
            self.spill(vreg);
        }
    }

    /// Most scalars at the same time: each is listed in every snapshot. Frames of calls are short, and
    /// most of their registers are dead before a side exit.
    pub(super) fn max_scalars(&self) -> usize {
        MAX_SCALARS * self.active.len().min(MAX_SAME)
    }

    /// Stores a scalar to memory, so that snapshots need not list it.
    pub(super) fn spill(&mut self, vreg: VReg) {
        if let RegState::Scalar(value) = self.content(vreg) {
            self.code.push(Ins::Store { dst: vreg, value });
            self.set(vreg, RegState::Known(value.tag()));
        }
    }

    pub(super) fn spill_frame(&mut self) {
        let count = self.active.last().map_or(0, |(_, contents)| contents.len() as u32);
        for reg in 0..count {
            self.spill(self.vreg(reg));
        }
    }

    /// Moves the result slot to register `dst`, or drops it.
    pub(super) fn take_result(&mut self, dst: u32, content: RegState) {
        let frame = self.frame();
        if dst == DISCARD {
            self.code.push(Ins::DropResult { frame });
            return;
        }
        let dst = self.vreg(dst);
        self.release(dst);
        self.code.push(Ins::TakeResult { frame, dst });
        self.set(dst, content);
    }

    pub(super) fn arg(&self, program: &Program, source: Source) -> Arg {
        match source.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => {
                let vreg = self.vreg(reg);
                self.register_arg(vreg)
            }
            ArgSource::Const(index) => constant(program.consts(), index),
            ArgSource::Vm => Arg::Vm,
        }
    }

    pub(super) fn args(&self, step: &Step<'_>, range: ArgRange) -> Vec<Arg> {
        step.func.args(range).iter().map(|&source| self.arg(step.program, source)).collect()
    }

    pub(super) fn exit(&mut self, pc: u32) -> ExitId {
        let mut scalars = Vec::with_capacity(self.scalars);
        for (frame, contents) in &self.active {
            for (reg, content) in contents.iter().enumerate() {
                if let RegState::Scalar(value) = content {
                    scalars.push((VReg { frame: *frame, reg: reg as u32 }, *value));
                }
            }
        }
        let frame = self.frame();
        let exit = Snapshot { scalars, ..Snapshot::at(frame, pc) };
        if self.snapshots.last() != Some(&exit) {
            self.snapshots.push(exit);
        }
        ExitId(self.snapshots.len() as u32 - 1)
    }

    /// Ends the trace: the interpreter resumes at operation `pc`.
    pub(super) fn return_to_interpreter(&mut self, pc: u32) -> StepOutcome {
        if self.operations == 0 {
            return StepOutcome::Abort(Bailout::NoLoop);
        }
        StepOutcome::Complete(End::Interpreter(self.exit(pc)))
    }

    /// Guards that a register in memory has its present type, unless that is known.
    pub(super) fn guard_type(&mut self, vreg: VReg, seen: i32, exit: ExitId) {
        if self.content(vreg) == RegState::Unknown {
            self.code.push(Ins::GuardType { vreg, tag: seen, exit });
            self.set(vreg, RegState::Known(seen));
        }
    }

    pub(super) fn var(&mut self) -> Var {
        self.vars += 1;
        Var(self.vars - 1)
    }
}

//! The trace builder: translates operations to trace IR as they run.
//!
//! The builder mirrors the interpreter step by step. For each register of each active frame it
//! tracks if the value is in memory (and its type, if that was guarded) or a scalar. It emits
//! guards only for facts that are not known yet.

mod builtins;
mod calls;
mod contents;
mod kernels;
mod returns;
mod views;

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use reflex_runtime::abi::type_index;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::abi::DISCARD;
use reflex_vm::decode::{ArgSource, FuncCode, Op, SiteId, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::internal;
use super::ir::{Arg, Caller, End, FrameData, FrameId, Ins, Scalar, Snapshot, Trace, VReg};
use crate::emit::scalar_bits;
use crate::facts::registers::RegFacts;
use crate::facts::tensor::TensorFact;
use crate::penalty::Attempt;
use crate::recycle::{FreeListReturn, ReusePlans};

/// Most frames of one trace.
const MAX_FRAMES: usize = 4096;
/// Most active frames, and most of one function among them.
const MAX_DEPTH: usize = 8;
const MAX_SAME: usize = 3;
/// Most scalars at the same time, per frame.
const MAX_SCALARS: usize = 6;

/// The state of a register during recording.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RegState {
    /// In memory, of an unknown type.
    Unknown,
    /// In memory, of this type.
    Known(i32),
    /// In memory, of this type, from an allocation whose objects are recycled.
    Allocated(i32, FreeListReturn),
    /// A scalar; the memory of the register is empty.
    Scalar(Scalar),
}

/// The start of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceStart {
    pub(crate) pc: u32,
    pub(crate) kind: StartKind,
    pub(crate) attempt: Attempt,
}

/// The kind of operation that a recording starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartKind {
    Entry,
    Loop,
    /// The return of a recursive call.
    Return,
    /// A side exit of a trace.
    SideExit,
}

/// The outcome of a step.
pub(crate) enum StepOutcome {
    Continue,
    /// The trace is complete.
    Complete(End),
    /// The recording is aborted.
    Abort(Bailout),
}

/// The bounds of a recording.
pub(crate) struct RecordingLimits {
    /// Most instructions.
    pub(crate) operations: usize,
    /// Says of a function that it is compiled as a method: calls of it are not inlined.
    pub(crate) is_method: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

/// A trace being recorded.
pub(crate) struct TraceBuilder {
    start: TraceStart,
    frames: Vec<FrameData>,
    code: Vec<Ins>,
    snapshots: Vec<Snapshot>,
    vars: u32,
    /// Active frames, outermost first, with the states of their registers.
    active: Vec<(FrameId, Vec<RegState>)>,
    /// The depth of the outermost active frame, relative to frame 0; negative after returns to
    /// callers of frame 0.
    lowest: i32,
    /// Registers that are scalars.
    scalars: usize,
    operations: usize,
    limits: RecordingLimits,
    /// The allocations whose objects are recycled, by function.
    plans: HashMap<u32, ReusePlans>,
    /// Guarded facts about the tensors in registers, which several kernels may need.
    guarded: HashMap<VReg, Vec<TensorFact>>,
}

impl TraceBuilder {
    /// A trace that starts in a frame of `func`.
    pub(crate) fn new(
        program: &Program,
        func: &FuncCode,
        start: TraceStart,
        limits: RecordingLimits,
    ) -> Self {
        let root = frame_data(program, func, 0, None);
        let fresh = |reg: u32| {
            // At an entry, every register but the parameters is None.
            let unset = start.kind == StartKind::Entry && reg >= func.num_args;
            if unset { RegState::Known(type_index::NONE) } else { RegState::Unknown }
        };
        let contents = (0..func.num_regs).map(fresh).collect();
        let mut builder = Self {
            start,
            frames: vec![root],
            code: Vec::new(),
            snapshots: Vec::new(),
            vars: 0,
            active: vec![(FrameId(0), contents)],
            lowest: 0,
            scalars: 0,
            operations: 0,
            limits,
            plans: HashMap::new(),
            guarded: HashMap::new(),
        };
        if start.kind == StartKind::Return {
            builder.active[0].1 = builder.states_before(program, func, start.pc);
        }
        builder
    }

    /// The recorded trace.
    pub(crate) fn finish(self, end: End) -> Trace {
        let Self { start, frames, code, snapshots, vars, .. } = self;
        Trace {
            start_pc: start.pc,
            frames,
            preheader: Vec::new(),
            carried: Vec::new(),
            code,
            snapshots,
            end,
            vars,
            objects: Vec::new(),
            owned_values: 0,
            arena: 0,
        }
    }

    /// Records the operation that is about to run.
    pub(crate) fn step(&mut self, step: &Step<'_>) -> StepOutcome {
        let depth = self.lowest + self.active.len() as i32 - 1;
        let here = &self.frames[self.frame().0 as usize];
        if step.depth != depth || step.func.index != here.func {
            return StepOutcome::Abort(internal("an operation of another frame"));
        }
        if self.code.len() > self.limits.operations {
            return match self.start.kind {
                StartKind::SideExit => self.return_to_interpreter(step.pc),
                StartKind::Entry | StartKind::Loop | StartKind::Return => {
                    StepOutcome::Abort(Bailout::TooLong)
                }
            };
        }
        let flow = self.operation(step);
        self.operations += 1;
        flow
    }

    fn operation(&mut self, step: &Step<'_>) -> StepOutcome {
        let pc = step.pc;
        match step.op {
            Op::CallPacked { callee, args, dst } => {
                if self.kernel(step, callee, args).is_some() {
                    self.store_result(dst, Scalar::NONE);
                    return StepOutcome::Continue;
                }
                let (args, exit) = (self.args(step, args), self.exit(pc));
                let frame = self.frame();
                self.code.push(Ins::CallPacked { frame, callee, args, dst: None, exit });
                self.take_result(dst, RegState::Unknown);
            }
            Op::Builtin { builtin, args, dst } => self.builtin(step, builtin, args, dst),
            Op::CallVm { func, args, dst } => return self.call_vm(step, func, args, dst),
            Op::InvokeClosure { args, dst } => return self.call_value(step, args, dst),
            Op::Copy { src, dst } => self.copy(step.program, src, dst),
            Op::Kill { dst } => {
                if dst != DISCARD {
                    self.set_scalar(self.vreg(dst), Scalar::NONE);
                }
            }
            Op::Goto { .. } => {}
            Op::LoopBack { target, site } => return self.loop_back(step, target, site),
            Op::Branch { cond, .. } => return self.branch(step, cond),
            Op::Ret { result } => return self.return_from(step, result),
        }
        StepOutcome::Continue
    }

    fn plans(&mut self, program: &Program, func: &FuncCode) -> &ReusePlans {
        let known = self.plans.entry(func.index);
        known.or_insert_with(|| ReusePlans::of(program, func, &RegFacts::of(program, func)))
    }

    fn store_result(&mut self, dst: u32, value: Scalar) {
        if dst != DISCARD {
            self.set_scalar(self.vreg(dst), value);
        }
    }

    fn copy(&mut self, program: &Program, src: Source, dst: u32) {
        let moved = match src.get() {
            ArgSource::LastUse(reg) => Some(self.vreg(reg)),
            _ => None,
        };
        if dst == DISCARD {
            if let Some(vreg) = moved {
                self.release(vreg);
            }
            return;
        }
        let dst = self.vreg(dst);
        let arg = self.arg(program, src);
        if matches!(arg, Arg::Reg(vreg, _) if vreg == dst) {
            return;
        }
        self.transfer(dst, arg, moved);
    }

    /// Transfers `arg` to `dst`; `moved` is its register if the value is moved out of it.
    fn transfer(&mut self, dst: VReg, arg: Arg, moved: Option<VReg>) {
        if let Arg::Scalar(value) = arg {
            if let Some(vreg) = moved.filter(|&vreg| vreg != dst) {
                self.mark_empty(vreg);
            }
            return self.set_scalar(dst, value);
        }
        self.release(dst);
        let content = match arg {
            Arg::Reg(vreg, _) => self.content(vreg),
            Arg::Vm => RegState::Known(type_index::OPAQUE_PTR),
            Arg::Const(_) | Arg::Scalar(_) | Arg::Object(_) => RegState::Unknown,
        };
        match moved {
            Some(src) => {
                self.code.push(Ins::Move { dst, src });
                self.mark_empty(src);
            }
            None => self.code.push(Ins::Copy { dst, src: arg, refs: 1 }),
        }
        self.set(dst, content);
    }

    fn loop_back(&mut self, step: &Step<'_>, target: u32, site: SiteId) -> StepOutcome {
        let outermost = self.active.len() == 1 && self.operations > 0;
        let closes = self.start.kind == StartKind::Loop && target == self.start.pc;
        let cell = step.program.cells()[site.0 as usize].load(Ordering::Relaxed);
        let has_code = !std::ptr::eq(cell, step.program.trampolines().exit);
        if !outermost || !closes && !has_code {
            return self.return_to_interpreter(step.pc);
        }
        let exit = self.exit(step.pc);
        self.code.push(Ins::CheckFuel { units: 1, exit });
        self.spill_frame();
        StepOutcome::Complete(if closes {
            End::Loop
        } else {
            End::Site { site: site.0, pc: target }
        })
    }

    fn branch(&mut self, step: &Step<'_>, cond: u32) -> StepOutcome {
        let seen = step.regs[cond as usize];
        let Some(expected) = seen.as_int().map(|value| value != 0) else {
            // The operation is about to raise an error.
            return StepOutcome::Continue;
        };
        let vreg = self.vreg(cond);
        let var = match self.content(vreg) {
            RegState::Scalar(Scalar::Const { .. }) => return StepOutcome::Continue,
            RegState::Scalar(Scalar::Var { var, .. }) => var,
            RegState::Unknown | RegState::Known(_) | RegState::Allocated(..) => {
                let exit = self.exit(step.pc);
                self.guard_type(vreg, seen.type_index(), exit);
                let var = self.var();
                self.code.push(Ins::LoadPayload { var, vreg });
                var
            }
        };
        let exit = self.exit(step.pc);
        self.code.push(Ins::GuardTruth { var, expected, exit });
        StepOutcome::Continue
    }
}

fn frame_data(program: &Program, func: &FuncCode, base: i32, caller: Option<Caller>) -> FrameData {
    FrameData {
        func: func.index,
        name: program.name(func.index).to_owned(),
        num_regs: func.num_regs,
        base,
        slots: func.frame_slots,
        caller,
    }
}

fn constant(consts: &[Any], index: u32) -> Arg {
    match scalar_bits(consts[index as usize].as_raw()) {
        Some((tag, bits)) => Arg::Scalar(Scalar::Const { tag, bits }),
        None => Arg::Const(index),
    }
}

/// The present values of sources; `None` for the session.
fn observed<'s>(step: &Step<'s>, sources: &[Source]) -> Vec<Option<AnyView<'s>>> {
    sources
        .iter()
        .map(|source| match source.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => Some(step.regs[reg as usize]),
            ArgSource::Const(index) => Some(step.program.consts()[index as usize].view()),
            ArgSource::Vm => None,
        })
        .collect()
}

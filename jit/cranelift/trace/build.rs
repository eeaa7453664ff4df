//! From operations as they run to trace IR, with what is known about every register.
//!
//! The builder mirrors the interpreter step by step. For each register of each active frame it
//! knows whether the value is in its place (and of which type, if that was ever established) or
//! plain. Guards are written only for what is not known yet.

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
use super::ir::{Arg, End, Exit, FrameData, FrameId, Ins, Place, Plain, Trace};
use crate::emit::plain_bits;
use crate::facts::Facts;
use crate::raw::Fact;
use crate::recycle::{Give, Plans};
use crate::tries::Chance;

/// Most frames of one trace.
const MAX_FRAMES: usize = 4096;
/// Most frames active at once, and most of one function among them.
const MAX_DEPTH: usize = 8;
const MAX_SAME: usize = 3;
/// Most registers that are plain at once, for each frame.
const MAX_PLAIN: usize = 6;

/// What is known about a register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    /// In its place, of an unknown type.
    Unknown,
    /// In its place, of this type.
    Known(i32),
    /// In its place, of this type, made by an allocation whose objects are kept.
    Made(i32, Give),
    /// Not in its place, which is empty.
    Plain(Plain),
}

/// Where recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) pc: u32,
    pub(crate) kind: Kind,
    pub(crate) chance: Chance,
}

/// What a recording begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry,
    Loop,
    /// Where a recursive call comes back to.
    Return,
    /// An exit of a trace.
    Exit,
}

/// What a step leads to.
pub(crate) enum Flow {
    Continue,
    /// The trace is complete.
    End(End),
    Stop(Bailout),
}

/// A trace being recorded.
pub(crate) struct Builder {
    start: Start,
    frames: Vec<FrameData>,
    code: Vec<Ins>,
    exits: Vec<Exit>,
    vars: u32,
    /// Active frames, outermost first, with the contents of their registers.
    active: Vec<(FrameId, Vec<Content>)>,
    /// The outermost of them, counted from the first frame of the trace: frames that the trace has
    /// returned to are below that.
    lowest: i32,
    /// Where the next operation is expected.
    plain: usize,
    operations: usize,
    /// Most instructions.
    limit: usize,
    /// The allocations whose objects are kept, by function.
    plans: HashMap<u32, Plans>,
    /// What has been guarded of the tensors in registers: kernels ask it again and again.
    guarded: HashMap<Place, Vec<Fact>>,
}

impl Builder {
    /// A trace that starts in a frame of `func`.
    pub(crate) fn new(program: &Program, func: &FuncCode, start: Start, limit: usize) -> Self {
        let root = frame_data(program, func, 0, None);
        let fresh = |reg: u32| {
            // At an entry, everything but the parameters is None.
            let unset = start.kind == Kind::Entry && reg >= func.num_args;
            if unset { Content::Known(type_index::NONE) } else { Content::Unknown }
        };
        let contents = (0..func.num_regs).map(fresh).collect();
        let mut builder = Self {
            start,
            frames: vec![root],
            code: Vec::new(),
            exits: Vec::new(),
            vars: 0,
            active: vec![(FrameId(0), contents)],
            lowest: 0,
            plain: 0,
            operations: 0,
            limit,
            plans: HashMap::new(),
            guarded: HashMap::new(),
        };
        if start.kind == Kind::Return {
            builder.active[0].1 = builder.known(program, func, start.pc);
        }
        builder
    }

    /// The recorded trace.
    pub(crate) fn finish(self, end: End) -> Trace {
        let Self { start, frames, code, exits, vars, .. } = self;
        Trace {
            start_pc: start.pc,
            frames,
            before: Vec::new(),
            carried: Vec::new(),
            code,
            exits,
            end,
            vars,
            objects: Vec::new(),
            held: 0,
            arena: 0,
        }
    }

    /// Records the operation that is about to run.
    pub(crate) fn step(&mut self, step: &Step<'_>) -> Flow {
        let depth = self.lowest + self.active.len() as i32 - 1;
        let here = &self.frames[self.frame().0 as usize];
        if step.depth != depth || step.func.index != here.func {
            return Flow::Stop(internal("an operation of another frame"));
        }
        if self.code.len() > self.limit {
            return match self.start.kind {
                Kind::Exit => self.give_back(step.pc),
                Kind::Entry | Kind::Loop | Kind::Return => Flow::Stop(Bailout::TooLong),
            };
        }
        let flow = self.operation(step);
        self.operations += 1;
        flow
    }

    fn operation(&mut self, step: &Step<'_>) -> Flow {
        let pc = step.pc;
        match step.op {
            Op::CallPacked { callee, args, dst } => {
                if self.kernel(step, callee, args).is_some() {
                    self.give(dst, Plain::NONE);
                    return Flow::Continue;
                }
                let (args, exit) = (self.args(step, args), self.exit(pc));
                let frame = self.frame();
                self.code.push(Ins::Packed { frame, callee, args, dst: None, exit });
                self.take(dst, Content::Unknown);
            }
            Op::Builtin { builtin, args, dst } => self.builtin(step, builtin, args, dst),
            Op::CallVm { func, args, dst } => return self.call_vm(step, func, args, dst),
            Op::InvokeClosure { args, dst } => return self.invoke(step, args, dst),
            Op::Copy { src, dst } => self.copy(step.program, src, dst),
            Op::Kill { dst } => {
                if dst != DISCARD {
                    self.set_plain(self.place(dst), Plain::NONE);
                }
            }
            Op::Goto { .. } => {}
            Op::LoopBack { target, site } => return self.loop_back(step, target, site),
            Op::Branch { cond, .. } => return self.branch(step, cond),
            Op::Ret { result } => return self.ret(step, result),
        }
        Flow::Continue
    }

    fn plans(&mut self, program: &Program, func: &FuncCode) -> &Plans {
        let known = self.plans.entry(func.index);
        known.or_insert_with(|| Plans::of(program, func, &Facts::of(program, func)))
    }

    fn give(&mut self, dst: u32, value: Plain) {
        if dst != DISCARD {
            self.set_plain(self.place(dst), value);
        }
    }

    fn copy(&mut self, program: &Program, src: Source, dst: u32) {
        let moved = match src.get() {
            ArgSource::LastUse(reg) => Some(self.place(reg)),
            _ => None,
        };
        if dst == DISCARD {
            if let Some(place) = moved {
                self.empty(place);
            }
            return;
        }
        let dst = self.place(dst);
        let arg = self.arg(program, src);
        if matches!(arg, Arg::Place(place, _) if place == dst) {
            return;
        }
        self.transfer(dst, arg, moved);
    }

    /// Gives `dst` the value of `arg`; `moved` is its register when it is moved out.
    fn transfer(&mut self, dst: Place, arg: Arg, moved: Option<Place>) {
        if let Arg::Plain(value) = arg {
            if let Some(place) = moved.filter(|&place| place != dst) {
                self.vacate(place);
            }
            return self.set_plain(dst, value);
        }
        self.empty(dst);
        let content = match arg {
            Arg::Place(place, _) => self.content(place),
            Arg::Vm => Content::Known(type_index::OPAQUE_PTR),
            Arg::Const(_) | Arg::Plain(_) | Arg::Object(_) => Content::Unknown,
        };
        match moved {
            Some(src) => {
                self.code.push(Ins::Move { dst, src });
                self.vacate(src);
            }
            None => self.code.push(Ins::Copy { dst, src: arg }),
        }
        self.set(dst, content);
    }

    fn loop_back(&mut self, step: &Step<'_>, target: u32, site: SiteId) -> Flow {
        let outermost = self.active.len() == 1 && self.operations > 0;
        let closes = self.start.kind == Kind::Loop && target == self.start.pc;
        let cell = step.program.cells()[site.0 as usize].load(Ordering::Relaxed);
        let has_code = !std::ptr::eq(cell, step.program.trampolines().exit);
        if !outermost || !closes && !has_code {
            return self.give_back(step.pc);
        }
        let exit = self.exit(step.pc);
        self.code.push(Ins::Charge { units: 1, exit });
        self.settle_frame();
        Flow::End(if closes { End::Loop } else { End::Site { site: site.0, pc: target } })
    }

    fn branch(&mut self, step: &Step<'_>, cond: u32) -> Flow {
        let seen = step.regs[cond as usize];
        let Some(expected) = seen.as_int().map(|value| value != 0) else {
            // The run is about to fail.
            return Flow::Continue;
        };
        let place = self.place(cond);
        let var = match self.content(place) {
            Content::Plain(Plain::Const { .. }) => return Flow::Continue,
            Content::Plain(Plain::Var { var, .. }) => var,
            Content::Unknown | Content::Known(_) | Content::Made(..) => {
                let exit = self.exit(step.pc);
                self.establish(place, seen.type_index(), exit);
                let var = self.var();
                self.code.push(Ins::Payload { var, place });
                var
            }
        };
        let exit = self.exit(step.pc);
        self.code.push(Ins::Truth { var, expected, exit });
        Flow::Continue
    }
}

fn frame_data(
    program: &Program,
    func: &FuncCode,
    base: i32,
    called: Option<(FrameId, u32, u32)>,
) -> FrameData {
    FrameData {
        func: func.index,
        name: program.name(func.index).to_owned(),
        num_regs: func.num_regs,
        base,
        slots: func.frame_slots,
        called,
    }
}

fn constant(consts: &[Any], index: u32) -> Arg {
    match plain_bits(consts[index as usize].as_raw()) {
        Some((tag, bits)) => Arg::Plain(Plain::Const { tag, bits }),
        None => Arg::Const(index),
    }
}

/// The values that sources have now; nothing for the session itself.
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

//! From operations as they run to trace IR, with what is known about every register.
//!
//! The builder mirrors the interpreter step by step. For each register of each active frame it
//! knows whether the value is in its place (and of which type, if that was ever established) or
//! plain. Guards are written only for what is not known yet.

use std::collections::HashMap;

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::abi::DISCARD;
use reflex_vm::builtins::{Builtin, Closure};
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::ir::{
    Arg, BuiltinResult, End, Exit, ExitId, FrameData, FrameId, Ins, Place, Plain, Trace, Var,
};
use crate::emit::plain_bits;
use crate::facts::{Facts, result_tag};
use crate::recycle::{Give, Kept, Plans};

/// Most frames of one trace.
const MAX_FRAMES: usize = 4096;
/// Most frames active at once, and most of one function among them.
const MAX_DEPTH: usize = 8;
const MAX_SAME: usize = 3;
/// Most registers that are plain at once: each appears in every exit.
const MAX_PLAIN: usize = 16;

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
    pub(crate) is_loop: bool,
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
    /// Where the next operation is expected.
    plain: usize,
    operations: usize,
    /// Most instructions; a longer run ends in an exit.
    limit: usize,
    /// The allocations whose objects are kept, by function.
    plans: HashMap<u32, Plans>,
}

impl Builder {
    /// A trace that starts in a frame of `func`.
    pub(crate) fn new(program: &Program, func: &FuncCode, start: Start, limit: usize) -> Self {
        let root = frame_data(program, func, 0, None);
        let fresh = |reg: u32| {
            // At an entry, everything but the parameters is None.
            let unset = !start.is_loop && reg >= func.num_args;
            if unset { Content::Known(type_index::NONE) } else { Content::Unknown }
        };
        let contents = (0..func.num_regs).map(fresh).collect();
        Self {
            start,
            frames: vec![root],
            code: Vec::new(),
            exits: Vec::new(),
            vars: 0,
            active: vec![(FrameId(0), contents)],
            plain: 0,
            operations: 0,
            limit,
            plans: HashMap::new(),
        }
    }

    /// The recorded trace.
    pub(crate) fn finish(self, end: End) -> Trace {
        let Self { start, frames, code, exits, vars, .. } = self;
        Trace { start_pc: start.pc, frames, before: Vec::new(), code, exits, end, vars }
    }

    /// Records the operation that is about to run.
    pub(crate) fn step(&mut self, step: &Step<'_>) -> Flow {
        let depth = self.active.len() as i32 - 1;
        let here = &self.frames[self.frame().0 as usize];
        if step.depth != depth || step.func.index != here.func {
            return Flow::Stop(Bailout::LeftFunction);
        }
        if self.code.len() > self.limit {
            return self.give_back(step.pc);
        }
        let flow = self.operation(step);
        self.operations += 1;
        flow
    }

    fn operation(&mut self, step: &Step<'_>) -> Flow {
        let pc = step.pc;
        match step.op {
            Op::CallPacked { callee, args, dst } => {
                let (args, exit) = (self.args(step, args), self.exit(pc));
                let frame = self.frame();
                self.code.push(Ins::Packed { frame, callee, args, exit });
                self.take(dst, Content::Unknown);
            }
            Op::Builtin { builtin, args, dst } => self.builtin(step, builtin, args, dst),
            Op::CallVm { func, args, dst } => return self.call_vm(step, func, args, dst),
            Op::InvokeClosure { args, dst } => return self.invoke(step, args, dst),
            Op::Copy { src, dst } => self.copy(step.program, src, dst),
            Op::Kill { dst } => {
                if dst != DISCARD {
                    self.empty(self.place(dst));
                    self.settle(self.place(dst));
                }
            }
            Op::Goto { .. } => {}
            Op::LoopBack { target, .. } => return self.loop_back(pc, target),
            Op::Branch { cond, .. } => return self.branch(step, cond),
            Op::Ret { result } => return self.ret(step, result),
        }
        Flow::Continue
    }

    // --- places and contents ---

    fn frame(&self) -> FrameId {
        self.active.last().map_or(FrameId(0), |(frame, _)| *frame)
    }

    fn place(&self, reg: u32) -> Place {
        Place { frame: self.frame(), reg }
    }

    fn content(&self, place: Place) -> Content {
        let found = self.active.iter().find(|(frame, _)| *frame == place.frame);
        found.map_or(Content::Unknown, |(_, contents)| contents[place.reg as usize])
    }

    fn set(&mut self, place: Place, content: Content) {
        let Some((_, contents)) = self.active.iter_mut().find(|(frame, _)| *frame == place.frame)
        else {
            return;
        };
        let old = std::mem::replace(&mut contents[place.reg as usize], content);
        self.plain += usize::from(matches!(content, Content::Plain(_)));
        self.plain -= usize::from(matches!(old, Content::Plain(_)));
    }

    /// Gives up what a register holds; it is empty afterwards.
    fn empty(&mut self, place: Place) {
        match self.content(place) {
            Content::Known(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => {
                self.code.push(Ins::Release { place, tag: Some(tag) });
            }
            Content::Unknown => self.code.push(Ins::Release { place, tag: None }),
            Content::Made(_, give) => self.code.push(Ins::Give { place, give }),
            Content::Known(_) | Content::Plain(_) => {}
        }
        self.set(place, Content::Plain(Plain::NONE));
    }

    /// Notes that a register's value has been moved out.
    fn vacate(&mut self, place: Place) {
        self.set(place, Content::Plain(Plain::NONE));
        self.bound(place);
    }

    fn set_plain(&mut self, place: Place, value: Plain) {
        self.empty(place);
        self.set(place, Content::Plain(value));
        self.bound(place);
    }

    /// Keeps exits small: settles `place` when too many registers are plain.
    fn bound(&mut self, place: Place) {
        if self.plain > MAX_PLAIN {
            self.settle(place);
        }
    }

    /// Writes a plain value to its place. Exits then need not know it.
    fn settle(&mut self, place: Place) {
        if let Content::Plain(value) = self.content(place) {
            self.code.push(Ins::Store { dst: place, value });
            self.set(place, Content::Known(value.tag()));
        }
    }

    fn settle_frame(&mut self) {
        let count = self.active.last().map_or(0, |(_, contents)| contents.len() as u32);
        for reg in 0..count {
            self.settle(self.place(reg));
        }
    }

    /// Moves the result slot to register `dst`, or drops it.
    fn take(&mut self, dst: u32, content: Content) {
        let frame = self.frame();
        if dst == DISCARD {
            self.code.push(Ins::Drop { frame });
            return;
        }
        let dst = self.place(dst);
        self.empty(dst);
        self.code.push(Ins::Take { frame, dst });
        self.set(dst, content);
    }

    fn arg(&self, program: &Program, source: Source) -> Arg {
        match source.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => {
                let place = self.place(reg);
                self.register_arg(place)
            }
            ArgSource::Const(index) => constant(program.consts(), index),
            ArgSource::Vm => Arg::Vm,
        }
    }

    fn args(&self, step: &Step<'_>, range: ArgRange) -> Vec<Arg> {
        step.func.args(range).iter().map(|&source| self.arg(step.program, source)).collect()
    }

    fn exit(&mut self, pc: u32) -> ExitId {
        let mut plain = Vec::with_capacity(self.plain);
        for (frame, contents) in &self.active {
            for (reg, content) in contents.iter().enumerate() {
                if let Content::Plain(value) = content {
                    plain.push((Place { frame: *frame, reg: reg as u32 }, *value));
                }
            }
        }
        let frame = self.frame();
        let exit = Exit { frame, pc, entered: frame, refund: 0, plain };
        if self.exits.last() != Some(&exit) {
            self.exits.push(exit);
        }
        ExitId(self.exits.len() as u32 - 1)
    }

    /// Ends the trace where the interpreter goes on with the operation at `pc`.
    fn give_back(&mut self, pc: u32) -> Flow {
        if self.operations == 0 {
            return Flow::Stop(Bailout::NoLoop);
        }
        Flow::End(End::Exit(self.exit(pc)))
    }

    // --- guards ---

    /// Makes sure that a register in its place has the type it has now.
    fn establish(&mut self, place: Place, seen: i32, exit: ExitId) {
        if self.content(place) == Content::Unknown {
            self.code.push(Ins::Tag { place, tag: seen, exit });
            self.set(place, Content::Known(seen));
        }
    }

    fn var(&mut self) -> Var {
        self.vars += 1;
        Var(self.vars - 1)
    }

    // --- operations ---

    fn builtin(&mut self, step: &Step<'_>, builtin: Builtin, range: ArgRange, dst: u32) {
        let sources = step.func.args(range);
        let exit = self.exit(step.pc);
        if dst != DISCARD
            && let Some(kept) = self.kept(step)
        {
            let (frame, args) = (self.frame(), self.args(step, range));
            let content = Content::Made(kept.tag(), kept.give());
            let place = self.place(dst);
            let empty = matches!(self.content(place), Content::Plain(_));
            let to = empty.then_some(place);
            self.code.push(Ins::Allocate { frame, builtin, kept, args, dst: to, exit });
            if empty {
                return self.set(place, content);
            }
            return self.take(dst, content);
        }
        let inline = is_usual(builtin, &observed(step, sources));
        if inline {
            for (at, &source) in sources.iter().enumerate().take(builtin.native().typed()) {
                if let Arg::Place(place, None) = self.arg(step.program, source) {
                    let seen = observed(step, &sources[at..=at]);
                    self.establish(
                        place,
                        seen[0].map_or(type_index::NONE, |v| v.type_index()),
                        exit,
                    );
                }
            }
        }
        let args = self.args(step, range);
        if let (Builtin::ReadIfCond, [Arg::Plain(Plain::Const { bits, .. })]) = (builtin, &args[..])
        {
            let value = Plain::Const { tag: type_index::BOOL, bits: i64::from(*bits != 0) };
            return self.give(dst, value);
        }
        let tag = result_tag(builtin);
        let result = match tag {
            Some(type_index::NONE) => BuiltinResult::Nothing,
            Some(tag @ (type_index::INT | type_index::BOOL)) => BuiltinResult::Var(tag, self.var()),
            _ => BuiltinResult::Slot,
        };
        let frame = self.frame();
        self.code.push(Ins::Builtin { frame, builtin, inline, args, result, exit });
        match result {
            BuiltinResult::Nothing => self.give(dst, Plain::NONE),
            BuiltinResult::Var(tag, var) => self.give(dst, Plain::Var { tag, var }),
            BuiltinResult::Slot => self.take(dst, tag.map_or(Content::Unknown, Content::Known)),
        }
    }

    /// How the operation takes back its object, if it does.
    fn kept(&mut self, step: &Step<'_>) -> Option<Kept> {
        let known = self.plans.entry(step.func.index);
        let plans = known.or_insert_with(|| {
            Plans::of(step.program, step.func, &Facts::of(step.program, step.func))
        });
        plans.get(step.pc).cloned()
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
            Arg::Const(_) | Arg::Plain(_) => Content::Unknown,
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

    fn loop_back(&mut self, pc: u32, target: u32) -> Flow {
        let closes = self.start.is_loop && self.active.len() == 1 && target == self.start.pc;
        if !closes || self.operations == 0 {
            return self.give_back(pc);
        }
        let exit = self.exit(pc);
        self.code.push(Ins::Charge { units: 1, exit });
        self.settle_frame();
        Flow::End(End::Loop)
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

    fn call_vm(&mut self, step: &Step<'_>, func: u32, args: ArgRange, dst: u32) -> Flow {
        let Some(callee) = step.program.function(func) else {
            return Flow::Stop(Bailout::LeftFunction);
        };
        if callee.is_foreign {
            return self.give_back(step.pc);
        }
        let inline = self.may_inline(func);
        if !inline && !self.start.is_loop && func == self.frames[0].func {
            // One way through it is not enough: it goes down and comes back.
            return Flow::Stop(Bailout::Recursive);
        }
        let exit = self.exit(step.pc);
        if !inline {
            self.code.push(Ins::Native { func, exit });
        }
        self.code.push(Ins::Charge { units: 1, exit });
        let caller = self.frame();
        let frame = self.open(step.program, callee, (caller, step.pc + 1, dst));
        for (at, &source) in step.func.args(args).iter().enumerate() {
            self.pass(step.program, caller, source, Place { frame, reg: at as u32 });
        }
        if inline {
            return self.enter(frame, callee);
        }
        self.code.push(Ins::Enter { frame });
        self.settle_all();
        Flow::End(End::Into { func })
    }

    /// Writes every plain value to its place.
    fn settle_all(&mut self) {
        let sizes = self.active.iter().map(|(frame, contents)| (*frame, contents.len() as u32));
        for (frame, count) in sizes.collect::<Vec<_>>() {
            for reg in 0..count {
                self.settle(Place { frame, reg });
            }
        }
    }

    /// Passes one argument of the frame `caller` to a parameter of a frame being opened.
    fn pass(&mut self, program: &Program, caller: FrameId, source: Source, dst: Place) {
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

    fn register_arg(&self, place: Place) -> Arg {
        match self.content(place) {
            Content::Unknown => Arg::Place(place, None),
            Content::Known(tag) | Content::Made(tag, _) => Arg::Place(place, Some(tag)),
            Content::Plain(plain) => Arg::Plain(plain),
        }
    }

    fn may_inline(&self, func: u32) -> bool {
        let same = |(frame, _): &&(FrameId, _)| self.frames[frame.0 as usize].func == func;
        self.active.len() < MAX_DEPTH
            && self.frames.len() < MAX_FRAMES
            && self.active.iter().filter(same).count() < MAX_SAME
    }

    /// Opens a frame of `callee` in which every register is None and empty.
    fn open(
        &mut self,
        program: &Program,
        callee: &FuncCode,
        called: (FrameId, u32, u32),
    ) -> FrameId {
        let caller = &self.frames[called.0.0 as usize];
        let base = caller.base + caller.slots;
        let frame = FrameId(self.frames.len() as u32);
        self.frames.push(frame_data(program, callee, base, Some(called)));
        let contents = vec![Content::Plain(Plain::NONE); callee.num_regs as usize];
        self.plain += contents.len();
        self.active.push((frame, contents));
        frame
    }

    /// After the parameters are passed. Keeps exits small when the frame is large.
    fn enter(&mut self, frame: FrameId, callee: &FuncCode) -> Flow {
        self.code.push(Ins::Enter { frame });
        if self.plain > MAX_PLAIN {
            for reg in 0..callee.num_regs {
                self.settle(Place { frame, reg });
            }
        }
        Flow::Continue
    }

    fn invoke(&mut self, step: &Step<'_>, range: ArgRange, dst: u32) -> Flow {
        let sources = step.func.args(range);
        let [_, callee, values @ ..] = sources else {
            return Flow::Stop(Bailout::Unsupported { what: "a call of nothing".to_owned() });
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
            self.code.push(Ins::Invoke { frame, callee, args, exit });
            self.take(dst, Content::Unknown);
            return Flow::Continue;
        }
        match (Closure::of(&seen), arg) {
            (Some(closure), Arg::Place(..) | Arg::Const(_)) if self.may_inline(closure.func) => {
                self.inline_closure(step, closure, arg, values, dst)
            }
            _ => self.give_back(step.pc),
        }
    }

    fn inline_closure(
        &mut self,
        step: &Step<'_>,
        closure: &Closure,
        arg: Arg,
        values: &[Source],
        dst: u32,
    ) -> Flow {
        let program = step.program;
        let captured = closure.captured.len() as u32;
        let Some(callee) = program.function(closure.func) else {
            return Flow::Stop(Bailout::LeftFunction);
        };
        let fits = values.len() + captured as usize == callee.num_args as usize;
        if closure.program != program.id() || !fits || callee.is_foreign {
            // The run is about to fail, or to enter code that cannot be seen.
            return self.give_back(step.pc);
        }
        let exit = self.exit(step.pc);
        if let Arg::Place(place, _) = arg {
            self.code.push(Ins::Closure { place, func: closure.func, captured, exit });
        }
        self.code.push(Ins::Charge { units: 1, exit });
        let caller = self.frame();
        let frame = self.open(program, callee, (caller, step.pc + 1, dst));
        for (at, &source) in values.iter().enumerate() {
            self.pass(program, caller, source, Place { frame, reg: at as u32 });
        }
        for index in 0..captured {
            let dst = Place { frame, reg: values.len() as u32 + index };
            self.code.push(Ins::Captured { dst, closure: arg, index });
            self.set(dst, Content::Unknown);
        }
        self.enter(frame, callee)
    }

    fn ret(&mut self, step: &Step<'_>, result: Source) -> Flow {
        if self.active.len() == 1 {
            if self.start.is_loop {
                return Flow::Stop(Bailout::NoLoop);
            }
            self.settle_frame();
            return Flow::End(End::Return { pc: step.pc });
        }
        let source = self.arg(step.program, result);
        let frame = self.frame();
        let Some((caller, _, dst)) = self.frames[frame.0 as usize].called else {
            return Flow::Stop(Bailout::LeftFunction);
        };
        for reg in 0..step.func.num_regs {
            let place = Place { frame, reg };
            if !matches!(source, Arg::Place(kept, _) if kept == place) {
                self.empty(place);
            }
        }
        self.code.push(Ins::Leave { frame });
        let moved = match source {
            Arg::Place(place, _) => Some(place),
            _ => None,
        };
        if dst == DISCARD {
            if let Some(place) = moved {
                self.empty(place);
            }
        } else {
            self.transfer(Place { frame: caller, reg: dst }, source, moved);
        }
        if let Some((_, contents)) = self.active.pop() {
            let plain = |content: &&Content| matches!(content, Content::Plain(_));
            self.plain -= contents.iter().filter(plain).count();
        }
        Flow::Continue
    }
}

fn frame_data(
    program: &Program,
    func: &FuncCode,
    base: u32,
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

/// Whether the written-out form of a builtin covers what is seen now.
fn is_usual(builtin: Builtin, args: &[Option<AnyView<'_>>]) -> bool {
    let tag = |at: usize| args.get(at).copied().flatten().map(|view| view.type_index());
    match builtin {
        Builtin::MatchShape => matches!(tag(0), Some(type_index::TENSOR | type_index::SHAPE)),
        Builtin::ReadIfCond => match args.first().copied().flatten() {
            Some(view) if tag(0) == Some(type_index::TENSOR) => view
                .as_dltensor()
                .is_some_and(|tensor| tensor.ndim == 0 && tensor.dtype == DType::BOOL),
            _ => true,
        },
        _ => true,
    }
}

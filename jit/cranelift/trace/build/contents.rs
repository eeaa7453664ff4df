//! What is known about registers, and exits that write it down.

use reflex_runtime::abi::type_index;
use reflex_vm::abi::DISCARD;
use reflex_vm::decode::{ArgRange, ArgSource, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::{Bailout, Step};

use super::{Builder, Content, Flow, MAX_PLAIN, MAX_SAME, constant};
use crate::trace::ir::{Arg, End, Exit, ExitId, FrameId, Ins, Place, Plain, Var};

impl Builder {
    pub(super) fn frame(&self) -> FrameId {
        self.active.last().map_or(FrameId(0), |(frame, _)| *frame)
    }

    pub(super) fn place(&self, reg: u32) -> Place {
        Place { frame: self.frame(), reg }
    }

    pub(super) fn content(&self, place: Place) -> Content {
        let found = self.active.iter().find(|(frame, _)| *frame == place.frame);
        found.map_or(Content::Unknown, |(_, contents)| contents[place.reg as usize])
    }

    pub(super) fn set(&mut self, place: Place, content: Content) {
        if !matches!(content, Content::Known(type_index::TENSOR)) {
            self.guarded.remove(&place);
        }
        let Some((_, contents)) = self.active.iter_mut().find(|(frame, _)| *frame == place.frame)
        else {
            return;
        };
        let old = std::mem::replace(&mut contents[place.reg as usize], content);
        self.plain += usize::from(matches!(content, Content::Plain(_)));
        self.plain -= usize::from(matches!(old, Content::Plain(_)));
    }

    /// Gives up what a register holds; it is empty afterwards.
    pub(super) fn empty(&mut self, place: Place) {
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
    pub(super) fn vacate(&mut self, place: Place) {
        self.set(place, Content::Plain(Plain::NONE));
        self.bound(place);
    }

    pub(super) fn set_plain(&mut self, place: Place, value: Plain) {
        self.empty(place);
        self.set(place, Content::Plain(value));
        self.bound(place);
    }

    /// Keeps exits small: settles `place` when too many registers are plain.
    pub(super) fn bound(&mut self, place: Place) {
        if self.plain > self.most_plain() {
            self.settle(place);
        }
    }

    /// Most registers that are plain at once: each appears in every exit. Frames of calls are
    /// short, and their registers mostly gone before anybody looks.
    pub(super) fn most_plain(&self) -> usize {
        MAX_PLAIN * self.active.len().min(MAX_SAME)
    }

    /// Writes a plain value to its place. Exits then need not know it.
    pub(super) fn settle(&mut self, place: Place) {
        if let Content::Plain(value) = self.content(place) {
            self.code.push(Ins::Store { dst: place, value });
            self.set(place, Content::Known(value.tag()));
        }
    }

    pub(super) fn settle_frame(&mut self) {
        let count = self.active.last().map_or(0, |(_, contents)| contents.len() as u32);
        for reg in 0..count {
            self.settle(self.place(reg));
        }
    }

    /// Moves the result slot to register `dst`, or drops it.
    pub(super) fn take(&mut self, dst: u32, content: Content) {
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

    pub(super) fn arg(&self, program: &Program, source: Source) -> Arg {
        match source.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => {
                let place = self.place(reg);
                self.register_arg(place)
            }
            ArgSource::Const(index) => constant(program.consts(), index),
            ArgSource::Vm => Arg::Vm,
        }
    }

    pub(super) fn args(&self, step: &Step<'_>, range: ArgRange) -> Vec<Arg> {
        step.func.args(range).iter().map(|&source| self.arg(step.program, source)).collect()
    }

    pub(super) fn exit(&mut self, pc: u32) -> ExitId {
        let mut plain = Vec::with_capacity(self.plain);
        for (frame, contents) in &self.active {
            for (reg, content) in contents.iter().enumerate() {
                if let Content::Plain(value) = content {
                    plain.push((Place { frame: *frame, reg: reg as u32 }, *value));
                }
            }
        }
        let frame = self.frame();
        let exit = Exit { plain, ..Exit::at(frame, pc) };
        if self.exits.last() != Some(&exit) {
            self.exits.push(exit);
        }
        ExitId(self.exits.len() as u32 - 1)
    }

    /// Ends the trace where the interpreter goes on with the operation at `pc`.
    pub(super) fn give_back(&mut self, pc: u32) -> Flow {
        if self.operations == 0 {
            return Flow::Stop(Bailout::NoLoop);
        }
        Flow::End(End::Exit(self.exit(pc)))
    }

    /// Makes sure that a register in its place has the type it has now.
    pub(super) fn establish(&mut self, place: Place, seen: i32, exit: ExitId) {
        if self.content(place) == Content::Unknown {
            self.code.push(Ins::Tag { place, tag: seen, exit });
            self.set(place, Content::Known(seen));
        }
    }

    pub(super) fn var(&mut self) -> Var {
        self.vars += 1;
        Var(self.vars - 1)
    }
}

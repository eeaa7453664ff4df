//! Statements with statements inside: branches and loops.

use arbitrary::Result;
use reflex_vm::builder::Label;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, built};

impl Generator<'_, '_> {
    pub(super) fn branch(&mut self, depth: u32) -> Result<()> {
        self.ensure(Kind::Bool)?;
        // An argument may be a condition too, or an error.
        let kind = if self.u.ratio(1, 8)? { Kind::Unknown } else { Kind::Bool };
        let condition = self.register(Some(kind))?;
        let (otherwise, end) = (built(self.b.label()), built(self.b.label()));
        built(self.b.emit_if(condition, otherwise));
        let before = self.kinds.clone();
        self.block(depth + 1, 4)?;
        built(self.b.emit_goto(end));
        let then = std::mem::replace(&mut self.kinds, before);
        built(self.b.bind(otherwise));
        self.block(depth + 1, 3)?;
        // A jump must lead somewhere beyond itself, also when the block was empty.
        let scratch = self.destination()?;
        self.call("fuzz.record", &[], scratch, Kind::Int);
        built(self.b.bind(end));
        self.merge(&then);
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &[Kind]) {
        for (kind, other) in self.kinds.iter_mut().zip(other) {
            if kind != other {
                *kind = Kind::Unknown;
            }
        }
    }

    pub(super) fn repeat(&mut self, depth: u32) -> Result<()> {
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition) = (Reg(last), Reg(last - 1));
        let times = Arg::Imm(self.u.int_in_range(1..=12)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        self.block(depth + 1, 5)?;
        self.count_down(counter, condition, start, &before)
    }

    /// Goes back to `start`, where registers held `before`, until the counter is zero.
    pub(super) fn count_down(
        &mut self,
        counter: Reg,
        condition: Reg,
        start: Label,
        before: &[Kind],
    ) -> Result<()> {
        let end = built(self.b.label());
        self.call("fuzz.add", &[Arg::Reg(counter), Arg::Imm(-1)], counter, Kind::Int);
        self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(counter)], condition, Kind::Bool);
        built(self.b.emit_if(condition, end));
        built(self.b.emit_goto(start));
        built(self.b.bind(end));
        self.merge(before);
        Ok(())
    }

    /// A loop in which the dimensions of a shape, and of a tensor, count down, and which reads a heap
    /// before it writes all of it.
    pub(super) fn grow(&mut self) -> Result<()> {
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition, heap, shape) =
            (Reg(last), Reg(last - 1), Reg(last - 2), Reg(last - 3));
        let times = Arg::Imm(self.u.int_in_range(2..=9)?);
        let entry = self.u.int_in_range(0..=2)?;
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        // Entries that nothing is stored in are zero.
        let args = [self.b.vm_state(), Arg::Imm(4)];
        self.call("vm.builtin.alloc_shape_heap", &args, heap, Kind::Heap);
        let args = [Arg::Reg(heap), Arg::Imm(1), Arg::Imm(entry + 1)];
        self.call("vm.builtin.make_prim_value", &args, condition, Kind::Int);
        self.call("fuzz.record", &[Arg::Reg(condition)], Reg::VOID, Kind::Int);
        let context = self.b.string("ErrorContext(grow) ");
        let stored = if self.u.arbitrary()? { entry } else { entry + 1 };
        let args = [Arg::Reg(counter), Arg::Reg(heap), Arg::Imm(1), Arg::Imm(stored), context];
        self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        let args = [Arg::Reg(heap), Arg::Imm(2)];
        let dims = [Arg::Imm(1), Arg::Imm(stored), Arg::Imm(0), Arg::Imm(3)];
        self.call("vm.builtin.make_shape", &[&args[..], &dims].concat(), shape, Kind::Shape);
        self.set_rank(shape, 2);
        self.call("fuzz.record", &[Arg::Reg(shape)], Reg::VOID, Kind::Int);
        if self.u.arbitrary()? {
            self.dynamic(shape)?;
            self.call("fuzz.record", &[Arg::Reg(shape)], Reg::VOID, Kind::Int);
        }
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], heap, Kind::None);
            self.call("vm.builtin.null_value", &[], shape, Kind::None);
        }
        self.count_down(counter, condition, start, &before)
    }
}

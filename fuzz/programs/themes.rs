//! Statements about what the host passes to `main`: what holds of it in one call of the program need
//! not hold in the next.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, SHAPES, Theme};

impl Generator<'_, '_> {
    /// Statements about the program's theme.
    pub(super) fn themed(&mut self) -> Result<()> {
        if self.theme != Theme::Matrices && self.u.ratio(1, 6)? {
            return self.rounds();
        }
        match self.theme {
            Theme::Any | Theme::Matrices => self.objects(),
            Theme::Rows => self.rows(),
            Theme::Shapes => self.laid_out(),
            Theme::Entries => self.entries(),
            Theme::Tuples => self.items(),
            Theme::Extents => self.measured(),
            Theme::Origins => self.origin(),
        }
    }

    /// What the host passed.
    pub(super) fn given(&mut self) -> Result<Arg> {
        Ok(Arg::Reg(Reg(self.u.int_in_range(0..=1)?)))
    }

    fn rows(&mut self) -> Result<()> {
        let args = [Arg::Reg(Reg(0)), Arg::Reg(Reg(1))];
        self.call("fuzz.rows", &args, Reg::VOID, Kind::None);
        Ok(())
    }

    /// A tensor of a shape that the host passed, and kernels that take matrices.
    fn laid_out(&mut self) -> Result<()> {
        let (storage, tensor) = (self.spare(0), self.spare(1));
        self.storage(storage);
        let args = [Arg::Reg(storage), Arg::Imm(0), Arg::Reg(Reg(0)), self.float32()];
        self.call("vm.builtin.alloc_tensor", &args, tensor, Kind::Tensor);
        if self.u.ratio(1, 4)? {
            self.call("fuzz.set", &[Arg::Reg(tensor)], Reg::VOID, Kind::None);
        } else {
            self.call("fuzz.set2", &[Arg::Reg(tensor)], Reg::VOID, Kind::None);
        }
        let other = if self.u.arbitrary()? { Arg::Reg(tensor) } else { Arg::Reg(Reg(1)) };
        self.call("fuzz.each", &[Arg::Reg(tensor), other], Reg::VOID, Kind::None);
        if self.u.arbitrary()? {
            self.call("fuzz.record", &[Arg::Reg(tensor)], Reg::VOID, Kind::Int);
        }
        Ok(())
    }

    /// Entries of a shape heap that the host passed.
    fn entries(&mut self) -> Result<()> {
        let heap = self.given()?;
        let made = self.spare(0);
        let context = self.b.string("ErrorContext(entries) ");
        for _ in 0..self.u.int_in_range(1..=2)? {
            let entry = Arg::Imm(self.u.int_in_range(0..=3)?);
            match self.u.int_in_range(0..=3)? {
                0 => {
                    let args = [Arg::Imm(6), heap, Arg::Imm(1), entry, context];
                    self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
                }
                1 => {
                    let args = [heap, Arg::Imm(2), Arg::Imm(1), entry, Arg::Imm(0), entry];
                    self.call("vm.builtin.make_shape", &args, made, Kind::Shape);
                    self.call("fuzz.record", &[Arg::Reg(made)], Reg::VOID, Kind::Int);
                }
                _ => {
                    let args = [heap, Arg::Imm(1), entry];
                    self.call("vm.builtin.make_prim_value", &args, made, Kind::Int);
                    self.call("fuzz.record", &[Arg::Reg(made)], Reg::VOID, Kind::Int);
                }
            }
        }
        Ok(())
    }

    /// Items of a tuple that the host passed.
    fn items(&mut self) -> Result<()> {
        let tuple = self.given()?;
        let item = self.spare(0);
        if self.u.ratio(3, 4)? {
            let context = self.b.string("ErrorContext(items) ");
            let args = [tuple, Arg::Imm(2), context];
            self.call("vm.builtin.check_tuple_info", &args, Reg::VOID, Kind::None);
        }
        let args = [tuple, Arg::Imm(self.u.int_in_range(0..=2)?)];
        self.call("vm.builtin.tuple_getitem", &args, item, Kind::Unknown);
        self.call("fuzz.record", &[tuple, Arg::Reg(item)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A view of extents that the host passed.
    fn measured(&mut self) -> Result<()> {
        let (heap, shape, tensor) = (self.spare(0), self.spare(1), self.spare(2));
        let args = [self.b.vm_state(), Arg::Imm(2)];
        self.call("vm.builtin.alloc_shape_heap", &args, heap, Kind::Heap);
        let context = self.b.string("ErrorContext(measured) ");
        for at in 0..2 {
            let args = [Arg::Reg(Reg(at)), Arg::Reg(heap), Arg::Imm(1), Arg::Imm(at), context];
            self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        }
        let pairs = [1, 0, 1, 1].map(Arg::Imm);
        let args = [&[Arg::Reg(heap), Arg::Imm(2)][..], &pairs].concat();
        self.call("vm.builtin.make_shape", &args, shape, Kind::Shape);
        self.set_rank(shape, 2);
        self.storage(tensor);
        self.tensor_at(tensor, 0, SHAPES[0], tensor);
        let args = [Arg::Reg(tensor), Arg::Reg(shape)];
        self.call("vm.builtin.reshape", &args, tensor, Kind::Tensor);
        if self.u.arbitrary()? {
            self.call("fuzz.each", &[Arg::Reg(tensor); 2], Reg::VOID, Kind::None);
        }
        if self.u.arbitrary()? {
            self.call("fuzz.record", &[Arg::Reg(tensor)], Reg::VOID, Kind::Int);
        }
        Ok(())
    }

    /// A tensor that lies at the start of its memory, which is a copy or the tensor itself, is
    /// written; or the host's condition is read.
    fn origin(&mut self) -> Result<()> {
        let (dst, given) = (self.spare(0), Arg::Reg(Reg(0)));
        if self.u.ratio(1, 3)? {
            self.call("vm.builtin.read_if_cond", &[Arg::Reg(Reg(1))], dst, Kind::Bool);
            self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
            return Ok(());
        }
        self.call("vm.builtin.ensure_zero_offset", &[given], dst, Kind::Tensor);
        if self.u.arbitrary()? {
            self.call("fuzz.each", &[Arg::Reg(dst); 2], Reg::VOID, Kind::None);
        } else {
            self.call("fuzz.fill", &[Arg::Reg(dst), Arg::Imm(3)], Reg::VOID, Kind::None);
        }
        self.call("fuzz.record", &[given, Arg::Reg(dst)], Reg::VOID, Kind::Int);
        Ok(())
    }
}

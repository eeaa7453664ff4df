//! Statements that overwrite registers, mostly before they are read, and views whose dimensions are
//! known only at run time.

use arbitrary::Result;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind};

impl Generator<'_, '_> {
    /// One register holds one value after another. Now and then the host reads it, or fails.
    pub(super) fn overwrite(&mut self) -> Result<()> {
        let dst = Reg(self.u.int_in_range(0..=self.kinds.len() as i64 - 1)?);
        for _ in 0..self.u.int_in_range(2..=6)? {
            match self.u.int_in_range(0..=8)? {
                0 | 1 => self.call("vm.builtin.null_value", &[], dst, Kind::None),
                2 => {
                    let number = Arg::Imm(self.u.int_in_range(-2..=2)?);
                    self.call("vm.builtin.copy", &[number], dst, Kind::Int);
                }
                3 => {
                    let number = Arg::Imm(self.u.int_in_range(0..=3)?);
                    let args = [self.b.void_arg(), Arg::Imm(0), number];
                    self.call("vm.builtin.make_prim_value", &args, dst, Kind::Int);
                }
                4 => {
                    let args = [self.argument(Kind::Int)?, self.any_argument()?];
                    self.call("vm.builtin.make_tuple", &args, dst, Kind::Tuple);
                    let args = [Arg::Reg(dst), Arg::Imm(self.u.int_in_range(0..=1)?)];
                    self.call("vm.builtin.tuple_getitem", &args, dst, Kind::Unknown);
                }
                5 => {
                    let other = self.register(None)?;
                    let kind = other.index().map_or(Kind::Unknown, |at| self.kinds[at as usize]);
                    self.call("vm.builtin.copy", &[Arg::Reg(other)], dst, kind);
                }
                6 => self.call("fuzz.object", &[], dst, Kind::Object),
                7 => self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int),
                _ => {
                    let number = self.argument(Kind::Int)?;
                    self.call("fuzz.fail_on_odd", &[number], Reg::VOID, Kind::Int);
                }
            }
        }
        Ok(())
    }

    /// A view of a matrix with its dimensions, in this order or another, or of fewer rows, and
    /// kernels on it.
    pub(super) fn turned(&mut self, dst: Reg) -> Result<()> {
        let mut tensor = self.argument(Kind::Tensor)?;
        let mut partner = tensor;
        if self.in_main && self.u.ratio(2, 3)? {
            // Arguments, mostly of the same shape.
            (tensor, partner) = (Arg::Reg(Reg(0)), Arg::Reg(Reg(1)));
        }
        let (heap, shape) = (self.spare(1), self.spare(2));
        let args = [self.b.vm_state(), Arg::Imm(2)];
        self.call("vm.builtin.alloc_shape_heap", &args, heap, Kind::Heap);
        let context = self.b.string("ErrorContext(turned) ");
        let mut args = vec![tensor, Arg::Reg(heap), Arg::Imm(2)];
        args.extend([1, 0, 1, 1].map(Arg::Imm));
        args.push(context);
        self.call("vm.builtin.match_shape", &args, Reg::VOID, Kind::None);
        let pairs = *self.u.choose(&[[1, 1, 1, 0], [0, 2, 1, 0], [1, 0, 1, 1], [1, 0, 1, 1]])?;
        let mut args = vec![Arg::Reg(heap), Arg::Imm(2)];
        args.extend(pairs.map(Arg::Imm));
        self.call("vm.builtin.make_shape", &args, shape, Kind::Shape);
        self.set_rank(shape, 2);
        self.call("vm.builtin.reshape", &[tensor, Arg::Reg(shape)], dst, Kind::Tensor);
        self.set_rank(dst, 2);
        if dst == Reg::VOID {
            return Ok(());
        }
        match self.u.int_in_range(0..=7)? {
            0 => self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int),
            4 | 6 => self.call("fuzz.each", &[Arg::Reg(dst), partner], Reg::VOID, Kind::None),
            5 | 7 => self.call("fuzz.each", &[partner, Arg::Reg(dst)], Reg::VOID, Kind::None),
            1 => self.call("fuzz.each", &[Arg::Reg(dst), Arg::Reg(dst)], Reg::VOID, Kind::None),
            2 => {
                // Back again: a view of a view.
                let args = [tensor, Arg::Reg(heap), Arg::Imm(2)];
                let codes = [3, 0, 3, 1].map(Arg::Imm);
                let args = [&args[..], &codes, &[context]].concat();
                self.call("vm.builtin.match_shape", &args, Reg::VOID, Kind::None);
                self.call("vm.builtin.shape_of", &[tensor], shape, Kind::Shape);
                self.call(
                    "vm.builtin.reshape",
                    &[Arg::Reg(dst), Arg::Reg(shape)],
                    dst,
                    Kind::Tensor,
                );
                self.call("fuzz.each", &[Arg::Reg(dst), tensor], Reg::VOID, Kind::None);
            }
            _ => self.call("fuzz.each", &[tensor, Arg::Reg(dst)], Reg::VOID, Kind::None),
        }
        Ok(())
    }
}

//! Statements about shapes: matching, making, checking.

use arbitrary::Result;
use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind};

impl Generator<'_, '_> {
    /// A code of `match_shape`: mostly one that cannot fail.
    pub(super) fn match_code(&mut self) -> Result<i64> {
        Ok(if self.u.ratio(5, 6)? {
            self.u.int_in_range(1..=2)?
        } else {
            *self.u.choose(&[0, 3])?
        })
    }

    pub(super) fn match_shape(&mut self) -> Result<()> {
        let kind = if self.u.ratio(2, 3)? { Kind::Tensor } else { Kind::Shape };
        let value = self.argument(kind)?;
        let with_heap = self.u.ratio(3, 4)?;
        let heap = if with_heap { self.argument(Kind::Heap)? } else { self.b.void_arg() };
        let rank = self.rank_of(value)?;
        let mut args = vec![value, heap, Arg::Imm(rank)];
        for _ in 0..rank {
            // Codes 1 and 3 use the heap, which the verifier knows.
            let code = self.match_code()?;
            args.push(Arg::Imm(if with_heap { code } else { code & 2 }));
            args.push(Arg::Imm(self.u.int_in_range(0..=3)?));
        }
        args.push(self.b.string("ErrorContext(shape) "));
        self.call("vm.builtin.match_shape", &args, Reg::VOID, Kind::None);
        Ok(())
    }

    pub(super) fn make_shape(&mut self, dst: Reg) -> Result<()> {
        let rank = self.u.int_in_range(0..=2)?;
        let mut args = vec![self.argument(Kind::Heap)?, Arg::Imm(rank)];
        for _ in 0..rank {
            args.push(Arg::Imm(self.u.int_in_range(0..=1)?));
            args.push(Arg::Imm(self.u.int_in_range(0..=3)?));
        }
        self.call("vm.builtin.make_shape", &args, dst, Kind::Shape);
        self.set_rank(dst, rank);
        Ok(())
    }

    pub(super) fn check(&mut self) -> Result<()> {
        let context = self.b.string("ErrorContext(check) ");
        match self.u.int_in_range(0..=3)? {
            3 => {
                let text = *self.u.choose(&["short", "text beyond seven bytes"])?;
                let mut value = self.b.string(text);
                if self.u.ratio(1, 3)? {
                    value = self.any_argument()?;
                }
                // Machine code guards the type of a value in a register.
                let reg = Reg(self.u.int_in_range(0..=self.kinds.len() as i64 - 1)?);
                self.call("vm.builtin.copy", &[value], reg, Kind::Unknown);
                let args = [Arg::Reg(reg), context];
                self.call("vm.builtin.check_string_info", &args, Reg::VOID, Kind::None);
            }
            0 => {
                let dtype = *self.u.choose(&[DType::F32, DType::F32, DType::F32, DType::I64])?;
                let tensor = self.argument(Kind::Tensor)?;
                let rank = if self.u.ratio(1, 3)? { -1 } else { self.rank_of(tensor)? };
                self.check_tensor(tensor, rank, Some(dtype));
            }
            1 => {
                let shape = self.argument(Kind::Shape)?;
                let rank = if self.u.ratio(1, 3)? { -1 } else { self.rank_of(shape)? };
                let args = [shape, Arg::Imm(rank), context];
                self.call("vm.builtin.check_shape_info", &args, Reg::VOID, Kind::None);
            }
            _ => {
                let args = [self.argument(Kind::Tuple)?, Arg::Imm(2), context];
                self.call("vm.builtin.check_tuple_info", &args, Reg::VOID, Kind::None);
            }
        }
        Ok(())
    }

    pub(super) fn check_tensor(&mut self, tensor: Arg, rank: i64, dtype: Option<DType>) {
        let mut args = vec![tensor, Arg::Imm(rank)];
        args.extend(dtype.map(|dtype| self.b.dtype(dtype)));
        args.push(self.b.string("ErrorContext(check) "));
        self.call("vm.builtin.check_tensor_info", &args, Reg::VOID, Kind::None);
    }

    /// Checks of one value, each of which may imply the next one.
    pub(super) fn inspect(&mut self) -> Result<()> {
        let value = Arg::Reg(Reg(self.u.int_in_range(0..=1)?));
        if self.u.ratio(1, 3)? {
            self.check_tensor(value, 2, None);
        }
        for _ in 0..self.u.int_in_range(2..=4)? {
            match self.u.int_in_range(0..=5)? {
                0 => self.check_tensor(value, -1, None),
                1 => self.check_tensor(value, 2, None),
                2 | 3 => self.check_tensor(value, 2, Some(DType::F32)),
                4 => {
                    let (code, extent) = (self.u.int_in_range(0..=1)? * 2, Arg::Imm(2));
                    let context = self.b.string("ErrorContext(inspect) ");
                    let pairs = [Arg::Imm(0), extent, Arg::Imm(code), extent];
                    // Code 0 checks for this dimension, code 2 for none.
                    let args = [value, self.b.void_arg(), extent];
                    let args = [&args[..], &pairs, &[context]].concat();
                    self.call("vm.builtin.match_shape", &args, Reg::VOID, Kind::None);
                }
                _ => self.call("fuzz.each", &[value, value], Reg::VOID, Kind::None),
            }
        }
        Ok(())
    }
}

//! Statements that are builtins, and those that allocate memory for them.

use arbitrary::Result;
use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, SHAPES};

impl Generator<'_, '_> {
    /// A shape heap whose entries are set: fresh ones hold whatever memory held.
    pub(super) fn heap(&mut self, dst: Reg) {
        let args = [self.b.vm_state(), Arg::Imm(4)];
        self.call("vm.builtin.alloc_shape_heap", &args, dst, Kind::Heap);
        if dst == Reg::VOID {
            return;
        }
        for entry in 0..4 {
            let context = self.b.string("ErrorContext(heap) ");
            let args = [Arg::Imm(entry + 1), Arg::Reg(dst), Arg::Imm(1), Arg::Imm(entry), context];
            self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        }
    }

    pub(super) fn storage(&mut self, dst: Reg) {
        self.storage_of(64, dst);
    }

    /// A storage of `count` numbers.
    pub(super) fn storage_of(&mut self, count: i64, dst: Reg) {
        let dtype = self.b.dtype(DType::F32);
        let scope = self.b.string("global");
        let args = [self.b.vm_state(), self.b.shape(&[count]), Arg::Imm(-1), dtype, scope];
        self.call("vm.builtin.alloc_storage", &args, dst, Kind::Storage);
    }

    /// The element type of most tensors.
    pub(super) fn float32(&mut self) -> Arg {
        self.b.dtype(DType::F32)
    }

    pub(super) fn tensor(&mut self, storage: Reg, dst: Reg) -> Result<()> {
        let offset = 64 * self.u.int_in_range(0..=2)?;
        let shape = *self.u.choose(&SHAPES)?;
        self.tensor_at(storage, offset, shape, dst);
        Ok(())
    }

    /// A tensor at an offset in a storage.
    pub(super) fn tensor_at(&mut self, storage: Reg, offset: i64, shape: &[i64], dst: Reg) {
        let offset = Arg::Imm(offset);
        let args = [Arg::Reg(storage), offset, self.b.shape(shape), self.b.dtype(DType::F32)];
        self.call("vm.builtin.alloc_tensor", &args, dst, Kind::Tensor);
        self.set_rank(dst, shape.len() as i64);
        // The contents of fresh memory differ between runs. Kernels do not let a tensor escape.
        if dst != Reg::VOID {
            let name = ["fuzz.set0", "fuzz.set1", "fuzz.set2"][shape.len()];
            self.call(name, &[Arg::Reg(dst)], Reg::VOID, Kind::None);
        }
    }

    /// A storage and a tensor whose dimensions are known only at run time.
    pub(super) fn dynamic(&mut self, dst: Reg) -> Result<()> {
        let shape = self.argument(Kind::Shape)?;
        let (dtype, scope) = (self.b.dtype(DType::F32), self.b.string("global"));
        let storage = Reg(self.u.int_in_range(0..=self.kinds.len() as i64 - 1)?);
        let args = [self.b.vm_state(), shape, Arg::Imm(0), dtype, scope];
        self.call("vm.builtin.alloc_storage", &args, storage, Kind::Storage);
        let rank = self.rank_of(shape)?;
        let args = [Arg::Reg(storage), Arg::Imm(0), shape, dtype];
        self.call("vm.builtin.alloc_tensor", &args, dst, Kind::Tensor);
        self.set_rank(dst, rank);
        if dst != Reg::VOID {
            self.call("fuzz.set", &[Arg::Reg(dst)], Reg::VOID, Kind::None);
        }
        Ok(())
    }

    /// Builtins that no other statement makes.
    pub(super) fn rare(&mut self, dst: Reg) -> Result<()> {
        let context = self.b.string("ErrorContext(rare) ");
        match self.u.int_in_range(0..=8)? {
            6 => {
                let name = *self.u.choose(&["fuzz.record", "fuzz.record", "fuzz.each"])?;
                let args = [self.b.f(name), self.any_argument()?, self.argument(Kind::Shape)?];
                self.call("vm.builtin.call_tir_dyn", &args, dst, Kind::Int);
            }
            7 => {
                let args = [self.argument(Kind::Tensor)?, Arg::Imm(1), Arg::Imm(0)];
                self.call("vm.builtin.to_device", &args, dst, Kind::Tensor);
            }
            8 => {
                let arg = self.argument(Kind::Heap)?;
                self.call("vm.builtin.tensor_to_shape", &[arg], dst, Kind::Shape);
            }
            0 => {
                let tensor = self.argument(Kind::Tensor)?;
                let rank = self.rank_of(tensor)?;
                self.call("vm.builtin.ensure_zero_offset", &[tensor], dst, Kind::Tensor);
                self.set_rank(dst, rank);
            }
            1 => {
                let args = [self.argument(Kind::Tuple)?, Arg::Imm(self.u.int_in_range(0..=1)?)];
                self.call("vm.builtin.tuple_reset_item", &args, dst, Kind::None);
            }
            2 => {
                let args = [self.argument(Kind::Closure)?, context];
                self.call("vm.builtin.check_func_info", &args, Reg::VOID, Kind::None);
            }
            3 => {
                let args = [self.argument(Kind::Int)?, self.b.dtype(DType::I64), context];
                self.call("vm.builtin.check_prim_value_info", &args, Reg::VOID, Kind::None);
            }
            4 => {
                // Three levels, so that destructors nest.
                let inner = [self.any_argument()?, self.any_argument()?, self.any_argument()?];
                self.call("vm.builtin.make_tuple", &inner, dst, Kind::Tuple);
                if dst != Reg::VOID {
                    let args = [Arg::Reg(dst), Arg::Reg(dst)];
                    self.call("vm.builtin.make_tuple", &args, dst, Kind::Tuple);
                }
            }
            _ => self.call("vm.builtin.make_tuple", &[], dst, Kind::Tuple),
        }
        Ok(())
    }

    pub(super) fn builtin(&mut self) -> Result<()> {
        let dst = self.destination()?;
        match self.u.int_in_range(0..=21)? {
            0 => self.call("vm.builtin.null_value", &[], dst, Kind::None),
            1 => {
                let arg = self.any_argument()?;
                self.call("vm.builtin.copy", &[arg], dst, Kind::Unknown);
            }
            2 => self.heap(dst),
            3 | 4 => self.match_shape()?,
            5 => self.make_shape(dst)?,
            6 => {
                let entry = Arg::Imm(self.u.int_in_range(0..=3)?);
                let args = [self.argument(Kind::Heap)?, Arg::Imm(1), entry];
                self.call("vm.builtin.make_prim_value", &args, dst, Kind::Int);
            }
            7 | 8 => self.check()?,
            9 => {
                let args = [self.any_argument()?, self.any_argument()?];
                self.call("vm.builtin.make_tuple", &args, dst, Kind::Tuple);
            }
            10 => {
                let last = if self.u.ratio(7, 8)? { 1 } else { 2 };
                let index = Arg::Imm(self.u.int_in_range(0..=last)?);
                let args = [self.argument(Kind::Tuple)?, index];
                self.call("vm.builtin.tuple_getitem", &args, dst, Kind::Unknown);
            }
            11 => {
                let tensor = self.argument(Kind::Tensor)?;
                let rank = self.rank_of(tensor)?;
                self.call("vm.builtin.shape_of", &[tensor], dst, Kind::Shape);
                self.set_rank(dst, rank);
            }
            12 if self.u.arbitrary()? => self.turned(dst)?,
            12 => {
                let args = [self.argument(Kind::Tensor)?, self.argument(Kind::Shape)?];
                self.call("vm.builtin.reshape", &args, dst, Kind::Tensor);
            }
            13 => self.storage(dst),
            14 | 15 => {
                self.ensure(Kind::Storage)?;
                let storage = self.register(Some(Kind::Storage))?;
                self.tensor(storage, dst)?;
            }
            16 => self.dynamic(dst)?,
            17..=19 => self.rare(dst)?,
            _ => self.scalar(dst)?,
        }
        Ok(())
    }

    pub(super) fn scalar(&mut self, dst: Reg) -> Result<()> {
        if self.u.arbitrary()? {
            let kind = if self.u.arbitrary()? { Kind::Bool } else { Kind::Int };
            let condition = self.argument(kind)?;
            self.call("vm.builtin.read_if_cond", &[condition], dst, Kind::Bool);
            return Ok(());
        }
        let (value, heap) = (self.argument(Kind::Int)?, self.argument(Kind::Heap)?);
        let context = self.b.string("ErrorContext(match) ");
        let code = Arg::Imm(self.match_code()?);
        let args = [value, heap, code, Arg::Imm(1), context];
        self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        Ok(())
    }
}

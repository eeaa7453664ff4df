//! Statements about the arguments of `main`: what holds for them in one call of the program need
//! not hold in the next.

use arbitrary::Result;
use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, SHAPES, Theme};

impl Generator<'_, '_> {
    /// Statements about the program's theme.
    pub(super) fn themed(&mut self) -> Result<()> {
        if self.theme != Theme::Matrices && self.u.ratio(1, 6)? {
            return self.rotation();
        }
        match self.theme {
            Theme::Any | Theme::Matrices => self.objects(),
            Theme::Rows => self.rows(),
            Theme::Shapes => self.laid_out(),
            Theme::Entries => self.entries(),
            Theme::Tuples => self.items(),
            Theme::Dims => self.view_of_dims(),
            Theme::Origins => self.origin(),
            Theme::Types => self.typed(),
            Theme::Data => self.data(),
        }
    }

    /// An argument of `main`.
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
        if self.u.ratio(1, 3)? {
            // A view of that shape, which is materialised only if it escapes to a callee other than a
            // kernel.
            let args = [Arg::Reg(Reg(1)), Arg::Reg(Reg(0))];
            self.call("vm.builtin.reshape", &args, tensor, Kind::Tensor);
            if self.u.arbitrary()? {
                self.call("fuzz.record", &[Arg::Reg(tensor)], Reg::VOID, Kind::Int);
            } else {
                let args = [Arg::Reg(tensor), Arg::Reg(tensor)];
                self.call("fuzz.each", &args, Reg::VOID, Kind::None);
                self.call("vm.builtin.null_value", &[], tensor, Kind::None);
            }
            return Ok(());
        }
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

    /// Checks of the type of an argument, which is not known statically, and a call of it.
    fn typed(&mut self) -> Result<()> {
        if self.u.arbitrary()? {
            return self.either();
        }
        let value = self.given()?;
        let context = self.b.string("ErrorContext(typed) ");
        for _ in 0..self.u.int_in_range(1..=2)? {
            match self.u.int_in_range(0..=5)? {
                0 | 1 => {
                    let args = [value, context];
                    self.call("vm.builtin.check_string_info", &args, Reg::VOID, Kind::None);
                }
                2 | 3 => {
                    let dtype = *self.u.choose(&[DType::I64, DType::BOOL, DType::F32])?;
                    let args = [value, self.b.dtype(dtype), context];
                    self.call("vm.builtin.check_prim_value_info", &args, Reg::VOID, Kind::None);
                }
                4 => {
                    let args = [value, context];
                    self.call("vm.builtin.check_func_info", &args, Reg::VOID, Kind::None);
                }
                _ => {
                    let args = [self.b.vm_state(), value, Arg::Imm(1)];
                    let result = self.spare(0);
                    self.call("vm.builtin.invoke_closure", &args, result, Kind::Unknown);
                }
            }
        }
        self.call("fuzz.record", &[value], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A call of a closure or, as an argument decides, of another value: the argument itself, a closure
    /// that captured less, or one of another function.
    fn either(&mut self) -> Result<()> {
        // Closures of other programs mostly say that they are of the first function behind `main`.
        let like = self.functions.get(1).filter(|_| self.theme == Theme::Types).cloned();
        let (name, parameters) = match like {
            Some(like) if self.u.arbitrary()? => like,
            _ => self.u.choose(&self.functions)?.clone(),
        };
        let (usual, other) = (self.spare(0), self.spare(1));
        let captured = parameters.saturating_sub(1);
        self.closure_of(&name, captured, usual);
        match self.u.int_in_range(0..=3)? {
            0 | 1 => self.call("vm.builtin.copy", &[Arg::Reg(Reg(1))], other, Kind::Unknown),
            2 => self.closure_of(&name, captured.saturating_sub(1), other),
            _ => {
                let (name, parameters) = self.u.choose(&self.functions)?.clone();
                self.closure_of(&name, parameters.saturating_sub(1), other);
            }
        }
        let args = [Arg::Reg(Reg(0)), Arg::Reg(usual), Arg::Reg(other)];
        self.call("fuzz.pick", &args, usual, Kind::Closure);
        if self.u.ratio(1, 4)? {
            let given = self.given()?;
            self.call("fuzz.cancel", &[given], Reg::VOID, Kind::Int);
        }
        let args = [self.b.vm_state(), Arg::Reg(usual), Arg::Imm(1)];
        self.call("vm.builtin.invoke_closure", &args, other, Kind::Unknown);
        self.call("fuzz.record", &[Arg::Reg(other)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A closure of a function with so many captured values, which are numbers.
    fn closure_of(&mut self, name: &str, captured: u32, dst: Reg) {
        let mut args = vec![self.b.f(name)];
        args.extend((0..captured).map(|which| Arg::Imm(which.into())));
        self.call("vm.builtin.make_closure", &args, dst, Kind::Closure);
    }

    /// A view whose dimensions the host passed.
    fn view_of_dims(&mut self) -> Result<()> {
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
        if self.u.ratio(1, 3)? {
            self.two_rows(heap, shape, tensor);
        } else {
            self.call("vm.builtin.reshape", &args, tensor, Kind::Tensor);
        }
        if self.u.arbitrary()? {
            self.call("fuzz.each", &[Arg::Reg(tensor); 2], Reg::VOID, Kind::None);
        }
        if self.u.arbitrary()? {
            self.call("fuzz.record", &[Arg::Reg(tensor)], Reg::VOID, Kind::Int);
        }
        Ok(())
    }

    /// A view of the shape in `shape`, made of the entries of `heap`, which should have two rows, and
    /// a vector of as many elements as a row.
    fn two_rows(&mut self, heap: Reg, shape: Reg, tensor: Reg) {
        let row = self.spare(-1);
        self.storage(row);
        self.tensor_at(row, 0, SHAPES[0], row);
        let args = [Arg::Reg(tensor), Arg::Reg(shape)];
        self.call("vm.builtin.reshape", &args, tensor, Kind::Tensor);
        let args = [Arg::Reg(heap), Arg::Imm(1), Arg::Imm(1), Arg::Imm(1)];
        self.call("vm.builtin.make_shape", &args, shape, Kind::Shape);
        self.call("vm.builtin.reshape", &[Arg::Reg(row), Arg::Reg(shape)], row, Kind::Tensor);
        let args = [Arg::Reg(tensor), Arg::Reg(row)];
        self.call("fuzz.rows", &args, Reg::VOID, Kind::None);
        self.call("fuzz.record", &[Arg::Reg(row)], Reg::VOID, Kind::Int);
    }

    /// The result of `ensure_zero_offset`, which is a copy or the tensor itself, is written; or the
    /// host's condition is read.
    fn origin(&mut self) -> Result<()> {
        let (dst, given) = (self.spare(0), Arg::Reg(Reg(0)));
        if self.u.ratio(1, 3)? {
            self.call("vm.builtin.read_if_cond", &[Arg::Reg(Reg(1))], dst, Kind::Bool);
            self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
            return Ok(());
        }
        if self.u.ratio(1, 4)? {
            // No statement uses the result.
            self.call("vm.builtin.ensure_zero_offset", &[given], Reg::VOID, Kind::Tensor);
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

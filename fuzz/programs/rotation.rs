//! Loops whose iterations find other values in the same registers, and objects that outlive the
//! iteration that made them.

use arbitrary::Result;
use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, Kind, SHAPES, Theme, built};

/// The values that are rotated through three registers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rotated {
    Values,
    Closures,
}

impl Generator<'_, '_> {
    /// Three values rotate through registers, in a loop or once; each time the first one is used,
    /// mostly as the kind of value that it was in the first iteration.
    pub(super) fn rotation(&mut self) -> Result<()> {
        let slots = [self.spare(0), self.spare(1), self.spare(2)];
        let closures = self.functions.len() > 1 && self.u.ratio(1, 4)?;
        let rotated = if closures { Rotated::Closures } else { Rotated::Values };
        match rotated {
            Rotated::Closures => self.fill_with_closures(slots)?,
            Rotated::Values => self.fill_with_arguments(slots)?,
        }
        if self.u.ratio(1, 3)? {
            return self.rotate_once(slots, rotated);
        }
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition) = (Reg(last), Reg(last - 1));
        let times = Arg::Imm(self.u.int_in_range(3..=7)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        self.use_slot(slots[0], rotated)?;
        self.rotate_registers(slots);
        self.count_down(counter, condition, start, &before)
    }

    /// Values rotate once, and one of them is overwritten.
    fn rotate_once(&mut self, slots: [Reg; 3], rotated: Rotated) -> Result<()> {
        for slot in slots {
            self.use_slot(slot, rotated)?;
        }
        self.rotate_registers(slots);
        let overwritten = *self.u.choose(&slots)?;
        match self.u.int_in_range(0..=3)? {
            0 => self.call("fuzz.object", &[], overwritten, Kind::Object),
            1 => {
                let args = [Arg::Reg(Reg(0)), Arg::Imm(1)];
                self.call("vm.builtin.make_tuple", &args, overwritten, Kind::Tuple);
            }
            2 => self.call("fuzz.alive", &[], overwritten, Kind::Int),
            _ => {}
        }
        for slot in slots {
            if slot != overwritten {
                self.use_slot(slot, rotated)?;
            }
        }
        let args = slots.map(Arg::Reg);
        self.call("fuzz.record", &args, Reg::VOID, Kind::Int);
        Ok(())
    }

    /// Moves each value to the next register.
    fn rotate_registers(&mut self, [first, second, third]: [Reg; 3]) {
        let spare = self.spare(-1);
        for (from, to) in [(first, spare), (second, first), (third, second), (spare, third)] {
            let kind = self.kinds[from.index().unwrap_or(0) as usize];
            self.call("vm.builtin.copy", &[Arg::Reg(from)], to, kind);
        }
    }

    fn fill_with_arguments(&mut self, slots: [Reg; 3]) -> Result<()> {
        let apart = self.u.arbitrary()?;
        for (at, slot) in slots.into_iter().enumerate() {
            let of = Arg::Reg(Reg(i64::from(at == 2)));
            if apart && at > 0 && [Theme::Matrices, Theme::Rows].contains(&self.theme) {
                // Tensors of its own.
                let args = [of, Arg::Imm(1), Arg::Imm(0)];
                self.call("vm.builtin.to_device", &args, slot, Kind::Tensor);
            } else {
                self.call("vm.builtin.copy", &[of], slot, Kind::Unknown);
            }
        }
        Ok(())
    }

    /// Closures of two functions, of which each is called with one value.
    fn fill_with_closures(&mut self, slots: [Reg; 3]) -> Result<()> {
        let takes = |parameters: u32| move |function: &&(String, u32)| function.1 == parameters;
        let parameters = self.u.choose(&self.functions)?.1.max(1);
        let alike: Vec<String> =
            self.functions.iter().filter(takes(parameters)).map(|(name, _)| name.clone()).collect();
        if alike.is_empty() {
            return Ok(());
        }
        for (at, slot) in slots.into_iter().enumerate() {
            let name = if at == 2 { alike.last() } else { alike.first() };
            let mut args = vec![self.b.f(name.map_or("main", |name| name))];
            args.extend((1..parameters).map(|which| Arg::Imm(which.into())));
            self.call("vm.builtin.make_closure", &args, slot, Kind::Closure);
        }
        Ok(())
    }

    /// Uses the value in a register.
    fn use_slot(&mut self, slot: Reg, rotated: Rotated) -> Result<()> {
        let (value, dst) = (Arg::Reg(slot), self.spare(-1));
        let context = self.b.string("ErrorContext(seated) ");
        if rotated == Rotated::Closures {
            let args = [self.b.vm_state(), value, Arg::Imm(2)];
            self.call("vm.builtin.invoke_closure", &args, dst, Kind::Unknown);
            self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
            return Ok(());
        }
        match self.theme {
            Theme::Shapes => {
                let args = [value, Arg::Imm(2), context];
                self.call("vm.builtin.check_shape_info", &args, Reg::VOID, Kind::None);
            }
            Theme::Entries => {
                let args = [value, Arg::Imm(1), Arg::Imm(self.u.int_in_range(0..=3)?)];
                self.call("vm.builtin.make_prim_value", &args, dst, Kind::Int);
            }
            Theme::Tuples => {
                let args = [value, Arg::Imm(2), context];
                self.call("vm.builtin.check_tuple_info", &args, Reg::VOID, Kind::None);
            }
            Theme::Dims => {
                let args = [value, self.b.void_arg(), Arg::Imm(0), Arg::Imm(2), context];
                self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
            }
            Theme::Data => {
                self.call("relay.is", &[value, Arg::Imm(1)], dst, Kind::Bool);
                self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
            }
            Theme::Types => {
                let args = [value, context];
                self.call("vm.builtin.check_string_info", &args, Reg::VOID, Kind::None);
            }
            Theme::Any | Theme::Matrices | Theme::Rows | Theme::Origins => {
                return self.checked(value);
            }
        }
        Ok(())
    }

    /// A check or a kernel that takes a matrix.
    fn checked(&mut self, matrix: Arg) -> Result<()> {
        match self.u.int_in_range(0..=4)? {
            0 => self.check_tensor(matrix, 2, Some(DType::F32)),
            1 => {
                let context = self.b.string("ErrorContext(checked) ");
                let pairs = [2, 0, 0, 3].map(Arg::Imm);
                let args = [&[matrix, self.b.void_arg(), Arg::Imm(2)][..], &pairs, &[context]];
                self.call("vm.builtin.match_shape", &args.concat(), Reg::VOID, Kind::None);
            }
            2 => self.call("fuzz.each", &[matrix, Arg::Reg(Reg(1))], Reg::VOID, Kind::None),
            _ => self.call("fuzz.each", &[matrix, matrix], Reg::VOID, Kind::None),
        }
        Ok(())
    }

    /// One operation allocates an object in each iteration of a loop, while a register still holds
    /// the one of the iteration before.
    pub(super) fn reallocate(&mut self) -> Result<()> {
        let (reg, kept, counter) = (self.spare(0), self.spare(1), self.spare(2));
        let scratch = self.spare(-1);
        let times = Arg::Imm(self.u.int_in_range(2..=6)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let start = built(self.b.label());
        built(self.b.bind(start));
        let before = self.kinds.clone();
        // Objects of different iterations differ.
        match self.u.int_in_range(0..=2)? {
            0 => {
                let args = [self.b.vm_state(), Arg::Imm(1)];
                self.call("vm.builtin.alloc_shape_heap", &args, scratch, Kind::Heap);
                let context = self.b.string("ErrorContext(again) ");
                let to = [Arg::Imm(1), Arg::Imm(0)];
                let args = [Arg::Reg(counter), Arg::Reg(scratch), to[0], to[1], context];
                self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
                let args = [Arg::Reg(scratch), Arg::Imm(1), to[0], to[1]];
                self.call("vm.builtin.make_shape", &args, reg, Kind::Shape);
            }
            1 => {
                let args = [Arg::Reg(counter), Arg::Imm(5)];
                self.call("vm.builtin.make_tuple", &args, reg, Kind::Tuple);
            }
            _ => {
                self.storage(reg);
                self.tensor_at(reg, 0, SHAPES[0], reg);
                let args = [Arg::Reg(reg), Arg::Reg(counter)];
                self.call("fuzz.fill", &args, Reg::VOID, Kind::None);
            }
        }
        if self.u.arbitrary()? {
            // From the second iteration on, the object of the one before.
            self.call("fuzz.record", &[Arg::Reg(kept)], Reg::VOID, Kind::Int);
        }
        self.call("vm.builtin.copy", &[Arg::Reg(reg)], kept, Kind::Unknown);
        if self.u.ratio(3, 4)? {
            // Both registers hold it until here.
            self.call("fuzz.record", &[Arg::Reg(reg)], Reg::VOID, Kind::Int);
        }
        self.call("vm.builtin.null_value", &[], reg, Kind::None);
        self.count_down(counter, scratch, start, &before)?;
        self.call("fuzz.record", &[Arg::Reg(kept)], Reg::VOID, Kind::Int);
        Ok(())
    }
}

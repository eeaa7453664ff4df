//! Statements about objects that share data, items or registers.

use arbitrary::Result;
use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Reg};

use super::{Generator, HELPERS, Kind, SHAPES, built};

impl Generator<'_, '_> {
    /// Several statements about one object, which only together have an effect.
    pub(super) fn objects(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=21)? {
            0 | 1 => self.look(),
            2 | 3 => self.inspect(),
            4 | 5 => self.replace(),
            6 => self.pack(),
            7 => self.pack_numbers(),
            8 => self.lay(),
            9 => self.share(),
            10 => self.rotate(),
            11 | 12 => self.turned(self.spare(0)),
            13 | 14 => self.agree(),
            15 => self.rotation(),
            17 => self.outlive(),
            18 => self.stop(),
            19 => self.twins(),
            20 => self.neighbours(),
            21 => self.taken_out(),
            _ => self.reallocate(),
        }
    }

    /// An operation that machine code guards, and whose guard may fail.
    fn guarded(&mut self, scratch: Reg) {
        let (one, int) = (Arg::Imm(1), self.b.dtype(DType::I64));
        self.call("fuzz.add", &[one, one], scratch, Kind::Int);
        let context = self.b.string("ErrorContext(guarded) ");
        let args = [Arg::Reg(scratch), int, context];
        self.call("vm.builtin.check_prim_value_info", &args, Reg::VOID, Kind::None);
    }

    /// A register that is not a loop counter.
    pub(super) fn spare(&self, which: i64) -> Reg {
        Reg(self.kinds.len() as i64 - 4 - which)
    }

    /// A view of an argument, or its shape, which is released at once.
    fn look(&mut self) -> Result<()> {
        let dst = self.u.int_in_range(0..=2).map(|which| self.spare(which))?;
        let of = Arg::Reg(Reg(self.u.int_in_range(0..=1)?));
        if self.u.ratio(3, 4)? {
            let shape = *self.u.choose(&[
                SHAPES[0],
                SHAPES[2],
                &[5, 2],
                &[6],
                &[3, 1, 2],
                &[2],
                &[1, 2],
                &[],
            ])?;
            let args = [of, self.b.shape(shape)];
            self.call("vm.builtin.reshape", &args, dst, Kind::Tensor);
        } else {
            self.call("vm.builtin.shape_of", &[of], dst, Kind::Shape);
        }
        self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
        self.call("vm.builtin.null_value", &[], dst, Kind::None);
        Ok(())
    }

    /// A kernel gets the value of a register, then the value that replaced it, while both are alive. It
    /// may be the first to read the other one.
    fn replace(&mut self) -> Result<()> {
        let (first, second) = (Arg::Reg(Reg(0)), Arg::Reg(Reg(1)));
        let (reg, other) = (self.spare(0), self.spare(1));
        if self.u.ratio(1, 4)? {
            self.call("fuzz.each", &[first, second], Reg::VOID, Kind::None);
        }
        let cpu = [Arg::Imm(1), Arg::Imm(0)];
        if self.u.arbitrary()? {
            self.call("vm.builtin.to_device", &[first, cpu[0], cpu[1]], reg, Kind::Tensor);
        } else {
            self.call("vm.builtin.copy", &[first], reg, Kind::Unknown);
        }
        self.call("fuzz.each", &[Arg::Reg(reg), first], Reg::VOID, Kind::None);
        match self.u.int_in_range(0..=5)? {
            0 => {
                self.call("vm.builtin.to_device", &[second, cpu[0], cpu[1]], reg, Kind::Tensor);
            }
            1 => self.call("vm.builtin.copy", &[second], reg, Kind::Unknown),
            how => {
                self.call("vm.builtin.make_tuple", &[second, first], other, Kind::Tuple);
                if how == 2 {
                    self.call("fuzz.record", &[Arg::Reg(other)], Reg::VOID, Kind::Int);
                }
                let args = [Arg::Reg(other), Arg::Imm(self.u.int_in_range(0..=1)?)];
                self.call("vm.builtin.tuple_getitem", &args, reg, Kind::Unknown);
            }
        }
        self.call("fuzz.each", &[Arg::Reg(reg); 2], Reg::VOID, Kind::None);
        self.call("fuzz.record", &[first, second], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// An object goes into a tuple, its register is overwritten, and the object is read back.
    fn pack(&mut self) -> Result<()> {
        let (item, tuple) = (self.spare(0), self.spare(1));
        match self.u.int_in_range(0..=3)? {
            0 => self.call("fuzz.object", &[], item, Kind::Object),
            1 => self.call("vm.builtin.shape_of", &[Arg::Reg(Reg(0))], item, Kind::Shape),
            _ => return self.pack_numbers(),
        }
        let twice = Arg::Reg(if self.u.arbitrary()? { item } else { Reg(0) });
        self.call("vm.builtin.make_tuple", &[Arg::Reg(item), twice], tuple, Kind::Tuple);
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], item, Kind::None);
        } else {
            self.call("vm.builtin.copy", &[Arg::Imm(7)], item, Kind::Int);
        }
        if self.u.arbitrary()? {
            self.guarded(self.spare(2));
        }
        let args = [Arg::Reg(tuple), Arg::Imm(self.u.int_in_range(0..=1)?)];
        let out = if self.u.arbitrary()? { item } else { tuple };
        self.call("vm.builtin.tuple_getitem", &args, out, Kind::Unknown);
        if self.u.arbitrary()? {
            self.call("vm.builtin.null_value", &[], tuple, Kind::None);
        }
        self.call("fuzz.record", &[Arg::Reg(out)], Reg::VOID, Kind::Int);
        self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// The same with a shape that has no other reference, and that is passed to the host in some runs
    /// only.
    fn pack_numbers(&mut self) -> Result<()> {
        let (item, tuple) = (self.spare(0), self.spare(1));
        let conditions = [self.spare(-1), self.spare(2)];
        // Mostly neither holds, and never both.
        let mut sizes = conditions;
        for (at, size) in sizes.into_iter().enumerate() {
            self.call("fuzz.size", &[Arg::Reg(Reg(at as i64))], size, Kind::Int);
        }
        if self.u.arbitrary()? {
            sizes.reverse();
        }
        let [left, right] = sizes.map(Arg::Reg);
        self.call("fuzz.less", &[left, right], item, Kind::Bool);
        self.call("fuzz.less", &[right, left], conditions[1], Kind::Bool);
        self.call("vm.builtin.copy", &[Arg::Reg(item)], conditions[0], Kind::Bool);
        self.heap(item);
        self.call("vm.builtin.tensor_to_shape", &[Arg::Reg(item)], item, Kind::Shape);
        let args = [Arg::Reg(item), Arg::Imm(8)];
        self.call("vm.builtin.make_tuple", &args, tuple, Kind::Tuple);
        for (condition, gone) in conditions.into_iter().zip([item, tuple]) {
            let end = built(self.b.label());
            built(self.b.emit_if(condition, end));
            if gone == tuple {
                // Would get the memory of the shape if that had been freed.
                let args = [self.b.vm_state(), Arg::Imm(4)];
                self.call("vm.builtin.alloc_shape_heap", &args, item, Kind::Heap);
                self.call("vm.builtin.tensor_to_shape", &[Arg::Reg(item)], item, Kind::Shape);
            }
            self.call("fuzz.record", &[Arg::Reg(tuple)], Reg::VOID, Kind::Int);
            built(self.b.bind(end));
            self.call("vm.builtin.null_value", &[], gone, Kind::None);
        }
        Ok(())
    }

    /// Two matrices have to agree in one dimension, or in both.
    fn agree(&mut self) -> Result<()> {
        let (heap, made) = (self.spare(0), self.spare(1));
        let args = [self.b.vm_state(), Arg::Imm(2)];
        self.call("vm.builtin.alloc_shape_heap", &args, heap, Kind::Heap);
        let context = self.b.string("ErrorContext(agree) ");
        let codes = *self.u.choose(&[[3, 3], [2, 3], [2, 3], [3, 2]])?;
        for (at, codes) in [(0, [1, 1]), (1, codes)] {
            let pairs = [codes[0], 0, codes[1], 1].map(Arg::Imm);
            let args = [&[Arg::Reg(Reg(at)), Arg::Reg(heap), Arg::Imm(2)][..], &pairs, &[context]];
            self.call("vm.builtin.match_shape", &args.concat(), Reg::VOID, Kind::None);
        }
        if self.u.ratio(1, 3)? {
            let pairs = [1, 0, 1, 1].map(Arg::Imm);
            let args = [&[Arg::Reg(heap), Arg::Imm(2)][..], &pairs].concat();
            self.call("vm.builtin.make_shape", &args, made, Kind::Shape);
        } else {
            let args = [Arg::Reg(heap), Arg::Imm(1), Arg::Imm(1)];
            self.call("vm.builtin.make_prim_value", &args, made, Kind::Int);
        }
        self.call("fuzz.record", &[Arg::Reg(made)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A tensor outlives the register of its storage, other storages come and go, and a kernel reads
    /// it: its memory must not have been reused meanwhile.
    fn lay(&mut self) -> Result<()> {
        let (storage, kept, other) = (self.spare(0), self.spare(1), self.spare(2));
        let matrix = SHAPES[if self.u.arbitrary()? { 0 } else { 2 }];
        let sizes = [16, 32, 48, 64];
        for at in 0..self.u.int_in_range(0..=2)? {
            // Leaves gaps of all sizes.
            let dst = if at == 0 { kept } else { other };
            let size = *self.u.choose(&sizes)?;
            self.storage_of(size, dst);
        }
        let size = *self.u.choose(&sizes)?;
        self.storage_of(size, storage);
        self.tensor_at(storage, 0, matrix, kept);
        for _ in 0..self.u.int_in_range(1..=3)? {
            let size = *self.u.choose(&sizes)?;
            self.storage_of(size, storage);
            if self.u.arbitrary()? {
                self.tensor_at(storage, 0, matrix, other);
                self.call("fuzz.each", &[Arg::Reg(other), Arg::Reg(other)], Reg::VOID, Kind::None);
            }
        }
        // An argument shows what was read.
        self.call("fuzz.each", &[Arg::Reg(kept), Arg::Reg(Reg(1))], Reg::VOID, Kind::None);
        self.call("fuzz.record", &[Arg::Reg(Reg(1))], Reg::VOID, Kind::Int);
        for register in [storage, kept, other] {
            self.call("vm.builtin.null_value", &[], register, Kind::None);
        }
        Ok(())
    }

    /// A tensor outlives the storage that it may have shared with another one, and the next tensor is
    /// written.
    fn outlive(&mut self) -> Result<()> {
        let (storage, kept, made) = (self.spare(0), self.spare(1), self.spare(2));
        let (given, turn) = (self.given()?, self.spare(-1));
        self.storage(storage);
        let turns = self.u.arbitrary()?;
        let (other, end) = (built(self.b.label()), built(self.b.label()));
        if turns {
            // In every second iteration.
            let args = [Arg::Reg(turn), Arg::Imm(1), Arg::Imm(0)];
            self.call("fuzz.pick", &args, turn, Kind::Int);
            built(self.b.emit_if(turn, other));
        }
        self.tensor_at(storage, 0, SHAPES[0], made);
        self.call("fuzz.each", &[given, Arg::Reg(made)], Reg::VOID, Kind::None);
        if turns {
            built(self.b.emit_goto(end));
        }
        built(self.b.bind(other));
        self.call("fuzz.record", &[Arg::Reg(kept)], Reg::VOID, Kind::Int);
        self.tensor_at(storage, 0, SHAPES[0], kept);
        built(self.b.bind(end));
        for register in [made, storage] {
            self.call("vm.builtin.null_value", &[], register, Kind::None);
        }
        Ok(())
    }

    /// Two tensors in one storage, of which one is read when the other one was written.
    fn neighbours(&mut self) -> Result<()> {
        let [storage, left, right] = [0, 1, 2].map(|which| self.spare(which));
        let [first, second] = [0, 1].map(|at| Arg::Reg(Reg(at)));
        self.storage(storage);
        self.tensor_at(storage, 0, SHAPES[0], left);
        self.tensor_at(storage, 64, SHAPES[0], right);
        // Fresh ones have the same elements.
        self.call("fuzz.each", &[first, Arg::Reg(left)], Reg::VOID, Kind::None);
        self.call("fuzz.each", &[Arg::Reg(left), Arg::Reg(right)], Reg::VOID, Kind::None);
        self.call("fuzz.each", &[Arg::Reg(left), second], Reg::VOID, Kind::None);
        self.call("fuzz.record", &[second], Reg::VOID, Kind::Int);
        for register in [storage, left, right] {
            self.call("vm.builtin.null_value", &[], register, Kind::None);
        }
        Ok(())
    }

    /// A tensor that only a tuple holds is read out of it, and the tuple is released: the next tensor
    /// must not get its memory.
    fn taken_out(&mut self) -> Result<()> {
        let [tensor, tuple, out] = [0, 1, 2].map(|which| self.spare(which));
        let (first, second) = (Arg::Reg(Reg(0)), Arg::Reg(Reg(1)));
        self.storage(tensor);
        self.tensor_at(tensor, 0, SHAPES[0], tensor);
        self.call("fuzz.each", &[first, Arg::Reg(tensor)], Reg::VOID, Kind::None);
        self.call("vm.builtin.make_tuple", &[Arg::Reg(tensor)], tuple, Kind::Tuple);
        self.call("vm.builtin.null_value", &[], tensor, Kind::None);
        let args = [Arg::Reg(tuple), Arg::Imm(0)];
        self.call("vm.builtin.tuple_getitem", &args, out, Kind::Unknown);
        self.call("vm.builtin.null_value", &[], tuple, Kind::None);
        self.storage(tensor);
        self.tensor_at(tensor, 0, SHAPES[0], tensor);
        self.call("fuzz.each", &[Arg::Reg(out), second], Reg::VOID, Kind::None);
        self.call("fuzz.record", &[second], Reg::VOID, Kind::Int);
        for register in [tensor, out] {
            self.call("vm.builtin.null_value", &[], register, Kind::None);
        }
        Ok(())
    }

    /// A call of a function, before which the run may have been stopped.
    fn stop(&mut self) -> Result<()> {
        let given = self.given()?;
        self.call("fuzz.cancel", &[given], Reg::VOID, Kind::Int);
        self.vm_call()
    }

    /// Calls of two functions that differ only in how they use the result of a third one.
    fn twins(&mut self) -> Result<()> {
        let dst = self.spare(0);
        for twin in &HELPERS[2..] {
            if self.functions.iter().any(|(name, _)| name == twin) {
                self.call(twin, &[Arg::Imm(1)], dst, Kind::Int);
            }
        }
        self.call("fuzz.record", &[Arg::Reg(dst)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// A shape heap, or an object made from one, that two registers or a tuple hold; writes through one
    /// are seen through the other, and a new one is seen through neither.
    fn share(&mut self) -> Result<()> {
        let (heap, other, made) = (self.spare(0), self.spare(1), self.spare(2));
        self.heap(heap);
        let entry = self.u.int_in_range(0..=3)?;
        let packed = self.u.arbitrary()?;
        if packed {
            self.call("vm.builtin.make_tuple", &[Arg::Reg(heap); 2], other, Kind::Tuple);
        } else {
            self.call("vm.builtin.copy", &[Arg::Reg(heap)], other, Kind::Heap);
        }
        let context = self.b.string("ErrorContext(share) ");
        let args = [Arg::Imm(40), Arg::Reg(heap), Arg::Imm(1), Arg::Imm(entry), context];
        self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        if packed {
            let args = [Arg::Reg(other), Arg::Imm(0)];
            self.call("vm.builtin.tuple_getitem", &args, other, Kind::Heap);
        }
        let args = [Arg::Reg(other), Arg::Imm(1), Arg::Imm(entry)];
        self.call("vm.builtin.make_prim_value", &args, made, Kind::Int);
        self.call("fuzz.record", &[Arg::Reg(made)], Reg::VOID, Kind::Int);
        Ok(())
    }

    /// Arguments are swapped, so that the next iteration of a loop finds the other value.
    fn rotate(&mut self) -> Result<()> {
        let (first, second, kept) = (Reg(0), Reg(1), self.spare(0));
        for (from, to) in [(first, kept), (second, first), (kept, second)] {
            self.call("vm.builtin.copy", &[Arg::Reg(from)], to, Kind::Unknown);
        }
        self.call("vm.builtin.null_value", &[], kept, Kind::None);
        Ok(())
    }
}

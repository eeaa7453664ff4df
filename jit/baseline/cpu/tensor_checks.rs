//! The checks of tensor arguments, by a description: one function for all kernels.
//!
//! The description is [`reflex_tir::argument_checks`]'s.
//!
//! Decision: docs/decisions/0068-baseline-kernels.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use cranelift_module::FuncId;
use reflex_runtime::abi::{self, DLDevice, type_index};
use reflex_tir::argument_checks::{self, DIM_WORDS, FIELDS, Field, REPEATED_WORDS};

use crate::emit::Emitter;
use crate::error::Result;
use crate::unit::{POINTER, Unit};

/// Bytes of a word.
pub const WORD: i32 = argument_checks::WORD as i32;

/// A tensor while it is checked.
#[derive(Clone, Copy)]
struct Tensor {
    /// The text in front of messages.
    prefix: Value,
    /// The `DLTensor`.
    dl: Value,
    rank: Value,
    shape: Value,
    /// The words of its dimensions.
    dims: Value,
}

impl Emitter<'_, '_, '_> {
    /// The function of arguments, a description, and the words that it writes: data pointers, and the
    /// extents that have a place. It returns a status.
    pub(super) fn tensor_checks(&mut self) -> Result<FuncId> {
        let signature = Unit::signature(&[POINTER; 3], &[types::I32]);
        self.unit.shared("reflex.check_tensors", signature, |e, params| {
            let [args, description, written] = [params[0], params[1], params[2]];
            let count = e.load_at(types::I64, description, 0);
            let first = e.word(description, 1);
            let end = e.each(count, first, |e, at, entry| {
                let tensor = e.tensor(args, description, entry)?;
                let elements = e.check_extents(tensor, written)?;
                e.check_strides(tensor, elements)?;
                let data = e.check_data(tensor, elements)?;
                let place = e.word_at(written, at);
                e.store_at(data, place, 0);
                let words = e.i64(DIM_WORDS as i64);
                let words = e.b.ins().imul(tensor.rank, words);
                Ok(e.word_at(tensor.dims, words))
            })?;
            let repeated = e.load_at(types::I64, end, 0);
            let first = e.word(end, 1);
            e.each(repeated, first, |e, _, entry| {
                let [given, expected, prefix, number] =
                    [0, 1, 2, 3].map(|at| e.load_at(types::I64, entry, at * WORD));
                let [given, expected] = [given, expected].map(|place| {
                    let place = e.word_at(written, place);
                    e.load_at(types::I64, place, 0)
                });
                let prefix = e.b.ins().iadd(description, prefix);
                let same = e.b.ins().icmp(IntCC::Equal, given, expected);
                e.demand(same, |e| e.raise_extent(prefix, "dimension ", number, expected, given))?;
                Ok(e.word(entry, REPEATED_WORDS))
            })?;
            let fine = e.i32(0);
            e.b.ins().return_(&[fine]);
            Ok(())
        })
    }

    /// Checks that an argument is a tensor of the rank and type of `entry`, on the CPU.
    fn tensor(&mut self, args: Value, description: Value, entry: Value) -> Result<Tensor> {
        let [position, rank, dtype, dtype_text, prefix] =
            [Field::Position, Field::Rank, Field::Dtype, Field::DtypeText, Field::Prefix]
                .map(|field| self.load_at(types::I64, entry, field as i32 * WORD));
        let [dtype_text, prefix] =
            [dtype_text, prefix].map(|at| self.b.ins().iadd(description, at));
        let size = self.i64(abi::ANY_SIZE as i64);
        let offset = self.b.ins().imul(position, size);
        let any = self.b.ins().iadd(args, offset);
        let dl = self.dl_tensor(any, prefix)?;

        let ndim = self.load_at(types::I32, dl, abi::DLTENSOR_NDIM as i32);
        let ndim = self.b.ins().sextend(types::I64, ndim);
        let same = self.b.ins().icmp(IntCC::Equal, ndim, rank);
        self.demand(same, |e| {
            let [expected, got] = [e.text("expected ")?, e.text(" dimensions, got ")?];
            let [rank, ndim] = [e.digits(rank)?, e.digits(ndim)?];
            e.raise("ValueError", &[prefix, expected, rank, got, ndim])
        })?;

        let given = self.load_at(types::I32, dl, abi::DLTENSOR_DTYPE as i32);
        let dtype = self.b.ins().ireduce(types::I32, dtype);
        let same = self.b.ins().icmp(IntCC::Equal, given, dtype);
        self.demand(same, |e| e.raise_data_type(&[prefix, dtype_text], given))?;

        let device = self.load_at(types::I32, dl, abi::DLTENSOR_DEVICE as i32);
        let cpu = self.i32(DLDevice::KIND_CPU);
        let same = self.b.ins().icmp(IntCC::Equal, device, cpu);
        self.demand(same, |e| {
            let text = e.text("expected a tensor on the CPU, got device type ")?;
            let device = e.b.ins().sextend(types::I64, device);
            let device = e.digits(device)?;
            e.raise("ValueError", &[prefix, text, device])
        })?;
        let shape = self.load_at(POINTER, dl, abi::DLTENSOR_SHAPE as i32);
        Ok(Tensor { prefix, dl, rank, shape, dims: self.word(entry, FIELDS) })
    }

    /// The `DLTensor*` in an argument: a tensor object or a bare pointer.
    fn dl_tensor(&mut self, any: Value, prefix: Value) -> Result<Value> {
        let index = self.load_at(types::I32, any, 0);
        let [object, bare] = [type_index::TENSOR, type_index::DL_TENSOR_PTR].map(|kind| {
            let kind = self.i32(kind);
            self.b.ins().icmp(IntCC::Equal, index, kind)
        });
        let accepted = self.b.ins().bor(object, bare);
        self.demand(accepted, |e| {
            let text = e.text("expected a tensor, got ")?;
            e.raise_type_index(&[prefix, text], index)
        })?;
        let pointer = self.load_at(POINTER, any, abi::ANY_PAYLOAD as i32);
        let present = self.is_not_zero(pointer);
        self.demand(present, |e| {
            let text = e.text("expected a tensor, got a null pointer")?;
            e.raise("TypeError", &[prefix, text])
        })?;
        let header = self.i64(abi::TENSOR_DLTENSOR as i64);
        let inner = self.b.ins().iadd(pointer, header);
        Ok(self.b.ins().select(object, inner, pointer))
    }

    /// Checks the extents that are known, writes the others, and returns the number of elements.
    fn check_extents(&mut self, tensor: Tensor, written: Value) -> Result<Value> {
        let elements = self.b.declare_var(types::I64);
        let one = self.i64(1);
        self.b.def_var(elements, one);
        self.each(tensor.rank, tensor.dims, |e, number, dim| {
            let [has_place, known] = [0, 1].map(|at| e.load_at(types::I64, dim, at * WORD));
            let given = e.word_at(tensor.shape, number);
            let given = e.load_at(types::I64, given, 0);
            let [any, fixed, next] = [(); 3].map(|()| e.b.create_block());
            e.b.ins().brif(has_place, any, &[], fixed, &[]);

            e.b.switch_to_block(any);
            let zero = e.i64(0);
            let valid = e.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, given, zero);
            e.demand(valid, |e| {
                let [dimension, expected] =
                    [e.text("dimension ")?, e.text(": expected an extent, got ")?];
                let [number, given] = [e.digits(number)?, e.digits(given)?];
                e.raise("ValueError", &[tensor.prefix, dimension, number, expected, given])
            })?;
            let place = e.word_at(written, known);
            e.store_at(given, place, 0);
            e.b.ins().jump(next, &[]);

            e.b.switch_to_block(fixed);
            let same = e.b.ins().icmp(IntCC::Equal, given, known);
            e.demand(same, |e| e.raise_extent(tensor.prefix, "dimension ", number, known, given))?;
            e.b.ins().jump(next, &[]);

            e.b.switch_to_block(next);
            let before = e.b.use_var(elements);
            let product = e.b.ins().imul(before, given);
            e.b.def_var(elements, product);
            Ok(e.word(dim, DIM_WORDS))
        })?;
        Ok(self.b.use_var(elements))
    }

    /// Strides are absent or row-major, not counting dimensions of one element or empty tensors.
    fn check_strides(&mut self, tensor: Tensor, elements: Value) -> Result<()> {
        let strides = self.load_at(POINTER, tensor.dl, abi::DLTENSOR_STRIDES as i32);
        let [has_strides, has_elements] = [strides, elements].map(|word| self.is_not_zero(word));
        let matter = self.b.ins().band(has_strides, has_elements);
        let [look, after] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(matter, look, &[], after, &[]);
        self.b.switch_to_block(look);
        self.each(tensor.rank, tensor.shape, |e, number, extent| {
            let inner = e.b.declare_var(types::I64);
            let one = e.i64(1);
            e.b.def_var(inner, one);
            let dims = e.b.ins().isub(tensor.rank, number);
            let dims = e.b.ins().isub(dims, one);
            let following = e.word(extent, 1);
            e.each(dims, following, |e, _, extent| {
                let before = e.b.use_var(inner);
                let extent_value = e.load_at(types::I64, extent, 0);
                let product = e.b.ins().imul(before, extent_value);
                e.b.def_var(inner, product);
                Ok(e.word(extent, 1))
            })?;
            let expected = e.b.use_var(inner);
            let given = e.word_at(strides, number);
            let given = e.load_at(types::I64, given, 0);
            let size = e.load_at(types::I64, extent, 0);
            let single = e.b.ins().icmp(IntCC::Equal, size, one);
            let same = e.b.ins().icmp(IntCC::Equal, given, expected);
            let fits = e.b.ins().bor(single, same);
            e.demand(fits, |e| {
                e.raise_extent(tensor.prefix, "stride of dimension ", number, expected, given)
            })?;
            Ok(following)
        })?;
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    /// The address of the first element, which a tensor without elements need not have.
    fn check_data(&mut self, tensor: Tensor, elements: Value) -> Result<Value> {
        let base = self.load_at(POINTER, tensor.dl, abi::DLTENSOR_DATA as i32);
        let offset = self.load_at(types::I64, tensor.dl, abi::DLTENSOR_BYTE_OFFSET as i32);
        let present = self.is_not_zero(base);
        let zero = self.i64(0);
        let none = self.b.ins().icmp(IntCC::Equal, elements, zero);
        let usable = self.b.ins().bor(present, none);
        self.demand(usable, |e| {
            let text = e.text("the data pointer is null")?;
            e.raise("ValueError", &[tensor.prefix, text])
        })?;
        Ok(self.b.ins().iadd(base, offset))
    }

    /// Says of dimension `number` what was expected.
    fn raise_extent(
        &mut self,
        prefix: Value,
        what: &str,
        number: Value,
        expected: Value,
        given: Value,
    ) -> Result<()> {
        let [what, colon, got] =
            [self.text(what)?, self.text(": expected ")?, self.text(", got ")?];
        let [number, expected, given] =
            [self.digits(number)?, self.digits(expected)?, self.digits(given)?];
        self.raise("ValueError", &[prefix, what, number, colon, expected, got, given])
    }

    /// Continues where `holds`; elsewhere `raise` leaves the function.
    fn demand(&mut self, holds: Value, raise: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let failed = self.cold_block();
        let fine = self.b.create_block();
        self.b.ins().brif(holds, fine, &[], failed, &[]);
        self.b.switch_to_block(failed);
        raise(self)?;
        self.b.switch_to_block(fine);
        Ok(())
    }

    /// Runs `body` for each number below `count`, with an address that begins at `first`, and goes on at
    /// the one that `body` returns; returns the last one.
    fn each(
        &mut self,
        count: Value,
        first: Value,
        body: impl FnOnce(&mut Self, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let [head, inside, after] = [(); 3].map(|()| self.b.create_block());
        let at = self.b.append_block_param(head, types::I64);
        let address = self.b.append_block_param(head, POINTER);
        let zero = self.i64(0);
        self.b.ins().jump(head, &[BlockArg::Value(zero), BlockArg::Value(first)]);

        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, at, count);
        self.b.ins().brif(more, inside, &[], after, &[]);

        self.b.switch_to_block(inside);
        let next = body(self, at, address)?;
        let one = self.i64(1);
        let following = self.b.ins().iadd(at, one);
        self.b.ins().jump(head, &[BlockArg::Value(following), BlockArg::Value(next)]);
        self.b.switch_to_block(after);
        Ok(address)
    }

    fn is_not_zero(&mut self, word: Value) -> Value {
        let zero = self.i64(0);
        self.b.ins().icmp(IntCC::NotEqual, word, zero)
    }

    /// The address of word `count` behind `address`.
    fn word(&mut self, address: Value, count: usize) -> Value {
        let bytes = self.i64(count as i64 * i64::from(WORD));
        self.b.ins().iadd(address, bytes)
    }

    /// The same for a number that is not known.
    fn word_at(&mut self, address: Value, number: Value) -> Value {
        let size = self.i64(i64::from(WORD));
        let bytes = self.b.ins().imul(number, size);
        self.b.ins().iadd(address, bytes)
    }
}

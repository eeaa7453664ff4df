//! Builtins as a few instructions: the cases where types and constants are as they usually are.
//!
//! A fast path either does exactly what the builtin does or jumps to `slow` without any lasting
//! effect, except for heap entries it stored, which the builtin stores again with the same values.
//! Errors are therefore never made here; the slow path makes them. Builtins without a fast path
//! are listed with the others, without a default arm, so a new one is a decision.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ANY_SIZE, ARRAY_DATA, ARRAY_SIZE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA,
    DLTENSOR_DEVICE, DLTENSOR_DTYPE, DLTENSOR_NDIM, DLTENSOR_SHAPE, SHAPE_DATA, SHAPE_SIZE,
    TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::{Builtin, Native, make_code, match_code};

use crate::emit::{Bits, Emit, Slot, trusted};

/// An argument as generated code finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value in the register stack, and its type where that is known.
    Slot(Slot, Option<i32>),
    /// A shape heap that the VM made, of so many entries.
    Heap(Slot, i64),
    /// An object of the constant table.
    Const,
    /// A constant that is not an object.
    Imm { tag: i32, bits: i64 },
    /// A value that is not an object, in a machine register.
    Plain { tag: i32, payload: Value },
    /// The session.
    Vm,
}

/// What a builtin results in.
pub(crate) enum Produced {
    None,
    /// A value that is not an object.
    Plain {
        tag: i32,
        payload: Value,
    },
    /// An object, with a reference of its own.
    Object {
        tag: i32,
        payload: Value,
    },
    /// All bits of a value, with a reference of its own if it is an object.
    Owned(Bits),
}

/// What fast paths are written with.
pub(crate) struct Fast<'e, 'f> {
    pub(crate) e: &'e mut Emit<'f>,
    /// Where to go when the usual case does not hold.
    pub(crate) slow: Block,
}

/// A slot and its type where that is known.
type Typed = (Slot, Option<i32>);

/// How one extent is matched or made, when that is known while compiling.
#[derive(Clone, Copy)]
struct Pair {
    code: i64,
    reg: i64,
}

impl Fast<'_, '_> {
    /// Writes the fast path of a builtin; `None` means that there is none and nothing was written.
    pub(crate) fn builtin(&mut self, builtin: Builtin, args: &[Operand]) -> Option<Produced> {
        match builtin.native() {
            Native::CheckTensor => self.check_tensor(args),
            Native::CheckShape => self.check_shape(args),
            Native::CheckTuple => self.check_tuple(args),
            Native::MatchShape => self.match_shape(args),
            Native::MatchPrimValue => self.match_prim_value(args),
            Native::MakePrimValue => self.make_prim_value(args),
            Native::ReadIfCond => self.read_if_cond(args),
            Native::TupleItem => self.tuple_item(args),
            Native::Nothing => Some(Produced::None),
            // What is allocated comes back elsewhere: see `recycle`.
            Native::ReuseStorage
            | Native::ReuseTensor
            | Native::ReuseHeap
            | Native::ReuseShape
            | Native::Call => None,
        }
    }

    fn const_int(&self, arg: Option<&Operand>) -> Option<i64> {
        match arg {
            Some(Operand::Imm { tag: type_index::INT, bits }) => Some(*bits),
            _ => None,
        }
    }

    fn is_none(&self, arg: Operand) -> bool {
        matches!(arg, Operand::Imm { tag: type_index::NONE, .. })
    }

    fn require(&mut self, condition: Value) {
        self.e.require(condition, self.slow);
    }

    fn require_equal(&mut self, value: Value, expected: i64) {
        let equal = self.e.b.ins().icmp_imm_s(IntCC::Equal, value, expected);
        self.require(equal);
    }

    /// The object in a slot of the given type.
    fn object(&mut self, (slot, known): Typed, tag: i32) -> Value {
        if known != Some(tag) {
            let fits = self.e.has_tag(slot, tag);
            self.require(fits);
        }
        self.e.payload(slot)
    }

    fn check_tensor(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[Operand::Slot(x, tag), _, ref rest @ ..] = args else { return None };
        let ndim = self.const_int(args.get(1))?;
        let dtype = match rest {
            [_context] => None,
            [Operand::Imm { tag: type_index::DATA_TYPE, bits }, _context] => Some(*bits),
            _ => return None,
        };
        let tensor = self.object((x, tag), type_index::TENSOR);
        if ndim != -1 {
            let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_NDIM);
            self.require_equal(have, i64::from(i32::try_from(ndim).unwrap_or(i32::MIN)));
        }
        if let Some(bits) = dtype {
            let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DTYPE);
            self.require_equal(have, i64::from(bits as i32));
        }
        Some(Produced::None)
    }

    fn require_dtype(&mut self, tensor: Value, dtype: DType) {
        let have = self.e.load(types::I32, tensor, TENSOR_DLTENSOR + DLTENSOR_DTYPE);
        let [low, high] = dtype.lanes.to_le_bytes();
        let bits = i32::from_le_bytes([dtype.code, dtype.bits, low, high]);
        self.require_equal(have, i64::from(bits));
    }

    fn check_shape(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[Operand::Slot(x, tag), _, _] = args else { return None };
        let ndim = self.const_int(args.get(1))?;
        let shape = self.object((x, tag), type_index::SHAPE);
        if ndim != -1 {
            let size = self.e.load(types::I64, shape, SHAPE_SIZE);
            self.require_equal(size, ndim);
        }
        Some(Produced::None)
    }

    fn check_tuple(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[Operand::Slot(x, tag), _, _] = args else { return None };
        let size = self.const_int(args.get(1))?;
        let tuple = self.object((x, tag), type_index::ARRAY);
        let have = self.e.load(types::I64, tuple, ARRAY_SIZE);
        self.require_equal(have, size);
        Some(Produced::None)
    }

    /// The (code, reg) pairs of a call, when all are constants that a fast path knows.
    fn pairs(&self, args: &[Operand], known: &[i64]) -> Option<Vec<Pair>> {
        args.chunks(2)
            .map(|pair| {
                let code = self.const_int(pair.first()).filter(|code| known.contains(code))?;
                Some(Pair { code, reg: self.const_int(pair.get(1))? })
            })
            .collect()
    }

    fn match_shape(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[Operand::Slot(x, tag), heap, _, ref pairs @ .., _context] = args else { return None };
        let known =
            [match_code::ASSERT_IMM, match_code::STORE, match_code::NO_OP, match_code::ASSERT_LOAD];
        let pairs = self.pairs(pairs, &known)?;
        if self.const_int(args.get(2))? != pairs.len() as i64 {
            return None;
        }
        let used = |pair: &&Pair| [match_code::STORE, match_code::ASSERT_LOAD].contains(&pair.code);
        let heap = self.heap(heap, pairs.iter().filter(used).map(|pair| pair.reg))?;
        let extents = self.extents((x, tag), pairs.len());
        for (dim, pair) in pairs.iter().enumerate() {
            if pair.code == match_code::NO_OP {
                continue;
            }
            let extent = self.e.load(types::I64, extents, 8 * dim);
            self.match_one(*pair, extent, heap);
        }
        Some(Produced::None)
    }

    fn match_one(&mut self, pair: Pair, value: Value, heap: Option<Value>) {
        match (pair.code, heap) {
            (match_code::ASSERT_IMM, _) => self.require_equal(value, pair.reg),
            (match_code::STORE, Some(heap)) => {
                self.e.b.ins().store(trusted(), value, heap, 8 * pair.reg as i32);
            }
            (match_code::ASSERT_LOAD, Some(heap)) => {
                let stored = self.e.load(types::I64, heap, 8 * pair.reg as usize);
                let equal = self.e.b.ins().icmp(IntCC::Equal, stored, value);
                self.require(equal);
            }
            _ => {}
        }
    }

    /// Address of the extents of a tensor or shape of the given rank.
    fn extents(&mut self, (x, known): Typed, rank: usize) -> Value {
        match known {
            Some(type_index::TENSOR) => return self.tensor_extents(x, rank),
            Some(type_index::SHAPE) => return self.shape_extents(x, rank),
            _ => {}
        }
        let tag = self.e.tag(x);
        let (tensor, shape) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I64);
        let is_tensor = self.e.b.ins().icmp_imm_s(IntCC::Equal, tag, i64::from(type_index::TENSOR));
        self.e.b.ins().brif(is_tensor, tensor, &[], shape, &[]);
        self.e.b.switch_to_block(tensor);
        let extents = self.tensor_extents(x, rank);
        self.e.b.ins().jump(done, &[extents.into()]);
        self.e.b.switch_to_block(shape);
        self.require_equal(tag, i64::from(type_index::SHAPE));
        let extents = self.shape_extents(x, rank);
        self.e.b.ins().jump(done, &[extents.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    fn tensor_extents(&mut self, x: Slot, rank: usize) -> Value {
        let object = self.e.payload(x);
        let ndim = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.require_equal(ndim, rank as i64);
        self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_SHAPE)
    }

    fn shape_extents(&mut self, x: Slot, rank: usize) -> Value {
        let object = self.e.payload(x);
        let size = self.e.load(types::I64, object, SHAPE_SIZE);
        self.require_equal(size, rank as i64);
        self.e.load(types::I64, object, SHAPE_DATA)
    }

    /// Address of the entries of a shape heap that has all of `regs`; no address when there are
    /// none. `None` when the fast path cannot be written.
    fn heap(&mut self, heap: Operand, regs: impl Iterator<Item = i64>) -> Option<Option<Value>> {
        let regs: Vec<i64> = regs.collect();
        let &most = match regs.iter().max() {
            // The builtin looks at its heap argument even when no code uses it.
            None if self.is_none(heap) => return Some(None),
            None => &-1,
            Some(most) => most,
        };
        if let Operand::Heap(heap, entries) = heap {
            if regs.iter().any(|reg| !(0..entries).contains(reg)) {
                return None;
            }
            let object = self.e.payload(heap);
            return Some(Some(self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA)));
        }
        let Operand::Slot(heap, tag) = heap else { return None };
        if regs.iter().any(|&reg| !(0..1 << 24).contains(&reg)) {
            return None;
        }
        let object = self.object((heap, tag), type_index::TENSOR);
        self.require_dtype(object, DType::I64);
        let ndim = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.require_equal(ndim, 1);
        let device = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_DEVICE);
        self.require_equal(device, i64::from(DLDevice::KIND_CPU));
        let extents = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        let size = self.e.load(types::I64, extents, 0);
        let enough = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, size, most);
        self.require(enough);
        let data = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let mapped = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(mapped);
        let offset = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        Some(Some(self.e.b.ins().iadd(data, offset)))
    }

    /// The extents that `make_shape` makes a shape of.
    pub(crate) fn extents_made(&mut self, args: &[Operand]) -> Option<Vec<Value>> {
        let &[heap, _, ref pairs @ ..] = args else { return None };
        let pairs = self.pairs(pairs, &[make_code::USE_IMM, make_code::LOAD])?;
        if self.const_int(args.get(1))? != pairs.len() as i64 {
            return None;
        }
        let loaded = |pair: &&Pair| pair.code == make_code::LOAD;
        let heap = self.heap(heap, pairs.iter().filter(loaded).map(|pair| pair.reg))?;
        let extents = pairs.iter().map(|pair| match heap {
            Some(heap) if pair.code == make_code::LOAD => {
                self.e.load(types::I64, heap, 8 * pair.reg as usize)
            }
            _ => self.e.i64(pair.reg),
        });
        Some(extents.collect())
    }

    fn int(&mut self, value: Operand) -> Option<Value> {
        match value {
            Operand::Plain { tag: type_index::INT, payload } => Some(payload),
            Operand::Slot(slot, tag) => Some(self.object((slot, tag), type_index::INT)),
            Operand::Heap(..)
            | Operand::Const
            | Operand::Imm { .. }
            | Operand::Plain { .. }
            | Operand::Vm => None,
        }
    }

    fn match_prim_value(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[value, heap, _, _, _context] = args else { return None };
        let known = [match_code::STORE, match_code::ASSERT_LOAD, match_code::ASSERT_IMM];
        let pair = *self.pairs(&args[2..4], &known)?.first()?;
        if !matches!(value, Operand::Slot(..) | Operand::Plain { tag: type_index::INT, .. }) {
            return None;
        }
        let uses_heap = pair.code != match_code::ASSERT_IMM;
        let heap = self.heap(heap, uses_heap.then_some(pair.reg).into_iter())?;
        let value = self.int(value)?;
        self.match_one(pair, value, heap);
        Some(Produced::None)
    }

    fn make_prim_value(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[heap, _, _] = args else { return None };
        let pair = *self.pairs(&args[1..3], &[make_code::USE_IMM, make_code::LOAD])?.first()?;
        let uses_heap = pair.code == make_code::LOAD;
        let heap = self.heap(heap, uses_heap.then_some(pair.reg).into_iter())?;
        let payload = match heap {
            Some(heap) if uses_heap => self.e.load(types::I64, heap, 8 * pair.reg as usize),
            _ => self.e.i64(pair.reg),
        };
        Some(Produced::Plain { tag: type_index::INT, payload })
    }

    fn read_if_cond(&mut self, args: &[Operand]) -> Option<Produced> {
        let payload = match *args {
            [Operand::Plain { tag: type_index::INT | type_index::BOOL, payload }] => payload,
            [Operand::Slot(x, tag)] => self.truth_source((x, tag)),
            _ => return None,
        };
        let truth = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, payload, 0);
        let payload = self.e.b.ins().uextend(types::I64, truth);
        Some(Produced::Plain { tag: type_index::BOOL, payload })
    }

    /// The number behind an integer, a boolean, or a boolean tensor without dimensions.
    fn truth_source(&mut self, (x, known): Typed) -> Value {
        match known {
            Some(type_index::TENSOR) => return self.scalar_element(x),
            Some(type_index::INT | type_index::BOOL) => return self.e.payload(x),
            _ => {}
        }
        let tag = self.e.tag(x);
        let (tensor, plain) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I64);
        let is_tensor = self.e.b.ins().icmp_imm_s(IntCC::Equal, tag, i64::from(type_index::TENSOR));
        self.e.b.ins().brif(is_tensor, tensor, &[], plain, &[]);
        self.e.b.switch_to_block(plain);
        self.require_scalar(tag);
        let payload = self.e.payload(x);
        self.e.b.ins().jump(done, &[payload.into()]);
        self.e.b.switch_to_block(tensor);
        let element = self.scalar_element(x);
        self.e.b.ins().jump(done, &[element.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    /// The element of a boolean tensor without dimensions.
    fn scalar_element(&mut self, x: Slot) -> Value {
        let object = self.e.payload(x);
        self.require_dtype(object, DType::BOOL);
        let ndim = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.require_equal(ndim, 0);
        let device = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_DEVICE);
        self.require_equal(device, i64::from(DLDevice::KIND_CPU));
        let data = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let mapped = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(mapped);
        let offset = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        let at = self.e.b.ins().iadd(data, offset);
        self.e.b.ins().uload8(types::I64, trusted(), at, 0)
    }

    /// Leaves unless `tag` is that of an integer or a boolean, which are neighbours.
    fn require_scalar(&mut self, tag: Value) {
        let above = self.e.b.ins().iadd_imm_s(tag, -i64::from(type_index::INT));
        let scalar = self.e.b.ins().icmp_imm_u(
            IntCC::UnsignedLessThanOrEqual,
            above,
            i64::from(type_index::BOOL - type_index::INT),
        );
        self.require(scalar);
    }

    fn tuple_item(&mut self, args: &[Operand]) -> Option<Produced> {
        let &[Operand::Slot(x, tag), _] = args else { return None };
        let index = self.const_int(args.get(1)).filter(|index| (0..1 << 20).contains(index))?;
        let tuple = self.object((x, tag), type_index::ARRAY);
        let size = self.e.load(types::I64, tuple, ARRAY_SIZE);
        let inside = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, size, index);
        self.require(inside);
        let items = self.e.load(types::I64, tuple, ARRAY_DATA);
        let at = index as usize * ANY_SIZE;
        self.e.retain_at(items, at);
        Some(Produced::Owned(self.e.any_at(items, at)))
    }
}

const _: () = {
    assert!(type_index::BOOL == type_index::INT + 1);
    assert!(ANY_PAYLOAD == 8);
};

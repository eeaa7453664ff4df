//! Dimensions: matching, storing and loading them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use reflex_runtime::abi::{
    DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA, DLTENSOR_DEVICE, DLTENSOR_NDIM, DLTENSOR_SHAPE,
    SHAPE_DATA, SHAPE_SIZE, TENSOR_DLTENSOR, type_index,
};
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::{make_code, match_code};

use super::{FastPath, FastResult, Operand, Typed};
use crate::emit::{Slot, trusted};

/// The code and operand by which one dimension is matched or made, as compile-time constants.
#[derive(Clone, Copy)]
struct Pair {
    code: i64,
    reg: i64,
}

impl FastPath<'_, '_> {
    /// The (code, reg) pairs of a call, when all are constants that a fast path knows.
    fn pairs(&self, args: &[Operand], known: &[i64]) -> Option<Vec<Pair>> {
        args.chunks(2)
            .map(|pair| {
                let code = self.const_int(pair.first()).filter(|code| known.contains(code))?;
                Some(Pair { code, reg: self.const_int(pair.get(1))? })
            })
            .collect()
    }

    pub(super) fn match_shape(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[Operand::Slot(x, tag), heap, _, ref pairs @ .., _context] = args else { return None };
        let known =
            [match_code::ASSERT_IMM, match_code::STORE, match_code::NO_OP, match_code::ASSERT_LOAD];
        let pairs = self.pairs(pairs, &known)?;
        if self.const_int(args.get(2))? != pairs.len() as i64 {
            return None;
        }
        let used = |pair: &&Pair| [match_code::STORE, match_code::ASSERT_LOAD].contains(&pair.code);
        let heap = self.heap(heap, pairs.iter().filter(used).map(|pair| pair.reg))?;
        let dims = self.dims((x, tag), pairs.len());
        for (dim, pair) in pairs.iter().enumerate() {
            if pair.code == match_code::NO_OP {
                continue;
            }
            let extent = self.e.load(types::I64, dims, 8 * dim);
            self.match_one(*pair, extent, heap);
        }
        Some(FastResult::None)
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

    /// The address of the dimensions of a tensor or shape of the given rank.
    fn dims(&mut self, (x, known): Typed, rank: usize) -> Value {
        match known {
            Some(type_index::TENSOR) => return self.tensor_dims(x, rank),
            Some(type_index::SHAPE) => return self.shape_dims(x, rank),
            _ => {}
        }
        let tag = self.e.tag(x);
        let (tensor, shape) = (self.e.b.create_block(), self.e.b.create_block());
        let done = self.e.b.create_block();
        self.e.b.append_block_param(done, types::I64);
        let is_tensor = self.e.b.ins().icmp_imm_s(IntCC::Equal, tag, i64::from(type_index::TENSOR));
        self.e.b.ins().brif(is_tensor, tensor, &[], shape, &[]);
        self.e.b.switch_to_block(tensor);
        let dims = self.tensor_dims(x, rank);
        self.e.b.ins().jump(done, &[dims.into()]);
        self.e.b.switch_to_block(shape);
        self.require_equal(tag, i64::from(type_index::SHAPE));
        let dims = self.shape_dims(x, rank);
        self.e.b.ins().jump(done, &[dims.into()]);
        self.e.b.switch_to_block(done);
        self.e.b.block_params(done)[0]
    }

    fn tensor_dims(&mut self, x: Slot, rank: usize) -> Value {
        let object = self.e.payload(x);
        let ndim = self.e.load(types::I32, object, TENSOR_DLTENSOR + DLTENSOR_NDIM);
        self.require_equal(ndim, rank as i64);
        self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_SHAPE)
    }

    fn shape_dims(&mut self, x: Slot, rank: usize) -> Value {
        let object = self.e.payload(x);
        let size = self.e.load(types::I64, object, SHAPE_SIZE);
        self.require_equal(size, rank as i64);
        self.e.load(types::I64, object, SHAPE_DATA)
    }

    /// The address of the entries of a shape heap that has all of `regs`; no address if `regs` is
    /// empty. `None` if there is no fast path.
    fn heap(&mut self, heap: Operand, regs: impl Iterator<Item = i64>) -> Option<Option<Value>> {
        let regs: Vec<i64> = regs.collect();
        let &most = match regs.iter().max() {
            // The builtin checks its heap argument even if no code uses it.
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
        let dims = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        let size = self.e.load(types::I64, dims, 0);
        let enough = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, size, most);
        self.require(enough);
        let data = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let mapped = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(mapped);
        let offset = self.e.load(types::I64, object, TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET);
        Some(Some(self.e.b.ins().iadd(data, offset)))
    }

    /// The dimensions of the shape that a call of `make_shape` makes.
    pub(crate) fn dims_made(&mut self, args: &[Operand]) -> Option<Vec<Value>> {
        let &[heap, _, ref pairs @ ..] = args else { return None };
        let pairs = self.pairs(pairs, &[make_code::USE_IMM, make_code::LOAD])?;
        if self.const_int(args.get(1))? != pairs.len() as i64 {
            return None;
        }
        let loaded = |pair: &&Pair| pair.code == make_code::LOAD;
        let heap = self.heap(heap, pairs.iter().filter(loaded).map(|pair| pair.reg))?;
        let dims = pairs.iter().map(|pair| match heap {
            Some(heap) if pair.code == make_code::LOAD => {
                self.e.load(types::I64, heap, 8 * pair.reg as usize)
            }
            _ => self.e.i64(pair.reg),
        });
        Some(dims.collect())
    }

    pub(super) fn match_prim_value(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[value, heap, _, _, _context] = args else { return None };
        let known = [match_code::STORE, match_code::ASSERT_LOAD, match_code::ASSERT_IMM];
        let pair = *self.pairs(&args[2..4], &known)?.first()?;
        if !matches!(value, Operand::Slot(..) | Operand::Scalar { tag: type_index::INT, .. }) {
            return None;
        }
        let uses_heap = pair.code != match_code::ASSERT_IMM;
        let heap = self.heap(heap, uses_heap.then_some(pair.reg).into_iter())?;
        let value = self.int(value)?;
        self.match_one(pair, value, heap);
        Some(FastResult::None)
    }

    pub(super) fn make_prim_value(&mut self, args: &[Operand]) -> Option<FastResult> {
        let &[heap, _, _] = args else { return None };
        let pair = *self.pairs(&args[1..3], &[make_code::USE_IMM, make_code::LOAD])?.first()?;
        let uses_heap = pair.code == make_code::LOAD;
        let heap = self.heap(heap, uses_heap.then_some(pair.reg).into_iter())?;
        let payload = match heap {
            Some(heap) if uses_heap => self.e.load(types::I64, heap, 8 * pair.reg as usize),
            _ => self.e.i64(pair.reg),
        };
        Some(FastResult::Scalar { tag: type_index::INT, payload })
    }
}

//! Kernels by their raw entries: what must hold of each tensor, and the call itself.
//!
//! A fact is one thing that the packed entry of a kernel would check. Traces guard the facts that
//! their passes cannot prove; whole functions ask for those that the code does not tell, and call
//! the packed entry where one does not hold, so that errors are made in one place.

use std::fmt;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ANY_SIZE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA, DLTENSOR_DEVICE,
    DLTENSOR_DTYPE, DLTENSOR_NDIM, DLTENSOR_SHAPE, DLTENSOR_STRIDES, TENSOR_DLTENSOR,
};
use reflex_runtime::dtype::DType;
use reflex_vm::abi::SESSION_CONSTS;
use reflex_vm::kernel::{Dim, SymbolSource, TensorParam};

use crate::assemble::Assembler;
use crate::emit::Emit;
use crate::symbol::Symbol;

/// Something about a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fact {
    /// It has so many dimensions.
    Rank(u32),
    /// It has this element type, as [`dtype_bits`] writes it.
    Type(i32),
    /// It is in the host's memory.
    Cpu,
    /// The extent of this dimension, which it has.
    Extent { dim: u32, is: i64 },
    /// The extent of this dimension, which it has, is not negative.
    Counts { dim: u32 },
    /// It has data, in row-major order; its rank is known.
    Dense { rank: u32 },
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fact::Rank(rank) => write!(f, "has rank {rank}"),
            Fact::Type(bits) => {
                let [code, bits, low, high] = bits.to_le_bytes();
                let dtype = DType { code, bits, lanes: u16::from_le_bytes([low, high]) };
                write!(f, "has type {dtype}")
            }
            Fact::Cpu => f.write_str("is on the CPU"),
            Fact::Extent { dim, is } => write!(f, "has extent {is} at {dim}"),
            Fact::Counts { dim } => write!(f, "has an extent at {dim}"),
            Fact::Dense { .. } => f.write_str("is dense"),
        }
    }
}

/// An element type as it lies in memory.
pub(crate) fn dtype_bits(dtype: DType) -> i32 {
    let [low, high] = dtype.lanes.to_le_bytes();
    i32::from_le_bytes([dtype.code, dtype.bits, low, high])
}

/// What must hold of a tensor that is passed for `param`, as far as it concerns no other.
pub(crate) fn facts(param: &TensorParam) -> impl Iterator<Item = Fact> {
    let rank = param.shape.len() as u32;
    let first = [Fact::Rank(rank), Fact::Type(dtype_bits(param.dtype)), Fact::Cpu];
    let extents = (0..rank).zip(&param.shape).map(|(dim, extent)| match *extent {
        Dim::Static(is) => Fact::Extent { dim, is },
        Dim::Symbolic(_) => Fact::Counts { dim },
    });
    first.into_iter().chain(extents).chain([Fact::Dense { rank }])
}

/// A tensor that a kernel is called on.
#[derive(Clone, Debug)]
pub(crate) enum RawTensor {
    /// A tensor object.
    Object(Value),
    /// Data of a tensor that there is no object of.
    Data { data: Value, extents: Vec<Value> },
}

impl Emit<'_> {
    /// Goes to `otherwise` unless `fact` holds for a tensor object.
    pub(crate) fn require_fact(&mut self, tensor: Value, fact: Fact, otherwise: Block) {
        let holds = match fact {
            Fact::Rank(rank) => self.tensor_field(tensor, DLTENSOR_NDIM, i64::from(rank)),
            Fact::Type(bits) => self.tensor_field(tensor, DLTENSOR_DTYPE, i64::from(bits)),
            Fact::Cpu => self.tensor_field(tensor, DLTENSOR_DEVICE, i64::from(DLDevice::KIND_CPU)),
            Fact::Extent { dim, is } => {
                let extent = self.tensor_extent(tensor, dim);
                self.b.ins().icmp_imm_s(IntCC::Equal, extent, is)
            }
            Fact::Counts { dim } => {
                let extent = self.tensor_extent(tensor, dim);
                self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, extent, 0)
            }
            Fact::Dense { rank } => return self.require_dense(tensor, rank, otherwise),
        };
        self.require(holds, otherwise);
    }

    fn tensor_field(&mut self, tensor: Value, field: usize, is: i64) -> Value {
        let have = self.load(types::I32, tensor, TENSOR_DLTENSOR + field);
        self.b.ins().icmp_imm_s(IntCC::Equal, have, is)
    }

    /// An extent of a tensor that has that dimension.
    pub(crate) fn tensor_extent(&mut self, tensor: Value, dim: u32) -> Value {
        let extents = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        self.load(types::I64, extents, 8 * dim as usize)
    }

    fn require_dense(&mut self, tensor: Value, rank: u32, otherwise: Block) {
        let data = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_DATA);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, data, 0);
        self.require(there, otherwise);
        if rank == 0 {
            return;
        }
        let strides = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_STRIDES);
        let (given, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(strides, given, &[], next, &[]);
        self.b.switch_to_block(given);
        let mut expected = self.i64(1);
        for dim in (0..rank).rev() {
            let stride = self.load(types::I64, strides, 8 * dim as usize);
            let fits = self.b.ins().icmp(IntCC::Equal, stride, expected);
            self.require(fits, otherwise);
            if dim > 0 {
                let extent = self.tensor_extent(tensor, dim);
                expected = self.b.ins().imul(expected, extent);
            }
        }
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }

    /// The object of a constant.
    pub(crate) fn constant_object(&mut self, index: u32) -> Value {
        let consts = self.load(types::I64, self.session, SESSION_CONSTS);
        self.load(types::I64, consts, index as usize * ANY_SIZE + ANY_PAYLOAD)
    }

    /// Address of a tensor's first element.
    pub(crate) fn raw_data(&mut self, tensor: &RawTensor) -> Value {
        match *tensor {
            RawTensor::Object(tensor) => {
                let data = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_DATA);
                let offset = TENSOR_DLTENSOR + DLTENSOR_BYTE_OFFSET;
                let offset = self.load(types::I64, tensor, offset);
                self.b.ins().iadd(data, offset)
            }
            RawTensor::Data { data, .. } => data,
        }
    }

    /// Calls the raw entry of packed function `callee` on the data of `tensors`; the result is the
    /// status.
    pub(crate) fn call_raw(
        &mut self,
        callee: u32,
        tensors: &[RawTensor],
        symbols: &[SymbolSource],
    ) -> Value {
        let data = tensors.iter().map(|tensor| self.raw_data(tensor)).collect();
        self.call_raw_on(callee, data, tensors, symbols)
    }

    /// [`Emit::call_raw`] on data that is known already.
    pub(crate) fn call_raw_on(
        &mut self,
        callee: u32,
        data: Vec<Value>,
        tensors: &[RawTensor],
        symbols: &[SymbolSource],
    ) -> Value {
        let mut args = data;
        for &SymbolSource { param: at, dim } in symbols {
            args.push(match &tensors[at] {
                RawTensor::Object(tensor) => self.tensor_extent(*tensor, dim as u32),
                RawTensor::Data { extents, .. } => extents[dim],
            });
        }
        let mut signature = Signature::new(Assembler::C);
        signature.params = vec![AbiParam::new(types::I64); args.len()];
        signature.returns = vec![AbiParam::new(types::I32)];
        let signature = self.b.import_signature(signature);
        let code = self.symbol(Symbol::Raw(callee));
        let call = self.b.ins().call_indirect(signature, code, &args);
        self.b.inst_results(call)[0]
    }
}

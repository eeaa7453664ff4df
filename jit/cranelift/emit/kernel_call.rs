//! Direct calls of kernels by their raw entries, and the checks of facts that allow them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, Value, types};
use reflex_runtime::abi::{
    ANY_PAYLOAD, ANY_SIZE, DLDevice, DLTENSOR_BYTE_OFFSET, DLTENSOR_DATA, DLTENSOR_DEVICE,
    DLTENSOR_DTYPE, DLTENSOR_NDIM, DLTENSOR_SHAPE, DLTENSOR_STRIDES, TENSOR_DLTENSOR,
};
use reflex_vm::abi::SESSION_CONSTS;
use reflex_vm::kernel::SymbolSource;

use crate::assemble::abi;
use crate::assemble::relocation::Symbol;
use crate::emit::Emit;
use crate::facts::tensor::TensorFact;

/// A tensor that a kernel is called on.
#[derive(Clone, Debug)]
pub(crate) enum RawTensor {
    /// A tensor object.
    Object(Value),
    /// A tensor without an object: the address of its data, and its dimensions.
    Data { data: Value, dims: Vec<Value> },
}

impl Emit<'_> {
    /// Jumps to `otherwise` unless a fact holds of a tensor object.
    pub(crate) fn require_fact(&mut self, tensor: Value, fact: TensorFact, otherwise: Block) {
        let holds = match fact {
            TensorFact::Rank(rank) => self.tensor_field(tensor, DLTENSOR_NDIM, i64::from(rank)),
            TensorFact::Dtype(bits) => self.tensor_field(tensor, DLTENSOR_DTYPE, i64::from(bits)),
            TensorFact::Cpu => {
                self.tensor_field(tensor, DLTENSOR_DEVICE, i64::from(DLDevice::KIND_CPU))
            }
            TensorFact::Dim { dim, is } => {
                let extent = self.tensor_dim(tensor, dim);
                self.b.ins().icmp_imm_s(IntCC::Equal, extent, is)
            }
            TensorFact::NonNegative { dim } => {
                let extent = self.tensor_dim(tensor, dim);
                self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, extent, 0)
            }
            TensorFact::Contiguous { rank } => {
                return self.require_contiguous(tensor, rank, otherwise);
            }
        };
        self.require(holds, otherwise);
    }

    fn tensor_field(&mut self, tensor: Value, field: usize, is: i64) -> Value {
        let have = self.load(types::I32, tensor, TENSOR_DLTENSOR + field);
        self.b.ins().icmp_imm_s(IntCC::Equal, have, is)
    }

    /// A dimension of a tensor, which has that dimension.
    pub(crate) fn tensor_dim(&mut self, tensor: Value, dim: u32) -> Value {
        let dims = self.load(types::I64, tensor, TENSOR_DLTENSOR + DLTENSOR_SHAPE);
        self.load(types::I64, dims, 8 * dim as usize)
    }

    fn require_contiguous(&mut self, tensor: Value, rank: u32, otherwise: Block) {
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
                let extent = self.tensor_dim(tensor, dim);
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

    /// Calls the raw entry of packed function `callee` on the data of `tensors`; returns the status.
    pub(crate) fn call_raw(
        &mut self,
        callee: u32,
        tensors: &[RawTensor],
        symbols: &[SymbolSource],
    ) -> Value {
        let data = tensors.iter().map(|tensor| self.raw_data(tensor)).collect();
        self.call_raw_on(callee, data, tensors, symbols)
    }

    /// [`Emit::call_raw`] with data addresses that were loaded already.
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
                RawTensor::Object(tensor) => self.tensor_dim(*tensor, dim as u32),
                RawTensor::Data { dims, .. } => dims[dim],
            });
        }
        let mut signature = Signature::new(abi::C);
        signature.params = vec![AbiParam::new(types::I64); args.len()];
        signature.returns = vec![AbiParam::new(types::I32)];
        let signature = self.b.import_signature(signature);
        let code = self.symbol(Symbol::Raw(callee));
        let call = self.b.ins().call_indirect(signature, code, &args);
        self.b.inst_results(call)[0]
    }
}

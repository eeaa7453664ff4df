//! Calls of packed functions, and of kernels by their raw entries.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use reflex_runtime::abi::type_index;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_vm::abi::{DISCARD, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ArgSource, Op, Source};
use reflex_vm::kernel::{Dim, RawKernel, SymbolSource, TensorParam};

use super::MethodBody;
use crate::assemble::relocation::Symbol;
use crate::emit::Slot;
use crate::emit::kernel_call::RawTensor;
use crate::facts::call_args::CallArgs;
use crate::facts::registers::RegFact;
use crate::facts::tensor::{TensorFact, param_facts};

/// Arguments of a packed function in memory.
#[derive(Clone, Copy)]
pub(super) struct ArgumentArea {
    pub(super) address: Value,
    pub(super) count: usize,
}

/// A call of a kernel by its raw entry.
struct KernelCall<'p> {
    pc: u32,
    callee: u32,
    kernel: &'p RawKernel,
    dst: u32,
}

impl MethodBody<'_, '_> {
    /// Polls the interrupt word, as every packed call does.
    fn poll_before_call(&mut self, pc: u32) {
        let wanted = self.e.interrupted();
        let (poll, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(wanted, poll, &[], next, &[]);
        self.e.b.switch_to_block(poll);
        self.e.call_or_fail(libcall::POLL, pc);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Calls a packed function: a kernel by its raw entry, if its arguments pass the checks.
    pub(super) fn call_packed(&mut self, pc: u32, callee: u32, args: ArgRange, dst: u32) {
        let program = self.program;
        let Some(packed) = program.packed(callee) else {
            self.e.call_or_fail(libcall::EXECUTE, pc);
            return;
        };
        self.poll_before_call(pc);
        let next = self.e.b.create_block();
        if let Some(kernel) = &packed.raw {
            let otherwise = self.e.cold_block();
            let sources = self.func.args(args);
            let call = KernelCall { pc, callee, kernel, dst };
            if self.call_kernel(&call, sources, otherwise) {
                self.e.b.ins().jump(next, &[]);
            } else {
                self.e.b.ins().jump(otherwise, &[]);
            }
            self.e.b.switch_to_block(otherwise);
        }
        self.lend_args(self.func.args(args));
        let area = self.e.slot_address(Slot::index(self.func.arg_area()));
        let arguments = ArgumentArea { address: area, count: args.len as usize };
        self.run_packed(pc, callee, arguments, dst);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Puts arguments into the argument area, which borrows them.
    pub(super) fn lend_args(&mut self, args: &[Source]) {
        let area = self.func.arg_area();
        for (index, source) in args.iter().enumerate() {
            let value = match (source.reg(), source.reg().map(|reg| self.holds(reg))) {
                (Some(reg), Some(RegFact::Tag(tag))) => {
                    self.e.load_typed(Slot::index(reg as usize), tag)
                }
                _ => self.e.source(source.get()),
            };
            self.e.store_any(Slot::index(area + index), value);
        }
    }

    /// Calls a packed function with arguments in memory, or returns its error.
    pub(super) fn run_packed(&mut self, pc: u32, callee: u32, args: ArgumentArea, dst: u32) {
        let result_slot = Slot::index(self.func.result_slot());
        // The callee must find None in the result slot.
        self.e.store_none(result_slot);
        let code = self.e.symbol(Symbol::Code(callee));
        let this = self.e.symbol(Symbol::This(callee));
        let result = self.e.slot_address(result_slot);
        let status = self.e.call_packed(code, this, args.address, args.count, result);
        let failed = self.e.cold_block();
        let fine = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.e.require(fine, failed);
        if dst == DISCARD {
            self.e.release(result_slot);
        } else {
            self.release(dst);
            let value = self.e.load_any(result_slot);
            self.e.store_any(Slot::index(dst as usize), value);
        }
        let next = self.e.b.create_block();
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(failed);
        self.failed(pc);
        self.e.b.switch_to_block(next);
    }

    /// Returns the error of the call at `pc`; the result slot is valid.
    fn failed(&mut self, pc: u32) {
        let result = self.e.slot_address(Slot::index(self.func.result_slot()));
        let at = self.e.i32(i64::from(pc));
        let params = [types::I64, types::I32, types::I64];
        let args = [self.e.session, at, result];
        let call = self.e.call_libcall(libcall::PACKED_FAILED, &params, Some(types::I32), &args);
        let status = self.e.b.inst_results(call)[0];
        self.e.b.ins().return_(&[status]);
    }

    /// Calls a kernel by its raw entry, or jumps to `otherwise` before anything has happened. Returns
    /// false if some argument can never pass the checks; then the caller ends the block.
    fn call_kernel(
        &mut self,
        &KernelCall { pc, callee, kernel, dst }: &KernelCall<'_>,
        sources: &[Source],
        otherwise: Block,
    ) -> bool {
        if sources.len() != kernel.params().len() {
            return false;
        }
        let mut tensors = Vec::with_capacity(sources.len());
        for (source, param) in sources.iter().zip(kernel.params()) {
            let Some(tensor) = self.tensor(*source, param, otherwise) else { return false };
            tensors.push(tensor);
        }
        self.require_symbols(kernel, &tensors, otherwise);
        let tensors: Vec<RawTensor> = tensors.into_iter().map(RawTensor::Object).collect();
        let status = self.e.call_raw(callee, &tensors, kernel.symbol_sources());
        let failed = self.e.cold_block();
        let fine = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.e.require(fine, failed);
        if dst != DISCARD {
            self.release(dst);
            self.e.store_none(Slot::index(dst as usize));
        }
        let done = self.e.b.create_block();
        self.e.b.ins().jump(done, &[]);
        self.e.b.switch_to_block(failed);
        // No packed call has cleared the slot.
        self.e.store_none(Slot::index(self.func.result_slot()));
        self.failed(pc);
        self.e.b.switch_to_block(done);
        true
    }

    /// Jumps to `otherwise` unless each symbolic dimension has one size in all arguments.
    fn require_symbols(&mut self, kernel: &RawKernel, tensors: &[Value], otherwise: Block) {
        for (at, param) in kernel.params().iter().enumerate() {
            for (dim, extent) in param.shape.iter().enumerate() {
                let Dim::Symbolic(symbol) = *extent else { continue };
                let SymbolSource { param: first, dim: origin } =
                    kernel.symbol_sources()[symbol as usize];
                if (first, origin) != (at, dim) {
                    let have = self.e.tensor_dim(tensors[at], dim as u32);
                    let want = self.e.tensor_dim(tensors[first], origin as u32);
                    let same = self.e.b.ins().icmp(IntCC::Equal, have, want);
                    self.e.require(same, otherwise);
                }
            }
        }
    }

    /// The tensor that is passed for `param`; jumps to `otherwise` if the facts of `param` do not hold.
    /// `None` if they never hold.
    fn tensor(&mut self, source: Source, param: &TensorParam, otherwise: Block) -> Option<Value> {
        let reg = match source.get() {
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => reg,
            ArgSource::Const(index) => {
                let constant = self.program.consts()[index as usize].view();
                let tensor = constant.downcast_ref::<Tensor>()?;
                return param.accepts(tensor).then(|| self.e.constant_object(index));
            }
            ArgSource::Vm => return None,
        };
        let slot = Slot::index(reg as usize);
        let made = self.allocated(reg);
        match self.holds(reg) {
            RegFact::Allocated(_) if made.is_some() => {}
            RegFact::Tag(type_index::TENSOR) => {}
            RegFact::Scalar | RegFact::Tag(_) => return None,
            RegFact::Unknown | RegFact::Allocated(_) => {
                let tensor = self.e.has_tag(slot, type_index::TENSOR);
                self.e.require(tensor, otherwise);
            }
        }
        let tensor = self.e.payload(slot);
        for fact in param_facts(param) {
            match made.as_ref().and_then(|made| made.proves(fact)) {
                Some(true) => {}
                Some(false) => return None,
                None if self.state.checked.holds(reg, fact) => {}
                None => self.e.require_fact(tensor, fact, otherwise),
            }
        }
        Some(tensor)
    }

    /// Facts about the tensor in a register that follow from its allocation.
    fn allocated(&self, reg: u32) -> Option<AllocatedTensor> {
        let RegFact::Allocated(pc) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::AllocTensor, args, .. } = self.func.ops[pc as usize]
        else {
            return None;
        };
        let args = CallArgs { program: self.program, func: self.func, args };
        Some(AllocatedTensor {
            // Recycled tensors lie on storages of the VM.
            cpu: self.plans.get(pc).is_some() && self.program.device().is_cpu(),
            dtype: args.get(3).and_then(|dtype| dtype.as_dtype()).map(|dtype| dtype.to_bits()),
            shape: args.get(2).and_then(|shape| Some(shape.downcast_ref::<Shape>()?.to_vec())),
        })
    }
}

/// Facts about a tensor that follow from the arguments of its allocation.
struct AllocatedTensor {
    cpu: bool,
    dtype: Option<i32>,
    shape: Option<Vec<i64>>,
}

impl AllocatedTensor {
    /// Returns if a fact holds; `None` if that is unknown.
    fn proves(&self, fact: TensorFact) -> Option<bool> {
        let extent = |dim: u32| Some(self.shape.as_ref()?.get(dim as usize).copied());
        match fact {
            TensorFact::Rank(rank) => Some(self.shape.as_ref()?.len() == rank as usize),
            TensorFact::Dtype(bits) => Some(self.dtype? == bits),
            TensorFact::Cpu => self.cpu.then_some(true),
            TensorFact::Dim { dim, is } => Some(extent(dim)? == Some(is)),
            TensorFact::NonNegative { .. } | TensorFact::Contiguous { .. } => Some(true),
        }
    }
}

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

use super::Body;
use crate::constants::Constants;
use crate::emit::Slot;
use crate::facts::Holds;
use crate::raw::{Fact, RawTensor, dtype_bits, facts};
use crate::symbol::Symbol;

impl Body<'_, '_> {
    /// Looks at interrupts, as every packed call does.
    fn poll_before_call(&mut self, pc: u32) {
        let wanted = self.e.interrupted();
        let (poll, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(wanted, poll, &[], next, &[]);
        self.e.b.switch_to_block(poll);
        self.e.call_or_fail(libcall::POLL, pc);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Calls a packed function: a kernel by its raw entry where its arguments are as they must be.
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
            if self.call_kernel(pc, (callee, kernel), args, dst, otherwise) {
                self.e.b.ins().jump(next, &[]);
            } else {
                self.e.b.ins().jump(otherwise, &[]);
            }
            self.e.b.switch_to_block(otherwise);
        }
        let area = self.func.arg_area();
        for (index, source) in self.func.args(args).iter().enumerate() {
            let value = match (source.reg(), source.reg().map(|reg| self.holds(reg))) {
                (Some(reg), Some(Holds::Tag(tag))) => {
                    self.e.load_typed(Slot::index(reg as usize), tag)
                }
                _ => self.e.source(source.get()),
            };
            self.e.store_any(Slot::index(area + index), value);
        }
        let area = self.e.slot_address(Slot::index(area));
        self.run_packed(pc, (callee, area, args.len as usize), dst);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Calls a packed function with so many arguments in memory, or leaves with its error.
    pub(super) fn run_packed(
        &mut self,
        pc: u32,
        (callee, area, count): (u32, Value, usize),
        dst: u32,
    ) {
        let result_slot = Slot::index(self.func.result_slot());
        // The callee finds None there, whatever an earlier call left.
        self.e.store_none(result_slot);
        let code = self.e.symbol(Symbol::Code(callee));
        let this = self.e.symbol(Symbol::This(callee));
        let result = self.e.slot_address(result_slot);
        let status = self.e.call_packed(code, this, area, count, result);
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

    /// Leaves with the error of the call at `pc`; the result slot is valid.
    fn failed(&mut self, pc: u32) {
        let result = self.e.slot_address(Slot::index(self.func.result_slot()));
        let at = self.e.i32(i64::from(pc));
        let params = [types::I64, types::I32, types::I64];
        let args = [self.e.session, at, result];
        let call = self.e.call_back(libcall::PACKED_FAILED, &params, Some(types::I32), &args);
        let status = self.e.b.inst_results(call)[0];
        self.e.b.ins().return_(&[status]);
    }

    /// Calls a kernel by its raw entry, or goes to `otherwise` before anything has happened. False
    /// when some argument can never be what the kernel takes; the block is to be ended then.
    fn call_kernel(
        &mut self,
        pc: u32,
        (callee, kernel): (u32, &RawKernel),
        args: ArgRange,
        dst: u32,
        otherwise: Block,
    ) -> bool {
        let func = self.func;
        let sources = func.args(args);
        if sources.len() != kernel.params().len() {
            return false;
        }
        let mut tensors = Vec::with_capacity(sources.len());
        for (source, param) in sources.iter().zip(kernel.params()) {
            let Some(tensor) = self.tensor(*source, param, otherwise) else { return false };
            tensors.push(tensor);
        }
        self.require_alike(kernel, &tensors, otherwise);
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
        // No packed call has cleared it.
        self.e.store_none(Slot::index(self.func.result_slot()));
        self.failed(pc);
        self.e.b.switch_to_block(done);
        true
    }

    /// Goes to `otherwise` unless every symbol is the same extent wherever it stands.
    fn require_alike(&mut self, kernel: &RawKernel, tensors: &[Value], otherwise: Block) {
        for (at, param) in kernel.params().iter().enumerate() {
            for (dim, extent) in param.shape.iter().enumerate() {
                let Dim::Symbolic(symbol) = *extent else { continue };
                let SymbolSource { param: first, dim: origin } =
                    kernel.symbol_sources()[symbol as usize];
                if (first, origin) != (at, dim) {
                    let have = self.e.tensor_extent(tensors[at], dim as u32);
                    let want = self.e.tensor_extent(tensors[first], origin as u32);
                    let same = self.e.b.ins().icmp(IntCC::Equal, have, want);
                    self.e.require(same, otherwise);
                }
            }
        }
    }

    /// The tensor that is passed for `param`; goes to `otherwise` when it is not as that says.
    /// `None` when it never is.
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
        let made = self.made(reg);
        match self.holds(reg) {
            Holds::Made(_) if made.is_some() => {}
            Holds::Tag(type_index::TENSOR) => {}
            Holds::Plain | Holds::Tag(_) => return None,
            Holds::Any | Holds::Made(_) => {
                let tensor = self.e.has_tag(slot, type_index::TENSOR);
                self.e.require(tensor, otherwise);
            }
        }
        let tensor = self.e.payload(slot);
        for fact in facts(param) {
            match made.as_ref().and_then(|made| made.tells(fact)) {
                Some(true) => {}
                Some(false) => return None,
                None if self.known.checked.holds(reg, fact) => {}
                None => self.e.require_fact(tensor, fact, otherwise),
            }
        }
        Some(tensor)
    }

    /// What is known of the tensor in a register from the operation that made it.
    fn made(&self, reg: u32) -> Option<Made> {
        let Holds::Made(pc) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::AllocTensor, args, .. } = self.func.ops[pc as usize]
        else {
            return None;
        };
        let args = Constants { program: self.program, func: self.func, args };
        Some(Made {
            // A storage whose objects are kept is one that the VM made.
            cpu: self.plans.get(pc).is_some(),
            dtype: args.get(3).and_then(|dtype| dtype.as_dtype()).map(dtype_bits),
            shape: args.get(2).and_then(|shape| Some(shape.downcast_ref::<Shape>()?.to_vec())),
        })
    }
}

/// What the code says of a tensor that it made.
struct Made {
    cpu: bool,
    dtype: Option<i32>,
    shape: Option<Vec<i64>>,
}

impl Made {
    /// Whether a fact holds; `None` when the code does not tell.
    fn tells(&self, fact: Fact) -> Option<bool> {
        let extent = |dim: u32| Some(self.shape.as_ref()?.get(dim as usize).copied());
        match fact {
            Fact::Rank(rank) => Some(self.shape.as_ref()?.len() == rank as usize),
            Fact::Type(bits) => Some(self.dtype? == bits),
            Fact::Cpu => self.cpu.then_some(true),
            Fact::Extent { dim, is } => Some(extent(dim)? == Some(is)),
            Fact::Counts { .. } | Fact::Dense { .. } => Some(true),
        }
    }
}

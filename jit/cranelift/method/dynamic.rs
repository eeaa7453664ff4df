//! Calls of kernels with the dimensions of a shape as additional arguments.

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, SHAPE_DATA, type_index};
use reflex_runtime::shape::Shape;
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ArgSource, Op, Source};

use super::MethodBody;
use super::packed::ArgumentArea;
use crate::emit::{Bits, Slot, trusted};
use crate::facts::call_args::CallArgs;
use crate::facts::registers::RegFact;
use crate::method::lowering::InlineDecision;

/// Most arguments of one inline call.
const MAX_ARGS: usize = 32;

impl MethodBody<'_, '_> {
    /// Emits the call of `call_tir_dyn` at `pc`. Returns false, and emits nothing, if the packed
    /// function or the number of dimensions is unknown.
    pub(super) fn call_with_dims(&mut self, pc: u32, args: ArgRange, dst: u32) -> bool {
        let known = CallArgs { program: self.program, func: self.func, args };
        let [_, passed @ .., shape] = self.func.args(args) else { return false };
        let (Some(callee), Some(rank)) = (known.packed(0), self.rank_of(*shape)) else {
            return false;
        };
        let count = passed.len() + rank;
        if count > MAX_ARGS {
            return false;
        }
        self.note(pc, Builtin::CallTirDyn, InlineDecision::Inline);
        let mut all: Vec<Bits> = Vec::with_capacity(count);
        all.extend(passed.iter().map(|source| self.e.source(source.get())));
        let int = self.e.i64(i64::from(type_index::INT));
        let dims = self.dims(*shape, rank);
        all.extend(dims.into_iter().map(|payload| Bits { head: int, payload }));
        let size = (count.max(1) * ANY_SIZE) as u32;
        let align = ANY_SIZE.trailing_zeros() as u8;
        let area = StackSlotData::new(StackSlotKind::ExplicitSlot, size, align);
        let area = self.e.b.create_sized_stack_slot(area);
        let area = self.e.b.ins().stack_addr(types::I64, area, 0);
        for (at, value) in all.into_iter().enumerate() {
            let at = (at * ANY_SIZE) as i32;
            self.e.b.ins().store(trusted(), value.head, area, at);
            self.e.b.ins().store(trusted(), value.payload, area, at + ANY_PAYLOAD as i32);
        }
        self.run_packed(pc, callee, ArgumentArea { address: area, count }, dst);
        true
    }

    /// The rank of a shape that is a constant, or that the function makes.
    fn rank_of(&self, shape: Source) -> Option<usize> {
        let reg = match shape.get() {
            ArgSource::Const(index) => {
                let constant = self.program.consts()[index as usize].view();
                return Some(constant.downcast_ref::<Shape>()?.len());
            }
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => reg,
            ArgSource::Vm => return None,
        };
        let RegFact::Allocated(made) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::MakeShape, args, .. } = self.func.ops[made as usize]
        else {
            return None;
        };
        let made = CallArgs { program: self.program, func: self.func, args };
        usize::try_from(made.int(1)?).ok()
    }

    /// The dimensions of such a shape.
    fn dims(&mut self, shape: Source, rank: usize) -> Vec<Value> {
        let object = match shape.get() {
            ArgSource::Const(index) => self.e.constant_object(index),
            ArgSource::Reg(reg) | ArgSource::LastUse(reg) => {
                self.e.payload(Slot::index(reg as usize))
            }
            ArgSource::Vm => return Vec::new(),
        };
        let data = self.e.load(types::I64, object, SHAPE_DATA);
        (0..rank).map(|dim| self.e.load(types::I64, data, 8 * dim)).collect()
    }
}

//! Uses of virtual objects by instructions.

use reflex_runtime::abi::type_index;
use reflex_runtime::object::ObjectType;
use reflex_runtime::storage::Storage;

use super::super::super::ir::{Arg, ExitId, Ins, Item, Object, ObjectId, Scalar, VReg};
use super::EscapeAnalysis;
use crate::facts::tensor::TensorFact;

impl EscapeAnalysis<'_> {
    /// Returns true if a fact holds of a virtual object. Adds a guard for dimensions that are
    /// variables.
    pub(super) fn satisfies(&mut self, object: ObjectId, fact: TensorFact, exit: ExitId) -> bool {
        let object = self.object(object);
        let (Object::Tensor { dtype, .. } | Object::View { dtype, .. }) = object else {
            return false;
        };
        let Some(dims) = object.dims() else { return false };
        match fact {
            TensorFact::Rank(rank) => dims.len() == rank as usize,
            TensorFact::Dtype(bits) => dtype.to_bits() == bits,
            TensorFact::Dim { dim, is } => {
                let have = dims.get(dim as usize);
                have.is_some_and(|&have| self.same(have, Scalar::int(is), exit))
            }
            TensorFact::NonNegative { dim } => match dims.get(dim as usize) {
                Some(Scalar::Const { bits, .. }) => *bits >= 0,
                // A guard has checked that a view with such dimensions fits.
                Some(Scalar::Var { .. }) => true,
                None => false,
            },
            TensorFact::Cpu | TensorFact::Contiguous { .. } => true,
        }
    }

    /// An instruction that stays, with virtual tensors instead of registers. Virtual objects in its
    /// other registers escape.
    pub(super) fn replaced(&mut self, ins: &Ins) -> Ins {
        if let Ins::CallKernel { frame, callee, args, exit } = ins {
            let args = args.iter().map(|&arg| self.tensor(arg)).collect();
            return Ins::CallKernel { frame: *frame, callee: *callee, args, exit: *exit };
        }
        for vreg in ins.reads() {
            self.mark_escaped(vreg);
        }
        ins.clone()
    }

    fn tensor(&mut self, arg: Arg) -> Arg {
        let Arg::Reg(vreg, _) = arg else { return arg };
        match self.virtuals.get(&vreg) {
            Some(&object) if self.is_tensor(object) => Arg::Object(object),
            Some(_) => {
                self.mark_escaped(vreg);
                arg
            }
            None => arg,
        }
    }

    fn is_tensor(&self, object: ObjectId) -> bool {
        matches!(self.object(object), Object::Tensor { .. } | Object::View { .. })
    }

    /// Marks the virtual object in a register, and all that it refers to, as escaped.
    pub(super) fn mark_escaped(&mut self, vreg: VReg) {
        let Some(&object) = self.virtuals.get(&vreg) else { return };
        let mut work = vec![object];
        while let Some(object) = work.pop() {
            self.newly_escaped.push(self.origins[object.0 as usize]);
            match self.object(object) {
                Object::Storage { .. } | Object::Shape { .. } | Object::Heap { .. } => {}
                Object::Tensor { on, .. } => work.push(*on),
                Object::View { .. } | Object::Tuple { .. } | Object::Closure { .. } => {
                    work.extend(self.object(object).items().iter().filter_map(|item| match item {
                        Item::Object(object) => Some(*object),
                        Item::Owned(_) | Item::Scalar(_) | Item::Const(_) => None,
                    }));
                }
            }
        }
    }

    /// The type of an object.
    pub(super) fn tag(&self, object: ObjectId) -> i32 {
        match self.object(object) {
            Object::Storage { .. } => Storage::type_index(),
            Object::Tensor { .. } | Object::View { .. } | Object::Heap { .. } => type_index::TENSOR,
            Object::Shape { .. } => type_index::SHAPE,
            Object::Tuple { .. } => type_index::ARRAY,
            // No guard tests a closure by its type.
            Object::Closure { .. } => type_index::OBJECT,
        }
    }
}

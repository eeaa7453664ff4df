//! What instructions do with objects that are not made.

use reflex_runtime::abi::type_index;
use reflex_runtime::object::ObjectType;
use reflex_runtime::storage::Storage;

use super::super::super::ir::{Arg, ExitId, Ins, Item, Object, ObjectId, Place, Plain};
use super::Attempt;
use crate::raw::{Fact, dtype_bits};

impl Attempt<'_> {
    /// Whether a fact is known of an object; of extents that are variables, it is guarded.
    pub(super) fn holds(&mut self, object: ObjectId, fact: Fact, exit: ExitId) -> bool {
        let object = self.object(object);
        let (Object::Tensor { dtype, .. } | Object::View { dtype, .. }) = object else {
            return false;
        };
        let Some(extents) = object.extents() else { return false };
        match fact {
            Fact::Rank(rank) => extents.len() == rank as usize,
            Fact::Type(bits) => dtype_bits(*dtype) == bits,
            Fact::Extent { dim, is } => {
                let have = extents.get(dim as usize);
                have.is_some_and(|&have| self.same(have, Plain::int(is), exit))
            }
            Fact::Counts { dim } => match extents.get(dim as usize) {
                Some(Plain::Const { bits, .. }) => *bits >= 0,
                // A view with such extents was seen to fit.
                Some(Plain::Var { .. }) => true,
                None => false,
            },
            Fact::Cpu | Fact::Dense { .. } => true,
        }
    }

    /// An instruction that stays, with objects in place of registers. What cannot do without the
    /// registers shows their objects.
    pub(super) fn replaced(&mut self, ins: &Ins) -> Ins {
        if let Ins::Raw { frame, callee, args, exit } = ins {
            let args = args.iter().map(|&arg| self.tensor(arg)).collect();
            return Ins::Raw { frame: *frame, callee: *callee, args, exit: *exit };
        }
        for place in ins.reads() {
            self.show(place);
        }
        ins.clone()
    }

    fn tensor(&mut self, arg: Arg) -> Arg {
        let Arg::Place(place, _) = arg else { return arg };
        match self.held.get(&place) {
            Some(&object) if self.is_tensor(object) => Arg::Object(object),
            Some(_) => {
                self.show(place);
                arg
            }
            None => arg,
        }
    }

    fn is_tensor(&self, object: ObjectId) -> bool {
        matches!(self.object(object), Object::Tensor { .. } | Object::View { .. })
    }

    /// Notes that somebody sees what a register holds.
    pub(super) fn show(&mut self, place: Place) {
        let Some(&object) = self.held.get(&place) else { return };
        let mut work = vec![object];
        while let Some(object) = work.pop() {
            self.newly.push(self.origins[object.0 as usize]);
            match self.object(object) {
                Object::Storage { .. } | Object::Shape { .. } | Object::Heap { .. } => {}
                Object::Tensor { on, .. } => work.push(*on),
                Object::View { .. } | Object::Tuple { .. } | Object::Closure { .. } => {
                    work.extend(self.object(object).items().iter().filter_map(|item| match item {
                        Item::Object(object) => Some(*object),
                        Item::Held(_) | Item::Plain(_) | Item::Const(_) => None,
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
            // No guard asks for a closure by its type.
            Object::Closure { .. } => type_index::OBJECT,
        }
    }
}

//! Virtual shapes and shape heaps, whose dimensions are scalars.
//!
//! A heap is mutable: a store to it makes another virtual object, which replaces the old one in every
//! register. A side exit before the store materialises the old heap, so that the interpreter runs
//! the complete operation.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, make_code, match_code};

use super::super::super::ir::{
    Arg, BuiltinResult, ExitId, Ins, Item, Object, ObjectId, Scalar, VReg, Var,
};
use super::EscapeAnalysis;
use crate::facts::tensor::TensorFact;

/// A constant number.
pub(super) fn number(bits: i64) -> Item {
    Item::Scalar(Scalar::int(bits))
}

fn constant(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Scalar(Scalar::Const { tag: type_index::INT, bits }) => Some(*bits),
        _ => None,
    }
}

/// Pairs of a match code and a number, if all are constants.
fn pairs(args: &[Arg]) -> Option<Vec<(i64, i64)>> {
    args.chunks(2).map(|pair| Some((constant(pair.first()?)?, constant(pair.get(1)?)?))).collect()
}

/// The source of the dimensions of a value.
enum DimSource {
    Known(Vec<Item>),
    Tensor(VReg),
}

/// A tensor or shape to be matched, and the rank to match.
struct MatchedValue {
    value: Arg,
    rank: Arg,
}

impl EscapeAnalysis<'_> {
    /// Returns true if a builtin works on virtual shapes and heaps; then its effect is tracked.
    pub(super) fn numbers(
        &mut self,
        builtin: Builtin,
        args: &[Arg],
        result: BuiltinResult,
        exit: ExitId,
    ) -> bool {
        let done = match (builtin, args, result) {
            (Builtin::MatchShape, [x, heap, rank, pairs @ .., _context], _) => {
                self.match_shape(MatchedValue { value: *x, rank: *rank }, *heap, pairs, exit)
            }
            (Builtin::MatchPrimValue, [Arg::Scalar(value), heap, pair @ .., _context], _)
                if value.tag() == type_index::INT =>
            {
                self.match_numbers(&[Item::Scalar(*value)], *heap, pair, exit)
            }
            (Builtin::MakePrimValue, [heap, pair @ ..], BuiltinResult::Var(_, var)) => {
                match self.dims_made(*heap, pair).as_deref() {
                    Some(&[Item::Scalar(value)]) => {
                        self.emit(Ins::Let { var, value });
                        Some(())
                    }
                    _ => None,
                }
            }
            (Builtin::CheckShapeInfo, [Arg::Reg(vreg, _), rank, _context], _) => {
                let shape = self.virtuals.get(vreg).map(|&object| self.object(object));
                match (shape, constant(rank)) {
                    (Some(Object::Shape { dims }), Some(rank)) => {
                        (rank == -1 || rank == dims.len() as i64).then_some(())
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        done.is_some()
    }

    /// The virtual heap in a register, if only registers hold it.
    fn heap(&self, arg: Arg) -> Option<(ObjectId, Vec<Item>)> {
        let Arg::Reg(vreg, _) = arg else { return None };
        let &id = self.virtuals.get(&vreg)?;
        let Object::Heap { entries } = self.object(id) else { return None };
        let registers = self.virtuals.values().filter(|&&object| object == id).count();
        (registers == self.holders[id.0 as usize] as usize).then(|| (id, entries.clone()))
    }

    /// The numbers that `make_shape` and `make_prim_value` load from a heap or get as constants.
    pub(super) fn dims_made(&self, heap: Arg, args: &[Arg]) -> Option<Vec<Item>> {
        let entries = match heap {
            Arg::Scalar(Scalar::NONE) => Vec::new(),
            heap => self.heap(heap)?.1,
        };
        let made = pairs(args)?.into_iter().map(|(code, value)| match code {
            make_code::USE_IMM => Some(number(value)),
            make_code::LOAD => entries.get(usize::try_from(value).ok()?).copied(),
            _ => None,
        });
        made.collect()
    }

    fn match_shape(
        &mut self,
        MatchedValue { value: x, rank }: MatchedValue,
        heap: Arg,
        args: &[Arg],
        exit: ExitId,
    ) -> Option<()> {
        let rank = usize::try_from(constant(&rank)?).ok()?;
        let Arg::Reg(vreg, tag) = x else { return None };
        let dims = match self.virtuals.get(&vreg).map(|&object| self.object(object)) {
            Some(Object::Shape { dims }) => DimSource::Known(dims.clone()),
            Some(object @ (Object::Tensor { .. } | Object::View { .. })) => {
                DimSource::Known(object.dims()?.into_iter().map(Item::Scalar).collect())
            }
            Some(_) => return None,
            None if tag == Some(type_index::TENSOR) && self.heap(heap).is_some() => {
                DimSource::Tensor(vreg)
            }
            None => return None,
        };
        let found = match dims {
            DimSource::Known(dims) => dims,
            DimSource::Tensor(vreg) => {
                let checked = pairs(args)?;
                self.emit(Ins::GuardFact { vreg, fact: TensorFact::Rank(rank as u32), exit });
                let mut found = Vec::with_capacity(rank);
                for (dim, &(code, is)) in (0..rank as u32).zip(&checked) {
                    found.push(if code == match_code::ASSERT_IMM {
                        self.emit(Ins::GuardFact { vreg, fact: TensorFact::Dim { dim, is }, exit });
                        number(is)
                    } else {
                        let var = Var(self.vars);
                        self.vars += 1;
                        self.emit(Ins::LoadDim { var, vreg, dim });
                        Item::Scalar(Scalar::number(var))
                    });
                }
                found
            }
        };
        (found.len() == rank).then_some(())?;
        self.match_numbers(&found, heap, args, exit)
    }

    /// Matches numbers against a heap.
    fn match_numbers(
        &mut self,
        numbers: &[Item],
        heap: Arg,
        args: &[Arg],
        exit: ExitId,
    ) -> Option<()> {
        let (id, mut entries) = match heap {
            Arg::Scalar(Scalar::NONE) => (None, Vec::new()),
            heap => self.heap(heap).map(|(id, entries)| (Some(id), entries))?,
        };
        let pairs = pairs(args).filter(|pairs| pairs.len() == numbers.len())?;
        let before = entries.clone();
        for (&have, (code, value)) in numbers.iter().zip(pairs) {
            let entry = usize::try_from(value).ok();
            let wanted = match code {
                match_code::NO_OP => continue,
                match_code::ASSERT_IMM => number(value),
                match_code::ASSERT_LOAD => *entries.get(entry?)?,
                match_code::STORE => {
                    *entries.get_mut(entry?)? = have;
                    continue;
                }
                _ => return None,
            };
            match (have, wanted) {
                _ if have == wanted => {}
                (Item::Scalar(Scalar::Const { .. }), Item::Scalar(Scalar::Const { .. })) => {
                    return None;
                }
                (Item::Scalar(left), Item::Scalar(right)) => {
                    self.emit(Ins::GuardEqual { left, right, exit });
                }
                _ => return None,
            }
        }
        if let Some(id) = id.filter(|_| entries != before) {
            self.change(id, Object::Heap { entries });
        }
        Some(())
    }

    /// Replaces a virtual object by a new one in every register that holds it.
    fn change(&mut self, old: ObjectId, object: Object) {
        let id = self.add_virtual(self.origins[old.0 as usize], object);
        self.holders[id.0 as usize] = self.holders[old.0 as usize];
        for object in self.virtuals.values_mut().filter(|object| **object == old) {
            *object = id;
        }
    }
}

//! Shapes and shape heaps: their numbers are plain values.
//!
//! A heap changes; what is stored in it makes another recipe of it, which takes the place of the
//! old one in every register. An exit before the store finds the heap as it was, so that the
//! interpreter runs the whole operation.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, make_code, match_code};

use super::super::super::ir::{
    Arg, BuiltinResult, ExitId, Ins, Item, Object, ObjectId, Place, Plain, Var,
};
use super::Attempt;
use crate::raw::Fact;

/// A number that is known.
pub(super) fn number(bits: i64) -> Item {
    Item::Plain(Plain::int(bits))
}

fn constant(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Plain(Plain::Const { tag: type_index::INT, bits }) => Some(*bits),
        _ => None,
    }
}

/// Pairs of a code and a number, when all are constants.
fn pairs(args: &[Arg]) -> Option<Vec<(i64, i64)>> {
    args.chunks(2).map(|pair| Some((constant(pair.first()?)?, constant(pair.get(1)?)?))).collect()
}

/// Where extents come from.
enum Extents {
    Known(Vec<Item>),
    Tensor(Place),
}

impl Attempt<'_> {
    /// Whether a builtin works on numbers of shapes and heaps that are recipes; does that then.
    pub(super) fn numbers(
        &mut self,
        builtin: Builtin,
        args: &[Arg],
        result: BuiltinResult,
        exit: ExitId,
    ) -> bool {
        let done = match (builtin, args, result) {
            (Builtin::MatchShape, [x, heap, rank, pairs @ .., _context], _) => {
                self.match_shape((*x, *rank), *heap, pairs, exit)
            }
            (Builtin::MatchPrimValue, [Arg::Plain(value), heap, pair @ .., _context], _)
                if value.tag() == type_index::INT =>
            {
                self.match_numbers(&[Item::Plain(*value)], *heap, pair, exit)
            }
            (Builtin::MakePrimValue, [heap, pair @ ..], BuiltinResult::Var(_, var)) => {
                match self.extents_made(*heap, pair).as_deref() {
                    Some(&[Item::Plain(value)]) => {
                        self.keep(Ins::Let { var, value });
                        Some(())
                    }
                    _ => None,
                }
            }
            (Builtin::CheckShapeInfo, [Arg::Place(place, _), rank, _context], _) => {
                let shape = self.held.get(place).map(|&object| self.object(object));
                match (shape, constant(rank)) {
                    (Some(Object::Shape { extents }), Some(rank)) => {
                        (rank == -1 || rank == extents.len() as i64).then_some(())
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        done.is_some()
    }

    /// The heap in a register, if it is a recipe that only registers hold.
    fn heap(&self, arg: Arg) -> Option<(ObjectId, Vec<Item>)> {
        let Arg::Place(place, _) = arg else { return None };
        let &id = self.held.get(&place)?;
        let Object::Heap { entries } = self.object(id) else { return None };
        let places = self.held.values().filter(|&&held| held == id).count();
        (places == self.holders[id.0 as usize] as usize).then(|| (id, entries.clone()))
    }

    /// The numbers that `make_shape` and `make_prim_value` take out of a heap, or are given.
    pub(super) fn extents_made(&self, heap: Arg, args: &[Arg]) -> Option<Vec<Item>> {
        let entries = match heap {
            Arg::Plain(Plain::NONE) => Vec::new(),
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
        (x, rank): (Arg, Arg),
        heap: Arg,
        args: &[Arg],
        exit: ExitId,
    ) -> Option<()> {
        let rank = usize::try_from(constant(&rank)?).ok()?;
        let Arg::Place(place, tag) = x else { return None };
        let extents = match self.held.get(&place).map(|&object| self.object(object)) {
            Some(Object::Shape { extents }) => Extents::Known(extents.clone()),
            Some(object @ (Object::Tensor { .. } | Object::View { .. })) => {
                Extents::Known(object.extents()?.into_iter().map(Item::Plain).collect())
            }
            Some(_) => return None,
            None if tag == Some(type_index::TENSOR) && self.heap(heap).is_some() => {
                Extents::Tensor(place)
            }
            None => return None,
        };
        let found = match extents {
            Extents::Known(extents) => extents,
            Extents::Tensor(place) => {
                let checked = pairs(args)?;
                self.keep(Ins::Is { place, fact: Fact::Rank(rank as u32), exit });
                let mut found = Vec::with_capacity(rank);
                for (dim, &(code, is)) in (0..rank as u32).zip(&checked) {
                    found.push(if code == match_code::ASSERT_IMM {
                        self.keep(Ins::Is { place, fact: Fact::Extent { dim, is }, exit });
                        number(is)
                    } else {
                        let var = Var(self.vars);
                        self.vars += 1;
                        self.keep(Ins::Extent { var, place, dim });
                        Item::Plain(Plain::number(var))
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
            Arg::Plain(Plain::NONE) => (None, Vec::new()),
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
                (Item::Plain(Plain::Const { .. }), Item::Plain(Plain::Const { .. })) => {
                    return None;
                }
                (Item::Plain(left), Item::Plain(right)) => {
                    self.keep(Ins::Same { left, right, exit });
                }
                _ => return None,
            }
        }
        if let Some(id) = id.filter(|_| entries != before) {
            self.change(id, Object::Heap { entries });
        }
        Some(())
    }

    /// Puts a new recipe in every register that holds the old one.
    fn change(&mut self, old: ObjectId, object: Object) {
        let id = self.start(self.origins[old.0 as usize], object);
        self.holders[id.0 as usize] = self.holders[old.0 as usize];
        for held in self.held.values_mut().filter(|held| **held == old) {
            *held = id;
        }
    }
}

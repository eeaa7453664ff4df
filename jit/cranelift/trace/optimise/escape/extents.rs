//! Extents of tensors and numbers of shapes, read one by one.

use super::super::super::ir::{ExitId, Ins, Object, Place, Plain, Var};
use super::Attempt;
use crate::raw::Fact;

impl Attempt<'_> {
    /// Whether nothing of the instruction is left, which reads or guards extents or numbers.
    pub(super) fn extents_read(&mut self, ins: &Ins) -> bool {
        match *ins {
            Ins::Dims { place, rank, .. } => {
                self.numbers_of(place).is_some_and(|numbers| numbers.len() == rank as usize)
            }
            Ins::Number { var, place, at } => {
                let number = self.numbers_of(place).and_then(|all| all.get(at as usize).copied());
                self.let_be(var, number)
            }
            Ins::Extent { var, place, dim } => {
                let extent = self.extent(place, dim);
                self.let_be(var, extent)
            }
            Ins::Let { var, value } => {
                let value = self.plain(value);
                self.lets.insert(var, value);
                false
            }
            Ins::Fits { ref have, ref want, exit } => {
                let (have, want) = (self.plains(have), self.plains(want));
                if !fits(&have, &want) {
                    self.keep(Ins::Fits { have, want, exit });
                }
                true
            }
            Ins::Alike { place, dim, other, at, exit } => {
                self.alike((place, dim), (other, at), exit)
            }
            _ => false,
        }
    }

    /// What a variable is known to be, or itself.
    pub(super) fn plain(&self, plain: Plain) -> Plain {
        match plain {
            Plain::Var { var, .. } => self.lets.get(&var).copied().unwrap_or(plain),
            Plain::Const { .. } => plain,
        }
    }

    fn plains(&self, plains: &[Plain]) -> Vec<Plain> {
        plains.iter().map(|&plain| self.plain(plain)).collect()
    }

    /// Gives a variable a value, if there is one.
    fn let_be(&mut self, var: Var, value: Option<Plain>) -> bool {
        if let Some(value) = value {
            self.lets.insert(var, value);
            self.keep(Ins::Let { var, value });
        }
        value.is_some()
    }

    /// The numbers of a shape that is a recipe.
    fn numbers_of(&self, place: Place) -> Option<Vec<Plain>> {
        let object = self.object(*self.held.get(&place)?);
        matches!(object, Object::Shape { .. }).then(|| object.extents())?
    }

    /// An extent of a tensor that is a recipe.
    fn extent(&self, place: Place, dim: u32) -> Option<Plain> {
        let object = self.object(*self.held.get(&place)?);
        let tensor = matches!(object, Object::Tensor { .. } | Object::View { .. });
        tensor.then(|| object.extents())??.get(dim as usize).copied()
    }

    /// Whether two numbers are the same, or may be; then they are guarded.
    pub(super) fn same(&mut self, left: Plain, right: Plain, exit: ExitId) -> bool {
        match (left, right) {
            _ if left == right => true,
            (Plain::Const { .. }, Plain::Const { .. }) => false,
            _ => {
                self.keep(Ins::Same { left, right, exit });
                true
            }
        }
    }

    /// Guards that two extents are the same, where one is of a recipe.
    fn alike(&mut self, left: (Place, u32), right: (Place, u32), exit: ExitId) -> bool {
        let (known, (place, dim)) =
            match (self.extent(left.0, left.1), self.extent(right.0, right.1)) {
                (Some(ours), Some(theirs)) => return self.same(ours, theirs, exit),
                (Some(known), None) => (known, right),
                (None, Some(known)) => (known, left),
                (None, None) => return false,
            };
        if self.held.contains_key(&place) {
            // What is there has no such extent.
            return false;
        }
        match known {
            Plain::Const { bits: is, .. } => {
                self.keep(Ins::Is { place, fact: Fact::Extent { dim, is }, exit });
                true
            }
            Plain::Var { .. } => {
                let var = Var(self.vars);
                self.vars += 1;
                self.keep(Ins::Extent { var, place, dim });
                self.same(Plain::number(var), known, exit)
            }
        }
    }
}

/// Whether a view is known to fit.
fn fits(have: &[Plain], want: &[Plain]) -> bool {
    let count = |extents: &[Plain]| {
        extents.iter().try_fold(1_u64, |count, extent| match *extent {
            Plain::Const { bits, .. } => count.checked_mul(u64::try_from(bits).ok()?),
            Plain::Var { .. } => None,
        })
    };
    let known = count(have).zip(count(want)).is_some_and(|(have, want)| want <= have);
    // The same numbers in another order; those of a tensor are not negative.
    let mut left = have.to_vec();
    let all = have.len() == want.len()
        && want.iter().all(|extent| {
            let at = left.iter().position(|have| have == extent);
            at.is_some_and(|at| {
                left.swap_remove(at);
                true
            })
        });
    known || all
}

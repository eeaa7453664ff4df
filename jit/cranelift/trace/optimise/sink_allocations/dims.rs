//! Extents of tensors and numbers of shapes, read one by one.

use super::super::super::ir::{DimOf, ExitId, Ins, Object, Scalar, VReg, Var};
use super::EscapeAnalysis;
use crate::facts::tensor::TensorFact;

impl EscapeAnalysis<'_> {
    /// Whether nothing of the instruction is left, which reads or guards extents or numbers.
    pub(super) fn reads_dims(&mut self, ins: &Ins) -> bool {
        match *ins {
            Ins::GuardShapeRank { vreg, rank, .. } => {
                self.shape_dims(vreg).is_some_and(|numbers| numbers.len() == rank as usize)
            }
            Ins::LoadShapeDim { var, vreg, at } => {
                let number = self.shape_dims(vreg).and_then(|all| all.get(at as usize).copied());
                self.bind(var, number)
            }
            Ins::LoadDim { var, vreg, dim } => {
                let extent = self.extent(vreg, dim);
                self.bind(var, extent)
            }
            Ins::Let { var, value } => {
                let value = self.resolved(value);
                self.lets.insert(var, value);
                false
            }
            Ins::GuardViewFits { ref have, ref want, exit } => {
                let (have, want) = (self.resolved_all(have), self.resolved_all(want));
                if !fits(&have, &want) {
                    self.keep(Ins::GuardViewFits { have, want, exit });
                }
                true
            }
            Ins::GuardSameDim { vreg, dim, other, at, exit } => {
                self.same_dim(DimOf { vreg, dim }, DimOf { vreg: other, dim: at }, exit)
            }
            _ => false,
        }
    }

    /// What a variable is known to be, or itself.
    pub(super) fn resolved(&self, scalar: Scalar) -> Scalar {
        match scalar {
            Scalar::Var { var, .. } => self.lets.get(&var).copied().unwrap_or(scalar),
            Scalar::Const { .. } => scalar,
        }
    }

    fn resolved_all(&self, resolved_all: &[Scalar]) -> Vec<Scalar> {
        resolved_all.iter().map(|&scalar| self.resolved(scalar)).collect()
    }

    /// Gives a variable a value, if there is one.
    fn bind(&mut self, var: Var, value: Option<Scalar>) -> bool {
        if let Some(value) = value {
            self.lets.insert(var, value);
            self.keep(Ins::Let { var, value });
        }
        value.is_some()
    }

    /// The numbers of a shape that is a recipe.
    fn shape_dims(&self, vreg: VReg) -> Option<Vec<Scalar>> {
        let object = self.object(*self.virtuals.get(&vreg)?);
        matches!(object, Object::Shape { .. }).then(|| object.dims())?
    }

    /// An extent of a tensor that is a recipe.
    fn extent(&self, vreg: VReg, dim: u32) -> Option<Scalar> {
        let object = self.object(*self.virtuals.get(&vreg)?);
        let tensor = matches!(object, Object::Tensor { .. } | Object::View { .. });
        tensor.then(|| object.dims())??.get(dim as usize).copied()
    }

    /// Whether two numbers are the same, or may be; then they are guarded.
    pub(super) fn same(&mut self, left: Scalar, right: Scalar, exit: ExitId) -> bool {
        match (left, right) {
            _ if left == right => true,
            (Scalar::Const { .. }, Scalar::Const { .. }) => false,
            _ => {
                self.keep(Ins::GuardEqual { left, right, exit });
                true
            }
        }
    }

    /// Guards that two dimensions are equal, if one is of a virtual object.
    fn same_dim(&mut self, left: DimOf, right: DimOf, exit: ExitId) -> bool {
        let (known, DimOf { vreg, dim }) =
            match (self.extent(left.vreg, left.dim), self.extent(right.vreg, right.dim)) {
                (Some(ours), Some(theirs)) => return self.same(ours, theirs, exit),
                (Some(known), None) => (known, right),
                (None, Some(known)) => (known, left),
                (None, None) => return false,
            };
        if self.virtuals.contains_key(&vreg) {
            // The object there has no such dimension.
            return false;
        }
        match known {
            Scalar::Const { bits: is, .. } => {
                self.keep(Ins::GuardFact { vreg, fact: TensorFact::Dim { dim, is }, exit });
                true
            }
            Scalar::Var { .. } => {
                let var = Var(self.vars);
                self.vars += 1;
                self.keep(Ins::LoadDim { var, vreg, dim });
                self.same(Scalar::number(var), known, exit)
            }
        }
    }
}

/// Whether a view is known to fit.
fn fits(have: &[Scalar], want: &[Scalar]) -> bool {
    let count = |dims: &[Scalar]| {
        dims.iter().try_fold(1_u64, |count, extent| match *extent {
            Scalar::Const { bits, .. } => count.checked_mul(u64::try_from(bits).ok()?),
            Scalar::Var { .. } => None,
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

//! Reads and guards of single dimensions of tensors and shapes.

use super::super::super::ir::{DimOf, ExitId, Ins, Object, Scalar, VReg, Var};
use super::EscapeAnalysis;
use crate::facts::tensor::TensorFact;

impl EscapeAnalysis<'_> {
    /// Returns true if nothing is left of an instruction that reads or guards dimensions.
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
                let extent = self.dim(vreg, dim);
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
                    self.emit(Ins::GuardViewFits { have, want, exit });
                }
                true
            }
            Ins::GuardSameDim { vreg, dim, other, at, exit } => {
                self.same_dim(DimOf { vreg, dim }, DimOf { vreg: other, dim: at }, exit)
            }
            _ => false,
        }
    }

    /// The scalar that a variable is known to equal, or the variable itself.
    pub(super) fn resolved(&self, scalar: Scalar) -> Scalar {
        match scalar {
            Scalar::Var { var, .. } => self.lets.get(&var).copied().unwrap_or(scalar),
            Scalar::Const { .. } => scalar,
        }
    }

    fn resolved_all(&self, scalars: &[Scalar]) -> Vec<Scalar> {
        scalars.iter().map(|&scalar| self.resolved(scalar)).collect()
    }

    /// Binds a variable to a value, if there is one.
    pub(super) fn bind(&mut self, var: Var, value: Option<Scalar>) -> bool {
        if let Some(value) = value {
            self.lets.insert(var, value);
            self.emit(Ins::Let { var, value });
        }
        value.is_some()
    }

    /// The dimensions of a virtual shape.
    fn shape_dims(&self, vreg: VReg) -> Option<Vec<Scalar>> {
        let object = self.object(*self.virtuals.get(&vreg)?);
        matches!(object, Object::Shape { .. }).then(|| object.dims())?
    }

    /// A dimension of a virtual tensor.
    fn dim(&self, vreg: VReg, dim: u32) -> Option<Scalar> {
        let object = self.object(*self.virtuals.get(&vreg)?);
        let tensor = matches!(object, Object::Tensor { .. } | Object::View { .. });
        tensor.then(|| object.dims())??.get(dim as usize).copied()
    }

    /// Returns false if two numbers differ. Adds a guard if they may be equal.
    pub(super) fn same(&mut self, left: Scalar, right: Scalar, exit: ExitId) -> bool {
        match (left, right) {
            _ if left == right => true,
            (Scalar::Const { .. }, Scalar::Const { .. }) => false,
            _ => {
                self.emit(Ins::GuardEqual { left, right, exit });
                true
            }
        }
    }

    /// Guards that two dimensions are equal, if one is of a virtual object.
    fn same_dim(&mut self, left: DimOf, right: DimOf, exit: ExitId) -> bool {
        let (known, DimOf { vreg, dim }) =
            match (self.dim(left.vreg, left.dim), self.dim(right.vreg, right.dim)) {
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
                self.emit(Ins::GuardFact { vreg, fact: TensorFact::Dim { dim, is }, exit });
                true
            }
            Scalar::Var { .. } => {
                let var = Var(self.vars);
                self.vars += 1;
                self.emit(Ins::LoadDim { var, vreg, dim });
                self.same(Scalar::number(var), known, exit)
            }
        }
    }
}

/// Returns true if a view is known to fit.
fn fits(have: &[Scalar], want: &[Scalar]) -> bool {
    let count = |dims: &[Scalar]| {
        dims.iter().try_fold(1_u64, |count, extent| match *extent {
            Scalar::Const { bits, .. } => count.checked_mul(u64::try_from(bits).ok()?),
            Scalar::Var { .. } => None,
        })
    };
    let known = count(have).zip(count(want)).is_some_and(|(have, want)| want <= have);
    // The same dimensions in another order; those of a tensor are not negative.
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

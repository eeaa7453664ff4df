//! The ranges of variables in which a condition holds (TVM: `DetectClipBound`).

use super::Analyzer;
use crate::{CmpOp, Expr, ExprKind, Var};

/// The least and the greatest value of a variable; `None` is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClipBound {
    /// The least.
    pub min: Option<Expr>,
    /// The greatest.
    pub max: Option<Expr>,
}

impl Analyzer {
    /// The bounds of each variable such that an int64 condition holds exactly where all of them are within theirs.
    /// `None` where a part of the condition compares no linear function of one variable, or of several.
    ///
    /// ```
    /// use reflex_tir::{Expr, PrimFunc, arith::Analyzer};
    /// let mut f = PrimFunc::new("f");
    /// let (x, n) = (f.new_var("x"), f.new_var("n"));
    /// let inside = Expr::var(x).ge(2).and((Expr::var(x) * 2).lt(n));
    /// let bounds = Analyzer::new().clip_bounds(&inside, &[x]).unwrap();
    /// assert_eq!(bounds[0].min, Some(Expr::i64(2)));
    /// // (n - 1) // 2
    /// assert_eq!(bounds[0].max, Some((Expr::var(n) + 1).floordiv(2) - 1));
    /// ```
    pub fn clip_bounds(&self, cond: &Expr, variables: &[Var]) -> Option<Vec<ClipBound>> {
        let mut bounds = vec![ClipBound::default(); variables.len()];
        let mut parts = vec![];
        conjuncts(cond, &mut parts);
        for part in parts {
            let ExprKind::Compare { op, a, b } = part.kind() else { return None };
            let difference = self.linear(&(a.clone() - b.clone()), variables)?;
            let mut moving = difference.strides.iter().enumerate();
            let (at, stride) = moving.find(|(_, stride)| stride.as_int() != Some(0))?;
            if moving.any(|(_, stride)| stride.as_int() != Some(0)) {
                return None;
            }
            let stride = stride.as_int()?;
            // `stride * x` is compared with this.
            let limit = Expr::i64(-difference.constant) - difference.rest;
            let (most, least) = match op {
                CmpOp::Le => (Some(limit), None),
                CmpOp::Lt => (Some(limit - 1), None),
                CmpOp::Ge => (None, Some(limit)),
                CmpOp::Gt => (None, Some(limit + 1)),
                CmpOp::Eq => (Some(limit.clone()), Some(limit)),
                CmpOp::Ne => return None,
            };
            if *op == CmpOp::Eq && stride.abs() != 1 {
                return None;
            }
            // A negative stride turns the comparison round.
            let (most, least) = match stride > 0 {
                true => (most, least),
                false => (least.map(negated), most.map(negated)),
            };
            let by = stride.checked_abs()?;
            let bound = &mut bounds[at];
            if let Some(most) = most {
                let most = self.simplify(&most.floordiv(by));
                let known = bound.max.take();
                bound.max = Some(known.map_or(most.clone(), |k| self.simplify(&k.min(most))));
            }
            if let Some(least) = least {
                let least = self.simplify(&negated(negated(least).floordiv(by)));
                let known = bound.min.take();
                bound.min = Some(known.map_or(least.clone(), |k| self.simplify(&k.max(least))));
            }
        }
        Some(bounds)
    }
}

fn negated(e: Expr) -> Expr {
    Expr::i64(0) - e
}

fn conjuncts(cond: &Expr, parts: &mut Vec<Expr>) {
    match cond.kind() {
        ExprKind::And(a, b) => {
            conjuncts(a, parts);
            conjuncts(b, parts);
        }
        _ => parts.push(cond.clone()),
    }
}

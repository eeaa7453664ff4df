//! Proofs of comparisons between index expressions.

use std::cell::Cell;

use smallvec::smallvec;

use super::Analyzer;
use super::poly::Poly;
use crate::{BinOp, CmpOp, DType, Expr, ExprKind};

/// Eliminations that a proof tries before it gives up.
const MAX_STEPS: usize = 16;

/// Eliminations that a proof and those inside it try together: operands of `min` and `max` are compared
/// by proofs, whose polynomials have such operands again, so that time would grow exponentially with
/// their nesting.
const MAX_NESTED_STEPS: usize = 2_000;

/// Ranges that are inside of ranges, up to which the value at an end is looked for.
const MAX_POINT_DEPTH: u32 = 8;

/// An end of all ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

/// The eliminations left to the outermost proof that runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    proofs: Cell<usize>,
    left: Cell<usize>,
}

impl Budget {
    fn enter(&self) {
        if self.proofs.replace(self.proofs.get() + 1) == 0 {
            self.left.set(MAX_NESTED_STEPS);
        }
    }

    fn leave(&self) {
        self.proofs.set(self.proofs.get() - 1);
    }

    /// The result of `find`, for which no proof has run yet.
    pub(super) fn renewed<T>(&self, find: impl FnOnce() -> T) -> T {
        let (proofs, left) = (self.proofs.replace(0), self.left.get());
        let found = find();
        self.proofs.set(proofs);
        self.left.set(left);
        found
    }

    /// Returns true if a proof may have given up for want of eliminations.
    pub(super) fn is_spent(&self) -> bool {
        self.proofs.get() > 0 && self.left.get() == 0
    }

    /// Takes an elimination, if one is left.
    fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

/// The differences of two index expressions `a` and `b`.
struct Gap {
    /// `b - a`.
    up: Poly,
    /// `a - b`, its terms in the order of `a`.
    down: Poly,
}

impl Analyzer {
    /// Whether the bool expression `cond` holds for every assignment in range.
    pub fn prove(&self, cond: &Expr) -> bool {
        match cond.kind() {
            ExprKind::Int { value, .. } => *value != 0,
            ExprKind::And(a, b) => self.prove(a) && self.prove(b),
            ExprKind::Or(a, b) => self.prove(a) || self.prove(b),
            ExprKind::Not(a) => self.prove_not(a),
            ExprKind::Compare { op, a, b } if a.dtype() == DType::I64 => self.holds(*op, a, b),
            _ => false,
        }
    }

    fn prove_not(&self, cond: &Expr) -> bool {
        match cond.kind() {
            ExprKind::Int { value, .. } => *value == 0,
            ExprKind::And(a, b) => self.prove_not(a) || self.prove_not(b),
            ExprKind::Or(a, b) => self.prove_not(a) && self.prove_not(b),
            ExprKind::Not(a) => self.prove(a),
            ExprKind::Compare { op, a, b } if a.dtype() == DType::I64 => {
                self.holds(negate(*op), a, b)
            }
            _ => false,
        }
    }

    fn holds(&self, op: CmpOp, a: &Expr, b: &Expr) -> bool {
        self.gap(a, b).is_some_and(|gap| self.holds_across(op, &gap))
    }

    /// Whether a comparison always holds, or never does; `None` where neither is proven.
    pub(super) fn decide(&self, op: CmpOp, a: &Expr, b: &Expr) -> Option<bool> {
        let gap = self.gap(a, b)?;
        match self.holds_across(op, &gap) {
            true => Some(true),
            false => self.holds_across(negate(op), &gap).then_some(false),
        }
    }

    /// The differences of `a` and `b`; `None` where a coefficient would overflow.
    fn gap(&self, a: &Expr, b: &Expr) -> Option<Gap> {
        let (a, b) = (self.poly(a)?, self.poly(b)?);
        Some(Gap { up: b.clone().plus(a.clone(), -1)?, down: a.plus(b, -1)? })
    }

    fn holds_across(&self, op: CmpOp, Gap { up, down }: &Gap) -> bool {
        let beyond = |p: &Poly| match p.add_scaled(&Poly::constant(1), -1) {
            Some(p) => self.prove_nonnegative(&p),
            None => false,
        };
        match op {
            CmpOp::Le => self.prove_nonnegative(up),
            CmpOp::Ge => self.prove_nonnegative(down),
            CmpOp::Lt => beyond(up),
            CmpOp::Gt => beyond(down),
            CmpOp::Eq => self.prove_nonnegative(up) && self.prove_nonnegative(down),
            CmpOp::Ne => {
                let step = self.modular(&up.to_expr());
                beyond(up) || beyond(down) || step.stride > 0 && step.base != 0
            }
        }
    }

    /// Whether the polynomial is at least 0: by constant bounds, else by replacing variables,
    /// innermost first, by the end of their range that makes the polynomial least.
    pub(crate) fn prove_nonnegative(&self, poly: &Poly) -> bool {
        if self.poly_interval(poly).min >= 0 {
            return true;
        }
        // Most claims that do not hold are false at an end of all ranges, which costs no proof.
        if [End::Low, End::High].into_iter().any(|end| self.at(poly, end).is_some_and(|v| v < 0)) {
            return false;
        }
        self.budget.enter();
        let proven = self.eliminate(poly);
        self.budget.leave();
        proven
    }

    /// The value of a polynomial where every variable is at one end of its range; `None` where that is not
    /// known, or a range may be empty there.
    fn at(&self, poly: &Poly, end: End) -> Option<i64> {
        poly.terms.iter().try_fold(poly.constant, |sum, (factors, c)| {
            let value = |product: i64, f: &Expr| product.checked_mul(self.value(f, end, 0)?);
            sum.checked_add(factors.iter().try_fold(*c, value)?)
        })
    }

    fn value(&self, expr: &Expr, end: End, depth: u32) -> Option<i64> {
        let of = |e: &Expr| (depth < MAX_POINT_DEPTH).then(|| self.value(e, end, depth + 1))?;
        match expr.kind() {
            ExprKind::Int { value, .. } => Some(*value),
            ExprKind::Var { var, .. } => {
                let range = self.range(*var)?;
                let (low, high) = (of(&range.min)?, of(self.max_of(range)?)?);
                let inside = if end == End::Low { low } else { high };
                (low <= high).then_some(inside)
            }
            ExprKind::Binary { op, a, b } if expr.dtype() == DType::I64 => {
                let (a, b) = (of(a)?, of(b)?);
                match op {
                    BinOp::Add => a.checked_add(b),
                    BinOp::Sub => a.checked_sub(b),
                    BinOp::Mul => a.checked_mul(b),
                    BinOp::Min => Some(a.min(b)),
                    BinOp::Max => Some(a.max(b)),
                    BinOp::FloorDiv if b > 0 => Some(a.div_euclid(b)),
                    BinOp::FloorMod if b > 0 => Some(a.rem_euclid(b)),
                    BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => None,
                }
            }
            _ => None,
        }
    }

    fn eliminate(&self, poly: &Poly) -> bool {
        let mut poly = poly.clone();
        for _ in 1..MAX_STEPS {
            if !self.budget.take() {
                return false;
            }
            match self.lower(&poly) {
                Some(next) => poly = next,
                None => return false,
            }
            if self.poly_interval(&poly).min >= 0 {
                return true;
            }
        }
        false
    }

    /// A polynomial nowhere greater than `poly`, with one atom eliminated.
    fn lower(&self, poly: &Poly) -> Option<Poly> {
        let range = |e: &Expr| e.as_var().and_then(|v| self.range(v));
        let candidates = poly
            .terms
            .iter()
            .flat_map(|(factors, c)| factors.iter().map(move |atom| (factors, *c, atom)));
        let innermost = |bounded: bool| {
            candidates
                .clone()
                .filter(|(_, _, atom)| range(atom).is_some_and(|r| r.extent.is_some() == bounded))
                .max_by_key(|(_, _, atom)| atom.as_var().and_then(|v| self.depth(v)))
        };
        // Loops before quotients: the end of a loop's range may cancel one. Symbols after, for
        // the relaxation of a quotient brings back the symbol inside.
        let bounded = innermost(true);
        if bounded.is_none() {
            if let Some(less) = self.without_quotients(poly) {
                return self.renormalise(&less);
            }
            for (factors, c, atom) in candidates.clone() {
                if let Some(bound) = self.quotient_bound(factors, c, atom) {
                    let cleared = poly.add_scaled(&monomial(factors), -c)?;
                    return self.renormalise(&cleared.add_scaled(&bound, 1)?);
                }
            }
        }
        let (factors, c, atom) = bounded.or_else(|| innermost(false))?;
        let mut others = factors.clone();
        others.remove(others.iter().position(|f| f == atom)?);
        // The other factors must not change the sign.
        if !others.iter().all(|f| self.bounds(f).min >= 0) || others.contains(atom) {
            return None;
        }
        let range = self.range(atom.as_var()?)?;
        let end = if c > 0 { Some(&range.min) } else { self.max_of(range) }?;
        let replaced =
            others.iter().try_fold(self.poly(end)?, |p, f| p.mul(&Poly::atom(f.clone())))?;
        let cleared = poly.add_scaled(&monomial(factors), -c)?;
        self.renormalise(&cleared.add_scaled(&replaced, c)?)
    }

    /// For `c * (x // m) - c * (y // m)` with `x >= y`: no less without both.
    fn without_quotients(&self, poly: &Poly) -> Option<Poly> {
        let quotient = |factors: &[Expr]| match factors {
            [atom] => match atom.kind() {
                ExprKind::Binary { op: BinOp::FloorDiv, a, b } => {
                    let by = b.as_int().filter(|m| *m > 0)?;
                    let mut found = (a.clone(), by);
                    while let Some(of_it) = self.one_quotient(&found.0, found.1) {
                        found = of_it;
                    }
                    Some(found)
                }
                _ => None,
            },
            _ => None,
        };
        for (more, c) in poly.terms.iter().filter(|(_, c)| *c > 0) {
            let Some((x, m)) = quotient(more) else { continue };
            for (less, _) in poly.terms.iter().filter(|(_, d)| c.checked_neg() == Some(*d)) {
                let Some((y, _)) = quotient(less).filter(|(_, by)| *by == m) else { continue };
                let apart = self.poly(&x)?.add_scaled(&self.poly(&y)?, -1)?;
                if self.poly_interval(&apart).min >= 0 {
                    let rest = poly.add_scaled(&monomial(more), -c)?;
                    return rest.add_scaled(&monomial(less), *c);
                }
            }
        }
        None
    }

    /// `(x // n + k) // m` is `(x + k * n) // (m * n)`: from the dividend and `m`.
    fn one_quotient(&self, dividend: &Expr, m: i64) -> Option<(Expr, i64)> {
        let sum = self.poly(dividend)?;
        let [(factors, 1)] = &sum.terms[..] else { return None };
        let [atom] = &factors[..] else { return None };
        let ExprKind::Binary { op: BinOp::FloorDiv, a, b } = atom.kind() else { return None };
        let n = b.as_int().filter(|n| *n > 0)?;
        Some((a.clone() + sum.constant.checked_mul(n)?, m.checked_mul(n)?))
    }

    /// For `c * (x // m)` with `m` dividing `c`: `x - m + 1 <= m * (x // m) <= x`.
    fn quotient_bound(&self, factors: &[Expr], c: i64, atom: &Expr) -> Option<Poly> {
        let ExprKind::Binary { op: BinOp::FloorDiv, a, b } = atom.kind() else {
            return None;
        };
        let by = b.as_int().filter(|m| *m > 0 && c % *m == 0 && factors.len() == 1)?;
        let mut bound = self.poly(a)?;
        if c > 0 {
            bound = bound.add_scaled(&Poly::constant(by - 1), -1)?;
        }
        Poly::constant(0).add_scaled(&bound, c / by)
    }

    fn renormalise(&self, poly: &Poly) -> Option<Poly> {
        match poly.over_variables() {
            true => Some(poly.in_order_of_text()),
            false => self.poly(&poly.to_expr()),
        }
    }
}

fn monomial(factors: &[Expr]) -> Poly {
    Poly { terms: smallvec![(factors.into(), 1)], constant: 0 }
}

/// The comparison that holds exactly when `op` does not (on integers).
fn negate(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq => CmpOp::Ne,
        CmpOp::Ne => CmpOp::Eq,
        CmpOp::Lt => CmpOp::Ge,
        CmpOp::Le => CmpOp::Gt,
        CmpOp::Gt => CmpOp::Le,
        CmpOp::Ge => CmpOp::Lt,
    }
}

//! Rewriting to a shorter equal expression.

use smallvec::SmallVec;

use super::Analyzer;
use super::poly::{Poly, gcd};
use crate::{BinOp, DType, Expr, ExprKind, Var};

impl Analyzer {
    /// An expression equal to `expr` wherever the known ranges hold.
    pub fn simplify(&self, expr: &Expr) -> Expr {
        if let ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. } = expr.kind() {
            return expr.clone();
        }
        if expr.dtype() == DType::I64 && is_normal(expr) {
            return expr.clone();
        }
        if expr.dtype() == DType::I64
            && let Some(poly) = self.poly(expr)
        {
            let simpler = poly.to_expr();
            // An unchanged node is shared.
            return if simpler == *expr { expr.clone() } else { simpler };
        }
        self.rebuild(expr)
    }

    /// Simplifies operands and whatever boolean structure there is.
    fn rebuild(&self, expr: &Expr) -> Expr {
        match expr.kind() {
            ExprKind::Compare { op, a, b } if a.dtype() == DType::I64 => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                let claim = Expr::compare(*op, a.clone(), b.clone());
                match claim.as_int() {
                    Some(_) => claim,
                    None => self.decide(*op, &a, &b).map_or(claim, Expr::bool),
                }
            }
            ExprKind::And(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                if a == b { a } else { a.and(b) }
            }
            ExprKind::Or(a, b) => {
                let (a, b) = (self.simplify(a), self.simplify(b));
                if a == b { a } else { a.or(b) }
            }
            _ => expr.map_children(&mut |e| self.simplify(e)),
        }
    }

    /// The normal form, `None` when a coefficient would overflow.
    pub(crate) fn poly(&self, expr: &Expr) -> Option<Poly> {
        if expr.dtype() != DType::I64 {
            return Some(Poly::atom(self.rebuild(expr)));
        }
        let poly = match expr.kind() {
            ExprKind::Int { value, .. } => Poly::constant(*value),
            ExprKind::Var { .. } => Poly::atom(expr.clone()),
            ExprKind::Binary { op: op @ (BinOp::Min | BinOp::Max), a, b } => {
                let known = self.choices.borrow().get(expr).cloned();
                return match known {
                    Some(known) => Some(known),
                    None => {
                        let chosen = self.choose(*op, self.poly(a)?, self.poly(b)?);
                        // Without a budget, a proof says less than it could.
                        if !self.budget.is_spent() {
                            self.choices.borrow_mut().insert(expr.clone(), chosen.clone());
                        }
                        Some(chosen)
                    }
                };
            }
            ExprKind::Binary { op, a, b } => {
                let (a, b) = (self.poly(a)?, self.poly(b)?);
                match op {
                    BinOp::Add => self.recombine(a.plus(b, 1)?),
                    BinOp::Sub => self.recombine(a.plus(b, -1)?),
                    BinOp::Mul => a.mul(&b)?,
                    BinOp::FloorDiv => self.floordiv(a, b)?,
                    BinOp::FloorMod => self.floormod(a, b)?,
                    // Truncation equals rounding down where nothing is negative.
                    BinOp::Div | BinOp::Mod
                        if self.poly_interval(&a).min >= 0 && self.poly_interval(&b).min > 0 =>
                    {
                        match op {
                            BinOp::Div => self.floordiv(a, b)?,
                            _ => self.floormod(a, b)?,
                        }
                    }
                    BinOp::Div | BinOp::Mod | BinOp::Min | BinOp::Max => opaque(*op, &a, &b),
                }
            }
            _ => {
                let rebuilt = self.rebuild(expr);
                match rebuilt.kind() {
                    // The rebuilding may have folded a conditional into arithmetic.
                    ExprKind::Int { .. } | ExprKind::Var { .. } | ExprKind::Binary { .. } => {
                        return self.poly(&rebuilt);
                    }
                    _ => Poly::atom(rebuilt),
                }
            }
        };
        Some(poly)
    }

    fn choose(&self, op: BinOp, a: Poly, b: Poly) -> Poly {
        let at_least = |x: &Poly, y: &Poly| match x.add_scaled(y, -1) {
            Some(difference) => self.prove_nonnegative(&difference),
            None => false,
        };
        let (a_is_less, b_is_less) = (at_least(&b, &a), at_least(&a, &b));
        match op == BinOp::Min {
            true if a_is_less => a,
            true if b_is_less => b,
            false if b_is_less => a,
            false if a_is_less => b,
            _ => opaque(op, &a, &b),
        }
    }

    fn floordiv(&self, a: Poly, b: Poly) -> Option<Poly> {
        let Some(by) = b.as_constant() else {
            let (whole, rest) = symbolic_split(&a, &b)?;
            if rest.as_constant() == Some(0) && self.poly_interval(&b).min > 0
                || self.lies_within(&rest, &b)
            {
                return Some(whole);
            }
            let tail = opaque(BinOp::FloorDiv, &rest, &b);
            return whole.add_scaled(&tail, 1);
        };
        if by <= 0 {
            return Some(match a.as_constant() {
                Some(x) if by != 0 => Poly::constant(floor_div(x, by)),
                _ => opaque(BinOp::FloorDiv, &a, &b),
            });
        }
        let (whole, rest) = a.split(by);
        whole.add_scaled(&self.divide_rest(rest, by), 1)
    }

    /// `rest // by` where no term of `rest` is a multiple of `by`.
    fn divide_rest(&self, rest: Poly, by: i64) -> Poly {
        let range = self.poly_interval(&rest);
        let known = range.min != i64::MIN && range.max != i64::MAX;
        if known && range.min.div_euclid(by) == range.max.div_euclid(by) {
            return Poly::constant(range.min.div_euclid(by));
        }
        let common = rest.terms.iter().fold(by, |g, (_, c)| gcd(g, *c));
        if common > 1 {
            return self.divide_rest(scale_down(&rest, common), by / common);
        }
        if let Some((digit, high, _)) = self.low_digit(&rest, by)
            && let Some(quotient) = self.floordiv(high, Poly::constant(by / digit))
        {
            return quotient;
        }
        if let Some(ExprKind::Binary { op, a, b }) = rest.as_atom().map(Expr::kind)
            && let Some(inner) = b.as_int().filter(|n| *n > 0)
        {
            match op {
                BinOp::FloorDiv if inner.checked_mul(by).is_some() => {
                    return Poly::atom(a.clone().floordiv(inner * by));
                }
                BinOp::FloorMod if inner % by == 0 => {
                    let digit = a.clone().floordiv(by).floormod(inner / by);
                    return self.poly(&digit).unwrap_or_else(|| Poly::atom(digit));
                }
                _ => {}
            }
        }
        Poly::atom(rest.to_expr().floordiv(by))
    }

    fn floormod(&self, a: Poly, b: Poly) -> Option<Poly> {
        let Some(by) = b.as_constant() else {
            let (_, rest) = symbolic_split(&a, &b)?;
            if rest.as_constant() == Some(0) && self.poly_interval(&b).min > 0
                || self.lies_within(&rest, &b)
            {
                return Some(rest);
            }
            return Some(opaque(BinOp::FloorMod, &rest, &b));
        };
        if by <= 0 {
            return Some(match a.as_constant() {
                Some(x) if by != 0 => Poly::constant(x.checked_sub(floor_div(x, by) * by)?),
                _ => opaque(BinOp::FloorMod, &a, &b),
            });
        }
        let (_, rest) = a.split(by);
        let range = self.poly_interval(&rest);
        if range.within(by) {
            return Some(rest);
        }
        let known = range.min != i64::MIN && range.max != i64::MAX;
        if known && range.min.div_euclid(by) == range.max.div_euclid(by) {
            let whole = Poly::constant(range.min.div_euclid(by).checked_mul(by)?);
            return rest.add_scaled(&whole, -1);
        }
        let common = rest.terms.iter().fold(by, |g, (_, c)| gcd(g, *c));
        if common > 1 {
            // (g*x + r) % (g*m) == g * ((x + r // g) % m) + r % g
            let inner = scale_down(&rest, common);
            let inner = self.floormod(inner, Poly::constant(by / common))?;
            let low = Poly::constant(rest.constant % common);
            return low.add_scaled(&inner, common);
        }
        if let Some((digit, high, low)) = self.low_digit(&rest, by) {
            // (g*x + r) % (g*m) == g * (x % m) + r for r in 0..g
            let inner = self.floormod(high, Poly::constant(by / digit))?;
            return low.add_scaled(&inner, digit);
        }
        if let Some(ExprKind::Binary { op: BinOp::FloorMod, a, b }) = rest.as_atom().map(Expr::kind)
            && b.as_int().is_some_and(|n| n > 0 && n % by == 0)
        {
            return self.poly(&a.clone().floormod(by));
        }
        Some(Poly::atom(rest.to_expr().floormod(by)))
    }

    /// `poly = g * high + low` with `low` in `0..g` and `g` a divisor of `by`; largest `g` first.
    fn low_digit(&self, poly: &Poly, by: i64) -> Option<(i64, Poly, Poly)> {
        let sizes = poly.terms.iter().filter_map(|(_, c)| c.checked_abs());
        let mut digits: Vec<i64> = sizes.filter(|g| *g > 1 && by % *g == 0 && *g < by).collect();
        digits.sort_unstable_by(|a, b| b.cmp(a));
        digits.into_iter().find_map(|g| {
            let (high, low) = poly.split(g);
            self.poly_interval(&low).within(g).then_some((g, high, low))
        })
    }

    fn lies_within(&self, rest: &Poly, by: &Poly) -> bool {
        let above = by.add_scaled(rest, -1).and_then(|d| d.add_scaled(&Poly::constant(1), -1));
        self.prove_nonnegative(rest) && above.is_some_and(|d| self.prove_nonnegative(&d))
    }

    /// `c*m*(x // m) + c*(x % m)` becomes `c*x`.
    fn recombine(&self, poly: Poly) -> Poly {
        for (factors, c) in &poly.terms {
            let [atom] = &factors[..] else { continue };
            let ExprKind::Binary { op: BinOp::FloorMod, a, b } = atom.kind() else { continue };
            let quotient = self.poly(&a.clone().floordiv(b.clone()));
            let Some(parts) = quotient.and_then(|q| q.mul(&self.poly(b)?)) else { continue };
            let present = parts.constant == 0
                && !parts.terms.is_empty()
                && parts.terms.iter().all(|(f, d)| {
                    let want = d.checked_mul(*c);
                    poly.terms.iter().any(|(g, e)| g == f && Some(*e) == want)
                });
            if !present {
                continue;
            }
            let whole = self.poly(a);
            let Some(negative) = c.checked_neg() else { continue };
            let shorter = poly
                .add_scaled(&parts, negative)
                .and_then(|p| p.add_scaled(&Poly::atom(atom.clone()), negative))
                .and_then(|p| p.add_scaled(&whole?, *c));
            if let Some(shorter) = shorter {
                return self.recombine(shorter);
            }
        }
        poly
    }
}

/// `a = whole * b + rest` with every term of `a` that is a multiple of the single term `b`;
/// `None` on overflow.
fn symbolic_split(a: &Poly, b: &Poly) -> Option<(Poly, Poly)> {
    let (mut whole, mut rest) = (Poly::constant(0), Poly::constant(a.constant));
    let divisor = match &b.terms[..] {
        [(factors, c)] if b.constant == 0 => Some((factors, *c)),
        _ => None,
    };
    for (factors, c) in &a.terms {
        let quotient = divisor.and_then(|(by, d)| {
            let mut left = factors.clone();
            for factor in by {
                left.remove(left.iter().position(|f| f == factor)?);
            }
            (c.checked_rem(d)? == 0).then(|| (left, c / d))
        });
        match quotient {
            Some((left, c)) if left.is_empty() => whole.constant = whole.constant.checked_add(c)?,
            Some(term) => whole.terms.push(term),
            None => rest.terms.push((factors.clone(), *c)),
        }
    }
    Some((whole, rest))
}

/// Whether the expression is a sum of a few variables, each with a coefficient, and a constant, as [`Poly::to_expr`]
/// writes it. Most indices are.
fn is_normal(e: &Expr) -> bool {
    let mut vars: SmallVec<[Var; 4]> = SmallVec::new();
    let mut term = |e: &Expr| {
        let var = match e.kind() {
            ExprKind::Binary { op: BinOp::Mul, a, b } if b.as_int().is_some_and(|c| c > 1) => a,
            _ => e,
        };
        let new = var.as_var().filter(|v| !vars.contains(v) && vars.len() < 4);
        new.map(|v| vars.push(v)).is_some()
    };
    let mut sum = e;
    if let ExprKind::Binary { op: BinOp::Add, a, b } = e.kind()
        && b.as_int().is_some_and(|c| c > 0)
    {
        sum = a;
    }
    while let ExprKind::Binary { op: BinOp::Add, a, b } = sum.kind() {
        if !term(b) {
            return false;
        }
        sum = a;
    }
    term(sum)
}

/// Coefficients divided by a common divisor, the constant rounded down.
fn scale_down(poly: &Poly, by: i64) -> Poly {
    Poly {
        terms: poly.terms.iter().map(|(f, c)| (f.clone(), c / by)).collect(),
        constant: poly.constant.div_euclid(by),
    }
}

fn opaque(op: BinOp, a: &Poly, b: &Poly) -> Poly {
    let folded = Expr::binary(op, a.to_expr(), b.to_expr());
    match folded.as_int() {
        Some(value) => Poly::constant(value),
        None => Poly::atom(folded),
    }
}

fn floor_div(x: i64, y: i64) -> i64 {
    let (q, r) = (x.wrapping_div(y), x.wrapping_rem(y));
    if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q }
}

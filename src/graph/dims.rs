//! Symbolic shape analysis: simplifies and compares dimensions.
//!
//! A dimension is kept as a polynomial over atoms (variables, and divisions, minima and
//! selections that do not dissolve) and written back in one order, so that equal dimensions are
//! usually equal trees. Symbols are never negative and arithmetic on them does not overflow:
//! run-time checks establish both where symbols are bound. The loop IR has an analyser of its own,
//! with loop bounds and ranges, as TVM's `arith::Analyzer`.
//!
//! Decision: docs/decisions/0025-symbolic-dims.md

use std::cell::RefCell;
use std::cmp::Ordering;
use std::thread::LocalKey;

use rustc_hash::FxHashMap;

use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind};

/// Products of sums wider than this stay unexpanded.
const MAX_TERMS: usize = 64;

/// The canonical form of an int64 (or bool) expression.
pub fn simplify(expr: &Expr) -> Expr {
    if expr.as_int().is_some() || expr.as_var().is_some() {
        return expr.clone();
    }
    if expr.dtype() != DType::I64 {
        return simplify_children(expr);
    }
    memoised(&SIMPLIFIED, expr, || Poly::of(expr).to_expr())
}

/// Results for expressions asked for lately: a model has few dimensions, and each of its operators asks for them again.
type Memo<T> = RefCell<FxHashMap<Expr, T>>;

/// Most expressions that a memo holds.
const MEMO_SIZE: usize = 4096;

thread_local! {
    static SIMPLIFIED: Memo<Expr> = RefCell::default();
    static POLYS: Memo<Poly> = RefCell::default();
}

/// The result of `compute`, which depends on `expr` alone.
fn memoised<T: Clone>(
    memo: &'static LocalKey<Memo<T>>,
    expr: &Expr,
    compute: impl FnOnce() -> T,
) -> T {
    if let Some(known) = memo.with_borrow(|memo| memo.get(expr).cloned()) {
        return known;
    }
    let result = compute();
    memo.with_borrow_mut(|memo| {
        if memo.len() == MEMO_SIZE {
            memo.clear();
        }
        memo.insert(expr.clone(), result.clone());
    });
    result
}

/// Returns `Some(true)` if two dimensions are equal for all values of their symbols, `Some(false)`
/// if for none.
pub fn equal(a: &Expr, b: &Expr) -> Option<bool> {
    if a == b {
        return Some(true);
    }
    let difference = Poly::of(a).sub(&Poly::of(b))?;
    match difference.as_int() {
        Some(value) => Some(value == 0),
        None if difference.lower_bound().is_some_and(|low| low > 0) => Some(false),
        None if difference.scaled(-1)?.lower_bound().is_some_and(|low| low > 0) => Some(false),
        None => None,
    }
}

/// Returns `Some(true)` if a comparison holds for all values of the symbols, `Some(false)` if for
/// none.
pub fn decide(op: CmpOp, a: &Expr, b: &Expr) -> Option<bool> {
    let at_least = |a: &Expr, b: &Expr, gap: i64| {
        let low = Poly::of(a).sub(&Poly::of(b))?.lower_bound()?;
        (low >= gap).then_some(true)
    };
    let ordered = |less: (&Expr, &Expr), strict: i64| {
        let (small, large) = less;
        at_least(large, small, strict).or(at_least(small, large, 1 - strict).map(|_| false))
    };
    match op {
        CmpOp::Eq => equal(a, b),
        CmpOp::Ne => equal(a, b).map(|same| !same),
        CmpOp::Lt => ordered((a, b), 1),
        CmpOp::Le => ordered((a, b), 0),
        CmpOp::Gt => ordered((b, a), 1),
        CmpOp::Ge => ordered((b, a), 0),
    }
}

/// The product of dimensions, such as the number of elements of a shape.
pub fn product<'a>(dims: impl IntoIterator<Item = &'a Expr>) -> Expr {
    simplify(&dims.into_iter().fold(Expr::i64(1), |acc, dim| acc * dim.clone()))
}

/// `factors` multiplied, sorted by [`order`]; times `coefficient`.
#[derive(Clone, Debug)]
struct Term {
    factors: Vec<Expr>,
    coefficient: i64,
}

/// A sum of terms with distinct factors, sorted, none with coefficient zero.
#[derive(Clone, Debug, Default)]
struct Poly(Vec<Term>);

impl Poly {
    fn int(value: i64) -> Poly {
        Poly(if value == 0 { vec![] } else { vec![Term { factors: vec![], coefficient: value }] })
    }

    fn atom(expr: Expr) -> Poly {
        match expr.as_int() {
            Some(value) => Poly::int(value),
            None => Poly(vec![Term { factors: vec![expr], coefficient: 1 }]),
        }
    }

    fn of(expr: &Expr) -> Poly {
        match expr.kind() {
            ExprKind::Binary { op, a, b } => memoised(&POLYS, expr, || Poly::binary(*op, a, b)),
            _ => Poly::atom(simplify_children(expr)),
        }
    }

    fn binary(op: BinOp, a: &Expr, b: &Expr) -> Poly {
        let (p, q) = (Poly::of(a), Poly::of(b));
        let folded = match op {
            BinOp::Add => p.add(&q),
            BinOp::Sub => p.sub(&q),
            BinOp::Mul => p.mul(&q),
            BinOp::FloorDiv => p.floordiv(&q),
            BinOp::FloorMod => p.floormod(&q),
            // Both divisions agree where nothing is negative.
            BinOp::Div if p.never_negative() && q.never_negative() => p.floordiv(&q),
            BinOp::Mod if p.never_negative() && q.never_negative() => p.floormod(&q),
            BinOp::Min => p.min(&q),
            BinOp::Max => p.max(&q),
            BinOp::Div | BinOp::Mod => None,
        };
        folded.unwrap_or_else(|| Poly::atom(Expr::binary(op, p.to_expr(), q.to_expr())))
    }

    fn as_int(&self) -> Option<i64> {
        match self.0.as_slice() {
            [] => Some(0),
            [Term { factors, coefficient }] if factors.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    fn push(&mut self, term: Term) -> Option<()> {
        let at = self.0.binary_search_by(|t| order_all(&t.factors, &term.factors));
        match at {
            Ok(at) => {
                let sum = self.0[at].coefficient.checked_add(term.coefficient)?;
                self.0[at].coefficient = sum;
                if sum == 0 {
                    self.0.remove(at);
                }
            }
            Err(at) if term.coefficient != 0 => self.0.insert(at, term),
            Err(_) => {}
        }
        Some(())
    }

    fn add(&self, other: &Poly) -> Option<Poly> {
        let mut sum = self.clone();
        for term in &other.0 {
            sum.push(term.clone())?;
        }
        Some(sum)
    }

    fn sub(&self, other: &Poly) -> Option<Poly> {
        self.add(&other.scaled(-1)?)
    }

    fn scaled(&self, by: i64) -> Option<Poly> {
        let scale = |t: &Term| {
            let coefficient = t.coefficient.checked_mul(by)?;
            Some(Term { factors: t.factors.clone(), coefficient })
        };
        if by == 0 {
            return Some(Poly::default());
        }
        self.0.iter().map(scale).collect::<Option<_>>().map(Poly)
    }

    fn mul(&self, other: &Poly) -> Option<Poly> {
        if self.0.len() * other.0.len() > MAX_TERMS {
            return None;
        }
        let mut result = Poly::default();
        for a in &self.0 {
            for b in &other.0 {
                let mut factors = [a.factors.as_slice(), &b.factors].concat();
                factors.sort_by(order);
                result.push(Term {
                    factors,
                    coefficient: a.coefficient.checked_mul(b.coefficient)?,
                })?;
            }
        }
        Some(result)
    }

    /// `self // by` by a positive constant or an exact monomial divisor.
    fn floordiv(&self, by: &Poly) -> Option<Poly> {
        let Some(by) = by.as_int() else { return self.divide_exactly(by) };
        if by <= 0 {
            return None;
        }
        let (quotient, rest) = self.split(by);
        if let Some(rest) = rest.as_int() {
            return quotient.add(&Poly::int(rest.div_euclid(by)));
        }
        // (x // a + k) // b with k == 0 is x // (a * b).
        if let [Term { factors, coefficient: 1 }] = rest.0.as_slice()
            && let [factor] = factors.as_slice()
            && let ExprKind::Binary { op: BinOp::FloorDiv, a, b } = factor.kind()
            && let Some(inner) = b.as_int().filter(|v| *v > 0)
        {
            let whole = Poly::of(a).floordiv(&Poly::int(inner.checked_mul(by)?))?;
            return quotient.add(&whole);
        }
        // A common factor of the terms and the divisor cancels (the constant is rounded down).
        let common =
            rest.0.iter().filter(|t| !t.factors.is_empty()).fold(by, |g, t| gcd(g, t.coefficient));
        let reduced = Poly(
            rest.0
                .iter()
                .map(|t| Term {
                    factors: t.factors.clone(),
                    coefficient: t.coefficient.div_euclid(common),
                })
                .filter(|t| t.coefficient != 0)
                .collect(),
        );
        if by == common {
            return quotient.add(&reduced);
        }
        let atom = Expr::binary(BinOp::FloorDiv, reduced.to_expr(), Expr::i64(by / common));
        quotient.add(&Poly::atom(atom))
    }

    fn floormod(&self, by: &Poly) -> Option<Poly> {
        let by = by.as_int().filter(|v| *v > 0)?;
        let (_, rest) = self.split(by);
        match rest.as_int() {
            Some(rest) => Some(Poly::int(rest.rem_euclid(by))),
            None => Some(Poly::atom(Expr::binary(BinOp::FloorMod, rest.to_expr(), Expr::i64(by)))),
        }
    }

    /// `(q, r)` with `self = q * by + r` and every coefficient of `r` in `0..by`.
    fn split(&self, by: i64) -> (Poly, Poly) {
        let part = |f: fn(i64, i64) -> i64| {
            let terms = self
                .0
                .iter()
                .map(|t| Term { factors: t.factors.clone(), coefficient: f(t.coefficient, by) });
            Poly(terms.filter(|t| t.coefficient != 0).collect())
        };
        (part(i64::div_euclid), part(i64::rem_euclid))
    }

    fn divide_exactly(&self, by: &Poly) -> Option<Poly> {
        if self.0.is_empty() {
            return None;
        }
        let [divisor] = by.0.as_slice() else {
            // The same sum on both sides, scaled.
            let factor = self.0[0].coefficient.checked_div(by.0.first()?.coefficient)?;
            let rest = self.sub(&by.scaled(factor)?)?;
            return rest.0.is_empty().then(|| Poly::int(factor));
        };
        let mut result = Poly::default();
        for term in &self.0 {
            if term.coefficient % divisor.coefficient != 0 {
                return None;
            }
            let mut factors = term.factors.clone();
            for factor in &divisor.factors {
                let at = factors.iter().position(|f| f == factor)?;
                factors.remove(at);
            }
            result.push(Term { factors, coefficient: term.coefficient / divisor.coefficient })?;
        }
        Some(result)
    }

    /// The smaller sum, where the order of the two is known.
    fn min(&self, other: &Poly) -> Option<Poly> {
        Some(if self.is_at_least(other)? { other.clone() } else { self.clone() })
    }

    /// The larger sum, where the order of the two is known.
    fn max(&self, other: &Poly) -> Option<Poly> {
        Some(if self.is_at_least(other)? { self.clone() } else { other.clone() })
    }

    /// `Some(true)` if `self >= other` for all values, `Some(false)` if `self <= other`.
    fn is_at_least(&self, other: &Poly) -> Option<bool> {
        let difference = self.sub(other)?;
        if difference.never_negative() {
            return Some(true);
        }
        difference.scaled(-1)?.never_negative().then_some(false)
    }

    fn never_negative(&self) -> bool {
        self.lower_bound().is_some_and(|low| low >= 0)
    }

    /// A lower bound of the sum.
    fn lower_bound(&self) -> Option<i64> {
        self.bound_cases(3)
    }

    /// Splits a minimum or a maximum into its cases, up to a depth. With a minimum added (or a
    /// maximum subtracted) the sum is at least the lower of the two, the other way round at
    /// least the higher.
    fn bound_cases(&self, depth: u32) -> Option<i64> {
        let plain = self.bound_terms();
        if depth == 0 {
            return plain;
        }
        for (at, term) in self.0.iter().enumerate() {
            let [factor] = term.factors.as_slice() else { continue };
            let ExprKind::Binary { op, a, b } = factor.kind() else { continue };
            if !matches!(op, BinOp::Min | BinOp::Max) {
                continue;
            }
            let mut rest = self.clone();
            rest.0.remove(at);
            let case = |side: &Expr| {
                let scaled = Poly::of(side).scaled(term.coefficient)?;
                rest.add(&scaled)?.bound_cases(depth - 1)
            };
            let lower = (*op == BinOp::Min) == (term.coefficient > 0);
            let (a, b) = (case(a), case(b));
            return plain.max(if lower { a.and_then(|a| Some(a.min(b?))) } else { a.max(b) });
        }
        plain
    }

    fn bound_terms(&self) -> Option<i64> {
        let mut sum = 0i64;
        for term in &self.0 {
            let product = |bound: fn(&Expr) -> Option<i64>| {
                term.factors.iter().try_fold(1i64, |acc, f| acc.checked_mul(bound(f)?))
            };
            // All factors are non-negative when each has a lower bound of at least zero.
            let floor = term.factors.iter().all(|f| lower(f).is_some_and(|v| v >= 0));
            let bound = match (term.coefficient > 0, term.factors.as_slice()) {
                (true, [single]) => lower(single)?,
                (true, _) if floor => product(lower)?,
                (false, []) => 1,
                (false, _) if floor => product(upper)?,
                _ => return None,
            };
            sum = sum.checked_add(bound.checked_mul(term.coefficient)?)?;
        }
        Some(sum)
    }

    fn to_expr(&self) -> Expr {
        let mut sum: Option<Expr> = None;
        let positive = self.0.iter().filter(|t| t.coefficient > 0 && !t.factors.is_empty());
        let negative = self.0.iter().filter(|t| t.coefficient < 0 && !t.factors.is_empty());
        for term in positive.chain(negative) {
            let product = term.factors.iter().cloned().reduce(|a, b| a * b).expect("factors");
            sum = Some(match sum {
                None => product * term.coefficient,
                Some(sum) if term.coefficient < 0 => {
                    sum - product * term.coefficient.saturating_neg()
                }
                Some(sum) => sum + product * term.coefficient,
            });
        }
        let constant = self.0.iter().find(|t| t.factors.is_empty()).map_or(0, |t| t.coefficient);
        match sum {
            None => Expr::i64(constant),
            Some(sum) if constant < 0 && constant != i64::MIN => sum - -constant,
            Some(sum) => sum + constant,
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A lower bound of an atom.
fn lower(atom: &Expr) -> Option<i64> {
    match atom.kind() {
        ExprKind::Int { value, .. } => Some(*value),
        ExprKind::Var { .. } => Some(0),
        ExprKind::Binary { op, a, b } => {
            let (low_a, low_b) = (Poly::of(a).lower_bound(), Poly::of(b).lower_bound());
            match op {
                BinOp::FloorDiv if b.as_int().is_some_and(|v| v > 0) => {
                    Some(low_a?.div_euclid(b.as_int()?))
                }
                BinOp::FloorDiv | BinOp::Div => (low_a? >= 0 && low_b? >= 0).then_some(0),
                BinOp::FloorMod => (low_b? >= 0).then_some(0),
                BinOp::Mod => (low_a? >= 0).then_some(0),
                BinOp::Max => low_a.max(low_b),
                BinOp::Min => Some(low_a?.min(low_b?)),
                _ => Poly::of(atom).lower_bound().filter(|_| !matches!(op, BinOp::Mul)),
            }
        }
        ExprKind::Select { on_true, on_false, .. } => {
            Some(Poly::of(on_true).lower_bound()?.min(Poly::of(on_false).lower_bound()?))
        }
        ExprKind::Cast { value, .. } if value.dtype() == DType::BOOL => Some(0),
        _ => None,
    }
}

/// An upper bound of an atom.
fn upper(atom: &Expr) -> Option<i64> {
    match atom.kind() {
        ExprKind::Int { value, .. } => Some(*value),
        ExprKind::Binary { op: BinOp::FloorMod, b, .. } => {
            b.as_int().filter(|v| *v > 0).map(|v| v - 1)
        }
        ExprKind::Binary { op: BinOp::Min, a, b } => match (upper(a), upper(b)) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        },
        ExprKind::Cast { value, .. } if value.dtype() == DType::BOOL => Some(1),
        _ => None,
    }
}

fn simplify_children(expr: &Expr) -> Expr {
    let rebuilt = expr.map_children(&mut simplify);
    match rebuilt.kind() {
        ExprKind::Compare { op, a, b } if a.dtype() == DType::I64 => {
            decide(*op, a, b).map_or(rebuilt.clone(), Expr::bool)
        }
        ExprKind::Select { on_true, on_false, .. } if on_true == on_false => on_true.clone(),
        _ => rebuilt,
    }
}

fn order_all(a: &[Expr], b: &[Expr]) -> Ordering {
    // Constants last.
    let key = |e: &[Expr]| if e.is_empty() { usize::MAX } else { e.len() };
    key(a).cmp(&key(b)).then_with(|| {
        a.iter().zip(b).map(|(x, y)| order(x, y)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    })
}

/// A total order that is equal only for equal trees.
fn order(a: &Expr, b: &Expr) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (a.as_var(), b.as_var()) {
        (Some(x), Some(y)) => x.cmp(&y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => format!("{a:?}").cmp(&format!("{b:?}")),
    }
}

#[cfg(test)]
mod tests {
    use cranelift_entity::EntityRef;
    use reflex_tir::Var;

    use super::*;

    fn n() -> Expr {
        Expr::var(Var::new(0))
    }

    fn m() -> Expr {
        Expr::var(Var::new(1))
    }

    #[test]
    fn equal_dimensions_are_equal_trees() {
        let same = |a: Expr, b: Expr| assert_eq!(simplify(&a), simplify(&b));
        same(n() + m(), m() + n());
        same(n() * 2 + n(), n() * 3);
        same((n() + 1) - 1, n());
        same((n() * 4 + 6).floordiv(4), n() + 1);
        same((n() * 4 + 2).floordiv(8), (n() * 2 + 1).floordiv(4));
        same(n().floordiv(2).floordiv(3), n().floordiv(6));
        same((n() * m() * 12).floordiv(m() * 12), n());
        same((n() + 2).max(1), n() + 2);
        same(n().min(n() + 1), n());
        same((n() * 8 + 3).floormod(4), Expr::i64(3));
        same((n() - 64).max(0).min(n()), (n() - 64).max(0));
        same((n() - n().min(1)).max(0), n() - n().min(1));
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        assert_eq!(equal(&n(), &m()), None);
        assert_eq!(equal(&n(), &Expr::i64(3)), None);
        assert_eq!(equal(&(n() + 1), &Expr::i64(0)), Some(false));
        assert_eq!(decide(CmpOp::Gt, &(n() + 1), &Expr::i64(0)), Some(true));
        assert_eq!(decide(CmpOp::Lt, &n(), &Expr::i64(0)), Some(false));
        assert_eq!(decide(CmpOp::Lt, &n(), &Expr::i64(1)), None);
    }

    #[test]
    fn floor_division_agrees_with_numbers() {
        let forms = [
            (n() * 6 + 7).floordiv(4),
            (n() * 6 - 5).floordiv(4),
            (n() - 9).floordiv(2).floordiv(3),
            (n() * 3 - 1).floormod(4),
            (n() - 2).max(0) + n().min(5),
        ];
        for form in forms {
            let simple = simplify(&form);
            for value in 0..20 {
                let at = |e: &Expr| e.substitute(&|_| Some(Expr::i64(value))).as_int();
                assert_eq!(at(&form), at(&simple), "{form:?} -> {simple:?} at {value}");
            }
        }
    }
}

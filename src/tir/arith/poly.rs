//! Integer polynomials over opaque atoms: the normal form of index arithmetic.

use std::cmp::Ordering;

use smallvec::{SmallVec, smallvec};

use crate::{BinOp, Expr, ExprKind};

/// `sum(coefficient * product(factors)) + constant`.
///
/// Invariants: coefficients are not zero, factor lists are not empty, are sorted and differ
/// between terms; terms keep the order in which they first appeared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Poly {
    pub terms: SmallVec<[(Factors, i64); 2]>,
    pub constant: i64,
}

/// The factors of a term, most often one.
pub(crate) type Factors = SmallVec<[Expr; 1]>;

/// Greatest common divisor, never negative.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

/// The order of the texts of two expressions, which are not written for most.
fn by_text(a: &Expr, b: &Expr) -> Ordering {
    match (a.kind(), b.kind()) {
        _ if a == b => Ordering::Equal,
        (ExprKind::Binary { op, a, b }, ExprKind::Binary { op: other, a: c, b: d })
            if op == other =>
        {
            by_text(a, c).then_with(|| by_text(b, d))
        }
        (ExprKind::Binary { op, .. }, ExprKind::Binary { op: other, .. }) => {
            name(*op).cmp(name(*other))
        }
        (ExprKind::Var { var: a, .. }, ExprKind::Var { var: b, .. }) => {
            by_digits(a.as_u32(), b.as_u32())
        }
        // "v1" comes behind "Add(".
        (ExprKind::Binary { .. }, ExprKind::Var { .. }) => Ordering::Less,
        (ExprKind::Var { .. }, ExprKind::Binary { .. }) => Ordering::Greater,
        _ => format!("{a:?}").cmp(&format!("{b:?}")),
    }
}

/// A word for an operation that its text begins with; none begins with another one.
fn name(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "Add",
        BinOp::Sub => "Sub",
        BinOp::Mul => "Mul",
        BinOp::Div => "Div",
        BinOp::Mod => "Mod",
        BinOp::FloorDiv => "FloorDiv",
        BinOp::FloorMod => "FloorMod",
        BinOp::Min => "Min",
        BinOp::Max => "Max",
    }
}

/// The order of two numbers' decimal texts: digits from the left, and of equal ones the shorter text first.
fn by_digits(a: u32, b: u32) -> Ordering {
    let last = |n: u32| n.checked_ilog10().unwrap_or(0);
    let (x, y) = (last(a), last(b));
    let padded = |n: u32, zeros: u32| u64::from(n) * 10_u64.pow(zeros);
    padded(a, y.saturating_sub(x)).cmp(&padded(b, x.saturating_sub(y))).then(x.cmp(&y))
}

impl Poly {
    pub fn constant(constant: i64) -> Poly {
        Poly { terms: SmallVec::new(), constant }
    }

    pub fn atom(e: Expr) -> Poly {
        Poly { terms: smallvec![(smallvec![e], 1)], constant: 0 }
    }

    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The single atom this is, if it is one.
    pub fn as_atom(&self) -> Option<&Expr> {
        match &self.terms[..] {
            [(factors, 1)] if factors.len() == 1 && self.constant == 0 => Some(&factors[0]),
            _ => None,
        }
    }

    /// `self + scale * other`, `None` on overflow.
    pub fn add_scaled(&self, other: &Poly, scale: i64) -> Option<Poly> {
        self.clone().plus(other.clone(), scale)
    }

    /// [`Poly::add_scaled`] of operands that are not needed any more.
    pub fn plus(mut self, other: Poly, scale: i64) -> Option<Poly> {
        self.constant = self.constant.checked_add(other.constant.checked_mul(scale)?)?;
        for (factors, c) in other.terms {
            self.add_term(factors, c.checked_mul(scale)?)?;
        }
        Some(self)
    }

    /// `self * scale`, `None` on overflow.
    fn times(mut self, scale: i64) -> Option<Poly> {
        if scale == 0 {
            return Some(Poly::constant(0));
        }
        self.constant = self.constant.checked_mul(scale)?;
        for (_, c) in &mut self.terms {
            *c = c.checked_mul(scale)?;
        }
        Some(self)
    }

    pub fn mul(&self, other: &Poly) -> Option<Poly> {
        match (self.as_constant(), other.as_constant()) {
            (_, Some(scale)) => return self.clone().times(scale),
            (Some(scale), _) => return other.clone().times(scale),
            (None, None) => {}
        }
        let mut product = Poly::constant(self.constant.checked_mul(other.constant)?);
        for (f, c) in &self.terms {
            product.add_term(f.clone(), c.checked_mul(other.constant)?)?;
        }
        for (g, d) in &other.terms {
            product.add_term(g.clone(), d.checked_mul(self.constant)?)?;
        }
        for (f, c) in &self.terms {
            for (g, d) in &other.terms {
                let mut factors: Factors = f.iter().chain(g).cloned().collect();
                // Any fixed order serves; the text of an expression is stable.
                factors.sort_by(by_text);
                product.add_term(factors, c.checked_mul(*d)?)?;
            }
        }
        Some(product)
    }

    pub fn add_term(&mut self, factors: Factors, c: i64) -> Option<()> {
        if c == 0 {
            return Some(());
        }
        match self.terms.iter().position(|(f, _)| *f == factors) {
            Some(at) => {
                let sum = self.terms[at].1.checked_add(c)?;
                if sum == 0 {
                    self.terms.remove(at);
                } else {
                    self.terms[at].1 = sum;
                }
            }
            None => self.terms.push((factors, c)),
        }
        Some(())
    }

    /// Splits into (terms with coefficients divisible by `by`, already divided; the rest with
    /// a constant in `0..by`). `by` is positive.
    pub fn split(&self, by: i64) -> (Poly, Poly) {
        let mut whole = Poly::constant(self.constant.div_euclid(by));
        let mut rest = Poly::constant(self.constant.rem_euclid(by));
        for (factors, c) in &self.terms {
            match c % by == 0 {
                true => whole.terms.push((factors.clone(), c / by)),
                false => rest.terms.push((factors.clone(), *c)),
            }
        }
        (whole, rest)
    }

    /// Whether every atom is a variable, so that normalising the expression again changes only the
    /// order of terms.
    pub fn over_variables(&self) -> bool {
        self.terms.iter().all(|(factors, _)| factors.iter().all(|f| f.as_var().is_some()))
    }

    /// The terms in the order in which [`Poly::to_expr`] writes them.
    pub fn in_order_of_text(&self) -> Poly {
        let positive = self.terms.iter().filter(|(_, c)| *c > 0);
        let negative = self.terms.iter().filter(|(_, c)| *c < 0);
        Poly { terms: positive.chain(negative).cloned().collect(), constant: self.constant }
    }

    /// The expression: positive terms in order, then the constant, negative terms subtracted.
    pub fn to_expr(&self) -> Expr {
        let product = |factors: &[Expr], c: i64| {
            let product = factors[1..].iter().fold(factors[0].clone(), |a, b| a * b.clone());
            product * c
        };
        let mut sum: Option<Expr> = None;
        for (factors, c) in self.terms.iter().filter(|(_, c)| *c > 0) {
            let term = product(factors, *c);
            sum = Some(match sum {
                Some(sum) => sum + term,
                None => term,
            });
        }
        let negative = self.terms.iter().filter(|(_, c)| *c < 0);
        let mut sum = match sum {
            Some(sum) if self.constant > 0 => sum + self.constant,
            Some(sum) => sum,
            None if self.constant == 0 && self.terms.len() == 1 => {
                let (factors, c) = &self.terms[0];
                return product(factors, *c);
            }
            None => Expr::i64(self.constant),
        };
        for (factors, c) in negative {
            sum = match c.checked_neg() {
                Some(size) => sum - product(factors, size),
                None => sum + product(factors, *c),
            };
        }
        match self.constant {
            c if c < 0 && self.terms.iter().any(|(_, c)| *c > 0) && c != i64::MIN => sum - (-c),
            i64::MIN if self.terms.iter().any(|(_, c)| *c > 0) => sum + i64::MIN,
            _ => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::by_text;
    use crate::{DType, Expr, PrimFunc, Scope};

    #[test]
    fn order_is_that_of_texts() {
        let mut f = PrimFunc::new("f");
        let vars: Vec<Expr> = (0..12).map(|n| Expr::from(f.new_var(format!("x{n}")))).collect();
        let buffer = f.new_buffer("b", DType::I64, vec![8.into()], Scope::Global);
        let [a, b, c] = [&vars[1], &vars[10], &vars[11]].map(Clone::clone);
        let mut all: Vec<Expr> = vars.clone();
        all.extend([Expr::i64(1), Expr::i64(12), Expr::i64(-3)]);
        for (x, y) in [(&a, &b), (&b, &a), (&a, &c), (&a, &vars[2])] {
            all.push(x.clone() - y.clone());
            all.push(x.clone().max(y.clone()));
            all.push((x.clone() * y.clone()).floormod(y.clone()));
            all.push(x.clone() + y.clone());
            all.push((x.clone() + 1).floordiv(2) * y.clone());
            all.push((x.clone() + 10).floordiv(2) * y.clone());
            all.push(x.clone().floormod(y.clone()).min(c.clone()));
            all.push(Expr::load(buffer, vec![x.clone()], DType::I64) + y.clone());
            all.push(Expr::load(buffer, vec![x.clone(), y.clone()], DType::I64));
        }
        for x in &all {
            for y in &all {
                let texts = format!("{x:?}").cmp(&format!("{y:?}"));
                assert_eq!(by_text(x, y), texts, "{x:?} and {y:?}");
            }
        }
    }
}

//! Index expressions as sums of `coefficient * variable`, which is what decides contiguity.

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, Expr, ExprKind, PrimFunc, Var};

/// Whether `var` appears in `e`, inside loads too.
pub fn mentions(e: &Expr, var: Var) -> bool {
    let mut found = e.as_var() == Some(var);
    e.for_each_child(&mut |c| found = found || mentions(c, var));
    found
}

/// `c` with `e = c * var + rest`, where neither mentions `var`; `None` when `e` has no such
/// form.
pub fn coefficient(e: &Expr, var: Var) -> Option<Expr> {
    match e.kind() {
        ExprKind::Var { var: v, .. } => Some(Expr::i64(i64::from(*v == var))),
        ExprKind::Binary { op: BinOp::Add, a, b } => {
            Some(coefficient(a, var)? + coefficient(b, var)?)
        }
        ExprKind::Binary { op: BinOp::Sub, a, b } => {
            Some(coefficient(a, var)? - coefficient(b, var)?)
        }
        ExprKind::Binary { op: BinOp::Mul, a, b } => match (mentions(a, var), mentions(b, var)) {
            (false, false) => Some(Expr::i64(0)),
            (true, false) => Some(coefficient(a, var)? * b.clone()),
            (false, true) => Some(coefficient(b, var)? * a.clone()),
            (true, true) => None,
        },
        _ => (!mentions(e, var)).then(|| Expr::i64(0)),
    }
}

/// Whether two integer expressions are equal for all values of their variables.
pub fn same(a: &Expr, b: &Expr) -> bool {
    a == b || Analyzer::new().simplify(&(a.clone() - b.clone())).as_int() == Some(0)
}

/// `e` with the variables replaced by 0.
pub fn at_zero(e: &Expr, vars: &[Var]) -> Expr {
    let zero = e.substitute(&|v| vars.contains(&v).then(|| Expr::i64(0)));
    Analyzer::new().simplify(&zero)
}

/// A flat access as coefficients of `vars` and the rest; `None` when not of that form in one
/// of them.
#[derive(Clone, Debug)]
pub struct Linear {
    /// One per variable.
    pub coefficients: Vec<Expr>,
    /// The rest.
    pub rest: Expr,
}

/// The position of an access, linear in `vars`.
pub fn linear(func: &PrimFunc, buffer: Buffer, indices: &[Expr], vars: &[Var]) -> Option<Linear> {
    let offset = func.row_major(buffer, indices);
    let analyzer = Analyzer::new();
    let coefficients = vars
        .iter()
        .map(|v| coefficient(&offset, *v).map(|c| analyzer.simplify(&c)))
        .collect::<Option<Vec<_>>>()?;
    // A coefficient that mentions another of the variables is a product of two of them.
    let product = coefficients.iter().any(|c| vars.iter().any(|v| mentions(c, *v)));
    (!product).then(|| Linear { coefficients, rest: at_zero(&offset, vars) })
}

impl Linear {
    /// The position for given values of the variables.
    pub fn at(&self, values: &[Expr]) -> Expr {
        let terms = self.coefficients.iter().zip(values);
        let sum = terms
            .filter(|(c, _)| c.as_int() != Some(0))
            .map(|(c, v)| v.clone() * c.clone())
            .reduce(|a, b| a + b);
        match sum {
            Some(sum) => sum + self.rest.clone(),
            None => self.rest.clone(),
        }
    }
}

//! Indices as linear functions of some variables.

use super::Analyzer;
use super::poly::Poly;
use crate::{Expr, Var};

/// `sum(strides[n] * variables[n]) + rest + constant`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The step of each variable, free of all of them.
    pub strides: Vec<Expr>,
    /// The part without these variables and without a constant.
    pub rest: Expr,
    /// Constant part.
    pub constant: i64,
}

impl Analyzer {
    /// The int64 expression as a linear function of `variables`; `None` if it is none.
    pub fn linear(&self, expr: &Expr, variables: &[Var]) -> Option<Linear> {
        let poly = self.poly(expr)?;
        let mut strides = vec![Poly::constant(0); variables.len()];
        let mut rest = Poly::constant(0);
        for (factors, c) in &poly.terms {
            let mentions = |e: &Expr| {
                let mut found = false;
                e.visit(&mut |e| found |= e.as_var().is_some_and(|v| variables.contains(&v)));
                found
            };
            let mut moving = factors.iter().enumerate().filter(|(_, f)| mentions(f));
            let Some((at, factor)) = moving.next() else {
                rest.add_term(factors.clone(), *c)?;
                continue;
            };
            if moving.next().is_some() {
                return None;
            }
            let stride = variables.iter().position(|v| factor.as_var() == Some(*v))?;
            let mut others = factors.clone();
            others.remove(at);
            let step = match others.is_empty() {
                true => Poly::constant(*c),
                false => {
                    let mut step = Poly::constant(0);
                    step.add_term(others, *c)?;
                    step
                }
            };
            strides[stride] = strides[stride].add_scaled(&step, 1)?;
        }
        let strides = strides.iter().map(Poly::to_expr).collect();
        Some(Linear { strides, rest: rest.to_expr(), constant: poly.constant })
    }
}

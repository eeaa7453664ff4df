//! Floating-point operations of a kernel, counted from its loop IR.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{BinOp, Expr, ExprKind, Intrin, Param, PrimFunc, Stmt, Var};

/// The number of floating-point operations of a call, over the shapes of its arguments.
///
/// An addition, a multiplication and each other function of floating-point numbers is one operation, a
/// fused multiply-add two. What runs before a reduction is left out; of a condition's sides the
/// first that computes counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlopCount(Vec<Term>);

/// `each` operations, times the product of some dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Term {
    each: u64,
    /// Each as parameter and axis.
    dims: Vec<(u32, u32)>,
}

impl FlopCount {
    /// Counts the operations of a function. `None` where the count depends on data, or is no sum of
    /// products of dimensions.
    ///
    /// ```
    /// use reflex_tir::{DType, builder::FuncBuilder, flops::FlopCount};
    /// let mut f = FuncBuilder::new("square");
    /// let n = f.symbol("n");
    /// let x = f.input("x", DType::F32, vec![n.clone(), 3.into()]);
    /// f.output("square", "y", DType::F32, vec![n, 3.into()], |f, i| f.at(x, i) * f.at(x, i));
    /// let operations = FlopCount::of(&f.finish()).unwrap();
    /// assert_eq!(operations.count(|param, dim| ((param, dim) == (0, 0)).then_some(5)), Some(15));
    /// assert_eq!(operations.count(|_, _| None), None);
    /// ```
    pub fn of(func: &PrimFunc) -> Option<FlopCount> {
        let mut extents = HashMap::new();
        for (param, at) in func.params.iter().zip(0..) {
            let Param::Buffer(buffer) = param else { continue };
            for (extent, dim) in func.buffers[*buffer].shape.iter().zip(0..) {
                if let Some(var) = extent.as_var() {
                    extents.entry(var).or_insert((at, dim));
                }
            }
        }
        let mut terms = vec![];
        count(&func.body, &Term { each: 1, dims: vec![] }, &extents, &mut terms)?;
        Some(FlopCount(terms))
    }

    /// The number for a call; `dim` gives a dimension of a parameter. `None` when
    /// that does not know it.
    pub fn count(&self, dim: impl Fn(u32, u32) -> Option<u64>) -> Option<u64> {
        self.0.iter().try_fold(0_u64, |sum, term| {
            let mut dims = term.dims.iter();
            let term = dims.try_fold(term.each, |product, (param, axis)| {
                product.checked_mul(dim(*param, *axis)?)
            })?;
            sum.checked_add(term)
        })
    }
}

impl Term {
    fn times(&self, each: u64) -> Option<Term> {
        Some(Term { each: self.each.checked_mul(each)?, dims: self.dims.clone() })
    }

    /// For every value below `extent`.
    fn within(&self, extent: &Expr, known: &HashMap<Var, (u32, u32)>) -> Option<Term> {
        match extent.kind() {
            ExprKind::Int { value, .. } => self.times(u64::try_from(*value).ok()?),
            ExprKind::Var { var, .. } => {
                let mut term = self.clone();
                term.dims.push(*known.get(var)?);
                Some(term)
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } => self.within(a, known)?.within(b, known),
            _ => None,
        }
    }
}

/// Adds the operations of `stmt`, which runs as often as `factor` says.
fn count(
    stmt: &Stmt,
    factor: &Term,
    known: &HashMap<Var, (u32, u32)>,
    terms: &mut Vec<Term>,
) -> Option<()> {
    let own = match stmt {
        Stmt::Store { value, .. } | Stmt::Let { value, .. } => of_expr(value),
        Stmt::If { cond, .. } | Stmt::While { cond, .. } => of_expr(cond),
        Stmt::For(_)
        | Stmt::Block(_)
        | Stmt::Allocate { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::Seq(_) => 0,
    };
    if own > 0 {
        terms.push(factor.times(own)?);
    }
    match stmt {
        Stmt::For(l) => {
            let mut inner = vec![];
            match factor.within(&l.extent, known) {
                Some(factor) => count(&l.body, &factor, known, &mut inner)?,
                // Whatever the extent, nothing times it is nothing.
                None => {
                    count(&l.body, factor, known, &mut inner)?;
                    if !inner.is_empty() {
                        return None;
                    }
                }
            }
            terms.append(&mut inner);
        }
        Stmt::Block(b) => count(&b.body, factor, known, terms)?,
        Stmt::If { then, otherwise, .. } => {
            let (mut yes, mut no) = (vec![], vec![]);
            count(then, factor, known, &mut yes)?;
            if let Some(otherwise) = otherwise {
                count(otherwise, factor, known, &mut no)?;
            }
            terms.append(if yes.is_empty() { &mut no } else { &mut yes });
        }
        Stmt::While { body, .. } => {
            let mut inner = vec![];
            count(body, factor, known, &mut inner)?;
            if !inner.is_empty() {
                return None;
            }
        }
        Stmt::Let { body, .. } | Stmt::Allocate { body, .. } => count(body, factor, known, terms)?,
        Stmt::Seq(list) => {
            list.iter().try_for_each(|stmt| count(stmt, factor, known, terms))?;
        }
        Stmt::Store { .. } | Stmt::Tile(_) | Stmt::CallPacked(_) | Stmt::Barrier(_) => {}
    }
    Some(())
}

fn of_expr(expr: &Expr) -> u64 {
    let children = || expr.children().into_iter().map(of_expr);
    match expr.kind() {
        ExprKind::Binary { .. } => u64::from(expr.dtype().is_float()) + children().sum::<u64>(),
        ExprKind::Select { cond, on_true, on_false } => {
            of_expr(cond) + of_expr(on_true).max(of_expr(on_false))
        }
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
            args.iter().map(of_expr).max().unwrap_or(0)
        }
        ExprKind::Call { op: Intrin::Fma, .. } => 2 + children().sum::<u64>(),
        ExprKind::Call { op: Intrin::DotBf16, .. } => 4 + children().sum::<u64>(),
        ExprKind::Call { .. } => u64::from(expr.dtype().is_float()) + children().sum::<u64>(),
        ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. } => 0,
        ExprKind::Compare { .. }
        | ExprKind::And(..)
        | ExprKind::Or(..)
        | ExprKind::Not(_)
        | ExprKind::Cast { .. }
        | ExprKind::Load { .. } => children().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;

    fn operations(text: &str) -> Option<u64> {
        FlopCount::of(&parse(text).unwrap()).unwrap().count(|_, _| None)
    }

    #[test]
    fn a_matmul_with_its_epilogue_is_counted_as_it_stands() {
        let file = include_str!("../../tests/filetests/tir/epilogue.py");
        let text = file.lines().filter(|line| !line.starts_with("# step")).collect::<Vec<_>>();
        let text = text.join("\n");
        let (matmul, epilogue) = (2 * 24 * 32 * 16, 2 * 24 * 32);
        for function in text.split("# ----") {
            assert_eq!(operations(function), Some(matmul + epilogue));
        }
    }
}

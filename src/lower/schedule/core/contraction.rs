//! Contractions: sums over products of two operands, recognised in a stage.

use reflex_tir::{Buffer, DType, Expr, ExprKind, Intrin, PrimFunc, Var};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::stage::{Axis, Stage};

/// A sum over products of two operands.
#[derive(Clone, Debug)]
pub struct Contraction {
    /// Operand A: its elements are broadcast.
    pub row: Expr,
    /// Operand B: its elements are loaded in vectors.
    pub column: Expr,
    /// The result's contiguous axis.
    pub inner: Axis,
    /// Both operands are vectors (depthwise, in a blocked layout): operand A is not broadcast.
    pub both: bool,
    /// The multiply-add of the operands in this order: [`Intrin::Fma`], or [`Intrin::DotBf16`],
    /// [`Intrin::DotI8`] or [`Intrin::DotI16`] of what is VNNI-packed.
    pub op: Intrin,
}

/// The type of a multiply-add's sums.
pub fn sum_type(op: Intrin) -> DType {
    match op {
        Intrin::DotI8 { .. } | Intrin::DotI16 => DType::I32,
        _ => DType::F32,
    }
}

impl Contraction {
    /// Reads a stage without axes of extent 1.
    pub fn of(func: &PrimFunc, stage: &Stage) -> Result<Contraction, Refusal> {
        let ExprKind::Call {
            op: step @ (Intrin::Fma | Intrin::DotBf16 | Intrin::DotI8 { .. } | Intrin::DotI16),
            args: step_args,
            ..
        } = stage.value.kind()
        else {
            return Err(Refusal::NoContraction);
        };
        let inner = inner_product(&stage.value);
        let (op, args) = inner.as_ref().map_or((step, &step_args[..]), |p| (&p.op, &p.args[..]));
        let zero = |e: &Expr| {
            matches!(e.kind(), ExprKind::Float { bits: 0, .. } | ExprKind::Int { value: 0, .. })
        };
        let sums = matches!(step_args[2].kind(), ExprKind::Load { buffer, indices, .. }
            if *buffer == stage.buffer && *indices == stage.indices);
        if !sums || !stage.init.as_ref().is_some_and(zero) || stage.reduce.is_empty() {
            return Err(Refusal::NoContraction);
        }
        if func.buffers[stage.buffer].dtype != sum_type(*step) {
            return Err(Refusal::ElementType);
        }
        let vars = stage.spatial_vars();
        let store = linear(func, stage.buffer, &stage.indices, &vars).ok_or(Refusal::NotAffine)?;
        let unit = store.coefficients.iter().position(|c| c.as_int() == Some(1));
        let inner = stage.spatial[unit.ok_or(Refusal::NotContiguous)?].clone();
        let vectors = (mentions(&args[0], inner.var), mentions(&args[1], inner.var));
        let (row, column) = match vectors {
            (true, false) => (&args[1], &args[0]),
            (false, true) => (&args[0], &args[1]),
            _ if !short(&inner) => return Err(Refusal::NotSeparable),
            // Where each has rows that the other has not, those of the inner axis.
            _ => match (rows_end(stage, &args[0], &args[1]), rows_end(stage, &args[1], &args[0])) {
                (None, None) => return Err(Refusal::NotSeparable),
                (first, second) if first > second => (&args[0], &args[1]),
                _ => (&args[1], &args[0]),
            },
        };
        let both = vectors == (true, true);
        if both && !(unit_step(func, row, inner.var) && unit_step(func, column, inner.var)) {
            return Err(Refusal::NotContiguous);
        }
        let op = match *op {
            Intrin::DotI8 { a, b } if row == &args[1] => Intrin::DotI8 { a: b, b: a },
            op => op,
        };
        Ok(Contraction { row: row.clone(), column: column.clone(), inner, both, op })
    }

    /// Results that share one column element: the axes that only the row operand has.
    pub fn rows(&self, stage: &Stage) -> Vec<Axis> {
        let only_row = |a: &&Axis| mentions(&self.row, a.var) && !mentions(&self.column, a.var);
        stage.spatial.iter().filter(only_row).cloned().collect()
    }
}

/// The products of integers whose sum over a block is a term of another sum.
pub struct InnerProduct {
    /// The whole expression.
    pub expr: Expr,
    /// [`Intrin::DotI8`] or [`Intrin::DotI16`].
    pub op: Intrin,
    /// Both operands, and the sum so far.
    pub args: Vec<Expr>,
    /// The sum so far.
    pub sum: Buffer,
}

/// The inner product in the step of a sum: one of integers, summed in a scalar.
pub fn inner_product(step: &Expr) -> Option<InnerProduct> {
    let mut found = None;
    step.visit(&mut |e| {
        if let ExprKind::Call { op: op @ (Intrin::DotI8 { .. } | Intrin::DotI16), args, .. } =
            e.kind()
            && let ExprKind::Load { buffer, indices, .. } = args[2].kind()
            && indices.is_empty()
        {
            let (op, args, sum) = (*op, args.to_vec(), *buffer);
            found = Some(InnerProduct { expr: e.clone(), op, args, sum });
        }
    });
    found.filter(|inner| inner.expr != *step)
}

/// Whether elements are made of words that are loaded: codes, and the numbers of their block, or codes
/// in bytes of their own.
pub fn is_made_of_codes(e: &Expr) -> bool {
    let (mut words, mut others) = (false, false);
    e.visit(&mut |e| {
        if let ExprKind::Load { dtype, .. } = e.kind() {
            words |= *dtype == DType::U32;
            others |= *dtype != DType::U32;
        }
    });
    let alone = matches!(e.kind(), ExprKind::Load { .. });
    matches!(e.dtype(), DType::F32 | DType::U32) && !alone && words && !others
}

/// Whether an axis is a block of channels: one vector, or half of one.
fn short(axis: &Axis) -> bool {
    matches!(axis.extent.as_int(), Some(8 | 16))
}

/// The last result axis that `row` has and `column` has not.
fn rows_end(stage: &Stage, row: &Expr, column: &Expr) -> Option<usize> {
    stage.spatial.iter().rposition(|a| mentions(row, a.var) && !mentions(column, a.var))
}

fn unit_step(func: &PrimFunc, e: &Expr, var: Var) -> bool {
    let ExprKind::Load { buffer, indices, .. } = e.kind() else { return false };
    let at = linear(func, *buffer, indices, &[var]);
    at.is_some_and(|at| at.coefficients[0].as_int() == Some(1))
}

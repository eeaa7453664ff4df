//! Operators on tensors whose elements are symbolic integers.
//!
//! An operator that only moves elements is evaluated on the positions of its operands'
//! elements, so the reference evaluator defines the movement here too.

use reflex_graph::{
    Binary, Literal, Op, PadMode, ReduceKind, ScatterReduce, TensorType, Unary, dims, eval_op,
};
use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind};

use crate::value::{KnownElements, MAX_ELEMENTS, Tensor};

/// The result on symbolic elements, where the operator has one of a known small shape.
pub(crate) fn symbolic(op: &Op, args: &[&Tensor], types: &[TensorType]) -> Option<Tensor> {
    let ty = types.first()?;
    let shape = ty.const_shape()?;
    let count = shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d))?;
    let tracked = matches!(ty.dtype, DType::I64 | DType::I32 | DType::BOOL);
    if !tracked || count > MAX_ELEMENTS as i64 {
        return None;
    }
    let elements = match op {
        Op::Dims { values, .. } => values.clone(),
        Op::Binary(f) => {
            let a = spread(args[0], &shape)?;
            let b = spread(args[1], &shape)?;
            a.iter()
                .zip(&b)
                .map(|(a, b)| binary(*f, a, b, args[0].dtype()))
                .collect::<Option<_>>()?
        }
        Op::Unary(f) => {
            args[0].as_elements()?.iter().map(|x| unary(*f, x)).collect::<Option<_>>()?
        }
        Op::Cast(to) => cast(args[0], *to)?,
        Op::Where => {
            let cond = spread(args[0], &shape)?;
            let (a, b) = (spread(args[1], &shape)?, spread(args[2], &shape)?);
            let pick = |((c, a), b): ((&Expr, &Expr), &Expr)| choose(c, a, b);
            cond.iter().zip(&a).zip(&b).map(pick).collect()
        }
        Op::Reduce { kind, axes, .. } if axes.len() == args[0].rank() => {
            vec![reduce(*kind, &args[0].as_elements()?)?]
        }
        Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Slice { .. } => {
            moved(op, args, &[0])?
        }
        Op::Concat { .. } => moved(op, args, &(0..args.len()).collect::<Vec<_>>())?,
        Op::Gather { .. } => moved(op, args, &[0])?,
        Op::Pad { mode: PadMode::Constant, .. } if args.len() == 2 => moved(op, args, &[0, 1])?,
        Op::Scatter { reduce: ScatterReduce::Replace, .. } => moved(op, args, &[0, 2])?,
        _ => return None,
    };
    Tensor::elements(ty.dtype, &shape, elements)
}

/// Evaluates a movement on the indices of elements. `data` are the operands that are moved; the
/// others must be literals.
fn moved(op: &Op, args: &[&Tensor], data: &[usize]) -> Option<Vec<Expr>> {
    let mut table: Vec<Expr> = vec![];
    let mut literals = vec![];
    for (i, arg) in args.iter().enumerate() {
        if !data.contains(&i) {
            literals.push(arg.as_literal()?.clone());
            continue;
        }
        let elements = arg.as_elements()?;
        let positions: Vec<i64> = (table.len() as i64..).take(elements.len()).collect();
        literals.push(Literal::from_i64(arg.const_shape()?, &positions));
        table.extend(elements);
    }
    let result = eval_op(op, &literals.iter().collect::<Vec<_>>(), &|_| None).ok()?;
    result[0].to_i64()?.into_iter().map(|at| table.get(at as usize).cloned()).collect()
}

/// Elements broadcast to a shape.
fn spread(x: &Tensor, shape: &[i64]) -> Option<Vec<Expr>> {
    let to = Op::Broadcast(shape.iter().map(|d| Expr::i64(*d)).collect());
    moved(&to, &[x], &[0])
}

fn binary(f: Binary, a: &Expr, b: &Expr, dtype: DType) -> Option<Expr> {
    let compare = |op: CmpOp| {
        let known = dims::decide(op, a, b).map(|holds| Expr::i64(holds.into()));
        known.unwrap_or_else(|| Expr::compare(op, a.clone(), b.clone()).cast(DType::I64))
    };
    let arithmetic = |op: BinOp| Some(Expr::binary(op, a.clone(), b.clone()));
    let divisor = dims::decide(CmpOp::Gt, b, &Expr::i64(0)) == Some(true);
    match f {
        Binary::Add => arithmetic(BinOp::Add),
        Binary::Sub => arithmetic(BinOp::Sub),
        Binary::Mul => arithmetic(BinOp::Mul),
        Binary::Min => arithmetic(BinOp::Min),
        Binary::Max => arithmetic(BinOp::Max),
        // A divisor that may be zero is left to the run.
        Binary::Div if divisor => arithmetic(BinOp::Div),
        Binary::FloorMod if divisor => arithmetic(BinOp::FloorMod),
        Binary::TruncMod if divisor => arithmetic(BinOp::Mod),
        Binary::Equal => Some(compare(CmpOp::Eq)),
        Binary::NotEqual => Some(compare(CmpOp::Ne)),
        Binary::Less => Some(compare(CmpOp::Lt)),
        Binary::LessEqual => Some(compare(CmpOp::Le)),
        Binary::Greater => Some(compare(CmpOp::Gt)),
        Binary::GreaterEqual => Some(compare(CmpOp::Ge)),
        Binary::And if dtype == DType::BOOL => Some(truth(&as_bool(a).and(as_bool(b)))),
        Binary::Or if dtype == DType::BOOL => Some(truth(&as_bool(a).or(as_bool(b)))),
        Binary::Xor if dtype == DType::BOOL => Some(compare(CmpOp::Ne)),
        _ => None,
    }
}

fn unary(f: Unary, x: &Expr) -> Option<Expr> {
    match f {
        Unary::Neg => Some(Expr::i64(0) - x.clone()),
        Unary::Abs => Some(x.clone().max(Expr::i64(0) - x.clone())),
        Unary::Not => Some(truth(&as_bool(x).logical_not())),
        _ => None,
    }
}

/// Integer conversions that keep every value a dimension can have.
fn cast(x: &Tensor, to: DType) -> Option<Vec<Expr>> {
    let elements = x.as_elements()?;
    match (x.dtype(), to) {
        (DType::I64 | DType::I32, DType::BOOL) => {
            let nonzero = |e: &Expr| binary(Binary::NotEqual, e, &Expr::i64(0), DType::I64);
            elements.iter().map(nonzero).collect()
        }
        (DType::I64 | DType::I32 | DType::BOOL, DType::I64 | DType::I32) => Some(elements),
        _ => None,
    }
}

fn choose(cond: &Expr, a: &Expr, b: &Expr) -> Expr {
    Expr::select(as_bool(cond), a.clone(), b.clone())
}

fn reduce(kind: ReduceKind, elements: &[Expr]) -> Option<Expr> {
    let op = match kind {
        ReduceKind::Sum => BinOp::Add,
        ReduceKind::Prod => BinOp::Mul,
        ReduceKind::Max => BinOp::Max,
        ReduceKind::Min => BinOp::Min,
        ReduceKind::Mean => return None,
    };
    elements.iter().cloned().reduce(|a, b| Expr::binary(op, a, b))
}

/// A 0-or-1 element as a condition.
pub(crate) fn as_bool(element: &Expr) -> Expr {
    match element.kind() {
        ExprKind::Int { value, .. } => Expr::bool(*value != 0),
        ExprKind::Cast { value, .. } if value.dtype() == DType::BOOL => value.clone(),
        _ => Expr::compare(CmpOp::Ne, element.clone(), Expr::i64(0)),
    }
}

/// A condition as a 0-or-1 element.
fn truth(cond: &Expr) -> Expr {
    match cond.as_int() {
        Some(value) => Expr::i64(value),
        None => cond.clone().cast(DType::I64),
    }
}

/// The value of a bool tensor of one element, if it is known.
pub(crate) fn known_condition(cond: &Tensor) -> Option<bool> {
    match &cond.known {
        KnownElements::None => None,
        KnownElements::Constant(literal) => Some(literal.to_i64()?.first().copied()? != 0),
        KnownElements::Symbolic(_) => None,
    }
}

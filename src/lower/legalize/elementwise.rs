//! Operators that compute each element from the elements at its (broadcast) position.

use reflex_graph::{Binary, Unary};
use reflex_tir::{BinOp, CmpOp, DType, Expr, ExprKind, Intrin};

use crate::legalize::builder::{LegalizeError, OpBuilder, compute_type};

/// One operand.
pub fn unary(cx: &mut OpBuilder<'_>, kind: Unary) -> Result<(), LegalizeError> {
    let out = cx.outs[0].clone();
    let x = cx.args[0].dtype;
    if !unary_fits(kind, x) {
        return Err(cx.error(format!("{kind:?} of {x}")));
    }
    let read = cx.reader(0);
    cx.f.output("unary", "y", out.dtype, out.shape, |f, i| {
        unary_expr(kind, read(f, i).cast(compute_type(x))).cast(out.dtype)
    });
    Ok(())
}

/// Two operands, broadcast.
pub fn binary(cx: &mut OpBuilder<'_>, kind: Binary) -> Result<(), LegalizeError> {
    let out = cx.outs[0].clone();
    let x = cx.args[0].dtype;
    if !binary_fits(kind, x) {
        return Err(cx.error(format!("{kind:?} of {x}")));
    }
    let (a, b) = (cx.broadcast_reader(0, &out.shape), cx.broadcast_reader(1, &out.shape));
    cx.f.output("binary", "y", out.dtype, out.shape, |f, i| {
        let (a, b) = (a(f, i).cast(compute_type(x)), b(f, i));
        let b = b.cast(a.dtype());
        binary_expr(kind, a, b).cast(out.dtype)
    });
    Ok(())
}

/// `Where`.
pub fn choose(cx: &mut OpBuilder<'_>) {
    let out = cx.outs[0].clone();
    let [c, a, b] = [0, 1, 2].map(|n| cx.broadcast_reader(n, &out.shape));
    cx.f.output("where", "y", out.dtype, out.shape, |f, i| Expr::select(c(f, i), a(f, i), b(f, i)));
}

/// Conversion.
pub fn cast(cx: &mut OpBuilder<'_>, to: DType) {
    let (read, shape) = (cx.reader(0), cx.outs[0].shape.clone());
    cx.f.output("cast", "y", to, shape, |f, i| read(f, i).cast(to));
}

/// The same bits as another type.
pub fn bitcast(cx: &mut OpBuilder<'_>, to: DType) {
    let (read, shape) = (cx.reader(0), cx.outs[0].shape.clone());
    cx.f.output("bitcast", "y", to, shape, |f, i| {
        let x = read(f, i);
        match (x.dtype(), to) {
            (from, to) if from == to => x,
            // A bool in memory is 0 or 1, which its bits are.
            (DType::BOOL, to) => x.cast(DType::U8).reinterpret(to),
            (_, DType::BOOL) => x.reinterpret(DType::U8).cast(to),
            (_, to) => x.reinterpret(to),
        }
    });
}

/// `1 / (1 + exp(-x))`
pub fn sigmoid(x: Expr) -> Expr {
    let one = Expr::constant(1.0, x.dtype());
    one.clone() / (one + Expr::call(Intrin::Exp, vec![-x]))
}

fn unary_fits(kind: Unary, dtype: DType) -> bool {
    let (float, bool) = (dtype.is_float(), dtype == DType::BOOL);
    match kind {
        Unary::Not => bool,
        Unary::BitNot => !float && !bool,
        Unary::Neg | Unary::Abs | Unary::Sign => !bool,
        Unary::Exp
        | Unary::Log
        | Unary::Sqrt
        | Unary::Reciprocal
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Tanh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh
        | Unary::Erf
        | Unary::Sigmoid
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::IsNan
        | Unary::IsInf => float,
    }
}

fn unary_expr(kind: Unary, x: Expr) -> Expr {
    let dtype = x.dtype();
    let constant = |value: f64| Expr::constant(value, dtype);
    let call = |op: Intrin| Expr::call(op, vec![x.clone()]);
    match kind {
        Unary::Neg if dtype.is_float() => -x,
        Unary::Neg => Expr::int(0, dtype) - x,
        Unary::Abs if dtype.is_float() => call(Intrin::Abs),
        Unary::Abs if dtype.is_uint() => x,
        Unary::Abs => {
            let zero = constant(0.0);
            Expr::select(x.clone().lt(zero.clone()), zero - x.clone(), x)
        }
        Unary::Sign if dtype.is_uint() => {
            Expr::select(x.gt(constant(0.0)), constant(1.0), constant(0.0))
        }
        Unary::Sign => {
            let negative = Expr::select(x.clone().lt(constant(0.0)), constant(-1.0), x.clone());
            Expr::select(x.gt(constant(0.0)), constant(1.0), negative)
        }
        Unary::Exp => call(Intrin::Exp),
        Unary::Log => call(Intrin::Log),
        Unary::Sqrt => call(Intrin::Sqrt),
        Unary::Reciprocal => constant(1.0) / x,
        Unary::Sin => call(Intrin::Sin),
        Unary::Cos => call(Intrin::Cos),
        Unary::Tan => call(Intrin::Tan),
        Unary::Asin => call(Intrin::Asin),
        Unary::Acos => call(Intrin::Acos),
        Unary::Atan => call(Intrin::Atan),
        Unary::Sinh => call(Intrin::Sinh),
        Unary::Cosh => call(Intrin::Cosh),
        Unary::Tanh => call(Intrin::Tanh),
        Unary::Asinh => call(Intrin::Asinh),
        Unary::Acosh => call(Intrin::Acosh),
        Unary::Atanh => call(Intrin::Atanh),
        Unary::Erf => call(Intrin::Erf),
        Unary::Sigmoid => sigmoid(x),
        Unary::Floor => call(Intrin::Floor),
        Unary::Ceil => call(Intrin::Ceil),
        Unary::Round => call(Intrin::Round),
        Unary::IsNan => call(Intrin::IsNan),
        Unary::IsInf => call(Intrin::IsInf),
        Unary::Not => x.logical_not(),
        Unary::BitNot => call(Intrin::BitNot),
    }
}

fn binary_fits(kind: Binary, dtype: DType) -> bool {
    let (float, bool) = (dtype.is_float(), dtype == DType::BOOL);
    match kind {
        Binary::And | Binary::Or | Binary::Xor => bool,
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
            !float && !bool
        }
        Binary::Equal | Binary::NotEqual => true,
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => true,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::FloorMod
        | Binary::TruncMod
        | Binary::Pow
        | Binary::Min
        | Binary::Max => !bool,
    }
}

fn binary_expr(kind: Binary, a: Expr, b: Expr) -> Expr {
    let arith = |op: BinOp, a, b| Expr::binary(op, a, b);
    let call = |op: Intrin, a, b| Expr::call(op, vec![a, b]);
    match kind {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::FloorMod => arith(BinOp::FloorMod, a, b),
        Binary::TruncMod => arith(BinOp::Mod, a, b),
        Binary::Pow => pow(a, b),
        Binary::Min => arith(BinOp::Min, a, b),
        Binary::Max => arith(BinOp::Max, a, b),
        Binary::Equal => Expr::compare(CmpOp::Eq, a, b),
        Binary::NotEqual | Binary::Xor => Expr::compare(CmpOp::Ne, a, b),
        Binary::Less => Expr::compare(CmpOp::Lt, a, b),
        Binary::LessEqual => Expr::compare(CmpOp::Le, a, b),
        Binary::Greater => Expr::compare(CmpOp::Gt, a, b),
        Binary::GreaterEqual => Expr::compare(CmpOp::Ge, a, b),
        Binary::And => a.and(b),
        Binary::Or => a.or(b),
        Binary::BitAnd => call(Intrin::BitAnd, a, b),
        Binary::BitOr => call(Intrin::BitOr, a, b),
        Binary::BitXor => call(Intrin::BitXor, a, b),
        Binary::Shl => call(Intrin::Shl, a, b),
        Binary::Shr => call(Intrin::Shr, a, b),
    }
}

/// Power; the exponents 1, 2, 3 are multiplications and 0.5 is a square root when known. Integers
/// go through float64.
fn pow(a: Expr, b: Expr) -> Expr {
    let known = match b.kind() {
        ExprKind::Float { bits, .. } => Some(f64::from_bits(*bits)),
        ExprKind::Int { value, .. } => Some(*value as f64),
        _ => None,
    };
    match known {
        Some(1.0) => a,
        Some(2.0) => a.clone() * a,
        Some(3.0) => a.clone() * a.clone() * a,
        Some(0.5) if a.dtype().is_float() => Expr::call(Intrin::Sqrt, vec![a]),
        _ if a.dtype().is_float() => Expr::call(Intrin::Pow, vec![a, b]),
        _ => {
            let wide = [a.clone(), b].map(|e| e.cast(DType::F64));
            Expr::call(Intrin::Pow, wide.to_vec()).cast(a.dtype())
        }
    }
}

//! Rules over one operator and the definitions of its operands.

use std::collections::HashMap;

use reflex_graph::{Binary, Func, Literal, Op, PadMode, ReduceKind, Value, dims};
use reflex_tir::{DType, Expr};

/// The replacement of a node.
pub(super) enum Rewrite {
    /// The value is another one.
    Same(Value),
    /// Another operator computes it.
    Op(Op, Vec<Value>),
}

/// The function and definitions that rules match on.
pub(super) struct Definitions<'a> {
    pub(super) func: &'a Func,
    /// The operator and operands that define a value, in scope.
    pub(super) defs: &'a HashMap<Value, (Op, Vec<Value>)>,
    pub(super) constant: &'a dyn Fn(Value) -> Option<&'a Literal>,
}

/// The first rule that applies to `output = op(args)`.
pub(super) fn rewrite(
    v: &Definitions<'_>,
    op: &Op,
    args: &[Value],
    output: Value,
) -> Option<Rewrite> {
    match op {
        Op::Cast(to) => (v.tensor(args[0])?.0 == *to).then(|| Rewrite::Same(args[0])),
        Op::Reshape(shape) => reshape(v, shape, args),
        Op::Transpose(perm) => transpose(v, perm, args, output),
        Op::Broadcast(shape) => broadcast(v, shape, args, output),
        Op::Slice { begin, stride, .. } => {
            let whole = begin.iter().all(|b| is(b, 0)) && stride.iter().all(|s| *s == 1);
            (whole && v.same_shape(args[0], output)).then(|| Rewrite::Same(args[0]))
        }
        Op::Pad { mode, before, after } => {
            let none = before.iter().chain(after).all(|p| is(p, 0));
            match (none, mode) {
                (true, _) => Some(Rewrite::Same(args[0])),
                (false, PadMode::Constant | PadMode::Edge | PadMode::Reflect | PadMode::Wrap) => {
                    None
                }
            }
        }
        Op::Concat { .. } => (args.len() == 1).then(|| Rewrite::Same(args[0])),
        Op::Reduce { axes, .. } => {
            let shape = v.tensor(args[0])?.1;
            let trivial = axes.iter().all(|a| is(&shape[*a], 1));
            if trivial { view(v, args[0], output) } else { extremum_of_view(v, op, args) }
        }
        Op::Binary(f) => binary(v, *f, args, output),
        _ => None,
    }
}

/// An extremum over all of a view, over all of what it is a view of.
fn extremum_of_view(v: &Definitions<'_>, op: &Op, args: &[Value]) -> Option<Rewrite> {
    let Op::Reduce { kind: kind @ (ReduceKind::Max | ReduceKind::Min), axes, keep_dims: false } =
        op
    else {
        return None;
    };
    let (Op::Reshape(_), from) = v.defs.get(&args[0])? else { return None };
    let all = |value: Value| Some((0..v.tensor(value)?.1.len()).collect::<Vec<usize>>());
    if all(args[0])? != *axes {
        return None;
    }
    let op = Op::Reduce { kind: *kind, axes: all(from[0])?, keep_dims: false };
    Some(Rewrite::Op(op, from.clone()))
}

impl Definitions<'_> {
    fn tensor(&self, value: Value) -> Option<(DType, &[Expr])> {
        let ty = self.func.values[value].ty.as_tensor()?;
        Some((ty.dtype, &ty.shape))
    }

    fn same_shape(&self, a: Value, b: Value) -> bool {
        match (self.tensor(a), self.tensor(b)) {
            (Some((_, a)), Some((_, b))) => same_dims(a, b),
            _ => false,
        }
    }
}

fn same_dims(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dims::equal(a, b) == Some(true))
}

fn is(e: &Expr, value: i64) -> bool {
    dims::simplify(e).as_int() == Some(value)
}

/// `output` as a view of `x`.
fn view(v: &Definitions<'_>, x: Value, output: Value) -> Option<Rewrite> {
    if v.same_shape(x, output) {
        return Some(Rewrite::Same(x));
    }
    let shape = v.tensor(output)?.1.to_vec();
    Some(Rewrite::Op(Op::Reshape(shape), vec![x]))
}

fn reshape(v: &Definitions<'_>, shape: &[Expr], args: &[Value]) -> Option<Rewrite> {
    if same_dims(v.tensor(args[0])?.1, shape) {
        return Some(Rewrite::Same(args[0]));
    }
    match v.defs.get(&args[0])? {
        (Op::Reshape(_), inner) => Some(Rewrite::Op(Op::Reshape(shape.to_vec()), inner.clone())),
        _ => None,
    }
}

fn transpose(
    v: &Definitions<'_>,
    perm: &[usize],
    args: &[Value],
    output: Value,
) -> Option<Rewrite> {
    if perm.iter().copied().eq(0..perm.len()) {
        return Some(Rewrite::Same(args[0]));
    }
    if let Some((Op::Transpose(inner), from)) = v.defs.get(&args[0]) {
        let both = perm.iter().map(|p| inner[*p]).collect();
        return Some(Rewrite::Op(Op::Transpose(both), from.clone()));
    }
    // Moving axes of one element moves nothing.
    let shape = v.tensor(args[0])?.1;
    let moved: Vec<usize> = perm.iter().copied().filter(|p| !is(&shape[*p], 1)).collect();
    if moved.is_sorted() { view(v, args[0], output) } else { None }
}

fn broadcast(
    v: &Definitions<'_>,
    shape: &[Expr],
    args: &[Value],
    output: Value,
) -> Option<Rewrite> {
    let from = v.tensor(args[0])?.1;
    if same_dims(from, shape) {
        return Some(Rewrite::Same(args[0]));
    }
    let skip = shape.len() - from.len();
    let grows = shape[..skip].iter().any(|d| !is(d, 1)) || !same_dims(from, &shape[skip..]);
    if grows { None } else { view(v, args[0], output) }
}

/// The only value of a constant.
fn splat(literal: &Literal) -> Option<f64> {
    if literal.count() != 1 {
        return None;
    }
    match literal.dtype() {
        DType::F32 => Some(f64::from(f32::from_le_bytes(literal.bytes().try_into().ok()?))),
        DType::F64 => Some(f64::from_le_bytes(literal.bytes().try_into().ok()?)),
        // Larger integers are not exact in f64; none of the rules needs one.
        _ => Some(*literal.to_i64()?.first()? as f64).filter(|v| v.abs() < 1e9),
    }
}

fn binary(v: &Definitions<'_>, f: Binary, args: &[Value], output: Value) -> Option<Rewrite> {
    let (a, b) = (args[0], args[1]);
    let float = v.tensor(output)?.0.is_float();
    let value = |x: Value| (v.constant)(x).and_then(splat);
    let keeps = |x: Value| v.same_shape(x, output);
    match (f, value(a), value(b)) {
        // On floats 0 - x and x + 0 have the other sign of zero; x - 0 is x.
        (Binary::Add, _, Some(0.0)) if !float && keeps(a) => Some(Rewrite::Same(a)),
        (Binary::Add, Some(0.0), _) if !float && keeps(b) => Some(Rewrite::Same(b)),
        (Binary::Sub, _, Some(zero)) if zero.to_bits() == 0 && keeps(a) => Some(Rewrite::Same(a)),
        (Binary::Mul | Binary::Div, _, Some(1.0)) if keeps(a) => Some(Rewrite::Same(a)),
        (Binary::Mul, Some(1.0), _) if keeps(b) => Some(Rewrite::Same(b)),
        (Binary::Pow, _, Some(1.0)) if keeps(a) => Some(Rewrite::Same(a)),
        (Binary::Pow, _, Some(2.0)) if keeps(a) => {
            Some(Rewrite::Op(Op::Binary(Binary::Mul), vec![a, a]))
        }
        _ => None,
    }
}

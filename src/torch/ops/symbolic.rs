//! Arithmetic of extents, which leaves no code, and assertions about them.

use reflex_graph::dims;
use reflex_tir::{BinOp, CmpOp, Expr};

use super::table::{Results, Table};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{Number, TorchValue};

/// Operators of ATen.
pub(super) const ATEN: Table = &[
    ("_assert_async", assertion),
    ("_assert_scalar", assertion),
    ("sym_constrain_range", assertion),
    ("sym_constrain_range_for_size", assertion),
    ("sym_numel", |cx, call| int(&dims::product(&cx.shape(call.tensor("self")?)))),
    ("sym_size", |cx, call| {
        let x = call.tensor("self")?;
        let axis = call.axis("dim", 0, cx.rank(x))?;
        int(&cx.dim(x, axis)?)
    }),
    ("sym_stride", |cx, call| {
        let x = call.tensor("self")?;
        let axis = call.axis("dim", 0, cx.rank(x))?;
        int(&dims::product(&cx.shape(x)[axis + 1..]))
    }),
];

/// Functions of Python's module `operator`.
pub(super) const OPERATOR: Table = &[
    ("add", |cx, call| two(cx, call, |a, b| Some(a + b), |a, b| a + b)),
    ("and_", condition),
    ("eq", |cx, call| compared(cx, call, CmpOp::Eq)),
    ("floordiv", |cx, call| two(cx, call, floordiv, |a, b| (a / b).floor())),
    ("ge", |cx, call| compared(cx, call, CmpOp::Ge)),
    ("gt", |cx, call| compared(cx, call, CmpOp::Gt)),
    ("le", |cx, call| compared(cx, call, CmpOp::Le)),
    ("lt", |cx, call| compared(cx, call, CmpOp::Lt)),
    ("mod", |cx, call| two(cx, call, floormod, f64::rem_euclid)),
    ("mul", |cx, call| two(cx, call, |a, b| Some(a * b), |a, b| a * b)),
    ("ne", |cx, call| compared(cx, call, CmpOp::Ne)),
    ("neg", |cx, call| {
        let list = numbers(cx, call)?;
        match &list[..] {
            [Number::Int(value)] => int(&(Expr::i64(0) - value.clone())),
            _ => Err(unsupported("other numbers than integers")),
        }
    }),
    ("not_", condition),
    ("or_", condition),
    ("pow", |cx, call| two(cx, call, power, f64::powf)),
    ("sub", |cx, call| two(cx, call, |a, b| Some(a - b), |a, b| a - b)),
];

/// Functions of PyTorch's own module.
pub(super) const TORCH: Table = &[
    ("sym_int", integer),
    ("sym_ite", condition),
    ("sym_max", |cx, call| two(cx, call, |a, b| Some(a.max(b)), f64::max)),
    ("sym_min", |cx, call| two(cx, call, |a, b| Some(a.min(b)), f64::min)),
    ("sym_not", condition),
    ("sym_sum", |cx, call| {
        let list = numbers(cx, call)?;
        let mut sum = Expr::i64(0);
        for number in list {
            match number {
                Number::Int(value) => sum = sum + value,
                _ => return Err(unsupported("other numbers than integers")),
            }
        }
        int(&sum)
    }),
];

/// Functions of Python's module `math`.
pub(super) const MATH: Table = &[("ceil", integer), ("floor", integer), ("trunc", integer)];

fn int(value: &Expr) -> Results {
    Ok(vec![TorchValue::Number(Number::Int(dims::simplify(value)))])
}

/// An assertion holds for every call that the export is for; what depends on it is checked when it runs.
fn assertion(_: &mut ImportContext, call: &Call) -> Results {
    call.positional();
    Ok(vec![])
}

/// The numbers that a function is called with, those of lists one by one.
fn numbers(_: &ImportContext, call: &Call) -> Result<Vec<Number>> {
    let mut list = vec![];
    for value in call.positional() {
        match value {
            TorchValue::Number(number) => list.push(number.clone()),
            TorchValue::Numbers(more) => list.extend(more.iter().cloned()),
            TorchValue::Other(what) => return Err(unsupported(format!("an operand is {what}"))),
            _ => return Err(invalid("an operand is no number")),
        }
    }
    Ok(list)
}

fn two(
    cx: &ImportContext,
    call: &Call,
    of_ints: fn(Expr, Expr) -> Option<Expr>,
    of_floats: fn(f64, f64) -> f64,
) -> Results {
    let list = numbers(cx, call)?;
    let [a, b] = &list[..] else { return Err(invalid("it takes two numbers")) };
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        let value = of_ints(a.clone(), b.clone());
        return int(&value.ok_or_else(|| unsupported("such numbers of extents"))?);
    }
    match (a.known(), b.known()) {
        (Some(a), Some(b)) => Ok(vec![TorchValue::Number(Number::Float(of_floats(a, b)))]),
        _ => Err(unsupported("a number of extents that is no integer")),
    }
}

fn floordiv(a: Expr, b: Expr) -> Option<Expr> {
    match (a.as_int(), b.as_int()) {
        (_, Some(0)) => None,
        (Some(a), Some(b)) => Some(Expr::i64(a.checked_div_euclid(b).filter(|_| b > 0)?)),
        _ => Some(Expr::binary(BinOp::FloorDiv, a, b)),
    }
}

fn floormod(a: Expr, b: Expr) -> Option<Expr> {
    match (a.as_int(), b.as_int()) {
        (_, Some(0)) => None,
        (Some(a), Some(b)) => Some(Expr::i64(a.checked_rem_euclid(b).filter(|_| b > 0)?)),
        _ => Some(Expr::binary(BinOp::FloorMod, a, b)),
    }
}

/// The largest exponent that is multiplied out.
const LARGEST: i64 = 8;

fn power(a: Expr, b: Expr) -> Option<Expr> {
    let exponent = b.as_int().filter(|b| (0..=LARGEST).contains(b))?;
    Some((0..exponent).fold(Expr::i64(1), |product, _| product * a.clone()))
}

/// An integer as it is; a float without its fraction where it is known.
fn integer(cx: &mut ImportContext, call: &Call) -> Results {
    let list = numbers(cx, call)?;
    match &list[..] {
        [Number::Int(value)] => int(value),
        _ => Err(unsupported("a number of extents that is no integer")),
    }
}

fn compared(cx: &mut ImportContext, call: &Call, op: CmpOp) -> Results {
    let list = numbers(cx, call)?;
    if let [Number::Int(a), Number::Int(b)] = &list[..]
        && let Some(holds) = cx.decide(op, a, b)
    {
        return Ok(vec![TorchValue::Number(Number::Bool(holds))]);
    }
    condition(cx, call)
}

/// A condition that only a run knows: assertions may take it, and nothing else.
fn condition(_: &mut ImportContext, call: &Call) -> Results {
    call.positional();
    Ok(vec![TorchValue::Other("a condition on extents")])
}

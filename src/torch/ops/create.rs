//! Tensors of numbers, and tensors that stay as they are.

use reflex_graph::{Binary, Value, dims};
use reflex_tir::{DType, Expr};

use super::table::{Results, Table, list, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{Number, TorchValue};

pub(super) const TABLE: Table = &[
    ("_assert_tensor_metadata", |_, call| {
        call.positional();
        Ok(vec![])
    }),
    ("_to_copy", convert),
    ("alias", identity),
    ("alpha_dropout", dropout),
    ("arange", arange),
    ("clone", identity),
    ("contiguous", identity),
    ("detach", identity),
    ("dropout", dropout),
    ("empty", |cx, call| filled(cx, call, Number::Int(Expr::i64(0)))),
    ("empty_like", |cx, call| like(cx, call, Number::Int(Expr::i64(0)))),
    ("eye", eye),
    ("feature_dropout", dropout),
    ("fill", |cx, call| {
        let value = value(cx, call, "value")?;
        like_tensor(cx, call, value)
    }),
    ("full", |cx, call| {
        let value = call.opt_number("fill_value")?.ok_or_else(|| invalid("no fill_value"))?;
        filled(cx, call, value)
    }),
    ("full_like", |cx, call| {
        let value = value(cx, call, "fill_value")?;
        like_tensor(cx, call, value)
    }),
    ("lift_fresh_copy", identity),
    ("linspace", linspace),
    ("meshgrid", meshgrid),
    ("native_dropout", |cx, call| {
        if call.flag("train", false)? {
            return Err(unsupported("dropout in training: call eval() on the module first"));
        }
        call.ignore(&["p"]);
        let x = call.tensor("input")?;
        let (shape, yes) = (cx.shape(x), cx.num(1.0, DType::BOOL)?);
        let mask = cx.broadcast(yes, &shape)?;
        Ok(vec![TorchValue::Tensor(x), TorchValue::Tensor(mask)])
    }),
    ("new_empty", |cx, call| new(cx, call, Number::Int(Expr::i64(0)))),
    ("new_full", |cx, call| {
        let value = call.opt_number("fill_value")?.ok_or_else(|| invalid("no fill_value"))?;
        new(cx, call, value)
    }),
    ("new_ones", |cx, call| new(cx, call, Number::Int(Expr::i64(1)))),
    ("new_zeros", |cx, call| new(cx, call, Number::Int(Expr::i64(0)))),
    ("ones", |cx, call| filled(cx, call, Number::Int(Expr::i64(1)))),
    ("ones_like", |cx, call| like(cx, call, Number::Int(Expr::i64(1)))),
    ("positive", identity),
    ("real", identity),
    ("resolve_conj", identity),
    ("resolve_neg", identity),
    ("scalar_tensor", |cx, call| {
        let number = call.opt_number("s")?.ok_or_else(|| invalid("no number"))?;
        let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
        one(cx.number(&number, dtype)?)
    }),
    ("to", convert),
    ("type_as", |cx, call| {
        let dtype = cx.dtype(call.tensor("other")?);
        one(cx.cast(call.tensor("self")?, dtype)?)
    }),
    ("zeros", |cx, call| filled(cx, call, Number::Int(Expr::i64(0)))),
    ("zeros_like", |cx, call| like(cx, call, Number::Int(Expr::i64(0)))),
];

fn identity(_: &mut ImportContext, call: &Call) -> Results {
    one(call.tensor("self")?)
}

fn dropout(_: &mut ImportContext, call: &Call) -> Results {
    if call.flag("train", false)? {
        return Err(unsupported("dropout in training: call eval() on the module first"));
    }
    call.ignore(&["p"]);
    one(call.tensor_of(&["input", "self"])?)
}

fn convert(cx: &mut ImportContext, call: &Call) -> Results {
    let x = call.tensor("self")?;
    let dtype = match call.opt("other")? {
        Some(other) => Some(cx.dtype(other)),
        None => call.dtype("dtype")?,
    };
    one(match dtype {
        Some(dtype) => cx.cast(x, dtype)?,
        None => x,
    })
}

/// The type of a tensor of a number, where a call says none.
fn own_type(number: &Number) -> DType {
    match number {
        Number::Int(_) => DType::I64,
        other => other.dtype(),
    }
}

fn spread(cx: &mut ImportContext, number: &Number, dtype: DType, shape: &[Expr]) -> Result<Value> {
    let value = cx.number(number, dtype)?;
    let shape: Vec<Expr> = shape.iter().map(dims::simplify).collect();
    cx.broadcast(value, &shape)
}

/// A tensor of one number. `full` has the number's type by default, others float32.
fn filled(cx: &mut ImportContext, call: &Call, number: Number) -> Results {
    let shape = call.dims("size")?;
    let default = if call.has("fill_value") { own_type(&number) } else { DType::F32 };
    let dtype = call.dtype("dtype")?.unwrap_or(default);
    one(spread(cx, &number, dtype, &shape)?)
}

fn like(cx: &mut ImportContext, call: &Call, number: Number) -> Results {
    let x = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(cx.dtype(x));
    let shape = cx.shape(x);
    one(spread(cx, &number, dtype, &shape)?)
}

/// A number or a tensor of one.
fn value(cx: &mut ImportContext, call: &Call, name: &str) -> Result<Value> {
    match call.get(name) {
        Some(TorchValue::Tensor(x)) => Ok(*x),
        Some(TorchValue::Number(number)) => cx.number(number, own_type(number)),
        _ => Err(invalid(format!("no `{name}`"))),
    }
}

fn like_tensor(cx: &mut ImportContext, call: &Call, value: Value) -> Results {
    let x = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(cx.dtype(x));
    let value = cx.cast(value, dtype)?;
    let shape = cx.shape(x);
    one(cx.broadcast(value, &shape)?)
}

fn new(cx: &mut ImportContext, call: &Call, number: Number) -> Results {
    let x = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(cx.dtype(x));
    let shape = call.dims("size")?;
    one(spread(cx, &number, dtype, &shape)?)
}

fn arange(cx: &mut ImportContext, call: &Call) -> Results {
    let or = |name: &str, default: i64| -> Result<Number> {
        Ok(call.opt_number(name)?.unwrap_or(Number::Int(Expr::i64(default))))
    };
    let (start, end, step) = (or("start", 0)?, or("end", 0)?, or("step", 1)?);
    let numbers = [&start, &end, &step];
    let whole = numbers.iter().all(|number| matches!(number, Number::Int(_)));
    let default = if whole { DType::I64 } else { DType::F32 };
    let dtype = call.dtype("dtype")?.unwrap_or(default);
    let count = match numbers {
        [Number::Int(start), Number::Int(end), Number::Int(step)] => {
            let step = step.as_int().filter(|step| *step != 0);
            let step = step.ok_or_else(|| unsupported("a step that is 0 or symbolic"))?;
            let (low, high) = if step > 0 { (start, end) } else { (end, start) };
            cx.count_between(low, high, step.saturating_abs())
        }
        numbers => {
            let known: Option<Vec<f64>> = numbers.iter().map(|number| number.known()).collect();
            let known = known.ok_or_else(|| unsupported("a symbolic range of floats"))?;
            let count = ((known[1] - known[0]) / known[2]).ceil();
            if !(0.0..1e12).contains(&count) {
                return Err(invalid(format!("a range of {count} numbers")));
            }
            Expr::i64(count as i64)
        }
    };
    let numbers = cx.iota(&count)?;
    let wide = if whole { DType::I64 } else { DType::F64 };
    let mut x = cx.cast(numbers, wide)?;
    let (start_value, step_value) = (cx.number(&start, wide)?, cx.number(&step, wide)?);
    if step.known() != Some(1.0) {
        x = cx.mul(x, step_value)?;
    }
    if start.known() != Some(0.0) {
        x = cx.add(x, start_value)?;
    }
    one(cx.cast(x, dtype)?)
}

fn linspace(cx: &mut ImportContext, call: &Call) -> Results {
    let ends = [call.opt_float("start")?, call.opt_float("end")?, call.opt_float("steps")?];
    let [Some(start), Some(end), Some(steps)] = ends else {
        return Err(unsupported("a range whose ends are tensors"));
    };
    let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
    let numbers = cx.iota(&Expr::i64(steps as i64))?;
    let numbers = cx.cast(numbers, DType::F64)?;
    let step = if steps > 1.0 { (end - start) / (steps - 1.0) } else { 0.0 };
    let scaled = cx.binary_num(Binary::Mul, numbers, step)?;
    let moved = cx.binary_num(Binary::Add, scaled, start)?;
    one(cx.cast(moved, dtype)?)
}

fn eye(cx: &mut ImportContext, call: &Call) -> Results {
    let rows = call.opt_dim("n")?.ok_or_else(|| invalid("no n"))?;
    let columns = call.opt_dim("m")?.unwrap_or(rows.clone());
    let dtype = call.dtype("dtype")?.unwrap_or(DType::F32);
    let row = cx.iota(&rows)?;
    let row = cx.unsqueeze(row, &[1])?;
    let column = cx.iota(&columns)?;
    let same = cx.binary(Binary::Equal, row, column)?;
    one(cx.cast(same, dtype)?)
}

fn meshgrid(cx: &mut ImportContext, call: &Call) -> Results {
    let tensors = call.tensors("tensors")?;
    let exchanged = call.text("indexing", "ij")? == "xy" && tensors.len() > 1;
    let axis = |i: usize| if exchanged && i < 2 { 1 - i } else { i };
    let mut shape = vec![Expr::i64(1); tensors.len()];
    for (i, x) in tensors.iter().enumerate() {
        shape[axis(i)] = dims::product(&cx.shape(*x));
    }
    let mut grids = vec![];
    for (i, x) in tensors.into_iter().enumerate() {
        let mut own = vec![Expr::i64(1); shape.len()];
        own[axis(i)] = shape[axis(i)].clone();
        let x = cx.reshape(x, &own)?;
        grids.push(cx.broadcast(x, &shape)?);
    }
    list(grids)
}

//! `Loop` and `Scan`.

use reflex_graph::{TensorType, Value, dims};
use reflex_tir::{DType, Expr};

use super::batched_scan;
use super::control::{Slot, values};
use super::loop_import::{LoopImport, ScanDirection, Scanned};
use super::table::Table;
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::fold::known_condition;
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Loop", repeat), ("Scan", scan)];

fn repeat(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let graph = call.graph("body")?;
    let scalar = |cx: &mut ImportContext, index: usize, dtype: DType| -> Result<Option<Value>> {
        let Some(tensor) = call.opt(index)? else { return Ok(None) };
        if tensor.dtype() != dtype {
            return Err(invalid(format!("input {index} has type {}", tensor.ty)));
        }
        let tensor = cx.reshape(tensor, &[])?;
        cx.value(&tensor).map(Some)
    };
    let max_trips = scalar(cx, 0, DType::I64)?;
    let cond = match call.opt(1)?.map(known_condition) {
        Some(Some(true)) => None,
        _ => scalar(cx, 1, DType::BOOL)?,
    };
    let init = initial(cx, call.inputs.get(2..).unwrap_or_default())?;
    let name = cx.b.source().to_string();
    let import = LoopImport { graph, max_trips, cond, init, name, scanned: None };
    import.import(cx)
}

fn initial(cx: &mut ImportContext, inputs: &[Option<OnnxValue>]) -> Result<Vec<(Value, Slot)>> {
    let given =
        |v: &Option<OnnxValue>| v.clone().ok_or_else(|| invalid("a carried value is missing"));
    let init = inputs.iter().map(given).collect::<Result<Vec<OnnxValue>>>()?;
    values(cx, init)
}

fn scan(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if call.opset < 9 {
        return batched_scan::scan(cx, call);
    }
    let graph = call.graph("body")?;
    let count = call.int("num_scan_inputs", 0)?;
    let states = usize::try_from(count).ok().and_then(|n| call.inputs.len().checked_sub(n));
    let states = states.ok_or_else(|| invalid(format!("num_scan_inputs {count}")))?;
    let axes = call.ints("scan_input_axes")?;
    let directions = call.ints("scan_input_directions")?;
    let pick = |list: Option<&[i64]>, i: usize| list.and_then(|l| l.get(i)).copied().unwrap_or(0);
    let mut scanned = vec![];
    for i in 0..call.inputs.len() - states {
        let x = call.input(states + i)?.clone();
        let axis = axis(pick(axes, i), x.rank())?;
        let direction = ScanDirection::of(pick(directions, i));
        scanned.push(Scanned { x, axis, direction, length: None });
    }
    let first = scanned.first().ok_or_else(|| invalid("nothing to scan"))?;
    let trips = first.x.shape()[first.axis].clone();
    for other in &scanned[1..] {
        cx.check_dim(&other.x.shape()[other.axis], &trips)?;
    }
    let max_trips = Some(cx.value(&Tensor::dim(&trips))?);
    let init = initial(cx, &call.inputs[..states])?;
    let name = cx.b.source().to_string();
    let import = LoopImport { graph, max_trips, cond: None, init, name, scanned: Some(scanned) };
    let mut results = import.import(cx)?;
    let axes = call.ints("scan_output_axes")?;
    let directions = call.ints("scan_output_directions")?;
    for (i, result) in results.iter_mut().skip(states).enumerate() {
        let OnnxValue::Tensor(result) = result else {
            return Err(unsupported("scan outputs that are not tensors"));
        };
        let axis = axis(pick(axes, i), result.rank())?;
        let direction = ScanDirection::of(pick(directions, i));
        *result = arranged(cx, result, &trips, axis, direction)?;
    }
    Ok(results)
}

/// A stacked result with its iterations along another axis, or in reverse.
fn arranged(
    cx: &mut ImportContext,
    x: &Tensor,
    trips: &Expr,
    axis: usize,
    direction: ScanDirection,
) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    shape[0] = trips.clone();
    let value = cx.value(x)?;
    let value = cx.b.match_cast(value, TensorType::new(x.dtype(), shape));
    let mut x = cx.tensor_of(value);
    if direction == ScanDirection::Reverse {
        let mut begin = vec![Expr::i64(0); x.rank()];
        begin[0] = dims::simplify(&(trips.clone() - 1).max(0));
        let mut stride = vec![1; x.rank()];
        stride[0] = -1;
        x = cx.strided(&x, begin, x.shape().to_vec(), stride)?;
    }
    let mut perm: Vec<usize> = (1..x.rank()).collect();
    perm.insert(axis, 0);
    cx.transpose(&x, &perm)
}

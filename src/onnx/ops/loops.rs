//! `Loop` and `Scan`.
//!
//! A body is imported for the types its carried values start with. Where an iteration changes
//! a dimension, that dimension becomes a symbol of the body and the body is imported again, until
//! the types hold from one iteration to the next.

use reflex_graph::{Body, Loop, Node, TensorType, Value, dims};
use reflex_tir::{DType, Expr};

use super::control::{Slot, mentions_new, values};
use super::table::Table;
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::fold::known_condition;
use crate::proto::GraphProto;
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("Loop", repeat), ("Scan", scan)];

/// Marks symbols that differ from one iteration to the next.
const CARRIED: &str = "carried ";

/// A loop before its body is imported.
struct LoopImport<'a> {
    graph: &'a GraphProto,
    max_trips: Option<Value>,
    cond: Option<Value>,
    init: Vec<(Value, Slot)>,
    /// Name of the node.
    name: String,
    /// Values that `Scan` slices, one slice per iteration; none for `Loop`.
    scanned: Option<Vec<Scanned>>,
}

/// The order of a scan along an axis.
#[derive(Clone, Copy, PartialEq)]
enum ScanDirection {
    Forward,
    Reverse,
}

impl ScanDirection {
    /// The direction of an entry of `scan_input_directions` or `scan_output_directions`.
    fn of(code: i64) -> ScanDirection {
        if code == 0 { ScanDirection::Forward } else { ScanDirection::Reverse }
    }
}

/// A value that is read slice by slice.
struct Scanned {
    x: Tensor,
    axis: usize,
    direction: ScanDirection,
}

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
    let graph = call.graph("body")?;
    if call.opset < 9 {
        return Err(unsupported("the batched form of opset 8"));
    }
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
        scanned.push(Scanned { x, axis, direction });
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

/// A body with its parameters and the types of its results.
struct Iteration {
    iter: Value,
    cond_in: Value,
    carried: Vec<Value>,
    body: Body,
    slots: Vec<Slot>,
}

impl LoopImport<'_> {
    fn import(self, cx: &mut ImportContext) -> Result<Vec<OnnxValue>> {
        let mut slots: Vec<Slot> = self.init.iter().map(|(_, slot)| slot.clone()).collect();
        loop {
            let first_new = cx.b.sym_count();
            let attempt = self.iteration(cx, &slots)?;
            let next = attempt.slots.get(1..=slots.len());
            let next = next.ok_or_else(|| invalid("the body has too few results"))?.to_vec();
            // Each round makes at least one more dimension or rank unknown, so this ends.
            if !self.widen(cx, &mut slots, &next, first_new)? {
                return self.finish(cx, attempt, &slots, first_new);
            }
        }
    }

    fn iteration(&self, cx: &mut ImportContext, slots: &[Slot]) -> Result<Iteration> {
        cx.b.open();
        let iter = cx.b.body_param("", TensorType::new(DType::I64, vec![]));
        let cond_in = cx.b.body_param("", TensorType::new(DType::BOOL, vec![]));
        let carried: Vec<Value> = slots.iter().map(|slot| cx.b.value_of("", slot.ty())).collect();
        let results = self.body(cx, iter, cond_in, (&carried, slots));
        let values = |results: &Vec<(Value, Slot)>| results.iter().map(|(v, _)| *v).collect();
        let body = cx.b.close(results.as_ref().map_or(vec![], values));
        let results = results.map_err(|e| e.at("body"))?;
        let slots = results.into_iter().map(|(_, slot)| slot).collect();
        Ok(Iteration { iter, cond_in, carried, body, slots })
    }

    /// Imports the graph; its results start with the next condition.
    fn body(
        &self,
        cx: &mut ImportContext,
        iter: Value,
        cond_in: Value,
        (carried, slots): (&[Value], &[Slot]),
    ) -> Result<Vec<(Value, Slot)>> {
        let carried = carried.iter().zip(slots).map(|(value, slot)| slot.value(cx, *value));
        let carried: Vec<OnnxValue> = carried.collect();
        let Some(scanned) = &self.scanned else {
            let mut inputs = vec![];
            inputs.extend([iter, cond_in].map(|v| OnnxValue::Tensor(cx.tensor_of(v))));
            inputs.extend(carried);
            let mut outputs = cx.subgraph(self.graph, inputs)?;
            if let Some(OnnxValue::Tensor(cond)) = outputs.first() {
                outputs[0] = OnnxValue::Tensor(cx.reshape(cond, &[])?);
            }
            return values(cx, outputs);
        };
        let mut inputs = carried;
        let iter = cx.tensor_of(iter);
        for Scanned { x, axis, direction } in scanned {
            let last = Tensor::dim(&dims::simplify(&(x.shape()[*axis].clone() - 1)));
            let at = match direction {
                ScanDirection::Forward => iter.clone(),
                ScanDirection::Reverse => cx.sub(&last, &iter)?,
            };
            inputs.push(OnnxValue::Tensor(cx.take(x, &at, *axis)?));
        }
        let mut outputs = vec![OnnxValue::Tensor(cx.num(1.0, DType::BOOL)?)];
        outputs.extend(cx.subgraph(self.graph, inputs)?);
        values(cx, outputs)
    }

    /// Makes the dimensions of carried types that the body changes symbolic; returns true if there
    /// were any.
    fn widen(
        &self,
        cx: &mut ImportContext,
        slots: &mut [Slot],
        results: &[Slot],
        first_new: usize,
    ) -> Result<bool> {
        let mut changed = false;
        for (index, (slot, result)) in slots.iter_mut().zip(results).enumerate() {
            let (ty, result) = match (&mut *slot, result) {
                (Slot::Tensor(ty), Slot::Tensor(result))
                | (Slot::Strings(ty), Slot::Strings(result)) => (ty, result),
                (Slot::Object(kind), Slot::Object(result)) => {
                    let both = kind.and(result);
                    let both = both.ok_or_else(|| {
                        unsupported(format!("carried value {index} changes its type"))
                    })?;
                    changed |= both != *kind;
                    *kind = both;
                    continue;
                }
                _ => return Err(unsupported(format!("carried value {index} changes its type"))),
            };
            if ty.dtype != result.dtype || ty.shape.len() != result.shape.len() {
                let message = format!("carried value {index} turns from {ty} into {result}");
                return Err(unsupported(message));
            }
            for (axis, (dim, next)) in ty.shape.iter_mut().zip(&result.shape).enumerate() {
                let same = dims::equal(dim, next) == Some(true) && !mentions_new(next, first_new);
                if !same && !is_carried(cx, dim) {
                    *dim = Expr::var(cx.b.sym(format!("{CARRIED}{}_{index}_{axis}", self.name)));
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    fn finish(
        self,
        cx: &mut ImportContext,
        attempt: Iteration,
        slots: &[Slot],
        first_new: usize,
    ) -> Result<Vec<OnnxValue>> {
        let Iteration { iter, cond_in, carried, body, slots: results } = attempt;
        cx.b.set_source(self.name.clone());
        let first_out = cx.b.sym_count();
        let name = self.name;
        let outside = |cx: &mut ImportContext, dim: &Expr, location: String| {
            let inside = mentions_new(dim, first_new) || is_carried(cx, dim);
            if inside { Expr::var(cx.b.sym(location)) } else { dim.clone() }
        };
        let mut outer = vec![];
        let stacked = results.iter().skip(1 + slots.len());
        for (index, slot) in slots.iter().chain(stacked).enumerate() {
            let scan = index >= slots.len();
            let ty = match slot {
                Slot::Object(kind) if !scan => {
                    outer.push(Slot::Object(kind.clone()));
                    continue;
                }
                Slot::Object(_) | Slot::Strings(_) if scan => {
                    return Err(unsupported("scan outputs that are not tensors of numbers"));
                }
                Slot::Object(_) => continue,
                Slot::Tensor(ty) | Slot::Strings(ty) => ty,
            };
            let mut shape = vec![];
            if scan {
                shape.push(Expr::var(cx.b.sym(format!("{name}_{index}_trips"))));
            }
            for (axis, dim) in ty.shape.iter().enumerate() {
                let known = outside(cx, dim, format!("{name}_{index}_{axis}"));
                // Slices are stacked into a tensor that is allocated outside the body.
                if scan && known != *dim {
                    let message = "a scan output whose extents only the body knows";
                    return Err(unsupported(message));
                }
                shape.push(known);
            }
            outer.push(slot.with(TensorType::new(ty.dtype, shape)));
        }
        let (max_trips, cond) = (self.max_trips, self.cond);
        let init = self.init.into_iter().map(|(value, _)| value).collect();
        let node = Loop { max_trips, cond, init, iter, cond_in, carried, body };
        let types = outer.iter().map(Slot::ty).collect();
        let outputs = cx.b.bind_values(Node::Loop(Box::new(node)), types);
        let pairs = outputs.into_iter().zip(outer);
        Ok(pairs.map(|(value, slot)| slot.bound(cx, value, first_out)).collect())
    }
}

fn is_carried(cx: &ImportContext, dim: &Expr) -> bool {
    let mut found = false;
    dim.visit(&mut |e| {
        found |= e.as_var().is_some_and(|v| cx.b.sym_name(v).starts_with(CARRIED));
    });
    found
}

//! The import of a loop's body: of `Loop`, and of `Scan`, whose body is given slices.
//!
//! A body is imported for the types its carried values start with. Where an iteration changes
//! a dimension, that dimension becomes a symbol of the body and the body is imported again, until
//! the types hold from one iteration to the next.

use reflex_graph::{Binary, Body, Loop, Node, TensorType, Value, dims};
use reflex_tir::{DType, Expr};

use super::control::{Slot, mentions_new, values};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::proto::{DimensionProto, DimensionValue, GraphProto, ValueInfoProto};
use crate::value::{OnnxValue, Tensor};

/// Marks symbols that differ from one iteration to the next.
const CARRIED: &str = "carried ";

/// A loop before its body is imported.
pub(super) struct LoopImport<'a> {
    pub graph: &'a GraphProto,
    pub max_trips: Option<Value>,
    pub cond: Option<Value>,
    pub init: Vec<(Value, Slot)>,
    /// Name of the node.
    pub name: String,
    /// Values that `Scan` slices, one slice per iteration; none for `Loop`.
    pub scanned: Option<Vec<Scanned>>,
}

/// The order of a scan along an axis.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ScanDirection {
    Forward,
    Reverse,
}

impl ScanDirection {
    /// The direction of an entry of `scan_input_directions` or `scan_output_directions`.
    pub fn of(code: i64) -> ScanDirection {
        if code == 0 { ScanDirection::Forward } else { ScanDirection::Reverse }
    }
}

/// A value that is read slice by slice.
pub(super) struct Scanned {
    pub x: Tensor,
    pub axis: usize,
    pub direction: ScanDirection,
    /// The number of slices, where it is not the axis' extent.
    pub length: Option<Tensor>,
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
    /// The results of the loop: the carried values, then what is stacked.
    pub fn import(self, cx: &mut ImportContext) -> Result<Vec<OnnxValue>> {
        let mut slots: Vec<Slot> = self.init.iter().map(|(_, slot)| slot.clone()).collect();
        loop {
            let first_new = cx.b.sym_count();
            let attempt = self.iteration(cx, &slots, first_new)?;
            let next = attempt.slots.get(1..=slots.len());
            let next = next.ok_or_else(|| invalid("the body has too few results"))?.to_vec();
            // Each round makes at least one more dimension or rank unknown, so this ends.
            if !self.widen(cx, &mut slots, &next, first_new)? {
                return self.finish(cx, attempt, &slots, first_new);
            }
        }
    }

    fn iteration(
        &self,
        cx: &mut ImportContext,
        slots: &[Slot],
        first_new: usize,
    ) -> Result<Iteration> {
        cx.b.open();
        let iter = cx.b.body_param("", TensorType::new(DType::I64, vec![]));
        let cond_in = cx.b.body_param("", TensorType::new(DType::BOOL, vec![]));
        let carried: Vec<Value> = slots.iter().map(|slot| cx.b.value_of("", slot.ty())).collect();
        let results = self.body(cx, iter, cond_in, (&carried, slots), first_new);
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
        first_new: usize,
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
            let stacked = outputs.iter_mut().zip(&self.graph.output).skip(1 + slots.len());
            for (output, info) in stacked {
                if let OnnxValue::Tensor(tensor) = output {
                    *tensor = self.declared(cx, tensor, info, first_new)?;
                }
            }
            return values(cx, outputs);
        };
        let mut inputs = carried;
        let iter = cx.tensor_of(iter);
        for Scanned { x, axis, direction, length } in scanned {
            let at = match (direction, length) {
                (ScanDirection::Forward, _) => iter.clone(),
                (ScanDirection::Reverse, None) => {
                    let last = dims::simplify(&(x.shape()[*axis].clone() - 1));
                    cx.sub(&Tensor::dim(&last), &iter)?
                }
                (ScanDirection::Reverse, Some(length)) => {
                    let last = cx.binary_num(Binary::Sub, length, 1.0)?;
                    cx.sub(&last, &iter)?
                }
            };
            inputs.push(OnnxValue::Tensor(cx.take(x, &at, *axis)?));
        }
        let mut outputs = vec![OnnxValue::Tensor(cx.num(1.0, DType::BOOL)?)];
        outputs.extend(cx.subgraph(self.graph, inputs)?);
        values(cx, outputs)
    }

    /// A result that is stacked, with the extents that the model declares where only the body knows them. A run
    /// whose extents are others ends in an error.
    fn declared(
        &self,
        cx: &mut ImportContext,
        result: &Tensor,
        info: &ValueInfoProto,
        first_new: usize,
    ) -> Result<Tensor> {
        let inside =
            |cx: &ImportContext, dim: &Expr| mentions_new(dim, first_new) || is_carried(cx, dim);
        let declared = declared_extents(info);
        let mut shape = result.shape().to_vec();
        if declared.len() != shape.len() {
            return Ok(result.clone());
        }
        for (dim, declared) in shape.iter_mut().zip(declared) {
            if let Some(extent) = declared.filter(|_| inside(cx, dim)) {
                *dim = extent.into();
            }
        }
        if shape == result.shape() {
            return Ok(result.clone());
        }
        let (value, ty) = (cx.value(result)?, TensorType::new(result.dtype(), shape));
        let cast = cx.b.bind(Node::MatchCast(value), vec![ty])[0];
        Ok(cx.tensor_of(cast))
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

/// The extents of a declared type; none where it declares no shape.
fn declared_extents(info: &ValueInfoProto) -> Vec<Option<i64>> {
    let ty = info.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let shape = ty.and_then(|ty| ty.shape.as_ref());
    let extent = |dim: &DimensionProto| match dim.value {
        Some(DimensionValue::DimValue(extent)) if extent >= 0 => Some(extent),
        _ => None,
    };
    shape.map_or_else(Vec::new, |shape| shape.dim.iter().map(extent).collect())
}

fn is_carried(cx: &ImportContext, dim: &Expr) -> bool {
    let mut found = false;
    dim.visit(&mut |e| {
        found |= e.as_var().is_some_and(|v| cx.b.sym_name(v).starts_with(CARRIED));
    });
    found
}

//! Sequences and optionals. Those whose structure is known while importing leave no run-time code; others
//! (inputs, results of branches and loops) are objects of the run, on which packed functions work.

use reflex_graph::{Loop, Node, TensorType, Type, Value};
use reflex_tir::{DType, Expr};

use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::proto::{GraphProto, data_type};
use crate::tensor::dtype;
use crate::value::{Element, MAX_ELEMENTS, ObjectKind, OnnxValue, Rank, Scalar, Tensor};

pub(super) const TABLE: Table = &[
    ("ConcatFromSequence", concat_from_sequence),
    ("Optional", optional),
    ("OptionalGetElement", optional_get),
    ("OptionalHasElement", optional_has),
    ("SequenceAt", at),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SequenceMap", map),
    ("SplitToSequence", split_to_sequence),
];

/// A sequence: its elements where they are known.
enum List {
    Known(Vec<Tensor>, Scalar),
    Object(Value, Element),
}

/// An input that is a sequence. A position that is data makes a known one an object.
fn sequence(cx: &mut ImportContext, call: &Call, position: Option<usize>) -> Result<List> {
    let data = match position.map(|index| call.opt(index)).transpose()?.flatten() {
        Some(position) => position.as_ints().is_none(),
        None => false,
    };
    match call.inputs.first().cloned().flatten() {
        Some(OnnxValue::Sequence(items, ty)) if !data => Ok(List::Known(items, ty)),
        Some(value @ (OnnxValue::Sequence(..) | OnnxValue::Object(_, ObjectKind::List(_)))) => {
            match cx.object(value)? {
                (value, ObjectKind::List(element)) => Ok(List::Object(value, element)),
                _ => Err(invalid("input 0 is not a sequence")),
            }
        }
        _ => Err(invalid("input 0 is not a sequence")),
    }
}

/// A position as an argument of a packed function.
fn position_value(cx: &mut ImportContext, position: &Tensor) -> Result<Value> {
    if !position.dtype().is_int() || position.count() != Some(1) {
        return Err(invalid(format!("a position of type {}", position.ty)));
    }
    let position = cx.cast(position, DType::I64)?;
    cx.value(&position)
}

fn length(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match sequence(cx, call, None)? {
        List::Known(items, _) => one(Tensor::dim(&Expr::i64(items.len() as i64))),
        List::Object(list, _) => one(length_of(cx, list)),
    }
}

fn length_of(cx: &mut ImportContext, list: Value) -> Tensor {
    let ty = TensorType::new(DType::I64, vec![]);
    cx.packed_tensor("reflex.sequence.length", vec![list], ty)
}

/// A position from an input, counted from the end when negative; up to `most`.
fn position(call: &Call, index: usize, count: usize, most: usize) -> Result<usize> {
    let given = call.known_ints(index)?.and_then(|v| v.first().copied());
    let given = given.ok_or_else(|| invalid("no position"))?;
    let position = if given < 0 { given + count as i64 } else { given };
    let found = usize::try_from(position).ok().filter(|p| *p <= most);
    found.ok_or_else(|| invalid(format!("position {given} in a sequence of {count}")))
}

/// An input that is a tensor of numbers or strings, and the type of its elements.
fn tensor<'a>(call: &'a Call, index: usize) -> Result<(&'a Tensor, Scalar)> {
    match call.inputs.get(index) {
        Some(Some(OnnxValue::Strings(bytes))) => Ok((bytes, Scalar::Text)),
        _ => call.input(index).map(|x| (x, Scalar::Number(x.dtype()))),
    }
}

fn construct(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let mut items = vec![];
    let (_, ty) = tensor(call, 0)?;
    for index in 0..call.inputs.len() {
        items.push(element_of(call, index, ty)?.clone());
    }
    Ok(vec![OnnxValue::Sequence(items, ty)])
}

fn empty(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ty = match i32::try_from(call.int("dtype", 1)?).unwrap_or(0) {
        data_type::STRING => Scalar::Text,
        code => Scalar::Number(dtype(code)?),
    };
    Ok(vec![OnnxValue::Sequence(vec![], ty)])
}

fn at(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match sequence(cx, call, Some(1))? {
        List::Known(items, ty) => {
            let last = items.len().checked_sub(1).ok_or_else(|| invalid("an empty sequence"))?;
            Ok(vec![ty.value(items[position(call, 1, items.len(), last)?].clone())])
        }
        List::Object(list, element) => {
            let position = position_value(cx, call.input(1)?)?;
            Ok(vec![element_at(cx, list, position, &element)?])
        }
    }
}

fn element_at(
    cx: &mut ImportContext,
    list: Value,
    position: Value,
    element: &Element,
) -> Result<OnnxValue> {
    let value = cx.packed_object("reflex.sequence.at", vec![list, position]);
    cx.element(value, element)
}

fn insert(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match sequence(cx, call, Some(2))? {
        List::Known(mut items, ty) => {
            let added = element_of(call, 1, ty)?;
            let position = match call.opt(2)? {
                Some(_) => position(call, 2, items.len(), items.len())?,
                None => items.len(),
            };
            items.insert(position, added.clone());
            Ok(vec![OnnxValue::Sequence(items, ty)])
        }
        List::Object(list, element) => {
            let added = element_of(call, 1, element.ty)?;
            let mut args = vec![list, cx.part(added)?];
            if let Some(position) = call.opt(2)? {
                args.push(position_value(cx, position)?);
            }
            let value = cx.packed_object("reflex.sequence.insert", args);
            let rank = element.rank.and(Rank::Known(added.rank() - element.ty.axes()));
            let kind = ObjectKind::List(Element { rank, ..element });
            Ok(vec![OnnxValue::Object(value, kind)])
        }
    }
}

/// An input as an element of a sequence of a type.
fn element_of<'a>(call: &'a Call, index: usize, ty: Scalar) -> Result<&'a Tensor> {
    match tensor(call, index)? {
        (x, found) if found == ty => Ok(x),
        (_, found) => Err(invalid(format!("a tensor of {found} in a sequence of {ty}"))),
    }
}

fn erase(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match sequence(cx, call, Some(1))? {
        List::Known(mut items, ty) => {
            let last = items.len().checked_sub(1).ok_or_else(|| invalid("an empty sequence"))?;
            let position = match call.opt(1)? {
                Some(_) => position(call, 1, items.len(), last)?,
                None => last,
            };
            items.remove(position);
            Ok(vec![OnnxValue::Sequence(items, ty)])
        }
        List::Object(list, element) => {
            let mut args = vec![list];
            if let Some(position) = call.opt(1)? {
                args.push(position_value(cx, position)?);
            }
            let value = cx.packed_object("reflex.sequence.erase", args);
            Ok(vec![OnnxValue::Object(value, ObjectKind::List(element))])
        }
    }
}

fn concat_from_sequence(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let stacked = call.flag("new_axis")?;
    match sequence(cx, call, None)? {
        List::Known(mut items, ty) => {
            let first = items.first().ok_or_else(|| invalid("an empty sequence"))?;
            let rank = first.rank() - ty.axes();
            let axis = call.axis("axis", 0, rank + usize::from(stacked))?;
            if ty == Scalar::Text {
                items = cx.equally_wide(&items)?;
            }
            if stacked {
                for item in &mut items {
                    *item = cx.unsqueeze(item, &[axis])?;
                }
            }
            Ok(vec![ty.value(cx.concat(&items, axis)?)])
        }
        List::Object(mut list, element) => {
            let Rank::Known(rank) = element.rank else {
                return Err(unsupported("a sequence of tensors whose rank is not declared"));
            };
            let rank = rank + usize::from(stacked);
            let axis = call.axis("axis", 0, rank)?;
            let axis = cx.value(&Tensor::dim(&Expr::i64(axis as i64)))?;
            let stacked = cx.value(&Tensor::dim(&Expr::i64(i64::from(stacked))))?;
            if element.ty == Scalar::Text {
                list = cx.packed_object("reflex.sequence.equally_wide", vec![list]);
            }
            let value = cx.packed_object("reflex.sequence.concat", vec![list, axis, stacked]);
            Ok(vec![cx.element(value, &Element { rank: Rank::Known(rank), ..element })?])
        }
    }
}

/// Calls a body for the elements of sequences, of which the first says how many there are; inputs
/// that are tensors are the same for all.
fn map(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let body = call.graph("body")?;
    let max_trips = match sequence(cx, call, None)? {
        List::Known(items, _) => Tensor::dim(&Expr::i64(items.len() as i64)),
        List::Object(list, _) => length_of(cx, list),
    };
    let max_trips = Some(cx.value(&max_trips)?);
    let mut inputs = vec![];
    for input in &call.inputs {
        inputs.push(match input.clone().ok_or_else(|| invalid("an input is missing"))? {
            value @ (OnnxValue::Sequence(..) | OnnxValue::Object(..)) => {
                let (value, kind) = cx.object(value)?;
                OnnxValue::Object(value, kind)
            }
            tensor => tensor,
        });
    }
    let empty = |cx: &mut ImportContext| cx.packed_object("reflex.sequence.of", vec![]);
    let init: Vec<Value> = body.output.iter().map(|_| empty(cx)).collect();
    cx.b.open();
    let iter = cx.b.body_param("", TensorType::new(DType::I64, vec![]));
    let cond_in = cx.b.body_param("", TensorType::new(DType::BOOL, vec![]));
    let carried: Vec<Value> = init.iter().map(|_| cx.b.value_of("", Type::Object)).collect();
    let results = mapped(cx, body, inputs, iter).and_then(|(results, elements)| {
        let mut all = vec![cx.value(&cx.num(1.0, DType::BOOL)?)?];
        for (list, result) in carried.iter().zip(results) {
            all.push(cx.packed_object("reflex.sequence.insert", vec![*list, result]));
        }
        Ok((all, elements))
    });
    let closed = cx.b.close(results.as_ref().map_or(vec![], |(all, _)| all.clone()));
    let (_, elements) = results.map_err(|e| e.at("body"))?;
    let types = vec![Type::Object; init.len()];
    let node = Loop { max_trips, cond: None, init, iter, cond_in, carried, body: closed };
    let lists = cx.b.bind_values(Node::Loop(Box::new(node)), types);
    let pairs = lists.into_iter().zip(elements);
    Ok(pairs.map(|(list, element)| OnnxValue::Object(list, ObjectKind::List(element))).collect())
}

/// The results of a body for the elements at a position.
fn mapped(
    cx: &mut ImportContext,
    body: &GraphProto,
    inputs: Vec<OnnxValue>,
    iter: Value,
) -> Result<(Vec<Value>, Vec<Element>)> {
    let element = |cx: &mut ImportContext, input| match input {
        OnnxValue::Object(list, ObjectKind::List(element)) => element_at(cx, list, iter, &element),
        OnnxValue::Object(..) => Err(invalid("an input that is no sequence and no tensor")),
        tensor => Ok(tensor),
    };
    let inputs = inputs.into_iter().map(|input| element(cx, input)).collect::<Result<_>>()?;
    let outputs = cx.subgraph(body, inputs)?;
    let mut elements = vec![];
    let mut results = vec![];
    for output in outputs {
        let (tensor, ty) = match output {
            OnnxValue::Tensor(tensor) => {
                let ty = Scalar::Number(tensor.dtype());
                (tensor, ty)
            }
            OnnxValue::Strings(bytes) => (bytes, Scalar::Text),
            _ => return Err(unsupported("results that are not tensors")),
        };
        elements.push(Element { ty, rank: Rank::Known(tensor.rank() - ty.axes()) });
        results.push(cx.part(&tensor)?);
    }
    Ok((results, elements))
}

fn split_to_sequence(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, ty) = tensor(call, 0)?;
    let axis = call.axis("axis", 0, x.rank() - ty.axes())?;
    let keep = call.flag_or_true("keepdims")?;
    let data = call.opt(1)?.is_some_and(|split| split.as_ints().is_none());
    let extent = x.shape()[axis].as_int();
    if data || extent.is_none() {
        return split_at_run_time(cx, call, axis);
    }
    let extent = extent.filter(|n| *n <= MAX_ELEMENTS as i64);
    let extent = extent.ok_or_else(|| unsupported("a symbolic or very long extent"))?;
    let by_one = call.opt(1)?.is_none();
    let sizes = match call.opt(1)? {
        None => vec![1; usize::try_from(extent).unwrap_or(0)],
        Some(split) => {
            let given = split.as_ints().ok_or_else(|| unsupported("a split that is data"))?;
            match (split.rank(), given.as_slice()) {
                (0, [size]) if *size > 0 => {
                    let starts = (0..extent).step_by(usize::try_from(*size).unwrap_or(1));
                    starts.map(|start| (*size).min(extent - start)).collect()
                }
                _ => given,
            }
        }
    };
    let mut begin = 0;
    let mut items = vec![];
    for size in sizes {
        let part = cx.slice(x, axis, &Expr::i64(begin), &Expr::i64(size))?;
        items.push(if by_one && !keep { cx.squeeze(&part, &[axis])? } else { part });
        begin += size;
    }
    Ok(vec![OnnxValue::Sequence(items, ty)])
}

/// Parts whose number only a run knows.
fn split_at_run_time(cx: &mut ImportContext, call: &Call, axis: usize) -> Result<Vec<OnnxValue>> {
    let (x, ty) = tensor(call, 0)?;
    let keep = call.flag_or_true("keepdims")?;
    let mut args = vec![cx.part(x)?];
    args.push(cx.value(&Tensor::dim(&Expr::i64(axis as i64)))?);
    args.push(cx.value(&Tensor::dim(&Expr::i64(i64::from(keep))))?);
    let mut rank = x.rank() - ty.axes();
    match call.opt(1)? {
        Some(split) if split.dtype().is_int() && split.rank() <= 1 => {
            let split = cx.cast(split, DType::I64)?;
            args.push(cx.value(&split)?);
        }
        Some(split) => return Err(invalid(format!("a split of type {}", split.ty))),
        None if !keep => rank -= 1,
        None => {}
    }
    let value = cx.packed_object("reflex.sequence.split", args);
    let kind = ObjectKind::List(Element { ty, rank: Rank::Known(rank) });
    Ok(vec![OnnxValue::Object(value, kind)])
}

fn optional(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    call.ignore(&["type"]);
    Ok(vec![call.inputs.first().cloned().flatten().unwrap_or(OnnxValue::Absent)])
}

fn optional_get(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match call.inputs.first().cloned().flatten() {
        None | Some(OnnxValue::Absent | OnnxValue::Object(_, ObjectKind::Optional(None))) => {
            Err(invalid("the optional has no content"))
        }
        Some(OnnxValue::Object(value, ObjectKind::Optional(Some(content)))) => {
            Ok(vec![cx.content(value, &content)?])
        }
        Some(value) => Ok(vec![value]),
    }
}

fn optional_has(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if let Some(Some(OnnxValue::Object(value, ObjectKind::Optional(_)))) = call.inputs.first() {
        let ty = TensorType::new(DType::BOOL, vec![]);
        return one(cx.packed_tensor("reflex.optional.has", vec![*value], ty));
    }
    let absent = matches!(call.inputs.first(), None | Some(None) | Some(Some(OnnxValue::Absent)));
    one(cx.num(f64::from(u8::from(!absent)), DType::BOOL)?)
}

//! Sequences and optionals whose structure is known while importing: they leave no run-time
//! code. A sequence that a loop grows is refused.

use reflex_tir::{DType, Expr};

use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::dtype;
use crate::value::{MAX_ELEMENTS, OnnxValue, Tensor};

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
    ("SequenceLength", |_, call| one(Tensor::dim(&Expr::i64(sequence(call)?.0.len() as i64)))),
    ("SplitToSequence", split_to_sequence),
];

fn sequence(call: &Call) -> Result<(Vec<Tensor>, DType)> {
    match call.inputs.first() {
        Some(Some(OnnxValue::Sequence(items, dtype))) => Ok((items.clone(), *dtype)),
        _ => Err(invalid("input 0 is not a sequence")),
    }
}

/// A position from an input, counted from the end when negative; up to `most`.
fn position(call: &Call, index: usize, count: usize, most: usize) -> Result<usize> {
    let given = call.known_ints(index)?.and_then(|v| v.first().copied());
    let given = given.ok_or_else(|| invalid("no position"))?;
    let position = if given < 0 { given + count as i64 } else { given };
    let found = usize::try_from(position).ok().filter(|p| *p <= most);
    found.ok_or_else(|| invalid(format!("position {given} in a sequence of {count}")))
}

fn construct(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let items = call.tensors()?;
    let dtype = items.first().ok_or_else(|| invalid("no inputs"))?.dtype();
    Ok(vec![OnnxValue::Sequence(items, dtype)])
}

fn empty(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let dtype = dtype(i32::try_from(call.int("dtype", 1)?).unwrap_or(0))?;
    Ok(vec![OnnxValue::Sequence(vec![], dtype)])
}

fn at(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (items, _) = sequence(call)?;
    let last = items.len().checked_sub(1).ok_or_else(|| invalid("an empty sequence"))?;
    one(items[position(call, 1, items.len(), last)?].clone())
}

fn insert(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (mut items, dtype) = sequence(call)?;
    let position = match call.opt(2)? {
        Some(_) => position(call, 2, items.len(), items.len())?,
        None => items.len(),
    };
    items.insert(position, call.input(1)?.clone());
    Ok(vec![OnnxValue::Sequence(items, dtype)])
}

fn erase(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (mut items, dtype) = sequence(call)?;
    let last = items.len().checked_sub(1).ok_or_else(|| invalid("an empty sequence"))?;
    let position = match call.opt(1)? {
        Some(_) => position(call, 1, items.len(), last)?,
        None => last,
    };
    items.remove(position);
    Ok(vec![OnnxValue::Sequence(items, dtype)])
}

fn concat_from_sequence(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (mut items, _) = sequence(call)?;
    let first = items.first().ok_or_else(|| invalid("an empty sequence"))?;
    let stacked = call.flag("new_axis")?;
    let axis = call.axis("axis", 0, first.rank() + usize::from(stacked))?;
    if stacked {
        for item in &mut items {
            *item = cx.unsqueeze(item, &[axis])?;
        }
    }
    one(cx.concat(&items, axis)?)
}

fn split_to_sequence(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.rank())?;
    let keep = call.flag_or_true("keepdims")?;
    let extent = x.shape()[axis].as_int();
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
    Ok(vec![OnnxValue::Sequence(items, x.dtype())])
}

fn optional(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    call.ignore(&["type"]);
    Ok(vec![call.inputs.first().cloned().flatten().unwrap_or(OnnxValue::Absent)])
}

fn optional_get(_: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    match call.inputs.first().cloned().flatten() {
        None | Some(OnnxValue::Absent) => Err(invalid("the optional has no content")),
        Some(value) => Ok(vec![value]),
    }
}

fn optional_has(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let absent = matches!(call.inputs.first(), None | Some(None) | Some(Some(OnnxValue::Absent)));
    one(cx.num(f64::from(u8::from(!absent)), DType::BOOL)?)
}

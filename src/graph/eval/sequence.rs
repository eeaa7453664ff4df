//! The reference meaning of packed functions on sequences and optionals, which importers of ONNX call:
//! a sequence is a tuple of tensors.

use super::error::{EvalError, Result};
use super::func::EvalValue;
use super::op::eval_op;
use crate::literal::Literal;
use crate::op::{Op, PadMode};
use reflex_tir::Expr;

/// Calls such a function; `None` for other names.
pub(super) fn call(name: &str, args: &[EvalValue]) -> Option<Result<EvalValue>> {
    Some(match (name, args) {
        ("reflex.sequence.of", items) => Ok(EvalValue::Tuple(items.to_vec())),
        ("reflex.sequence.length", [EvalValue::Tuple(items)]) => {
            Ok(EvalValue::Tensor(Literal::from_i64(vec![], &[items.len() as i64])))
        }
        ("reflex.sequence.at", [EvalValue::Tuple(items), at]) => {
            position(at, items.len(), false).map(|at| items[at].clone())
        }
        ("reflex.sequence.insert", [EvalValue::Tuple(items), element, at @ ..]) => {
            let place = at.first().map_or(Ok(items.len()), |at| position(at, items.len(), true));
            place.map(|at| {
                let mut items = items.clone();
                items.insert(at, element.clone());
                EvalValue::Tuple(items)
            })
        }
        ("reflex.sequence.erase", [EvalValue::Tuple(items), at @ ..]) => {
            let last = items.len().checked_sub(1);
            let last = last.ok_or_else(|| EvalError::new("an empty sequence"));
            let place = at.first().map_or(last, |at| position(at, items.len(), false));
            place.map(|at| {
                let mut items = items.clone();
                items.remove(at);
                EvalValue::Tuple(items)
            })
        }
        ("reflex.optional.has", [value]) => {
            let has = u8::from(!matches!(value, EvalValue::Null));
            let literal = Literal::new(reflex_tir::DType::BOOL, vec![], std::sync::Arc::new([has]));
            literal.ok_or_else(|| EvalError::new("a bool")).map(EvalValue::Tensor)
        }
        ("reflex.optional.get", [EvalValue::Null]) => {
            Err(EvalError::new("the optional has no content"))
        }
        ("reflex.optional.get", [value]) => Ok(value.clone()),
        ("reflex.sequence.concat", [EvalValue::Tuple(items), axis, stacked]) => {
            concat(items, axis, stacked)
        }
        ("reflex.sequence.equally_wide", [EvalValue::Tuple(items)]) => equally_wide(items),
        ("reflex.sequence.split", [EvalValue::Tensor(x), axis, keep, sizes @ ..]) => {
            split(x, axis, keep, sizes.first())
        }
        _ => return None,
    })
}

fn numbers(value: &EvalValue) -> Result<Vec<i64>> {
    let found = value.as_tensor().and_then(Literal::to_i64);
    found.ok_or_else(|| EvalError::new("integers expected"))
}

fn number(value: &EvalValue) -> Result<i64> {
    match numbers(value)?[..] {
        [number] => Ok(number),
        _ => Err(EvalError::new("one integer expected")),
    }
}

fn position(value: &EvalValue, count: usize, behind: bool) -> Result<usize> {
    let given = number(value)?;
    let at = if given < 0 { given + count as i64 } else { given };
    let found = usize::try_from(at).ok().filter(|at| *at < count + usize::from(behind));
    found.ok_or_else(|| EvalError::new(format!("position {given} in a sequence of {count}")))
}

fn axis_of(value: &EvalValue, rank: usize) -> Result<usize> {
    let axis = usize::try_from(number(value)?).ok().filter(|axis| *axis < rank);
    axis.ok_or_else(|| EvalError::new("an axis that a tensor lacks"))
}

fn apply(op: &Op, args: &[&Literal]) -> Result<Literal> {
    Ok(eval_op(op, args, &|_| None)?.remove(0))
}

fn concat(items: &[EvalValue], axis: &EvalValue, stacked: &EvalValue) -> Result<EvalValue> {
    let stacked = number(stacked)? != 0;
    let mut parts = vec![];
    for item in items {
        let part = item.as_tensor().ok_or_else(|| EvalError::new("not a tensor"))?;
        let mut shape = part.shape().to_vec();
        if stacked {
            let axis = axis_of(axis, shape.len() + 1)?;
            shape.insert(axis, 1);
        }
        let reshaped = part.reshaped(shape);
        parts.push(reshaped.ok_or_else(|| EvalError::new("a shape of another size"))?);
    }
    let first = parts.first().ok_or_else(|| EvalError::new("an empty sequence"))?;
    let axis = axis_of(axis, first.shape().len())?;
    let parts: Vec<&Literal> = parts.iter().collect();
    apply(&Op::Concat { axis }, &parts).map(EvalValue::Tensor)
}

/// Strings with zeros behind their bytes, which are the last axis.
fn equally_wide(items: &[EvalValue]) -> Result<EvalValue> {
    let strings = items.iter().map(|item| item.as_tensor().filter(|x| !x.shape().is_empty()));
    let strings: Option<Vec<&Literal>> = strings.collect();
    let strings = strings.ok_or_else(|| EvalError::new("a sequence of other than strings"))?;
    let width = |x: &Literal| x.shape()[x.shape().len() - 1];
    let most = strings.iter().map(|x| width(x)).max().unwrap_or(0);
    let zero = Literal::new(reflex_tir::DType::U8, vec![], std::sync::Arc::new([0]));
    let zero = zero.ok_or_else(|| EvalError::new("a byte"))?;
    let wide = |x: &&Literal| {
        let before = vec![Expr::i64(0); x.shape().len()];
        let mut after = before.clone();
        after[x.shape().len() - 1] = Expr::i64(most - width(x));
        let pad = Op::Pad { mode: PadMode::Constant, before, after };
        apply(&pad, &[x, &zero]).map(EvalValue::Tensor)
    };
    strings.iter().map(wide).collect::<Result<_>>().map(EvalValue::Tuple)
}

fn split(
    x: &Literal,
    axis: &EvalValue,
    keep: &EvalValue,
    sizes: Option<&EvalValue>,
) -> Result<EvalValue> {
    let axis = axis_of(axis, x.shape().len())?;
    let extent = x.shape()[axis];
    let given = sizes.map(numbers).transpose()?;
    let scalar = sizes.and_then(EvalValue::as_tensor).is_none_or(|s| s.shape().is_empty());
    let sizes = match given {
        Some(sizes) if !scalar => sizes,
        given => {
            let size = given.map_or(1, |one| one[0]).max(1);
            (0..extent).step_by(size as usize).map(|at| size.min(extent - at)).collect()
        }
    };
    let squeezed = scalar && number(keep)? == 0;
    let mut start = 0;
    let mut parts = vec![];
    for size in sizes {
        let mut begin = vec![0; x.shape().len()];
        begin[axis] = start;
        let mut shape = x.shape().to_vec();
        shape[axis] = size;
        let exprs = |dims: &[i64]| dims.iter().map(|d| Expr::i64(*d)).collect::<Vec<_>>();
        let stride = vec![1; shape.len()];
        let slice = Op::Slice { begin: exprs(&begin), shape: exprs(&shape), stride };
        let mut part = apply(&slice, &[x])?;
        if squeezed {
            shape.remove(axis);
            let reshaped = part.reshaped(shape);
            part = reshaped.ok_or_else(|| EvalError::new("a shape of another size"))?;
        }
        parts.push(EvalValue::Tensor(part));
        start += size;
    }
    Ok(EvalValue::Tuple(parts))
}

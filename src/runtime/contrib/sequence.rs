//! Functions that importers of ONNX call on sequences, optionals and maps: sequences are arrays of tensors,
//! optionals are values or nothing, maps have labels as keys.
//!
//! Sequences do not change: inserting makes another array, so one can be held by several values.

use crate::array::Array;
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg, arg_ref, check_arity};
use crate::map::Map;
use crate::string::Str;
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// A tensor of strings has no more bytes.
const MAX_BYTES: usize = 1 << 30;

/// An integer from an int64 tensor of one element.
fn number(args: &[AnyView<'_>], index: usize) -> Result<i64, Error> {
    let values: Vec<i64> = arg_ref::<Tensor>(args, index)?.to_host()?.to_vec()?;
    let [value] = values[..] else {
        return Err(Error::value_error(format!("{} numbers instead of one", values.len())));
    };
    Ok(value)
}

/// A position in a sequence of `count`, from the end when negative; below `limit`.
fn position(
    args: &[AnyView<'_>],
    index: usize,
    count: usize,
    limit: usize,
) -> Result<usize, Error> {
    let given = number(args, index)?;
    let at = if given < 0 { given.saturating_add(count as i64) } else { given };
    let found = usize::try_from(at).ok().filter(|at| *at < limit);
    found.ok_or_else(|| {
        let message = format!("position {given} in a sequence of {count}");
        Error::new("IndexError", message)
    })
}

/// `of(items...)`: a sequence.
pub(super) fn of(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let items = args.iter().map(AnyView::to_owned_copy).collect::<Result<Vec<_>, _>>()?;
    Ok(Array::new(items).into())
}

/// `length(sequence)`: an int64 scalar.
pub(super) fn length(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.sequence.length", args, 1)?;
    Ok(Tensor::from_slice(&[], &[arg_ref::<Array>(args, 0)?.len() as i64])?.into())
}

/// `at(sequence, position)`: an element.
pub(super) fn at(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.sequence.at", args, 2)?;
    let items = arg_ref::<Array>(args, 0)?;
    Ok(items[position(args, 1, items.len(), items.len())?].clone())
}

/// `insert(sequence, element, position?)`: without a position at the end.
pub(super) fn insert(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let sequence = arg_ref::<Array>(args, 0)?;
    let element = arg_ref::<Tensor>(args, 1)?.clone();
    let count = sequence.len();
    let at = if args.len() > 2 { position(args, 2, count, count + 1)? } else { count };
    let mut items = sequence.to_vec();
    items.insert(at, element.into());
    Ok(Array::new(items).into())
}

/// `erase(sequence, position?)`: without a position the last.
pub(super) fn erase(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let sequence = arg_ref::<Array>(args, 0)?;
    let count = sequence.len();
    let last = count.checked_sub(1).ok_or_else(|| Error::value_error("an empty sequence"))?;
    let at = if args.len() > 1 { position(args, 1, count, count)? } else { last };
    let mut items = sequence.to_vec();
    items.remove(at);
    Ok(Array::new(items).into())
}

/// `equally_wide(sequence)`: tensors of strings, whose bytes are the last axis, all as wide as the widest.
pub(super) fn equally_wide(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.sequence.equally_wide", args, 1)?;
    let mut parts = vec![];
    for item in arg_ref::<Array>(args, 0)?.iter() {
        let tensor = item.downcast_ref::<Tensor>().filter(|t| t.dtype() == DType::U8);
        let tensor = tensor.ok_or_else(|| Error::type_error("a sequence of other than strings"))?;
        let tensor = tensor.to_host()?;
        let width = tensor.shape().last().and_then(|width| usize::try_from(*width).ok());
        let width = width.ok_or_else(|| Error::value_error("strings without an axis of bytes"))?;
        parts.push((tensor, width));
    }
    let most = parts.iter().map(|(_, width)| *width).max().unwrap_or(0);
    let wide = |(tensor, width): (Tensor, usize)| {
        let (from, mut shape) = (tensor.to_bytes()?, tensor.shape().to_vec());
        let last = shape.len() - 1;
        shape[last] = most as i64;
        let rows: usize = shape[..last].iter().map(|n| *n as usize).product();
        let size = rows.checked_mul(most).filter(|size| *size <= MAX_BYTES);
        let mut bytes = vec![0; size.ok_or_else(|| Error::value_error("too many strings"))?];
        for row in 0..rows {
            bytes[row * most..][..width].copy_from_slice(&from[row * width..(row + 1) * width]);
        }
        Tensor::from_bytes(&shape, DType::U8, &bytes).map(Any::from)
    };
    Ok(Array::new(parts.into_iter().map(wide).collect::<Result<Vec<Any>, Error>>()?).into())
}

/// `has(optional)`: a bool scalar.
pub(super) fn has(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.optional.has", args, 1)?;
    Ok(Tensor::from_bytes(&[], DType::BOOL, &[u8::from(!args[0].is_none())])?.into())
}

/// `get(optional)`: its content.
pub(super) fn get(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.optional.get", args, 1)?;
    if args[0].is_none() {
        return Err(Error::value_error("the optional has no content"));
    }
    args[0].to_owned_copy()
}

/// `zip(labels, scores)`: an array with a map for each row of scores (float32), whose keys are the
/// labels: int64 numbers, or strings as rows of bytes that zeros fill up.
pub(super) fn zip(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.map.zip", args, 2)?;
    let (labels, scores) = (arg_ref::<Tensor>(args, 0)?, arg_ref::<Tensor>(args, 1)?);
    let (labels, scores): (Tensor, Tensor) = (labels.to_host()?, scores.to_host()?);
    let keys: Vec<Any> = match labels.shape() {
        [_] => labels.to_vec::<i64>()?.into_iter().map(Any::from).collect(),
        [_, width] => {
            let width = usize::try_from(*width).unwrap_or(1).max(1);
            let text = |row: &[u8]| {
                let end = row.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
                Any::from(Str::from_bytes(&row[..end]))
            };
            labels.to_vec::<u8>()?.chunks_exact(width).map(text).collect()
        }
        shape => return Err(Error::value_error(format!("labels of shape {shape:?}"))),
    };
    let wanted = keys.len() as i64;
    if keys.is_empty() || scores.shape().last() != Some(&wanted) {
        let message = format!("{wanted} labels for scores of shape {:?}", scores.shape());
        return Err(Error::value_error(message));
    }
    let rows = scores.to_vec::<f32>()?;
    let map = |row: &[f32]| {
        let values = row.iter().map(|score| Any::from(f64::from(*score)));
        Map::new(keys.iter().cloned().zip(values)).map(Any::from)
    };
    let maps = rows.chunks_exact(keys.len()).map(map).collect::<Result<Vec<_>, _>>()?;
    Ok(Array::new(maps).into())
}

/// `split(x, axis, keep_dims, sizes?)`: consecutive parts along an axis: of given sizes, of one size
/// (a scalar), or single indices, whose axis is then kept or not.
pub(super) fn split(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let x: Tensor = arg(args, 0)?;
    let x = x.to_host()?;
    let (axis, keep_dims) = (number(args, 1)?, number(args, 2)? != 0);
    let axis = usize::try_from(axis).ok().filter(|axis| *axis < x.shape().len());
    let axis = axis.ok_or_else(|| Error::value_error("an axis that the tensor lacks"))?;
    let extent = x.shape()[axis];
    let equal = |size: i64| (0..extent).step_by(size as usize).map(move |at| size.min(extent - at));
    let sizes: Vec<i64> = match args.get(3) {
        None => equal(1).collect(),
        Some(_) => {
            let given: Tensor = arg(args, 3)?;
            let given = given.to_host()?;
            match (given.shape().is_empty(), given.to_vec::<i64>()?) {
                (true, one) if one[0] > 0 => equal(one[0]).collect(),
                (true, one) => {
                    return Err(Error::value_error(format!("parts of {} elements", one[0])));
                }
                (false, sizes) => sizes,
            }
        }
    };
    let sum = sizes.iter().try_fold(0i64, |sum, n| sum.checked_add((*n >= 0).then_some(*n)?));
    if sum != Some(extent) {
        return Err(Error::value_error(format!("parts {sizes:?} of an extent of {extent}")));
    }
    let bytes = x.to_bytes()?;
    let outer: usize = x.shape()[..axis].iter().map(|n| *n as usize).product();
    let step = if extent == 0 || outer == 0 { 0 } else { bytes.len() / outer / extent as usize };
    let squeezed = args.len() == 3 && !keep_dims;
    let mut parts = vec![];
    let mut start = 0;
    for size in sizes {
        let range = start as usize * step..(start + size) as usize * step;
        let mut part = Vec::with_capacity(outer * range.len());
        for at in 0..outer {
            let row = at * extent as usize * step;
            part.extend_from_slice(&bytes[row + range.start..row + range.end]);
        }
        let mut shape = x.shape().to_vec();
        shape[axis] = size;
        if squeezed {
            shape.remove(axis);
        }
        parts.push(Any::from(Tensor::from_bytes(&shape, x.dtype(), &part)?));
        start += size;
    }
    Ok(Array::new(parts).into())
}

/// `concat(sequence, axis, new_axis)`: the elements along an axis, which they have, or get.
pub(super) fn concat(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.sequence.concat", args, 3)?;
    let items = arg_ref::<Array>(args, 0)?;
    let (axis, stacked) = (number(args, 1)?, number(args, 2)? != 0);
    let mut parts = vec![];
    for item in items.iter() {
        let tensor = item.downcast_ref::<Tensor>();
        let tensor = tensor.ok_or_else(|| Error::type_error("a sequence of other than tensors"))?;
        let tensor = tensor.to_host()?;
        let mut shape = tensor.shape().to_vec();
        let axis =
            usize::try_from(axis).ok().filter(|axis| *axis < shape.len() + usize::from(stacked));
        let axis = axis.ok_or_else(|| Error::value_error("an axis that an element lacks"))?;
        if stacked {
            shape.insert(axis, 1);
        }
        let inner: usize = shape[axis..].iter().map(|n| *n as usize).product();
        let row = inner * tensor.dtype().itemsize();
        parts.push((shape, axis, row, tensor.dtype(), tensor.to_bytes()?));
    }
    let Some((first, axis, _, dtype, _)) = parts.first() else {
        return Err(Error::value_error("the elements of an empty sequence"));
    };
    let (mut shape, axis, dtype) = (first.clone(), *axis, *dtype);
    shape[axis] = 0;
    for (other, _, _, of, _) in &parts {
        let alike = other.len() == shape.len() && *of == dtype;
        let alike = alike && (0..shape.len()).all(|i| i == axis || other[i] == shape[i]);
        if !alike {
            let message = format!("{dtype}{first:?} beside {of}{other:?} along axis {axis}");
            return Err(Error::value_error(message));
        }
        shape[axis] += other[axis];
    }
    let outer: usize = shape[..axis].iter().map(|n| *n as usize).product();
    let mut bytes = vec![];
    for at in 0..outer {
        for (_, _, row, _, data) in &parts {
            bytes.extend_from_slice(&data[at * row..(at + 1) * row]);
        }
    }
    Ok(Tensor::from_bytes(&shape, dtype, &bytes)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(value: i64) -> Any {
        Tensor::from_slice(&[], &[value]).unwrap().into()
    }

    fn views(args: &[Any]) -> Vec<AnyView<'_>> {
        args.iter().map(Any::view).collect()
    }

    fn shapes(list: &Any) -> Vec<Vec<i64>> {
        let items = list.downcast_ref::<Array>().unwrap();
        items.iter().map(|i| i.downcast_ref::<Tensor>().unwrap().shape().to_vec()).collect()
    }

    #[test]
    fn positions_outside_of_a_sequence_are_errors() {
        let empty = of(&[]).unwrap();
        for at_position in [0, -1, i64::MIN, i64::MAX] {
            let message = at(&views(&[empty.clone(), scalar(at_position)])).unwrap_err();
            assert!(message.to_string().contains("a sequence of 0"), "{message}");
            assert!(erase(&views(&[empty.clone(), scalar(at_position)])).is_err());
        }
        assert!(erase(&views(std::slice::from_ref(&empty))).is_err());
        let one = insert(&views(&[empty.clone(), scalar(7), scalar(0)])).unwrap();
        assert!(insert(&views(&[one.clone(), scalar(7), scalar(2)])).is_err());
        let two = insert(&views(&[one.clone(), scalar(8), scalar(1)])).unwrap();
        let last = at(&views(&[two.clone(), scalar(-1)])).unwrap();
        assert_eq!(last.downcast_ref::<Tensor>().unwrap().to_vec::<i64>().unwrap(), [8]);
        assert_eq!(shapes(&erase(&views(&[two])).unwrap()).len(), 1);
    }

    #[test]
    fn parts_join_to_the_whole() {
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let x: Any = Tensor::from_slice(&[2, 4, 3], &values).unwrap().into();
        let sizes: Any = Tensor::from_slice(&[3], &[1_i64, 0, 3]).unwrap().into();
        let parts = split(&views(&[x.clone(), scalar(1), scalar(1), sizes])).unwrap();
        assert_eq!(shapes(&parts), [[2, 1, 3], [2, 0, 3], [2, 3, 3]]);
        let whole = concat(&views(&[parts, scalar(1), scalar(0)])).unwrap();
        assert_eq!(whole.downcast_ref::<Tensor>().unwrap().to_vec::<f32>().unwrap(), values);
        let single = split(&views(&[x.clone(), scalar(2), scalar(0)])).unwrap();
        assert_eq!(shapes(&single), [[2, 4]; 3]);
        let stacked = concat(&views(&[single, scalar(2), scalar(1)])).unwrap();
        assert_eq!(stacked.downcast_ref::<Tensor>().unwrap().to_vec::<f32>().unwrap(), values);
        let wrong: Any = Tensor::from_slice(&[2], &[i64::MAX, -1]).unwrap().into();
        assert!(split(&views(&[x.clone(), scalar(1), scalar(1), wrong])).is_err());
        assert!(split(&views(&[x, scalar(3), scalar(1)])).is_err());
        assert!(concat(&views(&[of(&[]).unwrap(), scalar(0), scalar(0)])).is_err());
    }

    #[test]
    fn strings_become_equally_wide() {
        let long: Any = Tensor::from_slice(&[1, 3], b"abc").unwrap().into();
        let short: Any = Tensor::from_slice(&[2, 1], b"de").unwrap().into();
        let list = of(&views(&[long, short.clone()])).unwrap();
        let wide = equally_wide(&views(&[list])).unwrap();
        assert_eq!(shapes(&wide), [[1, 3], [2, 3]]);
        let second = wide.downcast_ref::<Array>().unwrap()[1].clone();
        let bytes = second.downcast_ref::<Tensor>().unwrap().to_vec::<u8>().unwrap();
        assert_eq!(bytes, b"d\0\0e\0\0");
        assert!(shapes(&equally_wide(&views(&[of(&[]).unwrap()])).unwrap()).is_empty());
        let numbers = of(&views(&[scalar(7)])).unwrap();
        assert!(
            equally_wide(&views(&[numbers])).is_err() && equally_wide(&views(&[short])).is_err()
        );
    }

    #[test]
    fn rows_become_maps() {
        let labels: Any = Tensor::from_slice(&[2, 2], b"a\0bc").unwrap().into();
        let scores: Any = Tensor::from_slice(&[2, 2], &[0.5_f32, 1.0, 2.0, 3.0]).unwrap().into();
        let maps = zip(&views(&[labels.clone(), scores])).unwrap();
        let second = maps.downcast_ref::<Array>().unwrap()[1].clone();
        let found = second.downcast_ref::<Map>().unwrap().get(&Any::from("bc").view());
        assert_eq!(f64::try_from(found.unwrap()).unwrap(), 3.0);
        let narrow: Any = Tensor::from_slice(&[2, 1], &[0.5_f32, 1.0]).unwrap().into();
        assert!(zip(&views(&[labels, narrow])).is_err());
    }
}

//! Values of test cases as arguments, and results compared with them.

use reflex_graph::Literal;
use reflex_onnx::{CaseValue, MapKeys};
use reflex_runtime::array::Array as Tuple;
use reflex_runtime::dtype::DType;
use reflex_runtime::map::Map;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::stats::Difference;

/// Of bfloat16: two units in its last place.
const RTOL_BFLOAT16: f64 = 1.0 / 64.0;

/// The distance that results may have from their references.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

fn array(literal: &Literal) -> Array {
    let (dtype, shape) = (literal.dtype(), literal.shape().to_vec());
    Array { dtype, shape, data: literal.bytes().to_vec() }
}

pub(super) fn argument(value: &CaseValue) -> Result<Any> {
    let tensor = |literal: &Literal| array(literal).tensor().map(Any::from);
    Ok(match value {
        CaseValue::Tensor(literal) | CaseValue::Strings(literal, _) => tensor(literal)?,
        CaseValue::Sequence(items) => {
            Tuple::new(items.iter().map(argument).collect::<Result<Vec<Any>>>()?).into()
        }
        CaseValue::Absent => Any::NONE,
        CaseValue::Map(keys, values) => map_argument(keys, values)?,
        CaseValue::Maps(maps) => {
            let maps = maps.iter().map(|(keys, values)| map_argument(keys, values));
            Tuple::new(maps.collect::<Result<Vec<Any>>>()?).into()
        }
    })
}

fn map_argument(keys: &MapKeys, values: &[f32]) -> Result<Any> {
    let values = values.iter().map(|value| Any::from(f64::from(*value)));
    let keys: Vec<Any> = match keys {
        MapKeys::Ints(keys) => keys.iter().copied().map(Any::from).collect(),
        MapKeys::Strings(keys) => keys.iter().map(|key| Any::from(key.as_str())).collect(),
    };
    Ok(Map::new(keys.into_iter().zip(values))?.into())
}

/// The first difference of a result from its reference, if any.
pub(super) fn difference(
    found: &Any,
    wanted: &CaseValue,
    tolerance: Tolerance,
    random: &dyn Fn() -> bool,
) -> Result<Option<String>> {
    let tensor = |found: &Any| match found.downcast_ref::<Tensor>() {
        Some(tensor) => Array::of_tensor(tensor),
        None => Err(Error::input(format!("a {} instead of a tensor", found.view().type_key()))),
    };
    let differ = |found: &Any, wanted: &Literal| -> Result<Option<String>> {
        let (actual, expected) = (tensor(found)?, array(wanted));
        let bfloat16 = expected.dtype == DType::BF16;
        let rtol = if bfloat16 { tolerance.rtol.max(RTOL_BFLOAT16) } else { tolerance.rtol };
        Ok(match Difference::of(&actual, &expected, rtol, tolerance.atol) {
            Ok(d) if d.matches() || random() => None,
            Ok(d) => Some(format!("element {}: {} instead of {}", d.at, d.actual, d.expected)),
            Err(types) => Some(types),
        })
    };
    match wanted {
        CaseValue::Tensor(wanted) => differ(found, wanted),
        CaseValue::Strings(bytes, wanted) => {
            let actual = tensor(found)?;
            let shape = |shape: &[i64]| shape.split_last().map(|(_, shape)| shape.to_vec());
            let actual = (shape(&actual.shape), actual.to_strings()?);
            let same = (&actual.0, &actual.1) == (&shape(bytes.shape()), wanted);
            Ok((!same).then(|| format!("{:?} instead of {wanted:?}", actual.1)))
        }
        CaseValue::Absent => Ok((!found.view().is_none()).then(|| "content".to_owned())),
        CaseValue::Sequence(wanted) => {
            let found = found.downcast_ref::<Tuple>().map(|items| items.to_vec());
            let found = found.unwrap_or_default();
            if found.len() != wanted.len() {
                return Ok(Some(format!("{} elements instead of {}", found.len(), wanted.len())));
            }
            for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                if let Some(difference) = difference(found, wanted, tolerance, random)? {
                    return Ok(Some(format!("element {index}: {difference}")));
                }
            }
            Ok(None)
        }
        CaseValue::Maps(wanted) => {
            let maps = found.downcast_ref::<Tuple>().map(|items| items.to_vec());
            let maps = maps.unwrap_or_default();
            let found = maps.iter().map(map).collect::<Option<Vec<_>>>();
            let found = found.ok_or_else(|| Error::input("a result that is not a list of maps"))?;
            let same = found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(a, b)| same_map(a, (&b.0, &b.1), tolerance));
            Ok((!same).then(|| format!("{found:?} instead of {wanted:?}")))
        }
        CaseValue::Map(keys, values) => {
            let found = map(found).ok_or_else(|| Error::input("a result that is no map"))?;
            let same = same_map(&found, (keys, values), tolerance);
            Ok((!same).then(|| format!("{found:?} instead of {keys:?} with {values:?}")))
        }
    }
}

fn same_map(
    (keys, values): &(MapKeys, Vec<f32>),
    wanted: (&MapKeys, &Vec<f32>),
    Tolerance { rtol, atol }: Tolerance,
) -> bool {
    let near = |(a, b): (&f32, &f32)| {
        a == b
            || (a.is_nan() && b.is_nan())
            || f64::from((a - b).abs()) <= atol + rtol * f64::from(b.abs())
    };
    keys == wanted.0 && values.len() == wanted.1.len() && values.iter().zip(wanted.1).all(near)
}

/// Keys and values of a map.
fn map(value: &Any) -> Option<(MapKeys, Vec<f32>)> {
    let entries = value.downcast_ref::<Map>()?.entries();
    let numbers = entries.iter().map(|(_, v)| f64::try_from(v).ok().map(|v| v as f32));
    let numbers = numbers.collect::<Option<Vec<f32>>>()?;
    let ints: Option<Vec<i64>> = entries.iter().map(|(key, _)| key.view().as_int()).collect();
    let keys = match ints {
        Some(ints) => MapKeys::Ints(ints),
        None => {
            let text = |(key, _): &(Any, Any)| key.view().as_str().map(str::to_owned);
            MapKeys::Strings(entries.iter().map(text).collect::<Option<_>>()?)
        }
    };
    Some((keys, numbers))
}

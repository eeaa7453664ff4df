//! Functions that importers of ONNX call to make tensors of the values of a map, whose keys are strings or
//! integers (`reflex.map.at_keys`, `reflex.map.in_order`).
//!
//! The last argument of both is the value of a key that the map lacks, of which the result has the type: a
//! number, or the bytes of a string (uint8 with one axis).

use crate::abi::type_index;
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg_ref, check_arity};
use crate::map::{Map, entries_of};
use crate::tensor::Tensor;
use crate::text::text;
use crate::value::{Any, AnyView};

/// A result has no more bytes.
const MAX_BYTES: usize = 1 << 30;

/// `at_keys(map, keys, default)`: a row with the value of each key: int64 numbers, or strings as rows of bytes.
pub(super) fn at_keys(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.map.at_keys", args, 3)?;
    let map = Map::new(entries_of(&args[0])?)?;
    let keys = arg_ref::<Tensor>(args, 1)?.to_host()?;
    let keys: Vec<Any> = match keys.shape() {
        [_] => keys.to_vec::<i64>()?.into_iter().map(Any::from).collect(),
        [_, width] => {
            let width = usize::try_from(*width).unwrap_or(1).max(1);
            let rows = keys.to_vec::<u8>()?;
            rows.chunks_exact(width)
                .map(|row| text(row).map(Any::from))
                .collect::<Result<_, _>>()?
        }
        shape => return Err(Error::value_error(format!("keys of shape {shape:?}"))),
    };
    let entries = map.entries();
    let strings = keys.first().is_some_and(|key| key.view().as_str().is_some());
    let alike = |key: &Any| if strings { key.view().as_str().is_some() } else { is_int(key) };
    if let Some((key, _)) = entries.iter().find(|(key, _)| !alike(key)) {
        let kind = if strings { "strings" } else { "integers" };
        return Err(Error::type_error(format!("a key {key:?} in a map whose keys are {kind}")));
    }
    row(keys.iter().map(|key| map.get(&key.view())).collect(), args)
}

/// `in_order(map, count, default)`: a row of the values in the order of their keys, which are integers; where
/// the count is not negative, of that many positions, at each of which is the value of the key that it is.
pub(super) fn in_order(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.map.in_order", args, 3)?;
    let mut values = vec![];
    for (key, value) in entries_of(&args[0])? {
        let key = key.view().as_int().filter(|_| is_int(&key));
        let key = key.ok_or_else(|| Error::type_error("a key that is no integer"))?;
        values.push((key, value));
    }
    values.sort_by_key(|(key, _)| *key);
    let count = arg_ref::<Tensor>(args, 1)?.to_host()?.to_vec::<i64>()?;
    let Some(count) = count.first().and_then(|count| usize::try_from(*count).ok()) else {
        return row(values.into_iter().map(|(_, value)| Some(value)).collect(), args);
    };
    if let Some((key, _)) = values.first().filter(|(key, _)| *key < 0) {
        return Err(Error::value_error(format!("a key {key}, which is no position")));
    }
    if count > MAX_BYTES {
        return Err(Error::value_error(format!("a map of {count} positions")));
    }
    let mut placed = vec![None; count];
    for (key, value) in values {
        if let Some(place) = usize::try_from(key).ok().and_then(|at| placed.get_mut(at)) {
            *place = Some(value);
        }
    }
    row(placed, args)
}

fn is_int(value: &Any) -> bool {
    value.type_index() == type_index::INT
}

/// A tensor of shape `[1, values]`, for strings with an axis of bytes behind.
fn row(values: Vec<Option<Any>>, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let default = arg_ref::<Tensor>(args, 2)?.to_host()?;
    let shape = [1, values.len() as i64];
    macro_rules! numbers {
        ($type:ty, $number:expr) => {{
            let default = default.to_vec::<$type>()?;
            let missing = *default.first().ok_or_else(|| Error::value_error("no default"))?;
            let value = |v: &Option<Any>| v.as_ref().map_or(Ok(missing), $number);
            let row = values.iter().map(value).collect::<Result<Vec<$type>, Error>>()?;
            Ok(Tensor::from_slice(&shape, &row)?.into())
        }};
    }
    match default.dtype() {
        DType::F32 => numbers!(f32, |v| float(v).map(|v| v as f32)),
        DType::F64 => numbers!(f64, float),
        DType::I64 => numbers!(i64, |v| {
            let int = v.view().as_int().filter(|_| is_int(v));
            int.ok_or_else(|| Error::type_error(format!("a value {v:?} in a map to integers")))
        }),
        DType::U8 => {
            let missing = default.to_vec::<u8>()?;
            let missing = text(&missing)?;
            let value = |v: &Option<Any>| v.as_ref().map_or(Ok(missing.to_owned()), string);
            texts(&values.iter().map(value).collect::<Result<Vec<String>, Error>>()?)
        }
        other => Err(Error::type_error(format!("values of type {other}"))),
    }
}

fn float(value: &Any) -> Result<f64, Error> {
    let number = value.view().as_float();
    number.ok_or_else(|| Error::type_error(format!("a value {value:?} in a map to numbers")))
}

/// A value as a string: numbers with six decimals, as ONNX Runtime writes them.
fn string(value: &Any) -> Result<String, Error> {
    if let Some(text) = value.view().as_str() {
        return Ok(text.to_owned());
    }
    Ok(match float(value)? as f32 {
        x if x.is_nan() => "nan".to_owned(),
        x if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
        x => format!("{x:.6}"),
    })
}

/// A row of strings as wide as the longest.
fn texts(row: &[String]) -> Result<Any, Error> {
    if row.iter().any(|text| text.ends_with('\0')) {
        return Err(Error::value_error("a string that ends with a zero byte"));
    }
    let width = row.iter().map(String::len).max().unwrap_or(0).max(1);
    let size = row.len().checked_mul(width).filter(|size| *size <= MAX_BYTES);
    let size = size.ok_or_else(|| Error::value_error("strings of more than a gibibyte"))?;
    let mut bytes = vec![0; size];
    for (place, text) in bytes.chunks_exact_mut(width).zip(row) {
        place[..text.len()].copy_from_slice(text.as_bytes());
    }
    Ok(Tensor::from_bytes(&[1, row.len() as i64, width as i64], DType::U8, &bytes)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(body: super::super::Body, args: &[Any]) -> Result<Tensor, Error> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        body(&views).and_then(Tensor::try_from)
    }

    fn map(entries: &[(Any, Any)]) -> Any {
        Map::new(entries.iter().cloned()).unwrap().into()
    }

    fn number<T: crate::tensor::data::Element>(value: T) -> Any {
        Tensor::from_slice(&[], &[value]).unwrap().into()
    }

    #[test]
    fn values_stand_where_their_keys_do() {
        let keys: Any = Tensor::from_slice(&[3, 2], b"b\0abc\0").unwrap().into();
        let given = map(&[("ab".into(), 1.5_f64.into()), ("x".into(), 2_i64.into())]);
        let found = called(at_keys, &[given.clone(), keys.clone(), number(0.0_f32)]).unwrap();
        assert_eq!(
            (found.shape(), found.to_vec::<f32>().unwrap()),
            (&[1, 3][..], vec![0.0, 1.5, 0.0])
        );
        let whole = called(at_keys, &[given.clone(), keys, number(0_i64)]).unwrap_err();
        assert!(whole.to_string().contains("a map to integers"), "{whole}");
        let ints: Any = Tensor::from_slice(&[1], &[7_i64]).unwrap().into();
        assert!(called(at_keys, &[given, ints.clone(), number(0_i64)]).is_err());
        let large = map(&[(7_i64.into(), i64::MAX.into())]);
        let found = called(at_keys, &[large, ints, number(0_i64)]).unwrap();
        assert_eq!(found.to_vec::<i64>().unwrap(), [i64::MAX]);
    }

    #[test]
    fn rows_are_dense_or_have_a_place_for_each_position() {
        let texts = map(&[(4_i64.into(), "long".into()), (1_i64.into(), "b".into())]);
        let default: Any = Tensor::from_slice(&[1], b"?").unwrap().into();
        let found = called(in_order, &[texts.clone(), number(-1_i64), default.clone()]).unwrap();
        assert_eq!(
            (found.shape(), found.to_vec::<u8>().unwrap()),
            (&[1, 2, 4][..], b"b\0\0\0long".to_vec())
        );
        let found = called(in_order, &[texts, number(3_i64), default.clone()]).unwrap();
        assert_eq!(
            (found.shape(), found.to_vec::<u8>().unwrap()),
            (&[1, 3, 1][..], b"?b?".to_vec())
        );
        let below = map(&[((-1_i64).into(), 1.0_f64.into())]);
        assert!(called(in_order, &[below.clone(), number(2_i64), number(0.0_f32)]).is_err());
        let found = called(in_order, &[below, number(-1_i64), default.clone()]).unwrap();
        assert_eq!(found.to_vec::<u8>().unwrap(), b"1.000000");
        let none = called(in_order, &[map(&[]), number(-1_i64), default]).unwrap();
        assert_eq!(none.shape(), [1, 0, 1]);
    }
}

//! Values that are no tensors, and tensors inside of them, as JSON.
//!
//! - `null` is nothing (an optional without content), an array a sequence;
//! - `{"tensor": "float32", "shape": [2], "data": [1, 2]}` is a tensor, `{"strings": ["a", "b"], "shape": [2]}` one of
//!   strings; both have one axis where no shape is given. In a file, text in place of a value names a .npy file;
//! - `{"map": [[key, value], ...]}` is a map, whose keys are integers or text; so is an object without these
//!   words, whose keys are text;
//! - an integer is one: the number of a constructor, in front of the fields of a value of a data type.

use std::path::Path;

use half::{bf16, f16};
use reflex::{Any, Array, DType, Error, Map, Result, Tensor, Tuple, numpy};
use serde_json::{Map as Object, Value as Json, json};

/// Reads a value from a file; the paths in it are relative to its folder.
pub fn read(path: &Path) -> Result<Any> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
    let json: Json = serde_json::from_str(&text).map_err(|e| Error::input(e.to_string()))?;
    of_json(&json, path.parent().unwrap_or(Path::new("")))
}

fn of_json(json: &Json, folder: &Path) -> Result<Any> {
    match json {
        Json::Null => Ok(Any::NONE),
        Json::Number(number) if number.is_i64() => Ok(number.as_i64().unwrap_or_default().into()),
        Json::String(file) => tensor(&numpy::read_npy(&folder.join(file))?),
        Json::Array(items) => {
            let items = items
                .iter()
                .enumerate()
                .map(|(at, item)| of_json(item, folder).map_err(|e| e.at(format!("element {at}"))));
            Ok(Tuple::new(items.collect::<Result<Vec<Any>>>()?).into())
        }
        Json::Object(object) if object.contains_key("tensor") => tensor(&numbers(object)?),
        Json::Object(object) if object.contains_key("strings") => tensor(&strings(object)?),
        Json::Object(object) => map(object.get("map").unwrap_or(json)),
        other => Err(Error::input(format!("{other} is no value: see `reflex run --help`"))),
    }
}

fn tensor(array: &Array) -> Result<Any> {
    let tensor = Tensor::from_bytes(&array.shape, array.dtype, &array.data);
    tensor.map(Any::from).map_err(|e| Error::input(e.message()))
}

fn shape(object: &Object<String, Json>, count: usize) -> Result<Vec<i64>> {
    let Some(given) = object.get("shape") else { return Ok(vec![count as i64]) };
    let dims = given.as_array().into_iter().flatten().map(Json::as_i64);
    let dims: Option<Vec<i64>> = dims.map(|dim| dim.filter(|n| *n >= 0)).collect();
    dims.ok_or_else(|| Error::input(format!("{given} is no shape")))
}

fn list<'a>(object: &'a Object<String, Json>, key: &str) -> Result<&'a Vec<Json>> {
    let list = object.get(key).and_then(Json::as_array);
    list.ok_or_else(|| Error::input(format!("\"{key}\" is no list")))
}

fn strings(object: &Object<String, Json>) -> Result<Array> {
    let list = list(object, "strings")?;
    let text = |json: &Json| json.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = list.iter().map(text).collect();
    let texts = texts.ok_or_else(|| Error::input("a string that is no text"))?;
    Array::of_strings(&shape(object, texts.len())?, &texts)
}

fn numbers(object: &Object<String, Json>) -> Result<Array> {
    let name = object["tensor"].as_str().unwrap_or_default();
    let unknown = || Error::input(format!("no element type {name:?}"));
    let dtype: DType = name.parse().map_err(|_| unknown())?;
    let list = list(object, "data")?;
    let mut data = vec![];
    for json in list {
        let bytes = bytes(json, dtype);
        data.extend(bytes.ok_or_else(|| Error::input(format!("{json} is no {dtype}")))?);
    }
    let shape = shape(object, list.len())?;
    let wanted = shape.iter().try_fold(1_i64, |n, dim| n.checked_mul(*dim));
    match wanted == Some(list.len() as i64) {
        true => Ok(Array { dtype, shape, data }),
        false => Err(Error::input(format!("{} elements for the shape {shape:?}", list.len()))),
    }
}

/// A number that JSON writes, or a float that it has no number for.
fn float(json: &Json) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

fn bytes(json: &Json, dtype: DType) -> Option<Vec<u8>> {
    macro_rules! int {
        ($type:ty) => {
            <$type>::try_from(json.as_i64()?).ok()?.to_le_bytes().to_vec()
        };
    }
    Some(match dtype {
        DType::F32 => (float(json)? as f32).to_le_bytes().to_vec(),
        DType::F64 => float(json)?.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f32(float(json)? as f32).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(float(json)?).to_le_bytes().to_vec(),
        DType::BOOL => vec![u8::from(json.as_bool()?)],
        DType::I8 => int!(i8),
        DType::I16 => int!(i16),
        DType::I32 => int!(i32),
        DType::I64 => int!(i64),
        DType::U8 => int!(u8),
        DType::U16 => int!(u16),
        DType::U32 => int!(u32),
        DType::U64 => json.as_u64()?.to_le_bytes().to_vec(),
        _ => return None,
    })
}

fn map(json: &Json) -> Result<Any> {
    let pair = |json: &Json| match json.as_array().map(Vec::as_slice) {
        Some([key, value]) => Ok((scalar(key)?, scalar(value)?)),
        _ => Err(Error::input(format!("{json} is no pair of a key and a value"))),
    };
    let entries: Vec<(Any, Any)> = match json {
        Json::Array(pairs) => pairs.iter().map(pair).collect::<Result<_>>()?,
        Json::Object(object) => {
            let entry = |(key, value): (&String, &Json)| Ok((key.as_str().into(), scalar(value)?));
            object.iter().map(entry).collect::<Result<_>>()?
        }
        other => return Err(Error::input(format!("{other} is no map"))),
    };
    Ok(Map::new(entries).map_err(|e| Error::input(e.message()))?.into())
}

/// A key or a value of a map.
fn scalar(json: &Json) -> Result<Any> {
    match (json.as_i64(), json.as_f64(), json.as_str()) {
        (Some(int), _, _) => Ok(int.into()),
        (_, Some(float), _) => Ok(float.into()),
        (_, _, Some(text)) => Ok(text.into()),
        _ => Err(Error::input(format!("{json} is no number and no text"))),
    }
}

/// Returns a value as JSON, tensors of bytes as strings where they are.
pub fn to_json(value: &Any, is_text: bool) -> Result<Json> {
    if value.view().is_none() {
        return Ok(Json::Null);
    }
    if let Some(items) = value.downcast_ref::<Tuple>() {
        return items.iter().map(|item| to_json(item, is_text)).collect();
    }
    if let Some(map) = value.downcast_ref::<Map>() {
        let entries = map.entries();
        let pair = |(key, value): &(Any, Any)| Some(json!([plain(key)?, plain(value)?]));
        let pairs: Option<Vec<Json>> = entries.iter().map(pair).collect();
        let pairs = pairs.ok_or_else(|| Error::input("a map of other than numbers and text"))?;
        return Ok(json!({ "map": pairs }));
    }
    if let Some(int) = value.view().as_int() {
        return Ok(int.into());
    }
    let tensor = value.downcast_ref::<Tensor>();
    let tensor = tensor.ok_or_else(|| {
        Error::input(format!("a result is a {}, which has no text", value.view().type_key()))
    })?;
    let array = Array::of_tensor(tensor)?;
    if is_text && let Ok(texts) = array.to_strings() {
        let shape = &array.shape[..array.shape.len() - 1];
        return Ok(json!({ "strings": texts, "shape": shape }));
    }
    let data: Vec<Json> = match array.dtype {
        DType::I64 => array.to_vec::<i64>()?.into_iter().map(Json::from).collect(),
        DType::U64 => array.to_vec::<u64>()?.into_iter().map(Json::from).collect(),
        DType::BOOL => array.to_f64().into_iter().map(|v| Json::from(v != 0.0)).collect(),
        dtype if dtype.is_float() => array.to_f64().into_iter().map(of_float).collect(),
        _ => array.to_f64().into_iter().map(|v| Json::from(v as i64)).collect(),
    };
    Ok(json!({ "tensor": array.dtype.to_string(), "shape": array.shape, "data": data }))
}

fn of_float(value: f64) -> Json {
    let named = || match value {
        v if v.is_nan() => "NaN",
        v if v > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    serde_json::Number::from_f64(value).map_or_else(|| named().into(), Json::Number)
}

fn plain(value: &Any) -> Option<Json> {
    let view = value.view();
    if let Some(text) = view.as_str() {
        return Some(text.into());
    }
    view.as_int().map(Json::from).or_else(|| view.as_float().map(of_float))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, is_text: bool) -> Json {
        let value = of_json(&serde_json::from_str(text).unwrap(), Path::new("")).unwrap();
        to_json(&value, is_text).unwrap()
    }

    #[test]
    fn values_come_back_as_they_were() {
        for (text, is_text) in [
            ("null", false),
            (r#"[0,{"tensor":"int8","shape":[1],"data":[-3]},[1]]"#, false),
            (r#"[{"tensor":"float32","shape":[2],"data":[1.5,"NaN"]},null]"#, false),
            (r#"{"tensor":"int64","shape":[],"data":[9007199254740993]}"#, false),
            (r#"{"tensor":"bool","shape":[1,2],"data":[true,false]}"#, false),
            (r#"{"strings":["a","\u00fcber",""],"shape":[3,1]}"#, true),
            (r#"[{"map":[[3,1.5],[-1,"b"]]},{"map":[["a",2]]}]"#, false),
        ] {
            let wanted: Json = serde_json::from_str(text).unwrap();
            assert_eq!(round_trip(text, is_text), wanted, "{text}");
        }
        assert_eq!(round_trip(r#"{"b":1,"a":2.5}"#, false)["map"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_value_is_named() {
        for (text, part) in [
            ("true", "is no value"),
            ("1.5", "is no value"),
            (r#"{"tensor":"float33","data":[]}"#, "float33"),
            (r#"{"tensor":"int8","data":[1,300]}"#, "300 is no int8"),
            (r#"{"tensor":"int8","shape":[3],"data":[1]}"#, "1 elements"),
            (r#"[{"map":[[1]]}]"#, "element 0"),
            (r#"{"map":7}"#, "is no map"),
            (r#"{"strings":[7]}"#, "no text"),
        ] {
            let error = of_json(&serde_json::from_str(text).unwrap(), Path::new("")).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}

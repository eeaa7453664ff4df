//! Values as the JSON of modules.py: tensors as type, shape and bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reflex::{Any, Tensor};
use reflex_runtime::array::Array;
use reflex_runtime::shape::Shape;
use serde_json::{Value, json};

fn extents(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|e| e.as_i64().expect("an extent")).collect()
}

/// The value that JSON describes; what is long is in files of `folder`.
pub fn any(folder: &Path, value: &Value) -> Any {
    match value {
        Value::Null => Any::NONE,
        Value::Bool(b) => Any::from(*b),
        Value::Number(n) => match n.as_i64() {
            Some(int) => Any::from(int),
            None => Any::from(n.as_f64().expect("a number")),
        },
        Value::Object(fields) => {
            if fields.contains_key("dtype") {
                let dtype = fields["dtype"].as_str().expect("a name").parse().expect("a type");
                let shape = extents(&fields["shape"]);
                Tensor::from_bytes(&shape, dtype, &bytes(folder, value)).expect("a tensor").into()
            } else if let Some(items) = fields.get("extents") {
                Shape::new(&extents(items)).into()
            } else if let Some(text) = fields.get("text") {
                Any::from(text.as_str().expect("text"))
            } else {
                let items = fields["tuple"].as_array().expect("a list");
                Array::new(items.iter().map(|item| any(folder, item))).into()
            }
        }
        other => panic!("no value: {other}"),
    }
}

/// The elements of a tensor in JSON: in place, or a piece of a file.
fn bytes(folder: &Path, value: &Value) -> Vec<u8> {
    if let Some(hex) = value["data"].as_str() {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        return (0..hex.len()).step_by(2).map(byte).collect();
    }
    let number = |key: &str| value[key].as_u64().expect("a number");
    let file = File::open(folder.join(value["file"].as_str().expect("a name"))).expect("opens");
    let mut bytes = vec![0; number("size") as usize];
    file.read_exact_at(&mut bytes, number("at")).expect("as long as it says");
    bytes
}

/// The JSON that describes a value.
pub fn json(value: &Any) -> Value {
    let view = value.view();
    if let Some(tensor) = value.downcast_ref::<Tensor>() {
        let bytes = tensor.to_bytes().expect("a compact tensor");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        return json!({ "dtype": tensor.dtype().to_string(), "shape": tensor.shape(), "data": hex });
    }
    if let Some(items) = value.downcast_ref::<Array>() {
        return json!({ "tuple": items.iter().map(json).collect::<Vec<_>>() });
    }
    if let Some(shape) = value.downcast_ref::<Shape>() {
        return json!({ "extents": shape.to_vec() });
    }
    if let Some(text) = value.as_str() {
        return json!({ "text": text });
    }
    match (view.type_key().as_str(), view.as_int(), view.as_float()) {
        ("None", ..) => Value::Null,
        ("bool", Some(truth), _) => json!(truth != 0),
        (_, Some(int), _) => json!(int),
        (_, None, Some(float)) => json!(float),
        (key, ..) => panic!("a value of type {key}"),
    }
}

/// Whether two answers are the same up to rounding; errors are all alike.
pub fn close(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(a), Value::Object(b))
            if a.contains_key("data") && b.contains_key("data") =>
        {
            let same = a["dtype"] == b["dtype"] && a["shape"] == b["shape"];
            same && numbers(found)
                .iter()
                .zip(numbers(expected))
                .all(|(x, y)| x.to_bits() == y.to_bits() || (x - y).abs() <= 1e-5 + 1e-4 * y.abs())
        }
        (Value::Object(a), Value::Object(b)) if a.contains_key("error") => b.contains_key("error"),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| close(v, w)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| close(x, y))
        }
        _ => found == expected,
    }
}

/// The elements of a tensor in JSON.
fn numbers(value: &Value) -> Vec<f64> {
    let tensor = Tensor::try_from(any(Path::new(""), value)).expect("a tensor");
    reflex::Array::of_tensor(&tensor).expect("compact").to_f64()
}

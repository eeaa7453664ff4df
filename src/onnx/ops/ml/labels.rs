//! Keys and values: LabelEncoder, CategoryMapper and OneHotEncoder.

use reflex_graph::{Binary, ReduceKind};
use reflex_tir::{DType, Expr};

use super::super::lookup::{self, Found};
use super::super::table::{Table, one};
use super::super::tree_ensemble::constant;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::strings;
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("CategoryMapper", category_mapper),
    ("LabelEncoder", label_encoder),
    ("OneHotEncoder", one_hot_encoder),
];

/// Keys or values of an encoder.
enum List {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
    /// Values of a type that no list attribute has.
    Tensor(Tensor),
}

impl List {
    fn len(&self) -> usize {
        match self {
            List::Ints(list) => list.len(),
            List::Floats(list) => list.len(),
            List::Texts(list) => list.len(),
            List::Tensor(list) => list.count().unwrap_or(0),
        }
    }
}

/// A list of the attributes `PREFIX_int64s`, `_floats`, `_strings` and `_tensor`, of which one is given.
fn list(cx: &mut ImportContext, call: &Call, names: [&'static str; 4]) -> Result<List> {
    let mut found = vec![];
    if let Some(list) = call.ints(names[0])?.filter(|l| !l.is_empty()) {
        found.push(List::Ints(list.to_vec()));
    }
    if let Some(list) = call.floats(names[1])?.filter(|l| !l.is_empty()) {
        found.push(List::Floats(list.iter().map(|v| f64::from(*v)).collect()));
    }
    if let Some(list) = call.texts(names[2])?.filter(|l| !l.is_empty()) {
        found.push(List::Texts(list.iter().map(ToString::to_string).collect()));
    }
    if let Some(tensor) = tensor_list(cx, call, names[3])? {
        found.push(tensor);
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(invalid(format!("{count} of the attributes {} are given", names.join(", ")))),
    }
}

fn tensor_list(cx: &mut ImportContext, call: &Call, name: &'static str) -> Result<Option<List>> {
    let value = call.tensor(name, |proto| cx.constant(proto))?;
    let tensor = match value {
        Some(OnnxValue::Tensor(tensor)) => tensor,
        Some(OnnxValue::Strings(bytes)) => return Ok(strings::known(&bytes).map(List::Texts)),
        _ => return Ok(None),
    };
    Ok(Some(match (tensor.as_ints(), tensor.dtype()) {
        (Some(list), DType::I64) => List::Ints(list),
        _ => List::Tensor(tensor),
    }))
}

/// Values by keys; what is no key has the default.
fn label_encoder(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if call.has("classes_strings") {
        return by_position(cx, call);
    }
    let keys = list(cx, call, ["keys_int64s", "keys_floats", "keys_strings", "keys_tensor"])?;
    let values =
        list(cx, call, ["values_int64s", "values_floats", "values_strings", "values_tensor"])?;
    if keys.len() != values.len() {
        return Err(invalid(format!("{} keys, {} values", keys.len(), values.len())));
    }
    let found = found(cx, call, &keys)?;
    encoded(cx, call, &found, &values)
}

/// Opset 1: strings have their positions in a list, and positions their strings.
fn by_position(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let classes = call.texts("classes_strings")?.unwrap_or_default();
    let positions: Vec<i64> = (0..classes.len() as i64).collect();
    let texts = classes.iter().map(ToString::to_string).collect();
    match call.inputs.first() {
        Some(Some(OnnxValue::Strings(_))) => {
            let found = found(cx, call, &List::Texts(texts))?;
            encoded(cx, call, &found, &List::Ints(positions))
        }
        _ => {
            let found = found(cx, call, &List::Ints(positions))?;
            encoded(cx, call, &found, &List::Texts(texts))
        }
    }
}

/// Strings have the numbers at their positions in a list, and numbers the strings.
fn category_mapper(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let texts = call.texts("cats_strings")?.unwrap_or_default();
    let ints = call.ints("cats_int64s")?.unwrap_or_default();
    if texts.len() != ints.len() || texts.is_empty() {
        return Err(invalid(format!("{} strings for {} numbers", texts.len(), ints.len())));
    }
    let texts = List::Texts(texts.iter().map(ToString::to_string).collect());
    let ints = List::Ints(ints.to_vec());
    let (keys, values) = match call.inputs.first() {
        Some(Some(OnnxValue::Strings(_))) => (texts, ints),
        _ => (ints, texts),
    };
    let found = found(cx, call, &keys)?;
    encoded(cx, call, &found, &values)
}

fn found(cx: &mut ImportContext, call: &Call, keys: &List) -> Result<Found> {
    match (keys, call.inputs.first()) {
        (List::Texts(keys), Some(Some(OnnxValue::Strings(x)))) => {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            lookup::texts(cx, x, &keys)
        }
        (List::Ints(keys), _) if call.input(0)?.dtype() == DType::I64 => {
            lookup::ints(cx, call.input(0)?, keys)
        }
        (List::Floats(keys), _) if call.input(0)?.dtype().is_float() => {
            lookup::floats(cx, call.input(0)?, keys)
        }
        (List::Tensor(keys), _) if call.input(0)?.dtype() == keys.dtype() => {
            match (keys.as_ints(), keys.as_floats()) {
                (Some(keys), _) => lookup::ints(cx, call.input(0)?, &keys),
                (_, Some(keys)) => lookup::floats(cx, call.input(0)?, &keys),
                _ => Err(invalid(format!("keys of type {}", keys.ty))),
            }
        }
        _ => Err(invalid("input 0 has another type than the keys")),
    }
}

/// The values that were found.
fn encoded(
    cx: &mut ImportContext,
    call: &Call,
    found: &Found,
    values: &List,
) -> Result<Vec<OnnxValue>> {
    let (int, text) = (call.int("default_int64", -1)?, call.text("default_string", "_Unused")?);
    let float = call.float("default_float", -0.0)?;
    let count = values.len();
    let default = call.tensor("default_tensor", |proto| cx.constant(proto))?;
    match values {
        List::Texts(list) => {
            let default = match &default {
                None => text.to_string(),
                Some(OnnxValue::Strings(bytes)) => strings::known(bytes)
                    .and_then(|list| <[String; 1]>::try_from(list).ok())
                    .map(|[one]| one)
                    .ok_or_else(|| invalid("a default of several strings"))?,
                Some(_) => return Err(invalid("a default that is no string")),
            };
            let mut table: Vec<&str> = list.iter().map(String::as_str).collect();
            table.push(&default);
            let at = found.or_count(cx, count)?;
            Ok(vec![OnnxValue::Strings(cx.take(&strings::constant(&table)?, &at, 0)?)])
        }
        List::Ints(list) => numeric(cx, found, &cx.ints(list), int as f64, Some(int), default),
        List::Floats(list) => {
            let table = constant(DType::F32, vec![count as i64], list)?;
            numeric(cx, found, &table, float, None, default)
        }
        List::Tensor(table) => {
            let table = cx.reshape(table, &[Expr::i64(count as i64)])?;
            let number = if table.dtype().is_float() { float } else { int as f64 };
            numeric(cx, found, &table, number, None, default)
        }
    }
}

fn numeric(
    cx: &mut ImportContext,
    found: &Found,
    table: &Tensor,
    number: f64,
    int: Option<i64>,
    given: Option<OnnxValue>,
) -> Result<Vec<OnnxValue>> {
    let default = match (given, int) {
        (Some(OnnxValue::Tensor(given)), _)
            if given.dtype() == table.dtype() && given.count() == Some(1) =>
        {
            cx.reshape(&given, &[])?
        }
        (Some(_), _) => {
            return Err(invalid(format!("a default of another type than {}", table.ty)));
        }
        (None, Some(int)) => Tensor::dim(&Expr::i64(int)),
        (None, None) => cx.num(number, table.dtype())?,
    };
    one(found.values(cx, table, &default)?)
}

/// A row of zeros for each element, with 1 at its category. Other numbers are cut off to integers.
fn one_hot_encoder(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ints = call.ints("cats_int64s")?.filter(|l| !l.is_empty());
    let texts = call.texts("cats_strings")?.filter(|l| !l.is_empty());
    let (found, count) = match (ints, texts, call.inputs.first()) {
        (Some(cats), None, _) => {
            let x = super::features::numbers(call, 0)?;
            (lookup::ints(cx, x, cats)?, cats.len())
        }
        (None, Some(cats), Some(Some(OnnxValue::Strings(x)))) => {
            (lookup::texts(cx, x, &cats)?, cats.len())
        }
        (None, Some(_), _) => return Err(invalid("input 0 is no tensor of strings")),
        _ => return Err(invalid("one of cats_int64s and cats_strings is needed")),
    };
    if !call.flag_or_true("zeros")? {
        let hits = cx.cast(&found.hit, DType::I64)?;
        let axes: Vec<usize> = (0..hits.rank()).collect();
        let known = cx.reduce(ReduceKind::Sum, &hits, &axes)?;
        let known = cx.reshape(&known, &[1.into()])?;
        cx.check_elements(&known, &[reflex_graph::dims::product(found.hit.shape())])?;
    }
    let at = found.or_count(cx, count)?;
    let at = cx.unsqueeze(&at, &[at.rank()])?;
    let columns = cx.iota(&Expr::i64(count as i64))?;
    let here = cx.binary(Binary::Equal, &at, &columns)?;
    one(cx.cast(&here, DType::F32)?)
}

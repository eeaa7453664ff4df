//! Maps and tensors: CastMap and DictVectorizer make a tensor of a map's values, ZipMap maps of a tensor's
//! rows.

use reflex_graph::{TensorType, Type, Value};
use reflex_tir::{DType, Expr};

use super::super::table::{Table, one};
use super::super::text;
use super::scores::Labels;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::strings;
use crate::value::{MapKind, ObjectKind, OnnxValue, Scalar, Tensor};

pub(super) const TABLE: Table =
    &[("CastMap", cast_map), ("DictVectorizer", dict_vectorizer), ("ZipMap", zip_map)];

/// ONNX Runtime's string for a position without one, where a map is cast to positions.
const MISSING: &str = "0.f";

fn map(call: &Call) -> Result<(Value, MapKind)> {
    match call.inputs.first() {
        Some(Some(OnnxValue::Object(map, ObjectKind::Map(kind)))) => Ok((*map, *kind)),
        _ => Err(invalid("input 0 is no map")),
    }
}

/// A row of a map's values that a packed function gives, whose last argument is the value that is missing.
fn row(
    cx: &mut ImportContext,
    name: &str,
    mut args: Vec<Value>,
    values: Scalar,
    columns: Expr,
    missing: &str,
) -> Result<OnnxValue> {
    let mut shape = vec![Expr::i64(1), columns];
    let default = match values {
        Scalar::Text => {
            shape.push(Expr::var(cx.b.sym("text_bytes")));
            Tensor::literal(strings::bytes(&[], &[missing])?)
        }
        Scalar::Number(dtype @ (DType::F32 | DType::F64 | DType::I64)) => cx.num(0.0, dtype)?,
        Scalar::Number(other) => return Err(unsupported(format!("maps to {other}"))),
    };
    args.push(cx.value(&default)?);
    let ty = TensorType::new(default.dtype(), shape);
    let value = cx.packed_object(name, args);
    let value = cx.b.match_cast_of(value, Type::Tensor(ty));
    let tensor = cx.tensor_of(value);
    Ok(match values {
        Scalar::Text => OnnxValue::Strings(tensor),
        Scalar::Number(_) => OnnxValue::Tensor(tensor),
    })
}

/// The values of a vocabulary's words; zeros or empty strings where the map lacks one.
fn dict_vectorizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (map, kind) = map(call)?;
    let texts = call.texts("string_vocabulary")?.filter(|list| !list.is_empty());
    let ints = call.ints("int64_vocabulary")?.filter(|list| !list.is_empty());
    let (keys, count) = match (texts, ints, kind.keys) {
        (Some(texts), None, Scalar::Text) => (strings::constant(&texts)?, texts.len()),
        (None, Some(ints), Scalar::Number(_)) => {
            let keys = reflex_graph::Literal::from_i64(vec![ints.len() as i64], ints);
            (Tensor::literal(keys), ints.len())
        }
        (Some(_), Some(_), _) | (None, None, _) => {
            return Err(invalid("one of string_vocabulary and int64_vocabulary is needed"));
        }
        _ => return Err(invalid("the vocabulary has another type than the keys of the map")),
    };
    let args = vec![map, cx.value(&keys)?];
    let columns = Expr::i64(count as i64);
    Ok(vec![row(cx, "reflex.map.at_keys", args, kind.values, columns, "")?])
}

/// The values in the order of their keys, or each at the position that its key is.
fn cast_map(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (map, kind) = map(call)?;
    if kind.keys == Scalar::Text {
        return Err(invalid("a map whose keys are strings"));
    }
    let most = call.int("max_map", 1)?;
    let (count, columns) = match call.text("map_form", "DENSE")? {
        "DENSE" => (-1, Expr::var(cx.b.sym("entries"))),
        "SPARSE" if most >= 0 => (most, Expr::i64(most)),
        other => return Err(invalid(format!("map_form `{other}` with max_map {most}"))),
    };
    let args = vec![map, cx.value(&Tensor::dim(&Expr::i64(count)))?];
    let to = call.text("cast_to", "TO_FLOAT")?;
    let name = "reflex.map.in_order";
    let number = match (to, kind.values) {
        ("TO_STRING", _) => {
            return Ok(vec![row(cx, name, args, Scalar::Text, columns, MISSING)?]);
        }
        ("TO_FLOAT", _) => DType::F32,
        ("TO_INT64", _) => DType::I64,
        _ => return Err(invalid(format!("cast_to `{to}`"))),
    };
    match row(cx, name, args, kind.values, columns, "0")? {
        OnnxValue::Strings(texts) => one(text::numbers_of(cx, &texts, number)?),
        OnnxValue::Tensor(values) => one(cx.cast(&values, number)?),
        _ => Err(invalid("values that are no tensor")),
    }
}

/// A map from labels to scores for each row.
fn zip_map(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let labels = Labels::read(call, "classlabels_int64s", "classlabels_strings")?;
    let scores = call.input(0)?;
    let width = scores.shape().last().map(Expr::as_int);
    let fits = width.is_some_and(|n| n.is_none_or(|n| n == labels.len() as i64));
    if scores.dtype() != DType::F32 || !(1..=2).contains(&scores.rank()) || !fits {
        return Err(invalid(format!("scores {} for {} labels", scores.ty, labels.len())));
    }
    let (OnnxValue::Tensor(table) | OnnxValue::Strings(table)) = labels.table(cx)? else {
        return Err(invalid("labels that are no tensor"));
    };
    let args = vec![cx.value(&table)?, cx.value(scores)?];
    let maps = cx.packed_object("reflex.map.zip", args);
    Ok(vec![OnnxValue::Object(maps, ObjectKind::Maps)])
}

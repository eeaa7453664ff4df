//! Values in the files of ONNX's test cases: tensors, sequences, optionals and maps. What a file holds
//! is what the model declares for its input or output.

use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;
use reflex_graph::Literal;
use reflex_runtime::file_bytes::FileAccess;

use crate::error::{ImportError, Result, malformed};
use crate::external_data::ExternalData;
use crate::model::Model;
use crate::proto::{
    MapProto, OptionalProto, SequenceProto, TensorProto, TypeProto, ValueInfoProto, data_type,
};
use crate::strings;
use crate::tensor::{open_file, tensor_of_case};

/// A value of a test case.
#[derive(Clone, Debug)]
pub enum CaseValue {
    /// A tensor. Elements narrower than a byte have one each.
    Tensor(Literal),
    /// A tensor of strings: its bytes, as inputs and outputs have them, and the strings.
    Strings(Literal, Vec<String>),
    /// A sequence of tensors, of numbers or strings.
    Sequence(Vec<CaseValue>),
    /// A sequence of maps to float32 numbers.
    Maps(Vec<(MapKeys, Vec<f32>)>),
    /// A map to float32 numbers.
    Map(MapKeys, Vec<f32>),
    /// An optional without content.
    Absent,
}

/// The keys of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum MapKeys {
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

/// Inputs or outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    /// `input_N.pb`
    Inputs,
    /// `output_N.pb`
    Outputs,
}

/// Node tests whose expected zeros are float32 noise of 1.9e-7.
const INVERSE_DFT: [&str; 2] = ["test_dft_inverse", "test_dft_inverse_opset19"];

/// The absolute difference from its expected outputs that the case in a folder may have: 1e-7, as in ONNX's own runner, and 1e-6
/// for two inverse Fourier transforms, by which ONNX holds its reference evaluator to them
/// (onnx/test/test_backend_reference.py).
pub fn case_atol(case: &Path) -> f64 {
    let name = case.file_name().unwrap_or_default();
    if INVERSE_DFT.iter().any(|it| name == *it) { 1e-6 } else { 1e-7 }
}

/// Reads the inputs or outputs of the data set in a folder, of which the model has the types.
pub fn read_case_values(
    model: &Path,
    set: &Path,
    side: Side,
) -> std::result::Result<Vec<CaseValue>, ImportError> {
    let read = || {
        let (bytes, _) = open_file(model, FileAccess::Read)?;
        let model = Model::decode(Bytes::from_owner(bytes), ExternalData::Absent)?;
        let graph = model.graph()?;
        let constant = |v: &&ValueInfoProto| graph.initializer.iter().any(|t| t.name == v.name);
        let (prefix, values): (_, Vec<&ValueInfoProto>) = match side {
            // Old models list initialisers as inputs too.
            Side::Inputs => ("input", graph.input.iter().filter(|v| !constant(v)).collect()),
            Side::Outputs => ("output", graph.output.iter().collect()),
        };
        let value = |(index, info): (usize, &ValueInfoProto)| {
            let path = set.join(format!("{prefix}_{index}.pb"));
            let decoded = open_file(&path, FileAccess::Read)
                .and_then(|(bytes, _)| value(Bytes::from_owner(bytes), info.r#type.as_ref()));
            decoded.map_err(|e| e.at(path.display()))
        };
        values.into_iter().enumerate().map(value).collect::<Result<Vec<CaseValue>>>()
    };
    read().map_err(|e: ImportError| e.at(model.display()))
}

fn value(bytes: Bytes, ty: Option<&TypeProto>) -> Result<CaseValue> {
    let wrong = |e: prost::DecodeError| malformed(e.to_string());
    if ty.is_some_and(|ty| ty.optional_type.is_some()) {
        let optional = OptionalProto::decode(bytes).map_err(wrong)?;
        return match (&optional.tensor_value, &optional.sequence_value) {
            (Some(value), _) => tensor(value),
            (None, Some(value)) => sequence(value),
            (None, None) => Ok(CaseValue::Absent),
        };
    }
    if ty.is_some_and(|ty| ty.map_type.is_some()) {
        let (keys, values) = map(&MapProto::decode(bytes).map_err(wrong)?)?;
        return Ok(CaseValue::Map(keys, values));
    }
    if ty.is_some_and(|ty| ty.sequence_type.is_some()) {
        return sequence(&SequenceProto::decode(bytes).map_err(wrong)?);
    }
    tensor(&TensorProto::decode(bytes).map_err(wrong)?)
}

fn tensor(value: &TensorProto) -> Result<CaseValue> {
    let literal = tensor_of_case(value)?;
    Ok(match value.data_type {
        data_type::STRING => {
            let strings = strings::texts(&literal);
            CaseValue::Strings(literal, strings)
        }
        _ => CaseValue::Tensor(literal),
    })
}

fn sequence(value: &SequenceProto) -> Result<CaseValue> {
    if !value.map_values.is_empty() {
        return value.map_values.iter().map(map).collect::<Result<_>>().map(CaseValue::Maps);
    }
    value.tensor_values.iter().map(tensor).collect::<Result<_>>().map(CaseValue::Sequence)
}

fn map(map: &MapProto) -> Result<(MapKeys, Vec<f32>)> {
    let text = |s: &Bytes| {
        let text = std::str::from_utf8(s).map(str::to_owned);
        text.map_err(|_| malformed("a key that is not UTF-8"))
    };
    let keys = match map.key_type {
        data_type::STRING => {
            MapKeys::Strings(map.string_keys.iter().map(text).collect::<Result<_>>()?)
        }
        _ => MapKeys::Ints(map.keys.clone()),
    };
    let values = map.values.as_ref().map_or(&[][..], |values| values.tensor_values.as_slice());
    let number = |value: &TensorProto| {
        let literal = tensor_of_case(value)?;
        let bytes = <[u8; 4]>::try_from(literal.bytes());
        bytes.map(f32::from_le_bytes).map_err(|_| malformed("a value that is no float32 number"))
    };
    let values: Vec<f32> = values.iter().map(number).collect::<Result<_>>()?;
    let count = match &keys {
        MapKeys::Ints(keys) => keys.len(),
        MapKeys::Strings(keys) => keys.len(),
    };
    if count != values.len() {
        return Err(malformed(format!("{count} keys, {} values", values.len())));
    }
    Ok((keys, values))
}

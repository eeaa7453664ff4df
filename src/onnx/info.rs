//! A summary of a model file: inputs, outputs, operators, and whether it can be imported.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use prost::bytes::Bytes;
use reflex_runtime::dtype::Elements;
use reflex_runtime::file_bytes::{FileAccess, FileBytes};

use crate::dim::Dim;
use crate::error::{ImportError, Result};
use crate::external_data::ExternalData;
use crate::model::{Model, UnsupportedOperator};
use crate::ops;
use crate::opset::canonical_domain;
use crate::proto::{
    GraphProto, ModelProto, TensorProto, TensorTypeProto, TypeProto, ValueInfoProto, data_type,
};
use crate::tensor::dtype;

/// A model's description.
#[derive(Clone, Debug)]
pub struct ModelInfo {
    /// Tool that wrote the file.
    pub producer: String,
    /// File format version.
    pub ir_version: i64,
    /// The file's own description: domain, version and description where it has them, then its
    /// properties (`metadata_props`) in order.
    pub metadata: Vec<(String, String)>,
    /// Its constant tensors, those of subgraphs included.
    pub parameters: Elements,
    /// Bytes of the files of external data.
    pub external_bytes: u64,
    /// Operator sets by domain.
    pub opsets: BTreeMap<String, i64>,
    /// Inputs a caller gives.
    pub inputs: Vec<ValueInfo>,
    /// Results.
    pub outputs: Vec<ValueInfo>,
    /// Number of uses of each operator, subgraphs and functions included. Operators outside the
    /// default domain are written `domain::Name`.
    pub operators: BTreeMap<String, usize>,
    /// Operators without an import.
    pub unsupported: Vec<UnsupportedOperator>,
    /// Why the model cannot be imported although its operators are known, if so.
    pub problem: Option<String>,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name.
    pub name: String,
    /// Element type, or the type if it is not a tensor, such as `sequence(float32[2, n])`.
    pub dtype: String,
    /// Dimensions; `None` if even the rank is unknown.
    pub dims: Option<Vec<Dim>>,
}

impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.dtype)?;
        let Some(dims) = &self.dims else { return f.write_str("[...]") };
        let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

impl ModelInfo {
    /// Describes a file.
    pub fn read(path: &Path) -> std::result::Result<ModelInfo, ImportError> {
        let describe = || describe(&Model::open(path, FileAccess::Read)?);
        describe().map_err(|e: ImportError| e.at(path.display()))
    }

    /// Returns true if the model draws random numbers, so that types and shapes of its results are
    /// all that a reference can say. Dropout does in training, where it has its third input.
    pub fn draws_random_numbers(&self) -> bool {
        const RANDOM: [&str; 6] = [
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ];
        let has = |name: &str| self.operators.contains_key(name);
        RANDOM.iter().any(|name| has(name)) || has("Dropout") && self.inputs.len() == 3
    }

    /// Describes a model in memory.
    pub fn of_bytes(
        bytes: FileBytes,
        data: ExternalData,
    ) -> std::result::Result<ModelInfo, ImportError> {
        describe(&Model::decode(Bytes::from_owner(bytes), data)?)
    }
}

fn describe(model: &Model) -> Result<ModelInfo> {
    let graph = model.graph()?;
    let constant = |name: &str| graph.initializer.iter().any(|t| t.name == name);
    let operator = |(domain, name): &(String, String)| match domain.as_str() {
        "ai.onnx" => name.clone(),
        other => format!("{other}::{name}"),
    };
    let unsupported = ops::unsupported(model);
    let problem = match unsupported.is_empty() {
        true => crate::import::import_model(model).err().map(|e| e.to_string()),
        false => None,
    };
    let proto = &model.proto;
    Ok(ModelInfo {
        producer: format!("{} {}", proto.producer_name, proto.producer_version).trim().into(),
        ir_version: proto.ir_version,
        metadata: metadata(proto),
        parameters: parameters(graph, Elements::default()),
        external_bytes: model.files.external_bytes(),
        opsets: proto
            .opset_import
            .iter()
            .map(|o| (canonical_domain(&o.domain), o.version))
            .collect(),
        inputs: graph.input.iter().filter(|i| !constant(&i.name)).map(input_info).collect(),
        outputs: graph.output.iter().map(value_info).collect(),
        operators: model
            .operator_counts()?
            .iter()
            .map(|(key, (n, _))| (operator(key), *n))
            .collect(),
        unsupported,
        problem,
    })
}

fn metadata(proto: &ModelProto) -> Vec<(String, String)> {
    let version = match proto.model_version {
        0 => String::new(),
        version => version.to_string(),
    };
    let own =
        [("domain", &proto.domain), ("version", &version), ("description", &proto.doc_string)];
    let own = own.into_iter().filter(|(_, text)| !text.is_empty());
    let own = own.map(|(key, text)| (key.to_owned(), text.clone()));
    let properties = proto.metadata_props.iter().map(|p| (p.key.clone(), p.value.clone()));
    own.chain(properties).collect()
}

/// The constants of a graph and of those inside it, added to `sum`.
fn parameters(graph: &GraphProto, sum: Elements) -> Elements {
    let add = |sum: Elements, tensor: &TensorProto| match dtype(tensor.data_type) {
        Ok(dtype) => sum.with(dtype, &tensor.dims),
        Err(_) => sum,
    };
    let sum = graph.initializer.iter().fold(sum, add);
    graph.node.iter().flat_map(|node| &node.attribute).fold(sum, |sum, attribute| {
        let sum = attribute.t.iter().fold(sum, add);
        attribute.g.iter().chain(&attribute.graphs).fold(sum, |sum, g| parameters(g, sum))
    })
}

/// As [`value_info`], with the names that dimensions have in a program.
fn input_info(input: &ValueInfoProto) -> ValueInfo {
    let mut info = value_info(input);
    for (axis, dim) in info.dims.iter_mut().flatten().enumerate() {
        if *dim == Dim::Unknown {
            *dim = Dim::Symbolic(dim.named(&input.name, axis));
        }
    }
    info
}

fn value_info(info: &ValueInfoProto) -> ValueInfo {
    let name = info.name.clone();
    let Some(ty) = &info.r#type else {
        return ValueInfo { name, dtype: "untyped".to_owned(), dims: None };
    };
    match &ty.tensor_type {
        Some(tensor) => ValueInfo { name, dtype: element(tensor.elem_type), dims: dims(tensor) },
        None => ValueInfo { name, dtype: kind(ty), dims: None },
    }
}

/// The name of an element type.
fn element(code: i32) -> String {
    match code {
        data_type::STRING => "string".to_owned(),
        code => dtype(code).map_or_else(|e| e.to_string(), |dtype| dtype.to_string()),
    }
}

fn dims(tensor: &TensorTypeProto) -> Option<Vec<Dim>> {
    Some(tensor.shape.as_ref()?.dim.iter().map(Dim::of).collect())
}

/// A type as text, such as `sequence(float32[2, n])`.
fn kind(ty: &TypeProto) -> String {
    let inner = |ty: Option<&TypeProto>| ty.map_or_else(|| "untyped".to_owned(), kind);
    if let Some(tensor) = &ty.tensor_type {
        let dims = dims(tensor).map_or_else(
            || "...".to_owned(),
            |dims| dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "),
        );
        return format!("{}[{dims}]", element(tensor.elem_type));
    }
    if let Some(list) = &ty.sequence_type {
        return format!("sequence({})", inner(list.elem_type.as_deref()));
    }
    if let Some(optional) = &ty.optional_type {
        return format!("optional({})", inner(optional.elem_type.as_deref()));
    }
    if let Some(map) = &ty.map_type {
        let value = map.value_type.as_deref();
        // Values of maps are single numbers and strings, in a tensor type.
        let scalar = value.and_then(|ty| ty.tensor_type.as_ref()).map(|t| element(t.elem_type));
        let value = scalar.unwrap_or_else(|| inner(value));
        return format!("map({}, {value})", element(map.key_type));
    }
    let sparse = ty.sparse_tensor_type.is_some();
    if sparse { "sparse tensor" } else { "untyped" }.to_owned()
}

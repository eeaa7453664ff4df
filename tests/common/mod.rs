//! Models for tests: the fetched ones with their references, and small ones as ONNX bytes.

#![allow(dead_code)] // each test binary uses a part

#[path = "skip.rs"]
pub mod skip;

use std::path::{Path, PathBuf};

use reflex_onnx::proto::*;

/// Models that tests/models fetches, for tests of debug builds too.
pub const MODELS: [&str; 7] = [
    "magika",
    "silero_vad",
    "minilm_l3_fp32",
    "pplcnet_orient",
    "oww_embedding",
    "ppocr_cls",
    "light_resnet50",
];

/// Folders of the fetched models and of their references, when set up.
pub fn data() -> Option<(PathBuf, PathBuf)> {
    Some((skip::variable("REFLEX_MODELS")?.into(), skip::variable("REFLEX_REFS")?.into()))
}

/// The reference files of a model.
pub fn references(refs: &Path, model: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(refs)
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(model).is_some_and(|r| r.starts_with('.') && r.ends_with(".npz"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no references for {model}");
    files
}

/// An input or output; dimensions are numbers or names.
pub fn tensor(name: &str, elem_type: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = |d: &&str| DimensionProto {
        value: Some(match d.parse() {
            Ok(value) => DimensionValue::DimValue(value),
            Err(_) => DimensionValue::DimParam(d.to_string()),
        }),
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type, shape });
    let r#type = Some(TypeProto { tensor_type, ..TypeProto::default() });
    ValueInfoProto { name: name.into(), r#type }
}

/// A model of one node.
pub fn one_node(op: &str, inputs: &[(&str, &[&str])], output: (&str, &[&str])) -> Vec<u8> {
    let node = NodeProto {
        input: inputs.iter().map(|(name, _)| name.to_string()).collect(),
        output: vec![output.0.into()],
        name: "the_node".into(),
        op_type: op.into(),
        ..NodeProto::default()
    };
    let float = |(name, dims): &(&str, &[&str])| tensor(name, data_type::FLOAT, dims);
    model(17, vec![node], inputs.iter().map(float).collect(), float(&output))
}

/// A model of one output.
pub fn model(
    opset: i64,
    node: Vec<NodeProto>,
    input: Vec<ValueInfoProto>,
    output: ValueInfoProto,
) -> Vec<u8> {
    model_with(opset, node, input, output, vec![])
}

/// A model of one output, with constants.
pub fn model_with(
    version: i64,
    node: Vec<NodeProto>,
    input: Vec<ValueInfoProto>,
    output: ValueInfoProto,
    initializer: Vec<TensorProto>,
) -> Vec<u8> {
    let (name, output) = ("graph".into(), vec![output]);
    let graph = GraphProto { node, name, input, output, initializer, ..GraphProto::default() };
    let model = ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version }],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// `y = x + b`, x and y `[n, 3]`, b `[3]`.
pub fn add() -> Vec<u8> {
    one_node("Add", &[("x", &["n", "3"]), ("b", &["3"])], ("y", &["n", "3"]))
}

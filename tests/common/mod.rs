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

/// A float tensor; dimensions are numbers or names.
fn tensor(name: &str, dims: &[&str]) -> ValueInfoProto {
    let dim = |d: &&str| DimensionProto {
        value: Some(match d.parse() {
            Ok(value) => DimensionValue::DimValue(value),
            Err(_) => DimensionValue::DimParam(d.to_string()),
        }),
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: data_type::FLOAT, shape });
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
    let graph = GraphProto {
        node: vec![node],
        name: "graph".into(),
        input: inputs.iter().map(|(name, dims)| tensor(name, dims)).collect(),
        output: vec![tensor(output.0, output.1)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// `y = x + b`, x and y `[n, 3]`, b `[3]`.
pub fn add() -> Vec<u8> {
    one_node("Add", &[("x", &["n", "3"]), ("b", &["3"])], ("y", &["n", "3"]))
}

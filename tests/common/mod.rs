//! Models for tests: the fetched ones with their references, and small ones as bytes, written
//! field by field (numbers are those of `onnx.proto`).

#![allow(dead_code)] // each test binary uses a part

#[path = "skip.rs"]
pub mod skip;

use std::path::{Path, PathBuf};

/// The models that tests/models fetches.
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

/// A length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint(&mut out, content.len() as u64);
    out.extend(content);
    out
}

/// A varint field.
fn int(number: u8, value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    varint(&mut out, value);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `ValueInfoProto` of a float tensor; extents are numbers or names.
fn tensor(name: &str, dims: &[&str]) -> Vec<u8> {
    let dim = |d: &&str| match d.parse::<u64>() {
        Ok(value) => field(1, &int(1, value)),
        Err(_) => field(1, &field(2, d.as_bytes())),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor_type = [int(1, 1), field(2, &shape)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor_type))].concat()
}

/// A model of one node.
pub fn one_node(op: &str, inputs: &[(&str, &[&str])], output: (&str, &[&str])) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|(n, _)| field(1, n.as_bytes())).collect();
    node.extend(
        [field(2, output.0.as_bytes()), field(3, b"the_node"), field(4, op.as_bytes())].concat(),
    );
    let mut graph = [field(1, &node), field(2, b"graph")].concat();
    inputs.iter().for_each(|(n, dims)| graph.extend(field(11, &tensor(n, dims))));
    graph.extend(field(12, &tensor(output.0, output.1)));
    [int(1, 8), field(7, &graph), field(8, &int(2, 17))].concat()
}

/// `y = x + b`, x and y `[n, 3]`, b `[3]`.
pub fn add() -> Vec<u8> {
    one_node("Add", &[("x", &["n", "3"]), ("b", &["3"])], ("y", &["n", "3"]))
}

//! Damaged and hostile models end in an error that names the place, never in a panic.

use std::path::Path;

use reflex_onnx::{ImportErrorKind, import, import_bytes};

/// The wire form of a tiny model, written by hand so that the test does not share code with the
/// decoder: `y = op(x)` with `x: float32[dims]`.
struct Model {
    op: &'static str,
    inputs: Vec<&'static str>,
    initializer: Vec<u8>,
    opset: i64,
}

fn field(tag: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut out);
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

fn number(tag: u32, value: i64) -> Vec<u8> {
    let mut out = vec![];
    prost::encoding::encode_key(tag, prost::encoding::WireType::Varint, &mut out);
    prost::encoding::encode_varint(value as u64, &mut out);
    out
}

fn float_vector(name: &str, extent: i64) -> Vec<u8> {
    let dim = field(1, &number(1, extent));
    let tensor = [number(1, 1), field(2, &dim)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

impl Model {
    fn bytes(&self) -> Vec<u8> {
        let mut node: Vec<u8> = self.inputs.iter().flat_map(|i| field(1, i.as_bytes())).collect();
        node.extend(field(2, b"y"));
        node.extend(field(3, b"the_node"));
        node.extend(field(4, self.op.as_bytes()));
        let mut graph = field(1, &node);
        if !self.initializer.is_empty() {
            graph.extend(field(5, &self.initializer));
        }
        graph.extend(field(11, &float_vector("x", 4)));
        graph.extend(field(12, &float_vector("y", 4)));
        [field(7, &graph), field(8, &number(2, self.opset))].concat()
    }
}

fn model(op: &'static str, inputs: &[&'static str]) -> Model {
    Model { op, inputs: inputs.to_vec(), initializer: vec![], opset: 17 }
}

fn refusal(model: &Model) -> String {
    import_bytes(model.bytes(), None).unwrap_err().to_string()
}

#[test]
fn a_good_model_is_imported() {
    import_bytes(model("Relu", &["x"]).bytes(), None).unwrap();
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = model("Relu", &["x"]).bytes();
    for length in 0..bytes.len() {
        // What is cut off at the end may be whole optional fields; it must only not panic.
        let _ = import_bytes(bytes[..length].to_vec(), None);
    }
    assert!(import_bytes(vec![], None).is_err());
    assert!(import_bytes(b"not a model at all".to_vec(), None).is_err());
}

#[test]
fn every_flipped_bit_is_survived() {
    let bytes = model("Relu", &["x"]).bytes();
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        let _ = import_bytes(damaged, None);
    }
}

#[test]
fn messages_name_the_node_and_the_reason() {
    let message = refusal(&model("Frobnicate", &["x"]));
    assert!(message.contains("ai.onnx::Frobnicate of opset 17"), "{message}");
    assert!(message.contains("`the_node`"), "{message}");
    let message = refusal(&model("Relu", &["nowhere"]));
    assert!(message.contains("the_node") && message.contains("nowhere"), "{message}");
    let message = refusal(&model("Add", &["x"]));
    assert!(message.contains("input 1 is missing"), "{message}");
    let mut newer = model("Relu", &["x"]);
    newer.opset = 29;
    assert!(refusal(&newer).contains("opset 29"));
}

#[test]
fn absurd_tensors_are_refused() {
    let huge = [number(1, i64::MAX), number(1, 1 << 40), number(2, 1), field(8, b"w")].concat();
    let external = |location: &str| {
        let entry = [field(1, b"location"), field(2, location.as_bytes())].concat();
        [number(1, 4), number(2, 1), field(8, b"w"), field(13, &entry), number(14, 1)].concat()
    };
    for initializer in [huge, external("../../../etc/passwd"), external("w.bin")] {
        let mut bad = model("Add", &["x", "w"]);
        bad.initializer = initializer;
        assert!(refusal(&bad).contains("tensor `w`"), "{}", refusal(&bad));
    }
}

#[test]
fn graphs_nested_without_end_are_refused() {
    // Graph attributes inside graphs, deeper than any decoder should follow.
    let mut graph = field(1, &field(4, b"If"));
    for _ in 0..2000 {
        let attribute = [field(1, b"then_branch"), field(6, &graph), number(20, 5)].concat();
        graph = field(1, &[field(4, b"If"), field(5, &attribute)].concat());
    }
    let bytes = [field(7, &graph), field(8, &number(2, 17))].concat();
    assert!(import_bytes(bytes, None).is_err());
}

#[test]
fn unreadable_files_name_the_path() {
    let error = import(Path::new("/nowhere/model.onnx")).unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::Io);
    assert!(error.to_string().contains("/nowhere/model.onnx"));
    // The decoder is reached for a file of another kind.
    assert!(import(Path::new(env!("CARGO_MANIFEST_DIR")).join("lib.rs").as_path()).is_err());
}

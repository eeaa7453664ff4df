//! Weights of few bits stay packed from the model's file to the artifact, and every code generator and
//! CPU level computes from them what the operators say.

mod common;

use std::path::Path;

use reflex::{Array, Engine, Feed, Level, Mode, Program};
use reflex_onnx::proto::*;

/// The extents of weights.
#[derive(Clone, Copy, Debug)]
struct Extents {
    depth: i64,
    columns: i64,
    bits: i64,
    block: i64,
    /// The `accuracy_level`.
    level: i64,
}

impl Extents {
    fn blocks(&self) -> i64 {
        (self.depth + self.block - 1) / self.block
    }

    fn codes(&self) -> Vec<i64> {
        vec![self.columns, self.blocks(), self.block * self.bits / 8]
    }

    fn zeros(&self) -> Vec<i64> {
        vec![self.columns, (self.blocks() * self.bits + 7) / 8]
    }
}

fn bytes(shape: &[i64], seed: u32) -> Vec<u8> {
    let count = shape.iter().product::<i64>() as u32;
    (0..count).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 11) as u8).collect()
}

fn floats(shape: &[i64], seed: u32) -> Vec<f32> {
    bytes(shape, seed).iter().map(|b| (f32::from(*b) - 120.0) / 90.0).collect()
}

/// `relu(a w)` with the parts of `w` as constants, or as inputs.
fn model(e: Extents, constant: bool) -> Vec<u8> {
    let scales = vec![e.columns, e.blocks()];
    let parts = [
        ("b", data_type::UINT8, e.codes(), bytes(&e.codes(), 1)),
        ("s", data_type::FLOAT, scales.clone(), scale_bytes(&scales)),
        ("z", data_type::UINT8, e.zeros(), bytes(&e.zeros(), 3)),
    ];
    let attribute = |(name, i): (&str, i64)| AttributeProto {
        name: name.into(),
        i,
        r#type: attribute_type::INT,
        ..AttributeProto::default()
    };
    let sizes = [
        ("K", e.depth),
        ("N", e.columns),
        ("bits", e.bits),
        ("block_size", e.block),
        ("accuracy_level", e.level),
    ];
    let product = NodeProto {
        input: ["a", "b", "s", "z"].map(String::from).to_vec(),
        output: vec!["p".into()],
        op_type: "MatMulNBits".into(),
        domain: "com.microsoft".into(),
        attribute: sizes.into_iter().map(attribute).collect(),
        ..NodeProto::default()
    };
    let relu = NodeProto {
        input: vec!["p".into()],
        output: vec!["y".into()],
        op_type: "Relu".into(),
        ..NodeProto::default()
    };
    let text = |dims: &[i64]| dims.iter().map(i64::to_string).collect::<Vec<_>>();
    let info = |name: &str, kind, dims: &[String]| {
        common::tensor(name, kind, &dims.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let rows = |name: &str, n: i64| info(name, data_type::FLOAT, &["m".to_owned(), n.to_string()]);
    let mut graph = GraphProto {
        node: vec![product, relu],
        name: "graph".into(),
        input: vec![rows("a", e.depth)],
        output: vec![rows("y", e.columns)],
        ..GraphProto::default()
    };
    for (name, kind, dims, raw) in parts {
        if !constant {
            graph.input.push(info(name, kind, &text(&dims)));
            continue;
        }
        graph.initializer.push(TensorProto {
            name: name.into(),
            dims,
            data_type: kind,
            raw_data: Some(raw.into()),
            ..TensorProto::default()
        });
    }
    let opset = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let model = ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![opset("", 18), opset("com.microsoft", 1)],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn scale_bytes(shape: &[i64]) -> Vec<u8> {
    floats(shape, 2).iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn load(path: &Path, kernels: &str, level: Option<Level>, cache: &Path) -> Program {
    let policy = format!("kernels={kernels},shapes=0").parse().expect("a policy");
    let builder = Engine::builder().tier(policy).cache(cache.join(kernels));
    builder.levels(level).build().expect("an engine").load(path).expect("loads")
}

/// The bits of the results of so many rows.
fn answer(program: &Program, e: Extents, rows: i64, constant: bool) -> Vec<u32> {
    let shape = [rows, e.depth];
    let a = Array::of(&shape, &floats(&shape, 7)).expect("a tensor");
    let mut feed = Feed::from([("a".to_owned(), a)]);
    if !constant {
        let scales = [e.columns, e.blocks()];
        let array = |shape: &[i64], seed| Array::of(shape, &bytes(shape, seed)).expect("a tensor");
        feed.insert("b".to_owned(), array(&e.codes(), 1));
        feed.insert("s".to_owned(), Array::of(&scales, &floats(&scales, 2)).expect("a tensor"));
        feed.insert("z".to_owned(), array(&e.zeros(), 3));
    }
    let prepared = program.prepare("main", &feed).expect("fits");
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    outputs[0].1.to_vec::<f32>().expect("floats").iter().map(|x| x.to_bits()).collect()
}

#[test]
fn all_code_generators_and_levels_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    // Activations of int16, of float32 and of int8.
    let levels = |bits| [0, 1, 4].map(|level| (bits, level));
    // The last block is whole, or has 8 of 32 elements.
    let depths = |(bits, level)| [96, 72].map(|depth| (bits, level, depth, 32));
    let blocks = [2, 4, 8].into_iter().flat_map(levels).flat_map(depths);
    // Panels in parts: by blocks, and within a block for each column, whole or with 64 of 256 elements missing.
    let parts = [(4, 1, 192, 32), (8, 1, 192, 32), (8, 1, 256, 256), (8, 1, 192, 256)];
    for (bits, level, depth, block) in blocks.chain(parts) {
        let e = Extents { depth, columns: 40, bits, block, level };
        let (packed, plain) = (folder.path().join("packed.onnx"), folder.path().join("plain.onnx"));
        std::fs::write(&packed, model(e, true)).expect("writable");
        std::fs::write(&plain, model(e, false)).expect("writable");
        let cache = folder.path().join("cache");
        let operators = load(&plain, "cranelift", None, &cache);
        // One row, some rows, and rows for several tiles.
        let rows = [1, 3, 8, 40];
        let of_operators = rows.map(|m| answer(&operators, e, m, false));
        let expected = match level {
            1 => of_operators,
            // The operator's sum over blocks is in parts where weights are inputs.
            _ => {
                let program = load(&packed, "cranelift", None, &cache);
                let expected = rows.map(|m| answer(&program, e, m, true));
                for (x, y) in expected.iter().flatten().zip(of_operators.iter().flatten()) {
                    let (x, y) = (f32::from_bits(*x), f32::from_bits(*y));
                    assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{e:?}: {x} and {y}");
                }
                expected
            }
        };
        let cpus = [Level::V3, Level::V4].into_iter().filter(|level| level.runs_on_host());
        for cpu in cpus.map(Some).chain([None]) {
            for kernels in ["cranelift", "llvm"] {
                let program = load(&packed, kernels, cpu, &cache);
                let got = rows.map(|m| answer(&program, e, m, true));
                assert!(got == expected, "{e:?}, {kernels}, {cpu:?}");
            }
        }
    }
}

#[test]
fn an_artifact_is_as_large_as_its_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    let e = Extents { depth: 1024, columns: 1024, bits: 4, block: 32, level: 0 };
    std::fs::write(&path, model(e, true)).expect("writable");
    let program = load(&path, "cranelift", Some(Level::V3), &folder.path().join("cache"));
    let saved = folder.path().join("model.so");
    program.save(&saved).expect("saves");
    let size = |path: &Path| std::fs::metadata(path).expect("a file").len() as f64;
    let (model, artifact) = (size(&path), size(&saved));
    // Codes, scales and zero points are 0.64 bytes for each weight; floats would be 4.
    assert!(artifact < 1.25 * model, "{artifact} bytes from a model of {model}");
}

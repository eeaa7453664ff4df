//! Indices out of range: an error that names the node, the index and the bound, wherever ONNX has
//! one, in every mode, in specialised programs and in artifacts; and what OneHot does instead.

mod common;

use reflex::{Array, CompileMode, Engine, ErrorKind, Feed, Mode, Program, TierPolicy};
use reflex_onnx::proto::*;

/// A model of one node: `y = op(x, at, updates?)`, with symbolic extents `n` and `m`.
struct Case {
    op: &'static str,
    attribute: Option<(&'static str, i64)>,
    indices: &'static [&'static str],
    updates: Option<&'static [&'static str]>,
    /// Whether the indices are int32.
    narrow: bool,
}

const CASES: [Case; 8] = [
    Case::gather("Gather", None, &["k"]),
    Case { narrow: true, ..Case::gather("Gather", Some(("axis", 1)), &["k", "2"]) },
    Case::gather("GatherElements", None, &["k", "m"]),
    Case { narrow: true, ..Case::gather("GatherElements", Some(("axis", 1)), &["n", "k"]) },
    Case::gather("GatherND", None, &["k", "2"]),
    Case { updates: Some(&["k", "m"]), ..Case::gather("ScatterElements", None, &["k", "m"]) },
    Case { updates: Some(&["k"]), ..Case::gather("ScatterND", None, &["k", "2"]) },
    Case { updates: Some(&["k", "m"]), ..Case::gather("Scatter", None, &["k", "m"]) },
];

/// Extents of `x`, and of `k`.
const N: i64 = 3;
const M: i64 = 4;
const K: i64 = 2;

impl Case {
    const fn gather(
        op: &'static str,
        attribute: Option<(&'static str, i64)>,
        indices: &'static [&'static str],
    ) -> Case {
        Case { op, attribute, indices, updates: None, narrow: false }
    }

    fn model(&self) -> Vec<u8> {
        let index_type = if self.narrow { data_type::INT32 } else { data_type::INT64 };
        let mut input = vec![
            common::tensor("x", data_type::FLOAT, &["n", "m"]),
            common::tensor("at", index_type, self.indices),
        ];
        input.extend(self.updates.map(|dims| common::tensor("u", data_type::FLOAT, dims)));
        let attribute = self.attribute.map(|(name, i)| AttributeProto {
            name: name.into(),
            i,
            r#type: attribute_type::INT,
            ..Default::default()
        });
        let version = if self.op == "Scatter" { 10 } else { 17 };
        let node = NodeProto {
            input: input.iter().map(|i| i.name.clone()).collect(),
            output: vec!["y".into()],
            name: "the_node".into(),
            op_type: self.op.into(),
            attribute: attribute.into_iter().collect(),
            ..Default::default()
        };
        common::model(version, vec![node], input, common::tensor("y", data_type::FLOAT, &["?"]))
    }

    fn shape(dims: &[&str]) -> Vec<i64> {
        let extent = |dim: &&str| match *dim {
            "n" => N,
            "m" => M,
            "k" => K,
            number => number.parse().expect("an extent"),
        };
        dims.iter().map(extent).collect()
    }

    /// A feed whose indices are zeros but for one.
    fn feed(&self, position: usize, index: i64) -> Feed {
        let shape = Case::shape(self.indices);
        let mut indices = vec![0; shape.iter().product::<i64>() as usize];
        indices[position] = index;
        let at = match self.narrow {
            true => {
                let narrow: Vec<i32> = indices.iter().map(|i| *i as i32).collect();
                Array::of(&shape, &narrow)
            }
            false => Array::of(&shape, &indices),
        };
        let floats = |shape: &[i64]| {
            let count = shape.iter().product::<i64>();
            Array::of(shape, &(0..count).map(|i| i as f32).collect::<Vec<_>>()).expect("fits")
        };
        let mut feed = Feed::from([
            ("x".to_owned(), floats(&[N, M])),
            ("at".to_owned(), at.expect("as many indices as the shape has")),
        ]);
        if let Some(dims) = self.updates {
            feed.insert("u".to_owned(), floats(&Case::shape(dims)));
        }
        feed
    }

    /// The extent that the index at a position has to stay below.
    fn bound(&self, position: usize) -> i64 {
        match (self.op, self.attribute) {
            ("GatherND" | "ScatterND", _) => [N, M][position % 2],
            (_, Some(("axis", 1))) => M,
            _ => N,
        }
    }
}

fn call(program: &Program, mode: Mode, feed: &Feed) -> Result<Vec<f32>, reflex::Error> {
    let prepared = program.prepare("main", feed)?;
    let outputs = program.session(mode)?.call(&prepared)?;
    outputs.arrays()?[0].1.to_vec()
}

/// The first and the last element of the index tensor, beyond either end of each bound.
fn check(program: &Program, case: &Case) {
    let count = Case::shape(case.indices).iter().product::<i64>() as usize;
    for mode in Mode::ALL {
        for position in [0, count - 1] {
            let bound = case.bound(position);
            let inside = |index| call(program, mode, &case.feed(position, index));
            assert_eq!(inside(-bound).unwrap(), inside(0).unwrap(), "{} {mode}", case.op);
            assert_eq!(inside(-1).unwrap(), inside(bound - 1).unwrap(), "{} {mode}", case.op);
            let least = if case.narrow { i64::from(i32::MIN) } else { i64::MIN };
            for index in [bound, -bound - 1, least, !least] {
                let error = inside(index).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Run);
                let text = error.to_string();
                let expected = format!(
                    "node `the_node`: index {index} is out of range for an axis of {bound}"
                );
                assert!(text.contains(&expected), "{} {mode}: {text}", case.op);
                assert_eq!(error.to_object().kind(), "IndexError");
            }
        }
    }
}

#[test]
fn indices_out_of_range_are_errors_in_every_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::new().expect("an engine");
    for (number, case) in CASES.iter().enumerate() {
        let path = folder.path().join(format!("{number}.onnx"));
        std::fs::write(&path, case.model()).expect("writes");
        let program = engine.load(&path).expect("compiles");
        check(&program, case);
        let library = path.with_extension("so");
        program.save(&library).expect("saves");
        check(&engine.load(&library).expect("opens"), case);
    }
}

/// Hot code, and programs for the shapes of the calls, refuse what the general program does.
#[test]
fn indices_out_of_range_are_errors_in_hot_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut policy: TierPolicy = "threshold=2".parse().expect("a policy");
    policy.compile_mode = CompileMode::Synchronous;
    let engine = Engine::builder().tier(policy).build().expect("an engine");
    for (number, case) in CASES.iter().enumerate() {
        let path = folder.path().join(format!("{number}.onnx"));
        std::fs::write(&path, case.model()).expect("writes");
        let program = engine.load(&path).expect("compiles");
        let mut session = program.session(Mode::Tiered).expect("a session");
        let good = program.prepare("main", &case.feed(0, 1)).expect("fits");
        session.warm_up(&good).expect("runs");
        let bad = program.prepare("main", &case.feed(0, 7)).expect("fits");
        for _ in 0..5 {
            let text = session.call(&bad).err().expect("an error").to_string();
            assert!(text.contains("node `the_node`: index 7 is out of range"), "{text}");
            session.call(&good).expect("runs after the error");
        }
    }
}

/// Operators that fuse with a gather change neither the check nor its message.
#[test]
fn fused_gathers_are_checked() {
    let node = |op: &str, name: &str, input: &[&str], output: &str| NodeProto {
        input: input.iter().map(|i| i.to_string()).collect(),
        output: vec![output.into()],
        name: name.into(),
        op_type: op.into(),
        ..Default::default()
    };
    let nodes = vec![
        node("Neg", "negate", &["at"], "negative"),
        node("Gather", "first", &["x", "negative"], "rows"),
        node("Gather", "second", &["x", "at"], "others"),
        node("Mul", "product", &["rows", "others"], "product"),
        node("Exp", "exp", &["product"], "y"),
    ];
    let inputs = vec![
        common::tensor("x", data_type::FLOAT, &["n", "8"]),
        common::tensor("at", data_type::INT64, &["k"]),
    ];
    let output = common::tensor("y", data_type::FLOAT, &["k", "8"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fused.onnx");
    std::fs::write(&path, common::model(17, nodes, inputs, output)).expect("writes");
    let program = Engine::new().and_then(|engine| engine.load(&path)).expect("compiles");
    let run = |index: i64| {
        let feed = Feed::from([
            ("x".to_owned(), Array::of(&[5, 8], &[0.5_f32; 40]).expect("fits")),
            ("at".to_owned(), Array::of(&[3], &[0, index, 2]).expect("fits")),
        ]);
        call(&program, Mode::Compiled, &feed)
    };
    assert_eq!(run(4).expect("runs").len(), 24);
    // The negative of 5 is in range for the first gather, 5 is not for the second.
    let text = run(5).unwrap_err().to_string();
    assert!(text.contains("node `second`: index 5 is out of range for an axis of 5"), "{text}");
    let text = run(-5).unwrap_err().to_string();
    assert!(text.contains("node `first`: index 5 is out of range for an axis of 5"), "{text}");
}

/// ONNX: what is outside of `-depth..depth` gives the off value everywhere.
#[test]
fn one_hot_has_no_bad_index() {
    let indices = common::tensor("at", data_type::INT64, &["k"]);
    let constant = |name: &str, data_type, dims: &[i64], int64_data: &[i64], floats: &[f32]| {
        let (dims, float_data) = (dims.to_vec(), floats.to_vec());
        let int64_data = int64_data.to_vec();
        TensorProto {
            name: name.into(),
            data_type,
            dims,
            int64_data,
            float_data,
            ..Default::default()
        }
    };
    let node = NodeProto {
        input: ["at", "depth", "values"].map(String::from).to_vec(),
        output: vec!["y".into()],
        op_type: "OneHot".into(),
        ..Default::default()
    };
    let output = common::tensor("y", data_type::FLOAT, &["k", "3"]);
    let constants = vec![
        constant("depth", data_type::INT64, &[], &[3], &[]),
        constant("values", data_type::FLOAT, &[2], &[], &[5.0, 1.0]),
    ];
    let bytes = common::model_with(17, vec![node], vec![indices], output, constants);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hot.onnx");
    std::fs::write(&path, bytes).expect("writes");
    let program = Engine::new().and_then(|engine| engine.load(&path)).expect("compiles");
    let at = Array::of(&[5], &[2_i64, 3, -1, -3, -4]).expect("fits");
    let y = call(&program, Mode::Bytecode, &Feed::from([("at".to_owned(), at)])).expect("runs");
    let rows: Vec<&[f32]> = y.chunks(3).collect();
    let (first, last, none) = ([1.0, 5.0, 5.0], [5.0, 5.0, 1.0], [5.0; 3]);
    assert_eq!(rows, [&last, &none, &last, &first, &none]);
}

//! ONNX operators that the caller imports: as a packed function, as operators of graph IR, in
//! dynamic models and in artifacts.

mod common;

use std::path::Path;

use reflex::{
    Any, Array, Engine, EngineBuilder, Feed, Function, Mode, Program, Tensor, register_global_func,
};
use reflex_graph::{Binary, Op, TensorType, Unary};
use reflex_onnx::proto::*;
use reflex_runtime::error::Error as RaisedError;

/// `y = domain::op(x)` with an attribute `step`, between operators of ONNX.
fn model(domain: &str, op: &str) -> Vec<u8> {
    let node = |domain: &str, op: &str, input: &str, output: &str| NodeProto {
        input: vec![input.into()],
        output: vec![output.into()],
        name: format!("{op}_node"),
        domain: domain.into(),
        op_type: op.into(),
        ..Default::default()
    };
    let mut custom = node(domain, op, "negative", "result");
    custom.attribute.push(AttributeProto {
        name: "step".into(),
        i: 3,
        r#type: attribute_type::INT,
        ..Default::default()
    });
    let nodes = vec![node("", "Neg", "x", "negative"), custom, node("", "Abs", "result", "y")];
    let tensor = |name: &str| common::tensor(name, data_type::FLOAT, &["n", "2"]);
    let graph = GraphProto {
        node: nodes,
        input: vec![tensor("x")],
        output: vec![tensor("y")],
        ..Default::default()
    };
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![set("", 17), set("com.example", 2)],
        graph: Some(graph),
        ..Default::default()
    };
    model.encode_to_vec()
}

fn write(folder: &Path, domain: &str, op: &str) -> std::path::PathBuf {
    let path = folder.join(format!("{op}.onnx"));
    std::fs::write(&path, model(domain, op)).expect("writes");
    path
}

fn run(program: &Program, mode: Mode) -> Result<Vec<f32>, reflex::Error> {
    let x = Array::of(&[2, 2], &[1.0_f32, -2.0, 3.0, -4.0])?;
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
    let outputs = program.session(mode)?.call(&prepared)?;
    outputs.arrays()?[0].1.to_vec()
}

/// Registers `plus(x, step)`, which refuses a step of 99; once for all tests.
fn register_plus() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let plus = Function::new(|args| {
            let x: Tensor = reflex_runtime::function::arg(args, 0)?;
            let step: i64 = reflex_runtime::function::arg(args, 1)?;
            if step == 99 {
                return Err(RaisedError::value_error("a step of 99"));
            }
            let sum: Vec<f32> = x.to_vec::<f32>()?.iter().map(|v| v + step as f32).collect();
            Ok(Any::from(Tensor::from_slice(x.shape(), &sum)?))
        });
        register_global_func("test.plus", plus).expect("a new name");
    });
}

fn plus(builder: EngineBuilder) -> EngineBuilder {
    register_plus();
    builder.onnx_operator("com.example", "Plus", |b, node| {
        assert_eq!((node.name(), node.opset(), node.output_count()), ("Plus_node", 2, 1));
        let step = node.int("step").ok_or("a Plus without a step")?;
        let like_x = b.tensor(node.input(0)?).clone();
        Ok(node.call_packed(b, "test.plus", vec![step.into()], vec![like_x]))
    })
}

#[test]
fn an_operator_is_a_packed_function_of_the_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "com.example", "Plus");
    let unknown = Engine::new().and_then(|e| e.load(&path)).err().expect("an error").to_string();
    assert!(unknown.contains("com.example::Plus of opset 2"), "{unknown}");
    let engine = plus(Engine::builder()).build().expect("an engine");
    let program = engine.load(&path).expect("loads");
    let library = path.with_extension("so");
    program.save(&library).expect("saves");
    let opened = Engine::new().and_then(|e| e.load(&library)).expect("opens");
    for program in [&program, &opened] {
        for mode in Mode::ALL {
            assert_eq!(run(program, mode).expect("runs"), [2.0, 5.0, 0.0, 7.0], "{mode}");
        }
    }
}

#[test]
fn an_operator_is_other_operators() {
    let folder = tempfile::tempdir().expect("a folder");
    // In the place of ONNX's own as well.
    for (domain, op) in [("com.example", "Twice"), ("", "Sqrt")] {
        let path = write(folder.path(), domain, op);
        let builder = Engine::builder().onnx_operator(domain, op, |b, node| {
            let x = node.input(0)?;
            let sum = b.emit1(Op::Binary(Binary::Add), &[x, x]).map_err(|e| e.to_string())?;
            let sum = b.emit1(Op::Unary(Unary::Neg), &[sum]).map_err(|e| e.to_string())?;
            Ok(vec![sum])
        });
        let program = builder.build().and_then(|e| e.load(&path)).expect("loads");
        assert_eq!(run(&program, Mode::Compiled).expect("runs"), [2.0, 4.0, 6.0, 8.0]);
    }
}

#[test]
fn what_goes_wrong_names_the_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "com.example", "Plus");
    let load = |builder: EngineBuilder| builder.build().and_then(|e| e.load(&path));
    let refused = load(
        Engine::builder()
            .onnx_operator("com.example", "Plus", |_, node| node.input(1).map(|x| vec![x])),
    );
    let text = refused.err().expect("an error").to_string();
    assert!(text.contains("node `Plus_node` (Plus): input 1 is missing"), "{text}");
    let none = load(Engine::builder().onnx_operator("com.example", "Plus", |_, _| Ok(vec![])));
    let text = none.err().expect("an error").to_string();
    assert!(text.contains("node `Plus_node` (Plus): output 0 (`result`)"), "{text}");
    let call = |function: &'static str, step: i64, extent: i64| {
        load(Engine::builder().onnx_operator("com.example", "Plus", move |b, node| {
            let x = b.tensor(node.input(0)?).clone();
            let ty = TensorType::new(x.dtype, vec![x.shape[0].clone(), extent.into()]);
            Ok(node.call_packed(b, function, vec![step.into()], vec![ty]))
        }))
    };
    register_plus();
    let missing = call("test.not_registered", 3, 2).err().expect("an error").to_string();
    assert!(missing.contains("test.not_registered"), "{missing}");
    let raised = run(&call("test.plus", 99, 2).expect("loads"), Mode::Bytecode).unwrap_err();
    assert!(raised.to_string().contains("a step of 99"), "{raised}");
    // What it returns is checked against the type that the import declared.
    let wrong = run(&call("test.plus", 3, 5).expect("loads"), Mode::Compiled).unwrap_err();
    assert!(wrong.to_string().contains('5'), "{wrong}");
}

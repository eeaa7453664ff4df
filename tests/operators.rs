//! Operators registered from outside: from TVMScript and ONNX to traced calls, fused by their kind, with the
//! bits of the reference evaluator.

mod common;

use reflex::{
    Any, Array, AttrKind, AttrValue, Engine, Feed, Function, FusionKind, Mode, ModelFormat,
    ModelSource, Operator, Program, Tensor, register_global_func, register_operator,
};
use reflex_graph::{EvalValue, FuncData, Literal, TensorType, eval_func, script};
use reflex_onnx::proto::*;

const AFFINE: &str = r#"
@T.prim_func(s_tir=True)
def affine(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("affine"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(SCALE) + T.float32(0.25)
"#;

/// `y = x * scale + 0.25` on matrices.
fn affine(name: &str) -> Operator {
    Operator::new(name)
        .attr("scale", AttrKind::Float, Some(AttrValue::Float(2.0)))
        .infer(|call| Ok(vec![call.args[0].clone()]))
        .kernel(|call, _| {
            let Some(AttrValue::Float(scale)) = call.attr("scale") else {
                return Err("no scale".into());
            };
            let text = AFFINE.replace("SCALE", &format!("{scale:?}"));
            reflex_tir::script::parse(&text).map_err(|e| e.to_string())
        })
        .fusion(FusionKind::Elementwise)
}

/// Sums of the rows of a matrix.
fn row_sum(name: &str) -> Operator {
    const SUM: &str = r#"
@T.prim_func(s_tir=True)
def row_sum(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("row_sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
"#;
    Operator::new(name)
        .infer(|call| {
            let ty = &call.args[0];
            Ok(vec![TensorType::new(ty.dtype, ty.shape[..1].to_vec())])
        })
        .kernel_text(SUM)
        .fusion(FusionKind::Reduction)
}

fn text(body: &str) -> String {
    format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    \
         def main(x: R.Tensor((\"n\", 4), \"float32\")):\n        return {body}\n"
    )
}

fn source(body: &str) -> ModelSource {
    ModelSource::bytes(ModelFormat::Script, text(body).as_bytes())
}

const X: [f32; 8] = [1.0, -2.0, 0.3, 4.0, 0.1, -0.7, 1e-3, 9.0];

fn call(program: &Program, mode: Mode) -> Vec<f32> {
    let x = Array::of(&[2, 4], &X).expect("an array");
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("a feed");
    let mut session = program.session(mode).expect("a session");
    let mut last = vec![];
    for _ in 0..30 {
        let outputs = session.call(&prepared).expect("answers");
        last = outputs.arrays().expect("arrays")[0].1.to_vec::<f32>().expect("floats");
    }
    last
}

/// The answer of the reference evaluator.
fn reference(body: &str) -> Vec<f32> {
    let module = script::parse(&text(body), "test.py").expect("reads");
    let main = module.funcs.iter().find(|(_, f)| matches!(f, FuncData::Graph(_))).expect("main").0;
    let x = EvalValue::Tensor(Literal::from_f32(vec![2, 4], &X));
    let results = eval_func(&module, main, &[x]).expect("evaluates");
    let bytes = results[0].as_tensor().expect("a tensor").bytes().to_vec();
    bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn traced() -> Engine {
    let policy = "threshold=2,compile=sync".parse().expect("a policy");
    Engine::builder().tier(policy).build().expect("an engine")
}

#[test]
fn an_operator_fuses_by_its_kind_is_traced_and_has_the_evaluators_bits() {
    register_operator(affine("test_operators.affine")).expect("registers");
    register_operator(row_sum("test_operators.row_sum")).expect("registers");
    let opaque = affine("test_operators.opaque").fusion(FusionKind::Opaque);
    register_operator(opaque).expect("registers");
    let cases = [
        (
            "R.add(R.test_operators.affine(R.negative(x), scale=3), x)",
            "fused_neg_test_operators_affine_add",
        ),
        (
            "R.test_operators.row_sum(R.multiply(R.abs(x), x))",
            "fused_abs_mul_test_operators_row_sum",
        ),
        (
            "R.abs(R.test_operators.row_sum(R.test_operators.affine(x)))",
            "fused_test_operators_affine_test_operators_row_sum_abs",
        ),
    ];
    let engine = traced();
    for (body, kernel) in cases {
        let fused = engine.dump_after(source(body), "fuse_operators").expect("a dump");
        assert_eq!(fused.matches("@T.prim_func").count(), 1, "{fused}");
        assert!(fused.contains(&format!("cls.{kernel}")), "{fused}");
        let program = engine.load(source(body)).expect("loads");
        let expected = reference(body);
        for mode in Mode::ALL {
            let found = call(&program, mode);
            let bits = |list: &[f32]| list.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{body} in {mode}: {found:?}");
        }
    }
    let body = "R.abs(R.test_operators.opaque(R.negative(x)))";
    let fused = engine.dump_after(source(body), "fuse_operators").expect("a dump");
    assert_eq!(fused.matches("@T.prim_func").count(), 3, "{fused}");
    let program = engine.load(source(body)).expect("loads");
    assert_eq!(call(&program, Mode::Tiered), reference(body));
    let tiers = program.tiers();
    assert!(tiers.contains("trace") || tiers.contains("compiled"), "{tiers}");
}

fn node(domain: &str, op: &str, input: &str, output: &str) -> NodeProto {
    NodeProto {
        input: vec![input.into()],
        output: vec![output.into()],
        name: format!("{op}_node"),
        domain: domain.into(),
        op_type: op.into(),
        ..Default::default()
    }
}

/// `y = |op(-x)|`, where `op` is of the domain `test_onnx`, with an attribute `scale` of 3.
fn onnx(op: &str) -> ModelSource {
    let mut custom = node("test_onnx", op, "negative", "result");
    custom.attribute.push(AttributeProto {
        name: "scale".into(),
        f: 3.0,
        r#type: attribute_type::FLOAT,
        ..Default::default()
    });
    let nodes = vec![node("", "Neg", "x", "negative"), custom, node("", "Abs", "result", "y")];
    let tensor = |name: &str| common::tensor(name, data_type::FLOAT, &["n", "4"]);
    let graph = GraphProto {
        node: nodes,
        input: vec![tensor("x")],
        output: vec![tensor("y")],
        ..Default::default()
    };
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![set("", 17), set("test_onnx", 1)],
        graph: Some(graph),
        ..Default::default()
    };
    ModelSource::bytes(ModelFormat::Onnx, model.encode_to_vec())
}

#[test]
fn an_operator_comes_from_onnx_and_lives_in_an_artifact() {
    let folder = tempfile::tempdir().expect("a folder");
    let unknown = traced().load(onnx("Affine")).err().expect("an error").to_string();
    assert!(unknown.contains("test_onnx::Affine of opset 1"), "{unknown}");
    register_operator(affine("test_onnx.Affine")).expect("registers");
    let fused = traced().dump_after(onnx("Affine"), "fuse_operators").expect("a dump");
    assert!(fused.contains("fused_neg_test_onnx_Affine_abs"), "{fused}");
    let program = traced().load(onnx("Affine")).expect("loads");
    let expected: Vec<f32> = X.iter().map(|x| (-x * 3.0 + 0.25).abs()).collect();
    let path = folder.path().join("affine.so");
    program.save(&path).expect("saves");
    let opened = Engine::new().and_then(|e| e.load(&path)).expect("opens");
    for program in [&program, &opened] {
        for mode in Mode::ALL {
            assert_eq!(call(program, mode), expected, "{mode}");
        }
    }
    let strict = Operator::new("test_onnx.Strict")
        .infer(|call| Ok(vec![call.args[0].clone()]))
        .kernel_text(&AFFINE.replace("SCALE", "1"));
    register_operator(strict).expect("registers");
    let error = traced().load(onnx("Strict")).err().expect("an error").to_string();
    let parts = ["node `Strict_node`", "operator test_onnx.Strict", "no attribute \"scale\""];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn an_operator_is_a_packed_function_that_gets_the_attributes() {
    let plus = Function::new(|args| {
        let x: Tensor = reflex_runtime::function::arg(args, 0)?;
        let step: f64 = reflex_runtime::function::arg(args, 1)?;
        let times: i64 = reflex_runtime::function::arg(args, 2)?;
        assert_eq!(args[3].as_str(), Some("up"));
        let sum =
            x.to_vec::<f32>()?.iter().map(|v| v + step as f32 * times as f32).collect::<Vec<_>>();
        Ok(Any::from(Tensor::from_slice(x.shape(), &sum)?))
    });
    register_global_func("test_operators.plus", plus).expect("a new name");
    let def = Operator::new("test_operators.plus")
        .attr("step", AttrKind::Float, None)
        .attr("times", AttrKind::Int, Some(2.into()))
        .attr("way", AttrKind::Str, Some("up".into()))
        .infer(|call| Ok(vec![call.args[0].clone()]))
        .packed("test_operators.plus");
    register_operator(def).expect("registers");
    let program =
        traced().load(source("R.abs(R.test_operators.plus(x, step=0.5))")).expect("loads");
    let expected: Vec<f32> = X.iter().map(|x| (x + 1.0).abs()).collect();
    for mode in Mode::ALL {
        assert_eq!(call(&program, mode), expected, "{mode}");
    }
    let wrong = Operator::new("test_operators.wrong")
        .infer(|call| Ok(vec![TensorType::new(call.args[0].dtype, vec![3.into()])]))
        .attr("step", AttrKind::Float, Some(1.0.into()))
        .attr("times", AttrKind::Int, Some(2.into()))
        .attr("way", AttrKind::Str, Some("up".into()))
        .packed("test_operators.plus");
    register_operator(wrong).expect("registers");
    let program = traced().load(source("R.test_operators.wrong(x)")).expect("loads");
    let x = Array::of(&[2, 4], &X).expect("an array");
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("a feed");
    let mut session = program.session(Mode::Tiered).expect("a session");
    let error = session.call(&prepared).err().expect("an error").to_string();
    assert!(error.contains('3'), "{error}");
    let twice = register_operator(affine("test_operators.plus")).expect_err("an error").to_string();
    assert!(twice.contains("\"test_operators.plus\" is registered already"), "{twice}");
}

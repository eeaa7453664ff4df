//! Constant folding is held against kernels: for every operator, the constants that folding
//! computes are those that the unfolded program's scheduled kernels compute.
//!
//! Folding calls the graph's reference evaluator (`reflex_graph::eval_op`), which is the oracle of
//! most tests. Here the answer comes from another implementation: legalised, scheduled and lowered
//! kernels over parameters, which are not folded, under the evaluator of the loop IR. The
//! evaluator's own answers are held against ONNX's in `src/onnx/tests/node_cases.rs`.

mod common;
mod harness;

use common::{Case, assert_close, cases, tensor_type, tolerance};
use harness::{f32s, run, run_with, tensor};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{FuncData, Literal, Module, Node, Op, TensorType};
use reflex_lower::graph::{MAX_GROWN, fold_constants};
use reflex_lower::optimize_for::OptimizeFor;
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

/// A function of the operator alone, over parameters or over constants.
fn module(case: &Case, operands: Operands) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let args: Vec<_> = case
        .args
        .iter()
        .enumerate()
        .map(|(n, arg)| match operands {
            Operands::Parameters => b.param(format!("x{n}"), tensor_type(arg)),
            Operands::Constants => b.constant(arg.clone()),
        })
        .collect();
    let outs = b.emit(case.op.clone(), &args).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let names = (0..outs.len()).map(|n| format!("y{n}")).collect();
    b.finish(outs, names);
    module
}

#[derive(Clone, Copy)]
enum Operands {
    Parameters,
    Constants,
}

/// The results of a function whose operators are all folded.
fn folded(case: &Case) -> Vec<Literal> {
    let mut module = module(case, Operands::Constants);
    fold_constants(&mut module, MAX_GROWN).unwrap();
    let func = module.funcs.values().find_map(|f| match f {
        FuncData::Graph(f) => Some(f),
        FuncData::Prim(_) => None,
    });
    let func = func.expect("the function");
    let constant = |value| {
        let binding = func.body.bindings.iter().find(|b| b.outputs.contains(value));
        match &binding.expect("a definition").node {
            Node::Const(id) => module.consts[*id].clone(),
            other => panic!("{}: not folded: {other:?}", case.name),
        }
    };
    func.body.results.iter().map(constant).collect()
}

#[test]
fn folded_constants_are_what_kernels_compute() {
    let mut operators = std::collections::BTreeSet::new();
    for case in cases() {
        // Kernels have no parameters without elements, and a graph has no operator without operands.
        let shape_only = matches!(case.op, Op::Dims { .. } | Op::Iota { .. });
        if shape_only || case.args.is_empty() {
            continue;
        }
        let got = folded(&case);
        let want = run(&module(&case, Operands::Parameters), &case.args)
            .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_close(&case.name, &got, &want, tolerance(&want));
        operators.insert(format!("{:?}", std::mem::discriminant(&case.op)));
    }
    assert!(operators.len() > 20, "{}", operators.len());
}

/// Bytes of a module's constants after the graph passes.
fn constant_bytes(module: &Module, options: &Options) -> usize {
    let module = run_graph(module.clone(), options, &NoObserver).unwrap();
    module.consts.values().map(Literal::size).sum()
}

/// Optimised for size, integers that a model dequantizes stay integers, and answers are the same.
#[test]
fn dequantized_weights_stay_narrow_in_small_programs() {
    let weights = tensor(DType::I8, &[64, 1024], vec![7; 64 * 1024]);
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let x = b.param("x", TensorType::new(DType::F32, vec![Expr::i64(3), Expr::i64(64)]));
    let w = b.constant(weights);
    let w = b.emit1(Op::Cast(DType::F32), &[w]).unwrap();
    let y = b.emit1(Op::MatMul, &[x, w]).unwrap();
    b.finish(vec![y], vec!["y".into()]);
    let fast = Options::new(CpuTarget::host());
    let small = Options { optimize_for: OptimizeFor::Size, ..fast.clone() };
    assert_eq!(constant_bytes(&module, &small), 64 * 1024);
    assert_eq!(constant_bytes(&module, &fast), 4 * 64 * 1024);
    let args = [f32s(&[3, 64], 3)];
    let answers = [&fast, &small].map(|o| run_with(o, &module, &args).unwrap().remove(0));
    assert_eq!(answers[0], answers[1]);
}

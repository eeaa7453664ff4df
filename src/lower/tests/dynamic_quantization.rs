//! Precision `int8`: products of rounded operands are what the formula says, bit for bit, near float32's, and
//! shared by the products of one operand.

mod common;
mod harness;

use std::collections::HashSet;
use std::sync::Arc;

use harness::{f32s, operators, run_with};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Activations, Binding, BlockQuantized, CodeMeaning, DepthAxis, FuncData, Literal, Module, Node,
    Op, TensorType, Value,
};
use reflex_lower::passes::sequence::RuntimeModules;
use reflex_lower::pipeline::{NoObserver, Options, run_graph, run_one_pass};
use reflex_lower::precision::Precision;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{DType, Expr};

const DEPTH: usize = 70;
const COLUMNS: usize = 40;

fn options() -> Options {
    Options { precision: Precision::Int8, ..Options::new(CpuTarget::host()) }
}

/// `x` times each of the constants.
fn module(weights: &[Literal]) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [3, DEPTH as i64].map(Expr::i64).to_vec();
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let mut results = vec![];
    for w in weights {
        let w = b.constant(w.clone());
        results.push(b.emit1(Op::MatMul, &[x, w]).expect("fits"));
    }
    let names = (0..results.len()).map(|n| format!("y{n}")).collect();
    b.finish(results, names);
    module
}

/// The formula, one element after the other.
fn expected(x: &[f32], w: &[f32]) -> Vec<f32> {
    let mut y = vec![];
    for row in x.chunks(DEPTH) {
        let most = row.iter().fold(1e-30f32, |most, x| most.max(x.abs()));
        let inverse = 127.0 / most;
        let rounded = row.iter().map(|x| (x * inverse).round_ties_even() as i32);
        let rounded: Vec<i32> = rounded.collect();
        for n in 0..COLUMNS {
            let column: Vec<f32> = w.iter().skip(n).step_by(COLUMNS).copied().collect();
            let most_of_column = column.iter().fold(0f32, |most, w| most.max(w.abs()));
            let codes = column.iter().map(|w| (w * (127.0 / most_of_column)).round_ties_even());
            let sum: i32 = codes.zip(&rounded).map(|(w, x)| w as i32 * x).sum();
            y.push(sum as f32 * (most * (most_of_column / 127.0 / 127.0)));
        }
    }
    y
}

#[test]
fn rows_and_columns_have_scales_of_their_own() {
    let w = f32s(&[DEPTH as i64, COLUMNS as i64], 3);
    let mut x = f32s(&[3, DEPTH as i64], 5).to_f32().unwrap();
    // A row with an outlier does not touch the others; a row of zeros stays one.
    x[4] = 1e4;
    x[2 * DEPTH..].fill(0.0);
    let args = [Literal::from_f32(vec![3, DEPTH as i64], &x)];
    let module = module(std::slice::from_ref(&w));
    let got = run_with(&options(), &module, &args).unwrap()[0].to_f32().unwrap();
    assert_eq!(got, expected(&x, &w.to_f32().unwrap()));
    assert!(got[2 * COLUMNS..].iter().all(|y| *y == 0.0));
    let exact = Options::new(CpuTarget::host());
    let exact = run_with(&exact, &module, &args).unwrap()[0].to_f32().unwrap();
    let second = COLUMNS..2 * COLUMNS;
    let square = |x: f32| x * x;
    let error: f32 = got.iter().zip(&exact).map(|(g, e)| square(g - e)).skip(COLUMNS).sum();
    let size: f32 = exact[second].iter().map(|e| square(*e)).sum();
    let relative = (error / size).sqrt();
    assert!(relative > 1e-4 && relative < 2e-2, "{relative:e}");
    // What is no number reaches its row's results.
    x[0] = f32::NAN;
    let args = [Literal::from_f32(vec![3, DEPTH as i64], &x)];
    let got = run_with(&options(), &module, &args).unwrap()[0].to_f32().unwrap();
    assert!(got[..COLUMNS].iter().all(|y| y.is_nan()));
    assert!(got[COLUMNS..].iter().all(|y| !y.is_nan()));
}

/// The kernel that a binding calls, and its first operand.
fn called(binding: &Binding, module: &Module) -> Option<(String, Value)> {
    match &binding.node {
        Node::CallTir { func, args, .. } => Some((module.funcs[*func].name().to_owned(), args[0])),
        _ => None,
    }
}

#[test]
fn products_of_one_operand_share_its_integers() {
    let weights = [3, 4, 5].map(|seed| f32s(&[DEPTH as i64, COLUMNS as i64], seed));
    let pass = "quantize_dynamically";
    let after =
        run_one_pass(module(&weights), pass, &options(), &mut RuntimeModules::default()).unwrap();
    let ops = operators(&after);
    let count = |of: &Op| ops.iter().filter(|op| *op == of).count();
    assert_eq!((count(&Op::MatMulInteger), count(&Op::Cast(DType::U8))), (3, 1));
    // Their kernels read one copy.
    let compiled = run_graph(module(&weights), &options(), &NoObserver).unwrap();
    let calls = |f: &FuncData| match f {
        FuncData::Graph(f) => f.body.bindings.iter().filter_map(|b| called(b, &compiled)).collect(),
        FuncData::Prim(_) => vec![],
    };
    let calls: Vec<(String, Value)> = compiled.funcs.values().flat_map(calls).collect();
    let products = calls.iter().filter(|(name, _)| name.contains("mat_mul_integer"));
    let rows: HashSet<Value> = products.clone().map(|(_, rows)| *rows).collect();
    assert_eq!((products.count(), rows.len(), calls.len()), (3, 1, 6), "{calls:?}");
}

#[test]
fn codes_stay_codes_and_what_is_small_or_not_finite_stays_float() {
    let count = (COLUMNS * DEPTH.div_ceil(16)) as i64;
    let codes = (0..count * 8).map(|n| (n * 37 % 256) as u8).collect::<Vec<_>>();
    let matrix = BlockQuantized {
        dtype: DType::F32,
        columns: COLUMNS,
        depth: DEPTH,
        bits: 4,
        block: 16,
        codes: Literal::new(DType::U8, vec![count * 8], Arc::new(codes)).unwrap(),
        scales: f32s(&[count], 9).to_f32().unwrap(),
        meaning: CodeMeaning::Centred(8.0),
    };
    let coded = Literal::block_quantized(Arc::new(matrix), DepthAxis::First).unwrap();
    let mut infinite = f32s(&[DEPTH as i64, COLUMNS as i64], 1).to_f32().unwrap();
    infinite[77] = f32::INFINITY;
    let infinite = Literal::from_f32(vec![DEPTH as i64, COLUMNS as i64], &infinite);
    let narrow = f32s(&[DEPTH as i64, 8], 1);
    let pass = "quantize_dynamically";
    let after = |w: &Literal| {
        let module = module(std::slice::from_ref(w));
        operators(&run_one_pass(module, pass, &options(), &mut RuntimeModules::default()).unwrap())
    };
    let coded = after(&coded);
    let [Op::MatMulNBits(codes)] = &coded[..] else { panic!("{coded:?}") };
    assert_eq!((codes.bits, codes.activations), (4, Activations::Int8));
    assert_eq!(after(&infinite), [Op::MatMul]);
    assert_eq!(after(&narrow), [Op::MatMul]);
}

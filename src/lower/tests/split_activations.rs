//! Pass `split_activations`: products of float32 by 8-bit codes are what the formula says, bit for bit, as near the exact
//! result as float32's, and share the slices of one operand.

mod harness;

use std::collections::BTreeSet;
use std::sync::Arc;

use harness::{f32s, operators, run_with};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{BlockQuantized, CodeMeaning, DepthAxis, Literal, Module, Op, TensorType};
use reflex_lower::passes::sequence::RuntimeModules;
use reflex_lower::pipeline::{Options, run_one_pass};
use reflex_lower::precision::Precision;
use reflex_tir::level::Level;
use reflex_tir::{DType, Expr};

const PASS: &str = "split_activations";
const ROWS: usize = 4;
const DEPTH: usize = 70;
const COLUMNS: usize = 40;
const GREATEST: f32 = 8_388_606.0;

fn options(level: Level) -> Options {
    Options::new(level.target())
}

/// Codes and what they stand for without their scale, column after column.
struct Weights {
    literal: Literal,
    numbers: Vec<f32>,
    scales: Vec<f32>,
}

/// Codes below 200, with zero points from `zeros` on, or one of 128.
fn weights(zeros: Option<usize>) -> Weights {
    let codes: Vec<u8> = (0..COLUMNS * DEPTH).map(|n| (n * n * 37 % 200) as u8).collect();
    let zero = |column: usize| zeros.map_or(128, |least| least + column % 7) as f32;
    let scales: Vec<f32> = (1..=COLUMNS).map(|n| n as f32 / 999.0).collect();
    let meaning = match zeros {
        Some(_) => CodeMeaning::CentredByBlock((0..COLUMNS).map(zero).collect()),
        None => CodeMeaning::Centred(128.0),
    };
    let numbers = codes.iter().enumerate().map(|(n, c)| f32::from(*c) - zero(n / DEPTH));
    let numbers = numbers.collect();
    let matrix = BlockQuantized {
        dtype: DType::F32,
        columns: COLUMNS,
        depth: DEPTH,
        bits: 8,
        block: DEPTH,
        codes: Literal::new(DType::U8, vec![codes.len() as i64], Arc::new(codes)).unwrap(),
        scales: scales.clone(),
        meaning,
    };
    let literal = Literal::block_quantized(Arc::new(matrix), DepthAxis::First).unwrap();
    Weights { literal, numbers, scales }
}

/// `x [2, 2, k]` times each of the constants.
fn module(weights: &[&Literal]) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = [2, ROWS as i64 / 2, DEPTH as i64].map(Expr::i64).to_vec();
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let mut results = vec![];
    for w in weights {
        let w = b.constant((*w).clone());
        results.push(b.emit1(Op::MatMul, &[x, w]).expect("fits"));
    }
    let names = (0..results.len()).map(|n| format!("y{n}")).collect();
    b.finish(results, names);
    module
}

fn call(options: &Options, weights: &Weights, x: &[f32]) -> Vec<f32> {
    let x = Literal::from_f32(vec![2, ROWS as i64 / 2, DEPTH as i64], x);
    run_with(options, &module(&[&weights.literal]), &[x]).unwrap()[0].to_f32().unwrap()
}

/// The formula, one element after the other, with integers as wide as they need.
fn expected(x: &[f32], weights: &Weights) -> Vec<f32> {
    let mut y = vec![];
    for row in x.chunks(DEPTH) {
        let most = row.iter().fold(1e-30f32, |most, x| most.max(x.abs()));
        let inverse = GREATEST / most;
        let q: Vec<i64> =
            row.iter().map(|x| (x * inverse).round_ties_even() as i64 + (1 << 23)).collect();
        for (column, scale) in weights.numbers.chunks(DEPTH).zip(&weights.scales) {
            let sum = |p: i64| -> i64 {
                let offset = if p == 2 { 128 } else { 0 };
                let slice = q.iter().map(|q| ((q >> (8 * p)) & 255) - offset);
                slice.zip(column).map(|(q, w)| q * *w as i64).sum()
            };
            let place = |p: i64| sum(p) as f32 * (1u32 << (8 * p)) as f32;
            y.push((place(0) + place(1) + place(2)) * (most * (scale / GREATEST)));
        }
    }
    y
}

/// Rows of noise: one with an outlier, one of zeros.
fn rows() -> Vec<f32> {
    let mut x = f32s(&[(ROWS * DEPTH) as i64], 5).to_f32().unwrap();
    x[4] = 1e4;
    x[3 * DEPTH..].fill(0.0);
    x
}

#[test]
fn products_are_what_the_formula_says() {
    let x = rows();
    for weights in [weights(None), weights(Some(100))] {
        let expected = expected(&x, &weights);
        for level in [Level::V4Vnni, Level::V4Amx] {
            assert_eq!(call(&options(level), &weights, &x), expected, "{level:?}");
        }
        assert!(expected[3 * COLUMNS..].iter().all(|y| *y == 0.0));
    }
}

/// Errors of all results, and what they may be: 2^-24 of a row's greatest magnitude times the sum of a column's
/// magnitudes, for the elements, and as much for the rounding of sums and scales.
fn errors(level: Level, x: &[f32], weights: &Weights) -> Vec<[f64; 2]> {
    let got = call(&options(level), weights, x);
    let mut errors = vec![];
    for (row, got) in x.chunks(DEPTH).zip(got.chunks(COLUMNS)) {
        let most = row.iter().fold(0f32, |most, x| most.max(x.abs()));
        let columns = weights.numbers.chunks(DEPTH).zip(&weights.scales);
        for ((column, scale), y) in columns.zip(got) {
            let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
                let products = row.iter().zip(column).map(|(x, w)| of((*x).into(), (*w).into()));
                products.sum::<f64>() * f64::from(*scale)
            };
            let bound = f64::from(most) * sum(&|_, w| w.abs()) * 2f64.powi(-23);
            errors.push([(f64::from(*y) - sum(&|x, w| x * w)).abs(), bound]);
        }
    }
    errors
}

#[test]
fn errors_are_no_greater_than_those_of_float32() {
    let x = rows();
    let weights = weights(None);
    let split = errors(Level::V4Vnni, &x, &weights);
    assert!(split.iter().all(|[error, bound]| error <= bound), "{split:?}");
    // Without the row of the outlier.
    let size = |errors: &[[f64; 2]]| -> f64 {
        errors[COLUMNS..].iter().map(|[error, _]| error * error).sum::<f64>().sqrt()
    };
    let (split, floats) = (size(&split), size(&errors(Level::V4, &x, &weights)));
    assert!(split > 0.0 && split < floats, "{split:e} to {floats:e}");
}

#[test]
fn what_is_not_finite_reaches_its_row_alone() {
    let weights = weights(None);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = rows();
        x[0] = value;
        let got = call(&options(Level::V4Vnni), &weights, &x);
        assert!(got[..COLUMNS].iter().all(|y| y.is_nan()), "{value}");
        assert!(got[COLUMNS..].iter().all(|y| y.is_finite()), "{value}");
    }
}

fn after(options: &Options, weights: &[&Literal]) -> Vec<Op> {
    let mut made = RuntimeModules::default();
    operators(&run_one_pass(module(weights), PASS, options, &mut made).unwrap())
}

#[test]
fn products_of_one_operand_share_its_slices() {
    let lists = [weights(None), weights(Some(90)), weights(Some(100))];
    let ops = after(&options(Level::V4Vnni), &lists.each_ref().map(|w| &w.literal));
    let count = |of: &Op| ops.iter().filter(|op| *op == of).count();
    assert_eq!((count(&Op::MatMulInteger), count(&Op::Cast(DType::U8))), (3, 1));
    assert_eq!(count(&Op::MatMul), 0);
}

#[test]
fn other_weights_precisions_and_processors_multiply_floats() {
    let codes = weights(None).literal;
    let floats = |options: &Options, w: &Literal| after(options, &[w]) == [Op::MatMul];
    let vnni = options(Level::V4Vnni);
    // 199 less a zero point of 20 fits no int8.
    assert!(floats(&vnni, &weights(Some(20)).literal));
    assert!(floats(&vnni, &f32s(&[DEPTH as i64, COLUMNS as i64], 3)));
    assert!(floats(&Options { precision: Precision::Bf16, ..vnni.clone() }, &codes));
    assert!(floats(&options(Level::V4), &codes));
    let levels = BTreeSet::from([Level::V3, Level::V4Vnni]);
    assert!(floats(&Options::of_levels(&levels), &codes));
    assert!(!floats(&Options::of_levels(&BTreeSet::from([Level::V4Vnni, Level::V4Amx])), &codes));
    assert!(!floats(&Options { precision: Precision::F32Fast, ..vnni }, &codes));
}

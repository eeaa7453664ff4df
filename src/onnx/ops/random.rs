//! Random numbers: uniform, normal, Bernoulli, categorical, and dropout in training.
//!
//! They are those of Philox 4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: Parallel
//! random numbers: as easy as 1, 2, 3; SC 2011): every block of four words is a function of a key and a
//! counter, so that kernels make them in any order. A `seed` of the node is the key, and its counters
//! start at 0 in each call. Without one, the packed function `reflex.random.next` says where the
//! process is, and `reflex.random.seed` sets that.

use reflex_graph::{Binary, Node, Op, ReduceKind, ScanKind, TensorType, Unary, dims};
use reflex_tir::{DType, Expr};

use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::{computes, dtype};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("RandomNormal", |cx, call| generated(cx, call, Distribution::Normal)),
    ("RandomNormalLike", |cx, call| alike(cx, call, Distribution::Normal)),
    ("RandomUniform", |cx, call| generated(cx, call, Distribution::Uniform)),
    ("RandomUniformLike", |cx, call| alike(cx, call, Distribution::Uniform)),
];

/// Multipliers and increments of the key, as the authors chose them.
const MULTIPLIERS: [f64; 2] = [3_528_531_795.0, 3_449_720_151.0];
const INCREMENTS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const WORD: f64 = 4_294_967_295.0;

/// Distributions with two parameters.
#[derive(Clone, Copy, PartialEq)]
enum Distribution {
    /// Between `low` and `high`.
    Uniform,
    /// Of `mean` and `scale`.
    Normal,
}

/// The key that a node's `seed` is.
fn seed_of(call: &Call) -> Result<Option<u32>> {
    Ok(call.float_opt("seed")?.map(|seed| (seed as f32).to_bits()))
}

/// The blocks `[count]` of four words each, in uint64.
fn philox(cx: &mut ImportContext, seed: Option<u32>, count: &Expr) -> Result<[Tensor; 4]> {
    let index = cx.iota(count)?;
    let index = cx.cast(&index, DType::U64)?;
    let (key, first) = match seed {
        Some(seed) => (cx.num(f64::from(seed), DType::U64)?, cx.num(0.0, DType::U64)?),
        None => state(cx, count)?,
    };
    let counter = cx.add(&index, &first)?;
    let low = |cx: &mut ImportContext, x: &Tensor| cx.binary_num(Binary::BitAnd, x, WORD);
    let high = |cx: &mut ImportContext, x: &Tensor| cx.binary_num(Binary::Shr, x, 32.0);
    let zero = cx.num(0.0, DType::U64)?;
    let mut words = [low(cx, &counter)?, high(cx, &counter)?, zero.clone(), zero];
    let keys = [low(cx, &key)?, high(cx, &key)?];
    for round in 0..10u32 {
        let mut products = vec![];
        for (word, multiplier) in [(&words[0], MULTIPLIERS[0]), (&words[2], MULTIPLIERS[1])] {
            products.push(cx.binary_num(Binary::Mul, word, multiplier)?);
        }
        let mut next = vec![];
        for (product, other, at) in [(1, 1, 0), (0, 3, 1)] {
            let step = f64::from(INCREMENTS[at].wrapping_mul(round));
            let key = cx.binary_num(Binary::Add, &keys[at], step)?;
            let key = low(cx, &key)?;
            let mixed = high(cx, &products[product])?;
            let mixed = cx.binary(Binary::BitXor, &mixed, &words[other])?;
            next.push(cx.binary(Binary::BitXor, &mixed, &key)?);
            next.push(low(cx, &products[product])?);
        }
        words = [next[0].clone(), next[1].clone(), next[2].clone(), next[3].clone()];
    }
    Ok(words)
}

/// Key and first counter that the process has for `count` blocks.
fn state(cx: &mut ImportContext, count: &Expr) -> Result<(Tensor, Tensor)> {
    let node = Node::CallPacked {
        name: "reflex.random.next".into(),
        args: vec![],
        ints: vec![dims::simplify(count)],
    };
    let state = cx.bind(node, vec![TensorType::new(DType::I64, vec![Expr::i64(2)])]).remove(0);
    let mut part = |at: i64| -> Result<Tensor> {
        let part = cx.slice(&state, 0, &Expr::i64(at), &Expr::i64(1))?;
        let part = cx.reshape(&part, &[])?;
        cx.cast(&part, DType::U64)
    };
    Ok((part(0)?, part(1)?))
}

/// Numbers of a shape, uniform in `0..1`: float64 with 32 random bits.
fn uniform(cx: &mut ImportContext, seed: Option<u32>, shape: &[Expr]) -> Result<Tensor> {
    let count = dims::product(shape);
    let blocks = dims::simplify(&count.clone().ceildiv(4));
    let words = philox(cx, seed, &blocks)?;
    let mut columns = vec![];
    for word in &words {
        let wide = cx.broadcast(word, std::slice::from_ref(&blocks))?;
        columns.push(cx.unsqueeze(&wide, &[1])?);
    }
    let all = cx.concat(&columns, 1)?;
    let all = cx.cast(&all, DType::F64)?;
    let all = cx.binary_num(Binary::Mul, &all, 2f64.powi(-32))?;
    let all = cx.reshape(&all, &[dims::simplify(&(blocks * 4))])?;
    let kept = cx.slice(&all, 0, &Expr::i64(0), &count)?;
    cx.reshape(&kept, shape)
}

/// Normal numbers of mean 0 and variance 1, by Box and Muller's transform; float64.
fn normal(cx: &mut ImportContext, seed: Option<u32>, shape: &[Expr]) -> Result<Tensor> {
    let count = dims::product(shape);
    let pairs = dims::simplify(&count.clone().ceildiv(2));
    let both = uniform(cx, seed, &[Expr::i64(2), pairs.clone()])?;
    let mut halves = vec![];
    for half in 0..2 {
        let half = cx.slice(&both, 0, &Expr::i64(half), &Expr::i64(1))?;
        halves.push(cx.squeeze(&half, &[0])?);
    }
    let one = cx.num(1.0, DType::F64)?;
    // Never 0, whose logarithm is infinite.
    let rest = cx.sub(&one, &halves[0])?;
    let log = cx.unary(Unary::Log, &rest)?;
    let square = cx.binary_num(Binary::Mul, &log, -2.0)?;
    let radius = cx.unary(Unary::Sqrt, &square)?;
    let angle = cx.binary_num(Binary::Mul, &halves[1], std::f64::consts::TAU)?;
    let (cos, sin) = (cx.unary(Unary::Cos, &angle)?, cx.unary(Unary::Sin, &angle)?);
    let sides = [cx.mul(&radius, &cos)?, cx.mul(&radius, &sin)?];
    let all = cx.concat(&sides, 0)?;
    let kept = cx.slice(&all, 0, &Expr::i64(0), &count)?;
    cx.reshape(&kept, shape)
}

fn drawn(
    cx: &mut ImportContext,
    call: &Call,
    shape: &[Expr],
    to: DType,
    distribution: Distribution,
) -> Result<Vec<OnnxValue>> {
    if !to.is_float() || !computes(to) {
        return Err(invalid(format!("random numbers of type {to}")));
    }
    let seed = seed_of(call)?;
    let (x, first, scale) = match distribution {
        Distribution::Uniform => {
            let (low, high) = (call.float("low", 0.0)?, call.float("high", 1.0)?);
            (uniform(cx, seed, shape)?, low, high - low)
        }
        Distribution::Normal => {
            (normal(cx, seed, shape)?, call.float("mean", 0.0)?, call.float("scale", 1.0)?)
        }
    };
    let scaled = cx.binary_num(Binary::Mul, &x, scale)?;
    let moved = cx.binary_num(Binary::Add, &scaled, first)?;
    one(cx.cast(&moved, to)?)
}

fn generated(
    cx: &mut ImportContext,
    call: &Call,
    distribution: Distribution,
) -> Result<Vec<OnnxValue>> {
    let shape = call.ints("shape")?.ok_or_else(|| invalid("attribute `shape` is missing"))?;
    if shape.iter().any(|n| *n < 0) {
        return Err(invalid(format!("shape {shape:?}")));
    }
    let to = dtype(i32::try_from(call.int("dtype", 1)?).unwrap_or(0))?;
    let shape: Vec<Expr> = shape.iter().map(|n| Expr::i64(*n)).collect();
    drawn(cx, call, &shape, to, distribution)
}

fn alike(
    cx: &mut ImportContext,
    call: &Call,
    distribution: Distribution,
) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let to = match call.int_opt("dtype")? {
        Some(code) => dtype(i32::try_from(code).unwrap_or(0))?,
        None => x.dtype(),
    };
    drawn(cx, call, x.shape(), to, distribution)
}

/// 1 with the probability that the input gives.
fn bernoulli(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let to = match call.int_opt("dtype")? {
        Some(code) => dtype(i32::try_from(code).unwrap_or(0))?,
        None => x.dtype(),
    };
    if !computes(to) || !x.dtype().is_float() {
        return Err(unsupported(format!("{to} by probabilities of type {}", x.dtype())));
    }
    let numbers = uniform(cx, seed_of(call)?, x.shape())?;
    let chance = cx.cast(x, DType::F64)?;
    let hit = cx.binary(Binary::Less, &numbers, &chance)?;
    one(cx.cast(&hit, to)?)
}

/// Classes drawn by unnormalised log-probabilities `[batch, classes]`.
fn multinomial(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let samples = call.int("sample_size", 1)?;
    let to = dtype(i32::try_from(call.int("dtype", 6)?).unwrap_or(0))?;
    if x.rank() != 2 || !(1..1 << 31).contains(&samples) {
        return Err(invalid(format!("{samples} samples of {}", x.ty)));
    }
    if ![DType::I32, DType::I64].contains(&to) {
        return Err(invalid(format!("classes of type {to}")));
    }
    let wide = cx.cast(x, DType::F64)?;
    let chances = cx.op(Op::Softmax { axis: 1, log: false }, &[&wide])?;
    let scan = Op::Scan { kind: ScanKind::Sum, axis: 1, exclusive: false, reverse: false };
    let bounds = cx.op(scan, &[&chances])?;
    let numbers = uniform(cx, seed_of(call)?, &[x.shape()[0].clone(), Expr::i64(samples)])?;
    let (bounds, numbers) = (cx.unsqueeze(&bounds, &[1])?, cx.unsqueeze(&numbers, &[2])?);
    let passed = cx.binary(Binary::LessEqual, &bounds, &numbers)?;
    let passed = cx.cast(&passed, DType::I64)?;
    let class = cx.reduce(ReduceKind::Sum, &passed, &[2])?;
    let last = Tensor::dim(&dims::simplify(&(x.shape()[1].clone() - 1)));
    let class = cx.binary(Binary::Min, &class, &last)?;
    one(cx.cast(&class, to)?)
}

/// Dropout in training: elements are kept with probability `1 - ratio`, and scaled by its inverse.
pub(super) fn dropout(
    cx: &mut ImportContext,
    call: &Call,
    ratio: &Tensor,
    training: &Tensor,
) -> Result<[Tensor; 2]> {
    let x = call.input(0)?;
    if !x.dtype().is_float() {
        return Err(invalid(format!("dropout of {}", x.ty)));
    }
    let seed = call.int_opt("seed")?.map(|seed| seed as u32);
    let numbers = uniform(cx, seed, x.shape())?;
    let ratio = cx.reshape(ratio, &[])?;
    let ratio = cx.cast(&ratio, DType::F64)?;
    let training = cx.reshape(training, &[])?;
    let zero = cx.num(0.0, DType::F64)?;
    let ratio = cx.choose(&training, &ratio, &zero)?;
    let kept = cx.binary(Binary::GreaterEqual, &numbers, &ratio)?;
    let one = cx.num(1.0, DType::F64)?;
    let share = cx.sub(&one, &ratio)?;
    let scale = cx.div(&one, &share)?;
    let scale = cx.cast(&scale, x.dtype())?;
    let scaled = cx.mul(x, &scale)?;
    let nothing = cx.num(0.0, x.dtype())?;
    Ok([cx.choose(&kept, &scaled, &nothing)?, kept])
}

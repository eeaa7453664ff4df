//! Functions and checks that several test files share.
#![allow(dead_code, reason = "each test file uses a part")]

use arbtest::arbitrary::{Result, Unstructured};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::eval::{self, Arg, Tensor};
use reflex_tir::schedule::Schedule;
use reflex_tir::script;
use reflex_tir::verify::{Form, verify};
use reflex_tir::{DType, Expr, Intrin, Param, PrimFunc, Scope, Stmt, Var};

const F: DType = DType::F32;

fn sum() -> Reducer<'static> {
    Reducer { init: Expr::float(0.0, F), combine: &|x, y| x + y }
}

/// `c[i, j] = sum_k a[i, k] * b[k, j]`
pub fn matmul(m: Expr, n: Expr, k: Expr) -> PrimFunc {
    let mut f = FuncBuilder::new("matmul");
    matmul_into(&mut f, m, n, k)
}

/// Matrix product whose rows are a symbolic dimension.
pub fn matmul_symbolic(n: i64, k: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("matmul");
    let m = f.symbol("m");
    matmul_into(&mut f, m, n.into(), k.into())
}

fn matmul_into(f: &mut FuncBuilder, m: Expr, n: Expr, k: Expr) -> PrimFunc {
    let a = f.input("a", F, vec![m.clone(), k.clone()]);
    let b = f.input("b", F, vec![k.clone(), n.clone()]);
    f.reduce_output("matmul", "c", F, vec![m, n], &[k], sum(), |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    std::mem::replace(f, FuncBuilder::new("")).finish()
}

/// `scaled = x * 2; biased = scaled + bias; y = exp(biased)` over `[n, m]`, `n` symbolic.
pub fn chain(m: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("chain");
    let n = f.symbol("n");
    let shape = vec![n, m.into()];
    let x = f.input("x", F, shape.clone());
    let bias = f.input("bias", F, vec![m.into()]);
    let scaled =
        f.stage("scale", "scaled", F, shape.clone(), |f, i| f.at(x, i) * Expr::float(2.0, F));
    let biased = f.stage("bias_add", "biased", F, shape.clone(), |f, i| {
        f.at(scaled, i) + f.at(bias, &i[1..])
    });
    f.output("exp", "y", F, shape, |f, i| Expr::call(Intrin::Exp, vec![f.at(biased, i)]));
    f.finish()
}

/// Matrix product, bias, relu.
pub fn dense(m: Expr, n: i64, k: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("dense");
    let a = f.input("a", F, vec![m.clone(), k.into()]);
    let b = f.input("b", F, vec![k.into(), n.into()]);
    let bias = f.input("bias", F, vec![n.into()]);
    let shape = vec![m, n.into()];
    let c = f.reduce_stage("matmul", "c", F, shape.clone(), &[k.into()], sum(), |f, i, r| {
        f.at(a, &[i[0].clone(), r[0].clone()]) * f.at(b, &[r[0].clone(), i[1].clone()])
    });
    let d = f.stage("bias_add", "d", F, shape.clone(), |f, i| f.at(c, i) + f.at(bias, &i[1..]));
    f.output("relu", "y", F, shape, |f, i| f.at(d, i).max(Expr::float(0.0, F)));
    f.finish()
}

/// Softmax over the last axis.
pub fn softmax(n: i64, m: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("softmax");
    let x = f.input("x", F, vec![n.into(), m.into()]);
    let lowest = Expr::float(f64::from(f32::MIN), F);
    let at = |i: &[Expr], r: &[Expr]| [i[0].clone(), r[0].clone()];
    let max = Reducer { init: lowest, combine: &|a, b| a.max(b) };
    let top = f.reduce_stage("max", "top", F, vec![n.into()], &[m.into()], max, |f, i, r| {
        f.at(x, &at(i, r))
    });
    let e = f.stage("exp", "e", F, vec![n.into(), m.into()], |f, i| {
        Expr::call(Intrin::Exp, vec![f.at(x, i) - f.at(top, &i[..1])])
    });
    let total = f.reduce_stage("sum", "total", F, vec![n.into()], &[m.into()], sum(), |f, i, r| {
        f.at(e, &at(i, r))
    });
    f.output("div", "y", F, vec![n.into(), m.into()], |f, i| f.at(e, i) / f.at(total, &i[..1]));
    f.finish()
}

/// A small convolution with padding: a guarded stage, then a reduction over three axes.
pub fn conv(h: i64, c: i64) -> PrimFunc {
    let mut f = FuncBuilder::new("conv");
    let x = f.input("x", F, vec![c.into(), h.into()]);
    let w = f.input("w", F, vec![2.into(), c.into(), 3.into()]);
    let padded = f.stage("pad", "padded", F, vec![c.into(), (h + 2).into()], |f, i| {
        let at = i[1].clone() - 1;
        let inside = at.clone().ge(0).and(at.clone().lt(h));
        Expr::if_then_else(inside, f.at(x, &[i[0].clone(), at]), Expr::float(0.0, F))
    });
    let axes = [c.into(), 3.into()];
    f.reduce_output("conv", "y", F, vec![2.into(), h.into()], &axes, sum(), |f, i, r| {
        f.at(padded, &[r[0].clone(), i[1].clone() + r[1].clone()])
            * f.at(w, &[i[0].clone(), r[0].clone(), r[1].clone()])
    });
    f.finish()
}

/// One of the functions above with random sizes.
pub fn any_func(u: &mut Unstructured<'_>) -> Result<PrimFunc> {
    let mut n = || u.int_in_range(1..=11);
    let (a, b, c) = (n()?, n()?, n()?);
    Ok(match u.int_in_range(0..=7)? {
        7 => {
            let mut f = FuncBuilder::new("reshape");
            let x = f.input("x", F, vec![a.into(), b.into()]);
            let twice =
                f.stage("twice", "t", F, vec![a.into(), b.into()], |f, i| f.at(x, i) + f.at(x, i));
            f.output("flat", "y", F, vec![(a * b).into()], |f, i| f.at(twice, i));
            f.finish()
        }
        0 => matmul(a.into(), b.into(), c.into()),
        1 => matmul_symbolic(b, c),
        2 => chain(b),
        3 => dense(a.into(), b, c),
        4 => softmax(a, b),
        5 => conv(a, c),
        _ => {
            let mut f = FuncBuilder::new("transpose");
            let x = f.input("x", F, vec![a.into(), b.into()]);
            f.output("t", "y", F, vec![b.into(), a.into()], |f, i| {
                f.at(x, &[i[1].clone(), i[0].clone()])
            });
            f.finish()
        }
    })
}

/// Random arguments; symbolic dimensions get `symbol`.
pub fn arguments(u: &mut Unstructured<'_>, func: &PrimFunc, symbol: i64) -> Result<Vec<Arg>> {
    let inputs = func.params.len() - func.num_outputs;
    let args = func.params.iter().enumerate().map(|(at, param)| {
        let Param::Buffer(b) = param else { unreachable!("no scalar parameters here") };
        let data = &func.buffers[*b];
        let shape: Vec<i64> = data.shape.iter().map(|e| e.as_int().unwrap_or(symbol)).collect();
        let count = shape.iter().product::<i64>() as usize;
        let mut seed: u32 = u.arbitrary()?;
        let values: Vec<f32> = (0..count)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Outputs start as garbage: every element must be written.
                if at < inputs { (seed >> 8) as f32 / (1 << 23) as f32 - 1.0 } else { f32::NAN }
            })
            .collect();
        Ok(Arg::Tensor(Tensor::f32(&shape, &values)))
    });
    args.collect()
}

/// Evaluates both and compares every bit.
pub fn assert_same(before: &PrimFunc, after: &PrimFunc, args: &[Arg], what: &dyn Fn() -> String) {
    let mut form = Form::Lowered;
    after.body.visit(&mut |s| {
        if matches!(s, Stmt::Block(_)) {
            form = Form::Scheduled;
        }
    });
    if let Err(faults) = verify(after, form) {
        panic!("{faults:?}\n{}\n{}", what(), script::print(after));
    }
    let (mut a, mut b) = (args.to_vec(), args.to_vec());
    eval::eval(before, &mut a).unwrap_or_else(|e| panic!("before: {e}\n{}", what()));
    eval::eval(after, &mut b)
        .unwrap_or_else(|e| panic!("after: {e}\n{}\n{}", what(), script::print(after)));
    assert!(a == b, "results differ\n{}\n{}", what(), script::print(after));
}

/// Milliseconds to spend on a property: `REFLEX_FUZZ_MS`, or `smoke`.
pub fn budget(smoke: u64) -> u64 {
    std::env::var("REFLEX_FUZZ_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(smoke)
}

/// Every loop, in program order.
pub fn loops_of(func: &PrimFunc) -> Vec<Var> {
    let mut loops = vec![];
    func.body.visit(&mut |s| {
        if let Stmt::For(l) = s {
            loops.push(l.var);
        }
    });
    loops
}

/// Tries one random primitive; tells what it did.
fn step(u: &mut Unstructured<'_>, s: &mut Schedule) -> Result<Option<String>> {
    let loops = loops_of(s.func());
    let blocks = s.blocks();
    if loops.is_empty() || blocks.is_empty() {
        return Ok(None);
    }
    let i = *u.choose(&loops)?;
    let block = u.choose(&blocks)?.clone();
    let around = s.get_loops(&block).unwrap();
    let scope = *u.choose(&[Scope::Global, Scope::Local])?;
    let (what, done) = match u.int_in_range(0..=14)? {
        0 | 1 => {
            let k = u.int_in_range(1..=6)?;
            (format!("split {i} {k}"), s.split(i, k).map(|_| ()))
        }
        2 => {
            let k = u.int_in_range(1..=4)?;
            (format!("split_parts {i} {k}"), s.split_parts(i, k).map(|_| ()))
        }
        3 if around.len() > 1 => {
            let at = u.int_in_range(0..=around.len() - 2)?;
            (
                format!("fuse {:?}", &around[at..at + 2]),
                s.fuse(around[at], around[at + 1]).map(|_| ()),
            )
        }
        4 if around.len() > 1 => {
            let (a, b) = (*u.choose(&around)?, *u.choose(&around)?);
            (format!("reorder {a} {b}"), s.reorder(&[a, b]))
        }
        5 => (format!("parallel {i}"), s.parallel(i)),
        6 => (format!("vectorize {i}"), s.vectorize(i)),
        7 => (format!("unroll {i}"), s.unroll(i)),
        8 => (format!("compute_at {block} {i}"), s.compute_at(&block, i)),
        9 => (format!("reverse_compute_at {block} {i}"), s.reverse_compute_at(&block, i)),
        10 => (format!("cache_write {block}"), s.cache_write(&block, scope).map(|_| ())),
        11 => {
            let reads: Vec<_> =
                s.get_block(&block).unwrap().reads.iter().map(|r| r.buffer).collect();
            match reads.is_empty() {
                true => return Ok(None),
                false => {
                    let b = *u.choose(&reads)?;
                    (format!("cache_read {block} {b}"), s.cache_read(&block, b, scope).map(|_| ()))
                }
            }
        }
        13 => {
            let (k, n) = (u.int_in_range(1..=5)?, s.get_loop(i).unwrap().extent.clone());
            (format!("partition {i} {k}"), s.partition(i, n.floordiv(k) * k).map(|_| ()))
        }
        12 if !around.is_empty() => {
            let i = *u.choose(&around)?;
            (format!("decompose {block} {i}"), s.decompose_reduction(&block, i).map(|_| ()))
        }
        _ => match u.ratio(1, 2)? {
            true => (format!("inline {block}"), s.compute_inline(&block)),
            false => (format!("reverse_inline {block}"), s.reverse_compute_inline(&block)),
        },
    };
    Ok(Some(match done {
        Ok(()) => what,
        Err(why) => format!("  ({what}: {why})"),
    }))
}

/// Up to `most` random primitives; what was done, and in parentheses what was refused.
pub fn random_steps(u: &mut Unstructured<'_>, s: &mut Schedule, most: u32) -> Result<Vec<String>> {
    let mut log = vec![];
    for _ in 0..u.int_in_range(1..=most)? {
        log.extend(step(u, s)?);
    }
    Ok(log)
}

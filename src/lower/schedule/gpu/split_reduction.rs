//! Long reductions to few results, whose neighbours are no neighbours in memory: a block for 32 results,
//! each of which several threads reduce a share of. The sum is reassociated.
//!
//! ```text
//! for b in blocks:
//!     for ty, tx in threads(S, 32): partial[ty, tx] = sum of ty, ty + S, .. for result 32 b + tx
//!     for ty, tx in threads(S, 32): tree reduction along ty
//!     for tx in threads(32):        y[..] = partial[0, tx]
//! ```

use reflex_tir::arith::Analyzer;
use reflex_tir::thread::WARP;
use reflex_tir::{BinOp, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Stage, loads_of};
use crate::schedule::gpu::grid::{blocks, count, decoded, guarded, threads};
use crate::schedule::gpu::work::Work;

/// More results than this keep a GPU busy with a thread each.
const MOST_RESULTS: i64 = 1 << 16;
/// Threads that share a result, and elements that each has at least.
const MOST_SHARES: i64 = 32;
const EACH: i64 = 8;

/// The launch of a long reduction.
pub fn split_reduction(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = &work.stage;
    let Some(init) = stage.init.clone() else { return Err(Refusal::NothingToReduce) };
    let dtype = nest.func.buffers[stage.buffer].dtype;
    let combine = combiner(stage).ok_or(Refusal::NotAssociative)?;
    let (results, steps) = (count(&stage.spatial), count(&stage.reduce));
    let (Some(few), Some(length)) = (results.as_int(), steps.as_int()) else {
        return Err(Refusal::UnknownExtent);
    };
    let shares = (length / EACH).clamp(1, MOST_SHARES);
    let shares = 1_i64 << (63 - shares.leading_zeros());
    if few > MOST_RESULTS || shares < 4 || dtype.is_bool() {
        return Err(Refusal::TooShort);
    }
    let shape = vec![shares.into(), WARP.into()];
    let partial = nest.func.new_buffer("partial", dtype, shape, Scope::Shared);
    let acc = nest.local("acc", dtype, &[]);
    nest.steps.push(format!("{}: {shares} threads for each of {WARP} results", stage.name));
    let tiles = Analyzer::new().simplify(&results.clone().ceildiv(WARP));
    let element = |at: Vec<Expr>| Expr::load(partial, at, dtype);
    let launch = blocks(nest, tiles, &[partial], |nest, b| {
        let result = |tx: &Expr| b.clone() * WARP + tx.clone();
        let sums = threads(nest, [shares, WARP], &mut |nest, ty, tx| {
            let groups = Analyzer::new().simplify(&steps.clone().ceildiv(shares));
            let sum = nest.repeat(ForKind::Serial, "k", groups, |_, k| {
                let step = k * shares + ty.clone();
                let mut places = decoded(&stage.spatial, &result(&tx));
                places.extend(decoded(&stage.reduce, &step));
                let own = |_: &[Expr], _| Expr::load(acc, vec![], dtype);
                let value = stage.value.replace_loads(stage.buffer, &mut |at, ty| own(at, ty));
                let value = value.substitute(&|v| places.get(&v).cloned());
                let cond = step.lt(steps.clone()).and(result(&tx).lt(results.clone()));
                guarded(cond, Stmt::store(acc, vec![], value))
            });
            let start = Stmt::store(acc, vec![], init.clone());
            let stored = Stmt::store(partial, vec![ty, tx], Expr::load(acc, vec![], dtype));
            let body = Box::new(Stmt::Seq(vec![start, sum, stored]));
            Stmt::Allocate { buffer: acc, body }
        });
        let mut list = vec![sums];
        let mut half = shares / 2;
        while half > 0 {
            list.push(threads(nest, [half, WARP], &mut |_, ty, tx| {
                let other = element(vec![ty.clone() + half, tx.clone()]);
                let sum = combine(element(vec![ty.clone(), tx.clone()]), other);
                Stmt::store(partial, vec![ty, tx], sum)
            }));
            half /= 2;
        }
        list.push(threads(nest, [1, WARP], &mut |_, _, tx| {
            let places = decoded(&stage.spatial, &result(&tx));
            let sum = element(vec![Expr::i64(0), tx.clone()]);
            let (buffer, indices, value) = work.placed(sum, &|v| places.get(&v).cloned());
            let store = Stmt::store(buffer, indices, value);
            guarded(result(&tx).lt(results.clone()), store)
        }));
        Stmt::Seq(list)
    });
    Ok(launch)
}

/// The operation that combines two parts of the stage's reduction, from its identity.
fn combiner(stage: &Stage) -> Option<fn(Expr, Expr) -> Expr> {
    let own = |e: &Expr| {
        matches!(e.kind(), ExprKind::Load { buffer, indices, .. }
            if *buffer == stage.buffer && *indices == stage.indices)
    };
    let init = stage.init.as_ref()?;
    let starts = |x: f64| *init == Expr::constant(x, init.dtype());
    let zero = starts(0.0) || starts(-0.0);
    let reads = |e: &Expr| !loads_of(e, stage.buffer).is_empty();
    match stage.value.kind() {
        ExprKind::Call { op: Intrin::Fma, args, .. }
            if own(&args[2]) && zero && !reads(&args[0]) && !reads(&args[1]) =>
        {
            Some(|a, b| Expr::binary(BinOp::Add, a, b))
        }
        ExprKind::Binary { op, a, b } if own(a) && !reads(b) => match op {
            BinOp::Add if zero => Some(|a, b| Expr::binary(BinOp::Add, a, b)),
            BinOp::Mul if starts(1.0) => Some(|a, b| Expr::binary(BinOp::Mul, a, b)),
            BinOp::Min => Some(|a, b| Expr::binary(BinOp::Min, a, b)),
            BinOp::Max => Some(|a, b| Expr::binary(BinOp::Max, a, b)),
            _ => None,
        },
        _ => None,
    }
}

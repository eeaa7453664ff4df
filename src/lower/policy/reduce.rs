//! Reductions. Along contiguous axes: accumulators per lane, combined by a fixed tree (which
//! reassociates the sum). Across rows: one accumulator per result in vectors over the results
//! (which keeps the order).

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, ForKind, Intrin, PrimFunc, Stmt};

use super::Refusal;
use super::affine::Linear;
use super::fuse::cost;
use super::nest::{Nest, Parallel, merged, note_accesses, widest};
use super::stage::{Axis, Stage, replace_loads};

/// Lanes along the reduced elements: the sum is reassociated.
pub const ALONG_ROWS: &str = "reduce along rows";
/// Lanes across the results: the order is kept.
pub const ACROSS_ROWS: &str = "reduce across rows";

/// The nest of a reduction, and which of the two it is.
pub fn reduce(
    nest: &mut Nest<'_>,
    stage: &Stage,
    threads: Parallel,
) -> Result<(&'static str, Stmt), Refusal> {
    let stage = stage.squeezed();
    if stage.reduce.is_empty() {
        return Err(Refusal::NothingToReduce);
    }
    let stage = merged(nest, &stage);
    let lanes = nest.lanes(widest(&nest.func, &stage));
    if along_rows(nest, &stage, lanes) {
        if let Some(update) = Update::of(&stage) {
            let stmt = lane_accumulators(nest, &stage, &update, lanes, threads);
            return Ok((ALONG_ROWS, stmt));
        }
        if stage.spatial.is_empty() {
            return Err(Refusal::NotAssociative);
        }
    }
    match stage.spatial.is_empty() {
        true => Err(Refusal::NotContiguous),
        false => Ok((ACROSS_ROWS, result_vectors(nest, &stage, lanes, threads))),
    }
}

/// Whether lanes go along the last reduction axis rather than the last spatial one.
fn along_rows(nest: &Nest<'_>, stage: &Stage, lanes: i64) -> bool {
    let last = stage.reduce.last().expect("a reduction");
    let long = last.extent.as_int().is_none_or(|n| n >= lanes / 2);
    let (spatial, reduced) = contiguous(&nest.func, stage);
    stage.spatial.is_empty() || (long && reduced > spatial)
}

/// How many of a stage's operands have neighbours along its last spatial axis, and how many along
/// its last reduction axis. Of a reduction, those that stay the same for a result do not count.
pub fn contiguous(func: &PrimFunc, stage: &Stage) -> (usize, usize) {
    let vars: Vec<_> = stage.spatial.iter().chain(&stage.reduce).map(|a| a.var).collect();
    let (mut accesses, mut pinned) = (vec![], vec![false; vars.len()]);
    let element = replace_loads(&stage.value, stage.buffer, &mut |_| {
        Expr::constant(0.0, func.buffers[stage.buffer].dtype)
    });
    note_accesses(func, &element, &vars, &mut accesses, &mut pinned);
    let reduced = stage.spatial.len()..vars.len();
    let varies = |a: &Linear| a.coefficients[reduced.clone()].iter().any(|c| c.as_int() != Some(0));
    accesses.retain(|a| reduced.is_empty() || varies(a));
    let count = |at: Option<usize>| {
        let step = |a: &&Linear| at.is_some_and(|at| a.coefficients[at].as_int() == Some(1));
        accesses.iter().filter(step).count()
    };
    (count(stage.spatial.len().checked_sub(1)), count(vars.len().checked_sub(1)))
}

/// A reduction step that may be applied to partial results in any order.
struct Update {
    /// How partial results combine.
    op: Combine,
}

enum Combine {
    Binary(BinOp),
    And,
    Or,
}

impl Update {
    fn of(stage: &Stage) -> Option<Update> {
        let is_self =
            |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == stage.buffer);
        let init = stage.init.as_ref()?;
        let zero = |e: &Expr| match e.kind() {
            ExprKind::Float { bits, .. } => f64::from_bits(*bits) == 0.0,
            _ => e.as_int() == Some(0),
        };
        let one = |e: &Expr| match e.kind() {
            ExprKind::Float { bits, .. } => f64::from_bits(*bits) == 1.0,
            _ => e.as_int() == Some(1),
        };
        let op = match stage.value.kind() {
            ExprKind::Call { op: Intrin::Fma, args, .. } if is_self(&args[2]) && zero(init) => {
                Combine::Binary(BinOp::Add)
            }
            ExprKind::Binary { op, a, .. } if is_self(a) => match op {
                BinOp::Add if zero(init) => Combine::Binary(*op),
                BinOp::Mul if one(init) => Combine::Binary(*op),
                BinOp::Min | BinOp::Max => Combine::Binary(*op),
                _ => return None,
            },
            ExprKind::And(a, _) if is_self(a) => Combine::And,
            ExprKind::Or(a, _) if is_self(a) => Combine::Or,
            _ => return None,
        };
        Some(Update { op })
    }

    fn combine(&self, a: Expr, b: Expr) -> Expr {
        match self.op {
            Combine::Binary(op) => Expr::binary(op, a, b),
            Combine::And => a.and(b),
            Combine::Or => a.or(b),
        }
    }
}

/// The largest power of two that is at most `n`.
fn power_below(n: i64) -> i64 {
    1 << (63 - n.max(1).leading_zeros())
}

fn lane_accumulators(
    nest: &mut Nest<'_>,
    stage: &Stage,
    update: &Update,
    lanes: i64,
    threads: Parallel,
) -> Stmt {
    let (inner, between) = stage.reduce.split_last().expect("a reduction");
    let length = inner.extent.as_int().unwrap_or(i64::MAX);
    let lanes = lanes.min(power_below(length));
    let copies = (length / lanes / 2).clamp(1, 4);
    let dtype = nest.func.buffers[stage.buffer].dtype;
    let (axis, name) = (&nest.func.vars[inner.var].name, &stage.name);
    let step = format!("{name}: {copies} x {lanes} parts along {axis}, combined by halves");
    nest.steps.push(step);
    let acc = nest.local("acc", dtype, &[copies * lanes]);
    let at = |nest: &Nest<'_>, i: Expr| nest.func.load(acc, vec![i]);
    let init = stage.init.clone().expect("a reduction has an init");
    let start = nest.repeat(ForKind::Unrolled, "u", copies, |nest, u| {
        nest.lanes_of(lanes, |_, l| Stmt::store(acc, vec![u * lanes + l], init.clone()))
    });
    let body = accumulate(nest, stage, inner, acc, copies, lanes);
    let body = between.iter().rev().fold(body, |s, a| Stmt::serial(a.var, a.extent.clone(), s));
    let mut steps = vec![start, body];
    for u in 1..copies {
        steps.push(nest.lanes_of(lanes, |nest, l| {
            let other = at(nest, l.clone() + u * lanes);
            Stmt::store(acc, vec![l.clone()], update.combine(at(nest, l), other))
        }));
    }
    let mut half = lanes / 2;
    while half > 0 {
        steps.push(nest.lanes_of(half, |nest, l| {
            let other = at(nest, l.clone() + half);
            Stmt::store(acc, vec![l.clone()], update.combine(at(nest, l), other))
        }));
        half /= 2;
    }
    let total = at(nest, Expr::i64(0));
    steps.push(Stmt::store(stage.buffer, stage.indices.clone(), total));
    let row = Stmt::Allocate { buffer: acc, body: Box::new(Stmt::Seq(steps)) };
    finish(nest, stage, &stage.spatial, threads, row)
}

/// `acc[lane] = step(acc[lane], element)` over the inner axis.
fn accumulate(
    nest: &mut Nest<'_>,
    stage: &Stage,
    inner: &Axis,
    acc: Buffer,
    copies: i64,
    lanes: i64,
) -> Stmt {
    let step = |nest: &mut Nest<'_>, slot: Expr, index: Expr, bound: Option<Expr>| {
        let old = nest.func.load(acc, vec![slot.clone()]);
        let value = stage.value.substitute(&|v| (v == inner.var).then(|| index.clone()));
        let new = replace_loads(&value, stage.buffer, &mut |_| old.clone());
        let new = match bound {
            Some(bound) => Expr::if_then_else(index.lt(bound), new, old),
            None => new,
        };
        Stmt::store(acc, vec![slot], new)
    };
    let block = copies * lanes;
    let whole = inner.extent.clone().floordiv(block);
    let main = nest.repeat(ForKind::Serial, "c", whole.clone(), |nest, c| {
        nest.repeat(ForKind::Unrolled, "u", copies, |nest, u| {
            nest.lanes_of(lanes, |nest, l| {
                let slot = u * lanes + l;
                step(nest, slot.clone(), c * block + slot, None)
            })
        })
    });
    let done = whole * block;
    let rest = inner.extent.clone() - done.clone();
    let tail = nest.vectors(&rest, lanes, &mut |nest, first, count, bound| {
        let bound = bound.map(|_| inner.extent.clone());
        nest.lanes_of(count, |nest, l| step(nest, l.clone(), done.clone() + first + l, bound))
    });
    Stmt::Seq(vec![main, tail])
}

fn result_vectors(nest: &mut Nest<'_>, stage: &Stage, lanes: i64, threads: Parallel) -> Stmt {
    let (inner, outer) = stage.spatial.split_last().expect("a spatial axis");
    let vectors = inner.extent.as_int().map_or(1, |n| (n / lanes).clamp(1, 4));
    let (axis, name) = (&nest.func.vars[inner.var].name, &stage.name);
    let step = format!("{name}: {vectors} x {lanes} results along {axis} at a time, each in order");
    nest.steps.push(step);
    let row = nest.vectors(&inner.extent, vectors * lanes, &mut |nest, first, count, bound| {
        result_block(nest, stage, inner, first, count, lanes, bound)
    });
    finish(nest, stage, outer, threads, row)
}

/// `count` results from `first`, in vectors of at most `lanes`.
fn result_block(
    nest: &mut Nest<'_>,
    stage: &Stage,
    inner: &Axis,
    first: Expr,
    count: i64,
    lanes: i64,
    bound: Option<Expr>,
) -> Stmt {
    let dtype = nest.func.buffers[stage.buffer].dtype;
    let acc = nest.local("acc", dtype, &[count]);
    let pieces: Vec<(i64, i64)> =
        (0..count).step_by(lanes as usize).map(|at| (at, lanes.min(count - at))).collect();
    let each = |nest: &mut Nest<'_>, f: &dyn Fn(&Nest<'_>, Expr, Expr) -> Stmt| {
        let parts = pieces.iter().map(|(at, width)| {
            nest.lanes_of(*width, |nest, l| {
                let slot = l + *at;
                f(nest, slot.clone(), first.clone() + slot)
            })
        });
        Stmt::Seq(parts.collect())
    };
    let init = stage.init.clone().expect("a reduction has an init");
    let start = each(nest, &|_, slot, _| Stmt::store(acc, vec![slot], init.clone()));
    let step = each(nest, &|nest, slot, index| {
        let old = nest.func.load(acc, vec![slot.clone()]);
        let value = stage.value.substitute(&|v| (v == inner.var).then(|| index.clone()));
        let new = replace_loads(&value, stage.buffer, &mut |_| old.clone());
        let new = match &bound {
            Some(bound) => Expr::if_then_else(index.lt(bound.clone()), new, old),
            None => new,
        };
        Stmt::store(acc, vec![slot], new)
    });
    let store = each(nest, &|nest, slot, index| {
        let at: Vec<Expr> = stage
            .indices
            .iter()
            .map(|e| e.substitute(&|v| (v == inner.var).then(|| index.clone())))
            .collect();
        let store = Stmt::store(stage.buffer, at, nest.func.load(acc, vec![slot]));
        match &bound {
            Some(bound) => {
                let cond = index.lt(bound.clone());
                Stmt::If { cond, then: Box::new(store), otherwise: None }
            }
            None => store,
        }
    });
    let steps =
        stage.reduce.iter().rev().fold(step, |s, a| Stmt::serial(a.var, a.extent.clone(), s));
    Stmt::Allocate { buffer: acc, body: Box::new(Stmt::Seq(vec![start, steps, store])) }
}

fn finish(
    nest: &mut Nest<'_>,
    stage: &Stage,
    outer: &[Axis],
    threads: Parallel,
    row: Stmt,
) -> Stmt {
    let all: Vec<Axis> = stage.spatial.iter().chain(&stage.reduce).cloned().collect();
    let parallel = match threads {
        Parallel::Yes if !outer.is_empty() => {
            nest.parallel_for(&all, 1 + cost(&stage.value) as i64)
        }
        _ => Parallel::No,
    };
    let parallel = match outer.iter().find(|a| a.extent.as_int() != Some(1)) {
        Some(_) => parallel,
        None => Parallel::No,
    };
    if parallel == Parallel::Yes {
        nest.steps.push(format!("{}: threads share its outer loops", stage.name));
    }
    nest.outer(outer, parallel, row)
}

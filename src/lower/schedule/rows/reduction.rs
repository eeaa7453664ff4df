//! Reductions. Row reductions run along contiguous axes: partial results per lane, combined by a
//! tree reduction (which reassociates the sum). Column reductions run across rows: one accumulator
//! per result in vectors over the results (which keeps the order).
//!
//! ```text
//! row:    parts[lanes] = 0; for k by lanes: parts += x[k..]; tree reduction of parts; y = its root
//! column: for j by lanes: sums[lanes] = 0; for k: sums += x[k, j..]; y[j..] = sums
//! ```

use reflex_tir::arith::Analyzer;
use reflex_tir::schedule::{Schedule, ScheduleError};
use reflex_tir::{Expr, ExprKind, Intrin, IterKind, Scope, Stmt, Var};

use crate::schedule::core::access::{contiguous, widest};
use crate::schedule::core::collapse::collapsed;
use crate::schedule::core::cost::cost;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::primitives::{
    StageLoops, collapse_loops, parallelize, scheduled, unrolled_vectors,
};
use crate::schedule::core::stage::Stage;

/// Lanes along the reduced elements: the sum is reassociated.
const ALONG_ROWS: &str = "row reduction";

/// Lanes across the results: the order is kept.
const ACROSS_ROWS: &str = "column reduction";

/// Vectors of accumulators at once.
const VECTORS: i64 = 4;

/// Accumulators at once.
struct Accumulators {
    /// Partial or whole results.
    count: i64,
    /// Lanes of a vector of them.
    lanes: i64,
}

/// A reduction's direction of lanes, and their number.
#[derive(Clone, Copy, Debug)]
pub struct ReductionLanes {
    /// The rule.
    pub rule: &'static str,
    count: i64,
}

impl ReductionLanes {
    /// The ways to take a reduction, the first one first.
    pub fn of(nest: &mut Nest<'_>, stage: &Stage) -> Result<Vec<ReductionLanes>, Refusal> {
        if stage.reduce.is_empty() {
            return Err(Refusal::NothingToReduce);
        }
        let stage = collapsed(nest, stage);
        let count = nest.lanes(widest(&nest.func, &stage));
        // Dot products of words add to what is there: they have no partial results.
        let dots = matches!(
            stage.value.kind(),
            ExprKind::Call { op: Intrin::DotI8 { .. } | Intrin::DotI16 | Intrin::DotBf16, .. }
        );
        let along = (!dots && along_rows(nest, &stage, count)).then_some(ALONG_ROWS);
        let across = (!stage.spatial.is_empty()).then_some(ACROSS_ROWS);
        let ways: Vec<ReductionLanes> = [along, across]
            .into_iter()
            .flatten()
            .map(|rule| ReductionLanes { rule, count })
            .collect();
        if ways.is_empty() { Err(Refusal::NotContiguous) } else { Ok(ways) }
    }

    /// Applies it to a block in collapsed loops.
    pub fn apply(self, s: &mut Schedule, block: &str, loops: &[Var]) -> Result<(), ScheduleError> {
        match self.rule {
            ALONG_ROWS => along(s, block, loops, self.count),
            _ => across(s, block, loops, self.count),
        }
    }
}

/// The nest of a reduction, and the rule that wrote it.
pub fn reduce(
    nest: &mut Nest<'_>,
    stage: &Stage,
    threads: Parallel,
    refused: &mut Vec<(&'static str, Refusal)>,
) -> Result<(&'static str, Stmt), Refusal> {
    let stage = stage.squeezed();
    let mut last = Refusal::NotContiguous;
    for way in ReductionLanes::of(nest, &stage)? {
        let done = scheduled(nest, std::slice::from_ref(&stage), |nest, s, parts| {
            let (loops, spatial) = merged_loops(s, &parts[0]);
            let outer = if way.rule == ALONG_ROWS { spatial } else { spatial - 1 };
            if threads == Parallel::Yes {
                parallelize(nest, s, &loops, &loops[..outer], 1 + cost(&stage.value) as i64)?;
            }
            way.apply(s, &parts[0].block, &loops)
        });
        match done {
            Ok(stmt) => return Ok((way.rule, stmt)),
            Err(why) => {
                refused.push((way.rule, why));
                last = why;
            }
        }
    }
    Err(last)
}

/// The loops of a nest, collapsed where they can be, and the number of those that choose a result.
pub fn merged_loops(s: &mut Schedule, part: &StageLoops) -> (Vec<Var>, usize) {
    let (spatial, reduce) = part.loops.split_at(part.spatial);
    let reduce = collapse_loops(s, reduce);
    let spatial = collapse_loops(s, spatial);
    let count = spatial.len();
    ([spatial, reduce].concat(), count)
}

/// Whether lanes go along the last reduction axis rather than the last spatial one.
fn along_rows(nest: &Nest<'_>, stage: &Stage, lanes: i64) -> bool {
    let last = stage.reduce.last().expect("a reduction");
    let long = last.extent.as_int().is_none_or(|n| n >= lanes / 2);
    let (spatial, reduced) = contiguous(&nest.func, stage);
    stage.spatial.is_empty() || (long && reduced > spatial)
}

/// The largest power of two that is at most `n`.
fn power_below(n: i64) -> i64 {
    1 << (63 - n.max(1).leading_zeros())
}

/// Partial sums along the last axis, in up to four vectors, combined by a tree reduction. Fewer
/// partial sums where the axis is known to be short are the same sum: each has at most two elements
/// then, which are leaves of the tree of twice as many. So results are the same bits whether the
/// extent is static or not.
fn along(s: &mut Schedule, block: &str, loops: &[Var], lanes: i64) -> Result<(), ScheduleError> {
    let inner = *loops.last().expect("a reduction");
    let extent: Expr = s.get_loop(inner)?.extent.clone();
    let length = s.extent(inner)?.unwrap_or(i64::MAX);
    let lanes = lanes.min(power_below(length));
    let parts = lanes * power_below(length / lanes).clamp(1, VECTORS);
    let part = if length == parts { inner } else { s.split(inner, parts)?.1 };
    let partial = s.rfactor(block, part)?;
    s.set_scope(&partial, Scope::Local)?;
    let depth = s.get_loops(block)?.len() - 1;
    let top = s.get_loops(&partial)?[depth];
    let start = s.decompose_reduction(&partial, top)?;
    unrolled_vectors(s, innermost(s, &start)?, lanes)?;
    // A symbolic extent may be a multiple too: rows of whole vectors, collapsed.
    let rest = Analyzer::new().simplify(&extent.clone().floormod(parts));
    if length % parts != 0 && rest.as_int() != Some(0) {
        remainder(s, &partial, extent.floordiv(parts), &Accumulators { count: parts, lanes })?;
    }
    unrolled_vectors(s, innermost(s, &partial)?, lanes)?;
    let mut at = Some(innermost(s, block)?);
    while let Some(all) = at.take() {
        if let Some((_, half)) = s.tree_reduce(block, all)? {
            unrolled_vectors(s, half, lanes)?;
            at = s.get_loops(block)?.last().copied();
        }
    }
    Ok(())
}

/// The remainder behind whole vectors of partial sums: vectors without a guard but for the last
/// one.
fn remainder(
    s: &mut Schedule,
    block: &str,
    whole: Expr,
    accumulators: &Accumulators,
) -> Result<(), ScheduleError> {
    let Accumulators { count: parts, lanes } = *accumulators;
    let loops = s.get_loops(block)?;
    let steps = loops[loops.len() - 2];
    let (_, rest) = s.partition(steps, whole)?;
    let name = block_below(s, rest)?;
    let part = innermost(s, &name)?;
    if s.extent(rest)? == Some(1) {
        let (at, _) = s.separate_full_tiles(&name, part)?;
        return unrolled_vectors(s, at, lanes);
    }
    let vector = if parts == lanes { part } else { s.split(part, lanes)?.1 };
    let (all, some) = s.separate_full_tiles(&name, vector)?;
    for at in [Some(all), some].into_iter().flatten() {
        s.vectorize(at)?;
    }
    match parts == lanes {
        true => Ok(()),
        false => {
            let loops = s.get_loops(&name)?;
            s.unroll(loops[loops.len() - 2])
        }
    }
}

/// The innermost loop around a block.
fn innermost(s: &Schedule, block: &str) -> Result<Var, ScheduleError> {
    Ok(*s.get_loops(block)?.last().expect("a block in loops"))
}

/// Accumulators of neighbouring results, in up to four vectors.
fn across(s: &mut Schedule, block: &str, loops: &[Var], lanes: i64) -> Result<(), ScheduleError> {
    let reduce = s.get_block(block)?.iters.iter().filter(|i| i.kind == IterKind::Reduce).count();
    let (spatial, reduce) = loops.split_at(loops.len() - reduce);
    let inner = *spatial.last().expect("a spatial axis");
    let width = match s.extent(inner)? {
        Some(n) if n < lanes => n,
        Some(n) => (n / lanes).min(VECTORS) * lanes,
        None => lanes,
    };
    match s.extent(inner)? {
        Some(n) if n % width != 0 => {
            let (main, rest) = s.partition(inner, (n / width * width).into())?;
            let name = block_below(s, rest)?;
            let loops = s.get_loops(&name)?;
            let inner = &loops[loops.len() - reduce.len()..];
            results(s, &name, rest, inner, &Accumulators { count: n % width, lanes })?;
            results(s, block, main, reduce, &Accumulators { count: width, lanes })
        }
        _ => results(s, block, inner, reduce, &Accumulators { count: width, lanes }),
    }
}

/// The block in a loop.
fn block_below(s: &Schedule, at: Var) -> Result<String, ScheduleError> {
    let mut name = String::new();
    s.get_loop(at)?.body.visit(&mut |stmt| {
        if let Stmt::Block(b) = stmt {
            name.clone_from(&b.name);
        }
    });
    Ok(name)
}

/// `width` results along `at` at a time, whose sums are kept in vectors of `lanes`.
fn results(
    s: &mut Schedule,
    block: &str,
    at: Var,
    reduce: &[Var],
    accumulators: &Accumulators,
) -> Result<(), ScheduleError> {
    let Accumulators { count: width, lanes } = *accumulators;
    let (outer, lane) = match s.extent(at)? {
        Some(n) if n == width => (None, at),
        _ => s.split(at, width).map(|(outer, lane)| (Some(outer), lane))?,
    };
    let order: Vec<Var> = outer.iter().chain(reduce).copied().chain([lane]).collect();
    s.reorder(&order)?;
    let stored = s.cache_write_at(block, reduce[0], Scope::Local)?;
    let start = s.decompose_reduction(block, reduce[0])?;
    for name in [&start, block, &stored] {
        unrolled_vectors(s, *s.get_loops(name)?.last().expect("the lanes"), lanes)?;
    }
    Ok(())
}

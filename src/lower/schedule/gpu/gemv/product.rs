//! A product with few rows, and how a block's threads share it.

use std::collections::HashMap;

use reflex_tir::{DType, Expr, ExprKind, Intrin, Var};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::gemm::{ENOUGH_TILES, unit_step};
use crate::schedule::gpu::gemv::weights::{Weights, uncast};
use crate::schedule::gpu::grid::{THREADS, count, decoded};

/// The most rows: more are tiles of a matrix product.
const MOST_ROWS: i64 = 8;
/// The shortest reduction, and the fewest weights, that are worth the rule.
const LEAST_STEPS: i64 = 32;
const LEAST_WEIGHTS: i64 = 1 << 12;
/// Loads of weights that a thread has on their way.
const IN_FLIGHT: i64 = 8;
/// Threads that share a column where weights are contiguous along steps, and where they are along columns:
/// the last ones leave four threads of 16 bytes, two sectors.
const SHARES_ALONG: [i64; 4] = [32, 64, 128, 256];
const SHARES_ACROSS: [i64; 5] = [1, 8, 16, 32, 64];
/// Columns of a thread where weights are contiguous along steps.
const COLUMNS_ALONG: [i64; 3] = [4, 2, 1];
/// Columns where their number is not known.
const USUAL_COLUMNS: i64 = 4096;
/// Steps that each share of a part has at least, and the most parts.
const LEAST_SHARE: i64 = 32;
const MOST_PARTS: i64 = 32;

/// A sum over products of weights and a few rows.
pub struct MatrixVector<'s> {
    /// The stage.
    pub stage: &'s Stage,
    /// The rows' element.
    pub x: Expr,
    /// The weights.
    pub weights: Weights,
    /// Axes of `x` alone, of the weights alone, and of both.
    pub rows: Vec<Axis>,
    /// See `rows`.
    pub columns: Vec<Axis>,
    /// See `rows`.
    pub batch: Vec<Axis>,
    /// Whether the elements of `x` for the steps of an access are neighbours, too.
    pub x_in_vectors: bool,
}

/// The shares of a block's threads in its columns and steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Threads that share a column's steps.
    pub shares: i64,
    /// Columns of a thread.
    pub each: i64,
    /// Accesses of a thread to each column (or vector of columns) in a group of steps.
    pub unrolled: i64,
    /// Blocks that share a column's steps.
    pub parts: i64,
}

impl Geometry {
    /// Threads with different columns.
    pub fn threads(self) -> i64 {
        THREADS / self.shares
    }

    /// Columns of a block.
    pub fn columns(self) -> i64 {
        self.threads() * self.each
    }
}

impl<'s> MatrixVector<'s> {
    /// The product that a stage is.
    pub fn of(nest: &mut Nest<'_>, stage: &'s Stage) -> Result<MatrixVector<'s>, Refusal> {
        let ExprKind::Call { op: Intrin::Fma, args, .. } = stage.value.kind() else {
            return Err(Refusal::NoContraction);
        };
        let sums = matches!(args[2].kind(), ExprKind::Load { buffer, indices, .. }
            if *buffer == stage.buffer && *indices == stage.indices);
        let zero = Expr::constant(0.0, DType::F32);
        if !sums || stage.init.as_ref() != Some(&zero) {
            return Err(Refusal::NoContraction);
        }
        let own = |a: &Expr, b: &Expr| -> Vec<Axis> {
            let of = |axis: &&Axis| mentions(a, axis.var) && !mentions(b, axis.var);
            stage.spatial.iter().filter(of).cloned().collect()
        };
        let (a, b) = (&args[0], &args[1]);
        let few = |axes: &[Axis]| count(axes).as_int().is_some_and(|n| n <= MOST_ROWS);
        let (own_a, own_b) = (own(a, b), own(b, a));
        let (x, weights, rows, columns) = match few(&own_a) {
            true if !few(&own_b) => (a, b, own_a, own_b),
            false if few(&own_b) => (b, a, own_b, own_a),
            true => return Err(Refusal::TooSmall),
            false => return Err(Refusal::ManyRows),
        };
        let both = |axis: &&Axis| mentions(a, axis.var) && mentions(b, axis.var);
        let batch: Vec<Axis> = stage.spatial.iter().filter(both).cloned().collect();
        if rows.len() + columns.len() + batch.len() != stage.spatial.len() {
            return Err(Refusal::NotSeparable);
        }
        let steps = count(&stage.reduce).as_int();
        let weights_in_all = steps.zip(count(&columns).as_int()).map(|(k, n)| k.saturating_mul(n));
        if steps.is_some_and(|n| n < LEAST_STEPS)
            || weights_in_all.is_some_and(|n| n < LEAST_WEIGHTS)
        {
            return Err(Refusal::TooSmall);
        }
        let x = x.clone();
        let weights = Weights::of(nest, weights, &stage.reduce, &columns)?;
        let loaded = matches!(uncast(&x).kind(), ExprKind::Load { .. });
        let x_in_vectors = loaded && unit_step(nest, &x, &stage.reduce);
        Ok(MatrixVector { stage, x, weights, rows, columns, batch, x_in_vectors })
    }

    /// The number of rows.
    pub fn height(&self) -> i64 {
        count(&self.rows).as_int().expect("rows are few")
    }

    /// Threads with enough columns for a GPU where there are as many, and shares of steps that make up for columns.
    pub fn geometry(&self) -> Geometry {
        let known = count(&self.columns).as_int();
        let columns = known.unwrap_or(USUAL_COLUMNS);
        let batch = count(&self.batch).as_int().unwrap_or(1);
        let blocks = |g: &Geometry| ((columns - 1) / g.columns() + 1).saturating_mul(batch);
        let enough = |g: &Geometry| blocks(g) >= ENOUGH_TILES;
        let of = |shares, each, unrolled| Geometry { shares, each, unrolled, parts: 1 };
        let all: Vec<Geometry> = match self.weights.across {
            true => {
                let Weights { vector, loads, .. } = &self.weights;
                let unrolled = (IN_FLIGHT / loads.len() as i64).max(1);
                SHARES_ACROSS.iter().map(|shares| of(*shares, *vector, unrolled)).collect()
            }
            false => {
                let in_warp = COLUMNS_ALONG.map(|each| of(SHARES_ALONG[0], each, IN_FLIGHT / each));
                let shared = SHARES_ALONG[1..].iter().map(|shares| of(*shares, 1, 2));
                in_warp.into_iter().chain(shared).collect()
            }
        };
        let found = all.iter().copied().find(enough);
        let most = found.unwrap_or(all[all.len() - 1]);
        // Steps that all shares take at once.
        let width = most.shares * self.weights.steps;
        let longest = count(&self.stage.reduce).as_int().map_or(1, |k| k / (width * LEAST_SHARE));
        let parts = (2 * ENOUGH_TILES / blocks(&most).max(1)).min(longest).min(MOST_PARTS);
        let is_few = found.is_none() && 2 * blocks(&most) <= ENOUGH_TILES && known.is_some();
        match is_few && parts > 1 {
            true => Geometry { parts, ..most },
            false => most,
        }
    }

    /// The axes of results at a position.
    pub fn places(&self, row: &Expr, column: &Expr) -> HashMap<Var, Expr> {
        let mut places = decoded(&self.rows, row);
        places.extend(decoded(&self.columns, column));
        places
    }
}

//! Products with few rows (GEMV): each element of the weights is read once, 16 bytes at a time with several
//! loads on their way, and multiplied by the elements of up to eight rows.
//!
//! ```text
//! for bx in blocks:
//!     for ty, tx in threads(T, S):            weights contiguous along steps: S threads share T * C columns
//!         acc[M, C] = 0
//!         for k0 in groups of U * S vectors:
//!             w[U, C, V] = weights
//!             for u, m: row[V] = x[m, ..]
//!                 for c, v: acc[m, c] = fma(row[v], w[u, c, v], acc[m, c])
//!         partial[m, c, ty, tx] = acc
//!         tree reduction along tx
//!         y[m, ..] = partial[m, .., 0]
//! ```
//!
//! Where weights are contiguous along columns, a thread has a vector of columns and every S-th step. Where that
//! makes enough threads with S = 1, sums keep their order: the rule `gemv, in order`. Where columns are too few even
//! for the most shares, blocks reduce a part of the steps each, and a second launch adds the parts.
//!
//! Decision: docs/decisions/0108-gemv-on-gpus.md

mod block;
mod weights;

use std::collections::HashMap;

use reflex_tir::{DType, Expr, ExprKind, Intrin, Stmt, Var};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::gemm::ENOUGH_TILES;
use crate::schedule::gpu::gemv::block::{Block, Position};
use crate::schedule::gpu::gemv::weights::{Weights, steps_by_one, uncast};
use crate::schedule::gpu::grid::{THREADS, count, decoded};
use crate::schedule::gpu::split_k::sum_parts;
use crate::schedule::gpu::work::Work;

/// The most rows: more are tiles of a matrix product.
const MOST_ROWS: i64 = 8;
/// The shortest reduction, and the fewest weights, that are worth the rule.
const LEAST_STEPS: i64 = 32;
const LEAST_WEIGHTS: i64 = 1 << 12;
/// Loads of weights that a thread has on their way.
const IN_FLIGHT: i64 = 8;
/// Threads that share a column where weights are contiguous along steps, and where they are along columns:
/// eight threads of 16 bytes are a cache line.
const SHARES_ALONG: [i64; 4] = [32, 64, 128, 256];
const SHARES_ACROSS: [i64; 4] = [1, 8, 16, 32];
/// Columns of a thread where weights are contiguous along steps.
const COLUMNS_ALONG: [i64; 3] = [4, 2, 1];
/// Columns where their number is not known.
const USUAL_COLUMNS: i64 = 4096;
/// Steps that each share of a part has at least, and the most parts.
const LEAST_SHARE: i64 = 32;
const MOST_PARTS: i64 = 32;

/// The launch of a product whose columns are enough for a thread each.
pub fn gemv_in_order(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let product = MatrixVector::of(nest, &work.stage)?;
    match product.geometry() {
        Geometry { shares: 1, .. } => product.launch(nest, work),
        _ => Err(Refusal::FewColumns),
    }
}

/// The launches of a product with few rows.
pub fn gemv(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    MatrixVector::of(nest, &work.stage)?.launch(nest, work)
}

/// A sum over products of weights and a few rows.
struct MatrixVector<'s> {
    stage: &'s Stage,
    /// The rows' element.
    x: Expr,
    weights: Weights,
    /// Axes of `x` alone, of the weights alone, and of both.
    rows: Vec<Axis>,
    columns: Vec<Axis>,
    batch: Vec<Axis>,
    /// Whether the elements of `x` for the steps of an access are neighbours, too.
    x_in_vectors: bool,
}

/// How a block's threads share its columns and steps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Geometry {
    /// Threads that share a column's steps.
    shares: i64,
    /// Columns of a thread.
    each: i64,
    /// Accesses of a thread to each column (or vector of columns) in a group of steps.
    unrolled: i64,
    /// Blocks that share a column's steps.
    parts: i64,
}

impl Geometry {
    /// Threads with different columns.
    fn threads(self) -> i64 {
        THREADS / self.shares
    }

    /// Columns of a block.
    fn columns(self) -> i64 {
        self.threads() * self.each
    }
}

impl<'s> MatrixVector<'s> {
    fn of(nest: &mut Nest<'_>, stage: &'s Stage) -> Result<MatrixVector<'s>, Refusal> {
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
        let x_in_vectors = steps_by_one(nest, uncast(&x), stage.reduce.last());
        Ok(MatrixVector { stage, x, weights, rows, columns, batch, x_in_vectors })
    }

    /// The number of rows.
    fn height(&self) -> i64 {
        count(&self.rows).as_int().expect("rows are few")
    }

    /// Threads with enough columns for a GPU where there are as many, and shares of steps that make up for columns.
    fn geometry(&self) -> Geometry {
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

    fn launch(&self, nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
        let geometry = self.geometry();
        let Geometry { shares, each, unrolled, parts } = geometry;
        nest.steps.push(format!(
            "{}: {} rows, {shares} threads share {each} columns of weights contiguous along {}, {} loads of {} at once{}",
            self.stage.name,
            self.height(),
            if self.weights.across { "columns" } else { "steps" },
            if self.weights.across { unrolled } else { unrolled * each },
            self.weights.vector,
            if parts > 1 { format!(", in {parts} parts") } else { String::new() },
        ));
        let block = Block::new(nest, self, geometry);
        if parts == 1 {
            let store = |position: &Position, result: Expr| {
                let places = self.places(position);
                let (buffer, indices, value) = work.store(result);
                let place = |e: &Expr| e.substitute(&|v| places.get(&v).cloned());
                (buffer, indices.iter().map(place).collect(), place(&value))
            };
            return Ok(block.launch(nest, &store));
        }
        let matrices = count(&self.batch);
        let extents = [parts.into(), matrices, self.height().into(), count(&self.columns)];
        let partial = nest.scratch("parts", DType::F32, extents.to_vec());
        let own: Vec<Expr> = self.batch.iter().map(|axis| axis.var.into()).collect();
        let matrix = self
            .batch
            .iter()
            .zip(own)
            .fold(Expr::i64(0), |at, (axis, own)| at * axis.extent.clone() + own);
        let of_parts = block.launch(nest, &|at: &Position, result| {
            let place = [&at.part, &matrix, &at.row, &at.column].map(Expr::clone);
            (partial, place.to_vec(), result)
        });
        let sums = sum_parts(nest, work, partial, &|at| {
            let mut places = decoded(&self.batch, &at[0]);
            let (row, column) = (at[1].clone(), at[2].clone());
            places.extend(self.places(&Position { part: Expr::i64(0), row, column }));
            places
        });
        Ok(Stmt::Seq(vec![of_parts, sums]))
    }

    /// The axes of results at a position.
    fn places(&self, at: &Position) -> HashMap<Var, Expr> {
        let mut places = decoded(&self.rows, &at.row);
        places.extend(decoded(&self.columns, &at.column));
        places
    }
}

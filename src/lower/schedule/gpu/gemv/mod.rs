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
mod product;
mod weights;

use reflex_tir::{DType, Expr, Stmt};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::gemv::block::{Block, Position};
use crate::schedule::gpu::gemv::product::{Geometry, MatrixVector};
use crate::schedule::gpu::grid::{count, decoded, encoded};
use crate::schedule::gpu::split_k::sum_parts;
use crate::schedule::gpu::work::Work;

/// The launch of a product whose columns are enough for a thread each.
pub fn gemv_in_order(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let product = MatrixVector::of(nest, &work.stage)?;
    match product.geometry() {
        Geometry { shares: 1, .. } => Ok(launch(nest, &product, work)),
        _ => Err(Refusal::FewColumns),
    }
}

/// The launches of a product with few rows.
pub fn gemv(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let product = MatrixVector::of(nest, &work.stage)?;
    Ok(launch(nest, &product, work))
}

fn launch(nest: &mut Nest<'_>, product: &MatrixVector<'_>, work: &Work) -> Stmt {
    let geometry = product.geometry();
    let Geometry { shares, each, unrolled, parts } = geometry;
    nest.steps.push(format!(
            "{}: {} rows, {shares} threads share {each} columns of weights contiguous along {}, {} loads of {} at once{}",
            product.stage.name,
            product.height(),
            if product.weights.across { "columns" } else { "steps" },
            if product.weights.across { unrolled } else { unrolled * each },
            product.weights.vector,
            if parts > 1 { format!(", in {parts} parts") } else { String::new() },
        ));
    let block = Block::new(nest, product, geometry);
    if parts == 1 {
        let store = |position: &Position, result: Expr| {
            let places = product.places(&position.row, &position.column);
            work.placed(result, &|v| places.get(&v).cloned())
        };
        return block.launch(nest, &store);
    }
    let matrices = count(&product.batch);
    let extents = [parts.into(), matrices, product.height().into(), count(&product.columns)];
    let partial = nest.scratch("parts", DType::F32, extents.to_vec());
    let matrix = encoded(&product.batch);
    let of_parts = block.launch(nest, &|at: &Position, result| {
        let place = [&at.part, &matrix, &at.row, &at.column].map(Expr::clone);
        (partial, place.to_vec(), result)
    });
    let sums = sum_parts(nest, work, partial, &|at| {
        let mut places = decoded(&product.batch, &at[0]);
        places.extend(product.places(&at[1], &at[2]));
        places
    });
    Stmt::Seq(vec![of_parts, sums])
}

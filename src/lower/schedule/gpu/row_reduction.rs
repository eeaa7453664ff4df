//! Reductions along contiguous elements, with their epilogue: a block for each result. The sum is
//! reassociated.

use reflex_tir::Stmt;
use reflex_tir::thread::WARP;

use crate::schedule::core::access::contiguous;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Stage;
use crate::schedule::gpu::row_blocks::{RowBlocks, row_blocks, threads_for};
use crate::schedule::gpu::work::Work;

/// The shortest axis that threads share, in warps.
const LEAST_WARPS: i64 = 2;

/// The launch of a reduction along rows.
pub fn row_reduction(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = &work.stage;
    let Some(last) = stage.reduce.last() else { return Err(Refusal::NothingToReduce) };
    let (spatial, reduced) = contiguous(&nest.func, stage);
    if !stage.spatial.is_empty() && reduced <= spatial {
        return Err(Refusal::NotContiguous);
    }
    if last.extent.as_int().is_some_and(|n| n < LEAST_WARPS * WARP) {
        return Err(Refusal::TooShort);
    }
    let known = |n: i64, extent: Option<i64>| n.checked_mul(extent?);
    let length = stage.reduce.iter().map(|axis| axis.extent.as_int()).try_fold(1, known);
    // An epilogue alone reads the results, a row's each.
    let private = [work.epilogue.is_some(), false];
    let stages: Vec<Stage> = [stage].into_iter().chain(&work.epilogue).cloned().collect();
    let (depth, threads) = (stage.spatial.len(), threads_for(length));
    let private = &private[..stages.len()];
    row_blocks(nest, &RowBlocks { stages: &stages, private, depth, threads })
}

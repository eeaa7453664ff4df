//! Stages without a reduction: a thread for each vector of 16 bytes, blocks of 256 threads.

use reflex_tir::Stmt;

use crate::schedule::core::access::{contiguous, widest};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::primitives::{collapse_loops, scheduled};
use crate::schedule::gpu::Work;
use crate::schedule::gpu::grid::bind_grid;

/// The launch of a map whose rows are whole vectors.
pub fn map(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = work.alone()?;
    let lanes = nest.lanes(widest(&nest.func, stage));
    let whole = |n: i64| n % lanes == 0;
    let Some(inner) = stage.spatial.last().filter(|_| stage.init.is_none()) else {
        return Err(Refusal::NoMap);
    };
    if lanes == 1 || !inner.extent.as_int().is_some_and(whole) {
        return Err(Refusal::PartialVectors);
    }
    if contiguous(&nest.func, stage).0 == 0 {
        return Err(Refusal::NotContiguous);
    }
    scheduled(nest, std::slice::from_ref(stage), |_, s, parts| {
        let mut loops = collapse_loops(s, &parts[0].loops);
        let inner = loops.pop().expect("an axis");
        let (vectors, lane) = s.split(inner, lanes)?;
        loops.push(vectors);
        s.vectorize(lane)?;
        bind_grid(s, &loops)
    })
}

//! The second launch of a reduction in parts: a thread for each result adds its parts in order.

use std::collections::HashMap;

use reflex_tir::{Buffer, DType, Expr, ForKind, Stmt, Var};

use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::grid::{THREADS, blocks, guarded, threads};
use crate::schedule::gpu::work::Work;

/// The launch that adds the parts, of which `partial` has one in each of its rows, and stores the results with
/// their epilogue. `places` gives the axes of the stage at indices of `partial` behind the first one.
pub fn sum_parts(
    nest: &mut Nest<'_>,
    work: &Work,
    partial: Buffer,
    places: &dyn Fn(&[Expr]) -> HashMap<Var, Expr>,
) -> Stmt {
    let shape = nest.func.buffers[partial].shape.clone();
    let (parts, extents) = shape.split_first().expect("it has parts");
    let results = extents.iter().fold(Expr::i64(1), |n, extent| n * extent.clone());
    let acc = nest.local("sum", DType::F32, &[]);
    blocks(nest, results.clone().ceildiv(THREADS), &[], |nest, b| {
        threads(nest, [1, THREADS], &mut |nest, _, tx| {
            let at = b.clone() * THREADS + tx;
            let mut rest = at.clone();
            let mut index = vec![Expr::i64(0); extents.len()];
            for (n, extent) in extents.iter().enumerate().rev() {
                index[n] =
                    if n == 0 { rest.clone() } else { rest.clone().floormod(extent.clone()) };
                rest = rest.floordiv(extent.clone());
            }
            let sum = nest.repeat(ForKind::Serial, "p", parts.clone(), |_, p| {
                let part = Expr::load(partial, [&[p], &index[..]].concat(), DType::F32);
                Stmt::store(acc, vec![], Expr::load(acc, vec![], DType::F32) + part)
            });
            let start = Stmt::store(acc, vec![], Expr::float(0.0, DType::F32));
            let places = places(&index);
            let total = Expr::load(acc, vec![], DType::F32);
            let (buffer, indices, value) = work.placed(total, &|v| places.get(&v).cloned());
            let store = Stmt::store(buffer, indices, value);
            let body = Stmt::Seq(vec![start, sum, store]);
            guarded(at.lt(results.clone()), Stmt::Allocate { buffer: acc, body: Box::new(body) })
        })
    })
}

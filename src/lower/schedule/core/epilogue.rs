//! Epilogues: elementwise stages computed where a contraction stores.

use std::collections::HashSet;

use reflex_tir::{Buffer, PrimFunc};

use crate::schedule::core::access::buffers_of;
use crate::schedule::core::affine::same;
use crate::schedule::core::stage::{Item, loads_of};

/// The position of the elementwise stage that may be computed where the stage at `at` stores:
/// the only reader of its result, at the same index, free of what is computed in between.
pub fn epilogue_of(
    func: &PrimFunc,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
) -> Option<usize> {
    let Item::Stage(stage) = &items[at] else { return None };
    let result = stage.buffer;
    if around.contains(&result) || !stage.is_identity() || !func.allocs.contains(&result) {
        return None;
    }
    let mut readers = (0..items.len()).filter(|n| *n != at && items[*n].reads(result));
    let (Some(reader), None) = (readers.next(), readers.next()) else { return None };
    let Item::Stage(next) = &items[reader] else { return None };
    let aligned = reader > at
        && next.reduce.is_empty()
        && next.is_identity()
        && !next.reads(next.buffer)
        && !stage.reads(next.buffer)
        && next.spatial.len() == stage.spatial.len()
        && next.spatial.iter().zip(&stage.spatial).all(|(a, b)| same(&a.extent, &b.extent));
    if !aligned {
        return None;
    }
    let in_place = loads_of(&next.value, result).iter().all(|indices| {
        indices.len() == next.spatial.len()
            && indices.iter().zip(&next.spatial).all(|(i, a)| a.is_index(i))
    });
    let sources = buffers_of(&next.value);
    let free = !items[at + 1..reader].iter().any(|i| {
        i.writes(next.buffer) || i.reads(next.buffer) || sources.iter().any(|b| i.writes(*b))
    });
    (in_place && free).then_some(reader)
}

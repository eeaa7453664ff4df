//! Items one after the other, each by the first rule that takes it.

use std::collections::HashSet;

use reflex_tir::{Buffer, Stmt};

use crate::schedule::contractions::contraction;
use crate::schedule::core::decision::Decision;
use crate::schedule::core::epilogue::epilogue_of;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::{Item, touched_outside};
use crate::schedule::gemm::block_sums::sum_over_blocks;
use crate::schedule::rows::row_fusion::row_stages;

/// The nests of `items`, in order.
pub fn emit(
    nest: &mut Nest<'_>,
    items: &[Item],
    around: &HashSet<Buffer>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let mut items = items.to_vec();
    let (mut parts, mut at) = (vec![], 0);
    while at < items.len() {
        let (stmt, count) = emit_next(nest, &mut items, at, around, threads, decisions);
        parts.push(stmt);
        at += count;
    }
    Stmt::Seq(parts)
}

/// The nest of the item at `at`, and the number of items that it takes. An epilogue that a
/// contraction stores is removed from `items`.
pub fn emit_next(
    nest: &mut Nest<'_>,
    items: &mut Vec<Item>,
    at: usize,
    around: &HashSet<Buffer>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> (Stmt, usize) {
    if let Some(stmt) = over_blocks(nest, items, at, around, threads, decisions) {
        return (stmt, 2);
    }
    match items[at].clone() {
        Item::Opaque(stmt) => (stmt, 1),
        Item::Loop { var, extent, items: inner } => {
            let outside = touched_outside(items, at..at + 1, around);
            let body = emit(nest, &inner, &outside, Parallel::No, decisions);
            (Stmt::serial(var, extent, body), 1)
        }
        Item::Stage(stage) if stage.init.is_some() => {
            let reader = epilogue_of(&nest.func, items, at, around);
            let epilogue = reader.and_then(|n| items[n].stage());
            match contraction(nest, &stage, epilogue, threads, decisions) {
                Ok(stmt) => {
                    if let Some(reader) = reader {
                        items.remove(reader);
                    }
                    (stmt, 1)
                }
                Err(refusal) => {
                    let refused = Some(("gemm", refusal));
                    row_stages(nest, items, at, around, threads, refused, decisions)
                }
            }
        }
        Item::Stage(_) => row_stages(nest, items, at, around, threads, None, decisions),
    }
}

/// The nest of two stages that are a sum over blocks, and the epilogue that it stores.
fn over_blocks(
    nest: &mut Nest<'_>,
    items: &mut Vec<Item>,
    at: usize,
    around: &HashSet<Buffer>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> Option<Stmt> {
    let stage = sum_over_blocks(nest, items, at)?;
    let reader = epilogue_of(&nest.func, items, at + 1, around);
    let epilogue = reader.and_then(|n| items[n].stage());
    match contraction(nest, &stage, epilogue, threads, decisions) {
        Ok(stmt) => {
            if let Some(reader) = reader {
                items.remove(reader);
            }
            Some(stmt)
        }
        Err(why) => {
            nest.steps.push(format!("{}: not over blocks in registers: {why}", stage.name));
            None
        }
    }
}

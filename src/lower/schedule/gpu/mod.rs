//! Schedule rules for GPUs: stages become launches, each by the first rule that takes it.
//!
//! | rule | stages | results |
//! |---|---|---|
//! | `attention` | two contractions around a softmax, in one launch with online softmax | reassociated |
//! | `attention, tensor cores` | those of 16-bit floats with more than eight rows | those of tensor cores |
//! | `rows` | reductions along rows and what reads them at the same row, in one launch | reassociated |
//! | `map` | stages without a reduction whose rows are whole vectors | exactly the naive ones |
//! | `transpose` | moves from one contiguous axis to another | exactly the naive ones |
//! | `gemv, in order` | products of float32 or 16-bit weights and up to eight rows, with a thread for each column | exactly the naive ones |
//! | `gemv` | those with fewer columns, or weights contiguous along steps | reassociated |
//! | `gemm, warp-specialised` | contractions of 16-bit floats in memory with many tiles, on Hopper | those of tensor cores |
//! | `gemm, tensor cores` | contractions of 16-bit floats with rows and columns | those of tensor cores |
//! | `gemm, terms` | long contractions of float32 in `f32-fast`, where the GPU has warpgroups | errors of float32's at most |
//! | `gemm` | contractions of float32 with rows and columns | exactly the naive ones |
//! | `gemm, split-k` | those with few tiles and a long reduction | reassociated |
//! | `row reduction` | reductions of contiguous elements | reassociated |
//! | `split reduction` | other long reductions to few results | reassociated |
//! | `fallback` | all: a thread for each result, which reduces in order | exactly the naive ones |
//! | `independent loops` | other statements: a thread for each iteration of their outer loops | exactly the naive ones |
//! | `one thread` | the rest | as written |
//!
//! So no kernel is refused for want of a rule. An elementwise stage that alone reads a result at its own
//! index is an epilogue: the thread that has the result computes it. Loops around stages run on the
//! host. Rules bind loops; barriers and what one thread does are the business of lowering.
//!
//! Decisions: docs/decisions/0051-gpu-rules.md, docs/decisions/0107-nhwc-and-tile-costs.md

mod attention;
mod cost;
mod fallback;
mod gemm;
mod gemv;
mod grid;
mod map;
mod pipelined;
mod row_blocks;
mod row_reduction;
mod rows;
mod split_k;
mod split_reduction;
mod tensor_core;
mod terms;
mod transpose;
mod warp_specialised;
mod work;

use std::collections::HashSet;

use reflex_tir::{Buffer, Stmt};

use crate::schedule::blocked_layout::split_channel_blocks;
use crate::schedule::core::decision::{Decision, Refusal};
use crate::schedule::core::epilogue::epilogue_of;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Item, Stage, touched_outside};
use crate::schedule::gpu::attention::attention;
use crate::schedule::gpu::fallback::{fallback, independent_loops};
use crate::schedule::gpu::gemm::{gemm, gemm_split_k};
use crate::schedule::gpu::gemv::{gemv, gemv_in_order};
use crate::schedule::gpu::grid::one_thread;
use crate::schedule::gpu::map::map;
use crate::schedule::gpu::row_reduction::row_reduction;
use crate::schedule::gpu::rows::rows;
use crate::schedule::gpu::split_reduction::split_reduction;
use crate::schedule::gpu::tensor_core::tensor_core;
use crate::schedule::gpu::terms::terms;
use crate::schedule::gpu::transpose::transpose;
use crate::schedule::gpu::warp_specialised::warp_specialised;
use crate::schedule::gpu::work::Work;
use crate::schedule::inline::{inline_stages, store_transposed};

/// The launches of a kernel.
pub fn gpu_kernel(
    nest: &mut Nest<'_>,
    items: &mut Vec<Item>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    *items = split_channel_blocks(nest, std::mem::take(items));
    inline_stages(nest, items, &HashSet::new());
    store_transposed(nest, items);
    launches(nest, items, &HashSet::new(), decisions)
}

/// The launches of `items`. Buffers that are `around` them stay.
fn launches(
    nest: &mut Nest<'_>,
    items: &[Item],
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let (mut items, mut list, mut at) = (items.to_vec(), vec![], 0);
    while at < items.len() {
        let shared = match items[at] {
            Item::Stage(_) => attention(nest, &items, at, around, decisions)
                .or_else(|| rows(nest, &items, at, around, decisions)),
            Item::Loop { .. } | Item::Opaque(_) => None,
        };
        if let Some((stmt, count)) = shared {
            list.push(stmt);
            at += count;
            continue;
        }
        list.push(launch(nest, &mut items, at, around, decisions));
        at += 1;
    }
    Stmt::Seq(list)
}

/// The launches of the item at `at`. Its epilogue, if it has one, is removed from the items.
fn launch(
    nest: &mut Nest<'_>,
    items: &mut Vec<Item>,
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    match items[at].clone() {
        Item::Loop { var, extent, items: inner } if inner.iter().all(of_stages) => {
            let outside = touched_outside(items, at..at + 1, around);
            let body = launches(nest, &inner, &outside, decisions);
            Stmt::serial(var, extent, body)
        }
        Item::Stage(stage) => {
            let reader = stage.init.is_some().then(|| epilogue_of(&nest.func, items, at, around));
            if let Some(reader) = reader.flatten()
                && let Some(epilogue) = items[reader].stage()
                && let Ok(stmt) = of_stage(nest, &stage, Some(epilogue), decisions)
            {
                items.remove(reader);
                return stmt;
            }
            of_stage(nest, &stage, None, decisions).unwrap_or_else(|refused| {
                let name = stage.name.clone();
                decisions.push(Decision { stage: name, rule: "one thread", refused });
                one_thread(&mut nest.func, stage.naive())
            })
        }
        item => {
            let naive = item.naive();
            let (stmt, rule, refused) = match independent_loops(nest, &naive) {
                Ok(stmt) => (stmt, "independent loops", vec![]),
                Err(why) => {
                    let refused = vec![("independent loops", why)];
                    (one_thread(&mut nest.func, naive), "one thread", refused)
                }
            };
            decisions.push(Decision { stage: "loops".to_owned(), rule, refused });
            stmt
        }
    }
}

/// A rule for a stage.
type Rule = fn(&mut Nest<'_>, &Work) -> Result<Stmt, Refusal>;

const RULES: [(&str, Rule); 12] = [
    ("transpose", transpose),
    ("map", map),
    ("gemv, in order", gemv_in_order),
    ("gemv", gemv),
    ("gemm, warp-specialised", warp_specialised),
    ("gemm, tensor cores", tensor_core),
    ("gemm, split-k", gemm_split_k),
    ("gemm, terms", terms),
    ("gemm", gemm),
    ("row reduction", row_reduction),
    ("split reduction", split_reduction),
    ("fallback", fallback),
];

/// The launches of a stage by the first rule that takes it, or why none does.
fn of_stage(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    decisions: &mut Vec<Decision>,
) -> Result<Stmt, Vec<(&'static str, Refusal)>> {
    let work = Work { stage: stage.squeezed(), epilogue: epilogue.map(Stage::squeezed) };
    let mut refused = vec![];
    for (rule, apply) in RULES {
        match apply(nest, &work) {
            Ok(stmt) => {
                decisions.push(Decision { stage: stage.name.clone(), rule, refused });
                return Ok(stmt);
            }
            Err(why) => refused.push((rule, why)),
        }
    }
    Err(refused)
}

/// Whether an item is made of stages, which the host can launch one by one.
fn of_stages(item: &Item) -> bool {
    match item {
        Item::Stage(_) => true,
        Item::Loop { items, .. } => items.iter().all(of_stages),
        Item::Opaque(_) => false,
    }
}

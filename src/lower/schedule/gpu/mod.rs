//! Schedule rules for GPUs: each stage becomes a launch, by the first rule that takes it.
//!
//! | rule | stages | results |
//! |---|---|---|
//! | `map` | stages without a reduction whose rows are whole vectors | exactly the naive ones |
//! | `transpose` | moves from one contiguous axis to another | exactly the naive ones |
//! | `gemm` | contractions of float32 with rows and columns | exactly the naive ones |
//! | `row reduction` | reductions of contiguous elements | reassociated |
//! | `fallback` | all: a thread for each result, which reduces in order | exactly the naive ones |
//! | `independent loops` | other statements: a thread for each iteration of their outer loops | exactly the naive ones |
//! | `one thread` | the rest | as written |
//!
//! So no kernel is refused for want of a rule. Loops around stages run on the host. Rules bind loops;
//! barriers and what one thread does are the business of lowering.
//!
//! Decision: docs/decisions/0051-gpu-rules.md

mod fallback;
mod gemm;
mod grid;
mod map;
mod row_reduction;
mod transpose;

use std::collections::HashSet;

use reflex_tir::Stmt;

use crate::schedule::core::decision::{Decision, Refusal};
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Item, Stage};
use crate::schedule::gpu::fallback::{fallback, independent_loops};
use crate::schedule::gpu::gemm::gemm;
use crate::schedule::gpu::grid::one_thread;
use crate::schedule::gpu::map::map;
use crate::schedule::gpu::row_reduction::row_reduction;
use crate::schedule::gpu::transpose::transpose;
use crate::schedule::inline::{inline_stages, store_transposed};

/// The launches of a kernel.
pub fn gpu_kernel(
    nest: &mut Nest<'_>,
    items: &mut Vec<Item>,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    inline_stages(nest, items, &HashSet::new());
    store_transposed(nest, items);
    launches(nest, items, decisions)
}

fn launches(nest: &mut Nest<'_>, items: &[Item], decisions: &mut Vec<Decision>) -> Stmt {
    Stmt::Seq(items.iter().map(|item| launch(nest, item, decisions)).collect())
}

fn launch(nest: &mut Nest<'_>, item: &Item, decisions: &mut Vec<Decision>) -> Stmt {
    match item {
        Item::Loop { var, extent, items } if items.iter().all(of_stages) => {
            let body = launches(nest, items, decisions);
            return Stmt::serial(*var, extent.clone(), body);
        }
        Item::Stage(stage) => return of_stage(nest, stage, decisions),
        Item::Loop { .. } | Item::Opaque(_) => {}
    }
    let rules: [(&'static str, Rule<'_, Stmt>); 1] = [("independent loops", independent_loops)];
    first_rule(nest, "loops", &item.naive(), &rules, item.naive(), decisions)
}

/// A rule for a stage, or for a statement.
type Rule<'a, T> = fn(&mut Nest<'a>, &T) -> Result<Stmt, Refusal>;

fn of_stage<'a>(nest: &mut Nest<'a>, stage: &Stage, decisions: &mut Vec<Decision>) -> Stmt {
    let rules: [(&'static str, Rule<'a, Stage>); 5] = [
        ("transpose", transpose),
        ("map", map),
        ("gemm", gemm),
        ("row reduction", row_reduction),
        ("fallback", fallback),
    ];
    first_rule(nest, &stage.name, stage, &rules, stage.naive(), decisions)
}

/// The launch by the first of `rules` that takes `part`; one thread runs `naive` where none does.
fn first_rule<'a, T>(
    nest: &mut Nest<'a>,
    stage: &str,
    part: &T,
    rules: &[(&'static str, Rule<'a, T>)],
    naive: Stmt,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let (stage, mut refused) = (stage.to_owned(), vec![]);
    for (rule, apply) in rules {
        match apply(nest, part) {
            Ok(stmt) => {
                decisions.push(Decision { stage, rule, refused });
                return stmt;
            }
            Err(why) => refused.push((*rule, why)),
        }
    }
    decisions.push(Decision { stage, rule: "one thread", refused });
    one_thread(&mut nest.func, naive)
}

/// Whether an item is made of stages, which the host can launch one by one.
fn of_stages(item: &Item) -> bool {
    match item {
        Item::Stage(_) => true,
        Item::Loop { items, .. } => items.iter().all(of_stages),
        Item::Opaque(_) => false,
    }
}

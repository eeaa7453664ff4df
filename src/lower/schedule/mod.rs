//! Policy: which schedule a kernel gets. The machine's shape decides, rules first.
//!
//! [`schedule`] reads a naive kernel's blocks as stages, merges what should be computed
//! together, and gives each stage to the first rule that takes it. A rule that does not take a
//! stage says why; the last rule takes all. What comes out has no blocks. `map`, both kinds of
//! `reduce`, loops over rows and tiles of products in vector registers are made of the primitives of
//! `reflex_tir::schedule` (`steps.rs`), which check every step; the rules for products write the loops
//! around tiles themselves.
//!
//! | rule | stages | results |
//! |---|---|---|
//! | `tables` | products of tiles or rows with tables of constants | reassociated |
//! | `splits` | large sums of products of float32, where there are matrix registers | within the error of `gemm`'s |
//! | `gemm` | sums of products with a contiguous factor | exactly the naive ones; reassociated in matrix registers |
//! | `reduce along rows` | other reductions of contiguous elements | reassociated |
//! | `reduce across rows` | other reductions | exactly the naive ones |
//! | `map` | stages without reduction | exactly the naive ones |
//! | `naive` | the rest | as written |
//!
//! Which rules take what an operator becomes (`tests/filetests/lower/steps_*.py` shows each, with
//! the refusals on the way):
//!
//! | computation | stages | rules | file |
//! |---|---|---|---|
//! | matrix product | the product; copies of its columns in panels where they are strided | `gemm`, `map` | `steps_matmul`, `steps_panel_parts`, `steps_matmul_tiles` |
//! | convolution | windows split by phase, in rows or in blocks; the product; what follows in its store | `map`, `gemm` | `steps_conv`, `steps_conv_few_positions` |
//! | convolution in blocks of channels, where there are matrix registers | terms of both factors in pairs of blocks, windows side by side; their products | `splits`, `gemm`, `map` | `steps_conv_splits`, `steps_conv_words` |
//! | convolution by tiles | two transforms, one product per place, in one loop over strips of the image (`strips.rs`) where they fit the cache | `tables`, `gemm`, `map` | `steps_winograd` |
//! | convolution of stride 2 by tiles | the image by phases, then as above | `map`, `tables`, `gemm` | `steps_phases` |
//! | depthwise convolution | padding; products of vectors by vectors, plane by plane (`planes.rs`), or by broadcast weights | `map`, `gemm` | `steps_depthwise`, `steps_planes` |
//! | reduction | lanes along what is reduced, or across it | `reduce along rows`, `reduce across rows` | `steps_sum_of_rows`, `steps_sum_of_columns` |
//! | elementwise, broadcast | merged axes, vectors, tasks | `map` | `steps_elementwise`, `steps_broadcast` |
//! | transpose | vectors over what is stored side by side | `map` | `steps_transpose` |
//! | gather | rows copied in vectors | `map` | `steps_gather` |
//! | softmax, normalisation | one loop over rows, whose stages go by `reduce` and `map` | both | `steps_softmax`, `steps_layer_norm` |
//! | attention | two products around a softmax, in one loop over blocks of rows (`attention.rs`) | `gemm`, and the rows' | `steps_attention` |
//! | pooling | a reduction over windows | `reduce across rows` | `steps_pool` |
//! | recurrent cells | a product before the loop over time, stages in it | `gemm`, `reduce`, `map` | `steps_lstm` |

mod affine;
mod attention;
mod blocks;
mod contraction;
mod cut;
mod fuse;
mod gemm;
mod map;
mod nest;
mod planes;
mod reduce;
mod registers;
mod rows;
mod splits;
mod stage;
mod steps;
mod strips;
mod tables;
mod terms;
mod tiles;
mod tiling;
mod winograd;

use std::collections::HashSet;

use reflex_tir::codegen::Target;
use reflex_tir::{Buffer, PrimFunc, Stmt};

use nest::{Nest, Parallel};
use stage::{Item, Stage};

pub use winograd::{phases_tile, winograd_tile};

/// A scheduled kernel and how it came about.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The kernel, without blocks.
    pub func: PrimFunc,
    /// One per stage, in order.
    pub decisions: Vec<Decision>,
    /// The steps taken, in order.
    pub steps: Vec<String>,
}

impl std::fmt::Display for Scheduled {
    /// The steps, then each stage with its rule and the rules that did not take it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.func.name)?;
        for step in &self.steps {
            writeln!(f, "  step  {step}")?;
        }
        for Decision { stage, rule, refused } in &self.decisions {
            write!(f, "  stage {stage}: {rule}")?;
            for (rule, why) in refused {
                write!(f, "; not {rule}: {why}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// What was done with a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The stage's name.
    pub stage: String,
    /// The rule that took it.
    pub rule: &'static str,
    /// The rules that did not, and why.
    pub refused: Vec<(&'static str, Refusal)>,
}

/// Why a rule does not take a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not a sum of products.
    #[error("not a sum of products")]
    NoProduct,
    /// An element type that the rule has no kernel for.
    #[error("element type")]
    ElementType,
    /// A position that is not linear in the axes.
    #[error("position not linear in the axes")]
    NotAffine,
    /// No axis along which elements lie side by side.
    #[error("elements not side by side")]
    NotContiguous,
    /// Both factors change along the contiguous axis.
    #[error("both factors change along the rows of results")]
    NotSeparable,
    /// No factor is a table of constants.
    #[error("no table of constants")]
    NoTable,
    /// Too few products for each element that would be split into terms.
    #[error("too few products for each element")]
    TooSmall,
    /// Terms of neither factor would stay in the cache.
    #[error("terms of neither factor stay in the cache")]
    OutOfCache,
    /// A schedule primitive did not take a step of the rule.
    #[error("refused by the primitive {0}")]
    Primitive(&'static str),
    /// Every reduction axis has extent 1.
    #[error("nothing to reduce")]
    NothingToReduce,
}

/// The schedule of `func` for `target`.
pub fn schedule(func: &PrimFunc, target: &Target) -> PrimFunc {
    schedule_explained(func, target).func
}

/// [`schedule`], with the reasons.
pub fn schedule_explained(func: &PrimFunc, target: &Target) -> Scheduled {
    let mut items = stage::items_of(&func.body);
    let mut nest = Nest { func: func.clone(), target, enough: None, steps: vec![] };
    items = blocks::split_blocks(&mut nest, items);
    fuse::inline_stages(&mut nest, &mut items, &HashSet::new());
    fuse::store_where_moved(&mut nest, &mut items);
    items = contraction::stage_operands(&mut nest, items);
    fuse::inline_stages(&mut nest, &mut items, &HashSet::new());
    contraction::copies_first(&nest.func, &mut items);
    let mut decisions = vec![];
    let body = emit(&mut nest, &items, &HashSet::new(), Parallel::Yes, &mut decisions);
    let mut func = nest.func;
    func.body = body;
    drop_unused(&mut func);
    Scheduled { func, decisions, steps: nest.steps }
}

/// Elements that tensors and weights are laid out by: the widest vectors. Kernels for narrower ones
/// take a block or a panel in parts, so one layout serves every CPU.
pub const LAYOUT_LANES: i64 = 16;

/// Columns per panel for a matrix of `n` columns that is packed when it is compiled.
pub fn panel_width(n: i64) -> i64 {
    panel_of(n, LAYOUT_LANES, 4)
}

/// Columns per panel of at most so many vectors: the width with the least filling, the larger one
/// of equals.
fn panel_of(n: i64, lanes: i64, most: i64) -> i64 {
    let filled = |width: i64| (n + width - 1) / width * width;
    let best = (1..=most).rev().min_by_key(|v| {
        // Narrower panels load more per product: worth it from 1/16 less filling on.
        filled(v * lanes) + (most - v) * (n / 16)
    });
    best.unwrap_or(1) * lanes
}

/// Rows per panel for the weights of a convolution with `n` output channels and so many
/// `positions` per image. Where four vectors hold all positions, fewer rows, so that one pass
/// over the weights does.
pub fn conv_rows(n: i64, positions: Option<i64>) -> i64 {
    match positions {
        Some(49..=64) => even_part(n, 6),
        _ => even_part(n, 12),
    }
}

/// The largest divisor of `n` above half of `most`, so that no rows are left over and one tile
/// does for all; where there is none, the height of as many tiles as alike as can be, for one of a
/// row or two alone would wait for its sums.
fn even_part(n: i64, most: i64) -> i64 {
    let divides = |d: &i64| n % d == 0 && d * 2 > most;
    let parts = |n: i64, each: i64| (n + each - 1) / each;
    let alike = || parts(n, parts(n, most).max(1));
    (1..=most).rev().find(divides).unwrap_or_else(alike).clamp(1, n.max(1))
}

/// The nests of `items`, in order.
fn emit(
    nest: &mut Nest<'_>,
    items: &[Item],
    around: &HashSet<Buffer>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> Stmt {
    let mut items = items.to_vec();
    let mut parts = vec![];
    let mut at = 0;
    while at < items.len() {
        if threads == Parallel::Yes
            && let Some((stmt, count)) = joined(nest, &items, at, around, decisions)
        {
            parts.push(stmt);
            at += count;
            continue;
        }
        match items[at].clone() {
            Item::Opaque(stmt) => parts.push(stmt),
            Item::Loop { var, extent, items: inner } => {
                let outside = stage::touched_outside(&items, at..at + 1, around);
                let body = emit(nest, &inner, &outside, Parallel::No, decisions);
                parts.push(Stmt::serial(var, extent, body));
            }
            Item::Stage(stage) if stage.init.is_some() => {
                let epilogue = fuse::epilogue_of(&nest.func, &items, at, around);
                match product(nest, &stage, &items, epilogue, threads, decisions) {
                    Ok(stmt) => {
                        parts.push(stmt);
                        if let Some(reader) = epilogue {
                            items.remove(reader);
                        }
                    }
                    Err(refusal) => {
                        let refused = ("gemm", refusal);
                        let (stmt, count) = rows::rows(
                            nest,
                            (&items, at),
                            around,
                            threads,
                            Some(refused),
                            decisions,
                        );
                        parts.push(stmt);
                        at += count - 1;
                    }
                }
            }
            Item::Stage(_) => {
                let (stmt, count) =
                    rows::rows(nest, (&items, at), around, threads, None, decisions);
                parts.push(stmt);
                at += count - 1;
            }
        }
        at += 1;
    }
    Stmt::Seq(parts)
}

/// Stages from `at` on that share a loop which threads share, and how many items they are.
fn joined(
    nest: &mut Nest<'_>,
    items: &[Item],
    at: usize,
    around: &HashSet<Buffer>,
    decisions: &mut Vec<Decision>,
) -> Option<(Stmt, usize)> {
    attention::attention(nest, items, at, around, decisions)
        .or_else(|| strips::strips(nest, items, at, around, decisions))
        .or_else(|| planes::planes(nest, items, at, around, decisions))
}

/// What `body` writes, with those of `buffers` that it uses allocated around it and not for the
/// function: threads have their own.
fn in_scratch(
    nest: &mut Nest<'_>,
    buffers: Vec<Buffer>,
    body: impl FnOnce(&mut Nest<'_>) -> Stmt,
) -> Stmt {
    nest.func.allocs.extend(&buffers);
    let body = body(nest);
    let mut used = HashSet::new();
    body.visit(&mut |s| used.extend(s.written()));
    // Some may be in memory of their own by now.
    let own = |b: &Buffer| used.contains(b) && nest.func.allocs.contains(b);
    let own: Vec<Buffer> = buffers.into_iter().filter(own).collect();
    nest.func.allocs.retain(|b| !own.contains(b));
    own.into_iter().rev().fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) })
}

fn product(
    nest: &mut Nest<'_>,
    stage: &Stage,
    items: &[Item],
    epilogue: Option<usize>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> Result<Stmt, Refusal> {
    let epilogue = epilogue.and_then(|n| items[n].stage());
    let (rule, refused, stmt) = product_rules(nest, stage, epilogue, threads)?;
    decisions.push(Decision { stage: stage.name.clone(), rule, refused });
    if let Some(epilogue) = epilogue {
        let rule = match rule {
            "gemm" => "epilogue of gemm",
            "splits" => "epilogue of splits",
            _ => "epilogue of tables",
        };
        decisions.push(Decision { stage: epilogue.name.clone(), rule, refused: vec![] });
    }
    Ok(stmt)
}

type Ruled = (&'static str, Vec<(&'static str, Refusal)>, Stmt);

/// The first of the rules for products that takes a stage.
fn product_rules(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Ruled, Refusal> {
    let mut refused = vec![];
    match tables::tables(nest, stage, epilogue, threads) {
        Ok(stmt) => return Ok(("tables", refused, stmt)),
        Err(Refusal::NoTable) => {}
        Err(why) => refused.push(("tables", why)),
    }
    // Inside of a loop over other stages, threads may share that loop: terms have no memory of
    // their own there.
    if nest.target.has_amx_bf16() && threads == Parallel::Yes {
        match splits::splits(nest, stage, epilogue, threads) {
            Ok(stmt) => return Ok(("splits", refused, stmt)),
            Err(why) => refused.push(("splits", why)),
        }
    }
    Ok(("gemm", refused, gemm::gemm(nest, stage, epilogue, threads)?))
}

/// Forgets intermediates that nothing stores to any more.
fn drop_unused(func: &mut PrimFunc) {
    let mut used: HashSet<Buffer> = HashSet::new();
    func.body.visit(&mut |s| used.extend(s.written()));
    func.allocs.retain(|b| used.contains(b));
}

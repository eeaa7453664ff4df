//! Blocked layouts NCHWc: channel axes split into blocks and lanes.
//!
//! `X[n, c // b, h, w, c % b]` becomes `X[n, o, h, w, i]` with `c = o * b + i`, and the axes get
//! the order of the indices stored to: the lanes of a block are then the innermost axis of every
//! stage, and every position is linear in the axes.
//!
//! Decision: docs/decisions/0030-blocked-layout.md

use reflex_tir::arith::Analyzer;
use reflex_tir::{BinOp, Buffer, Expr, ExprKind};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Item, Stage};

/// The items with the channel axes of every stage split.
pub fn split_channel_blocks(nest: &mut Nest<'_>, items: Vec<Item>) -> Vec<Item> {
    let each = |item| match item {
        Item::Stage(stage) => Item::Stage(split_stage(nest, stage)),
        Item::Loop { var, extent, items } => {
            Item::Loop { var, extent, items: split_channel_blocks(nest, items) }
        }
        opaque => opaque,
    };
    items.into_iter().map(each).collect()
}

fn split_stage(nest: &mut Nest<'_>, mut stage: Stage) -> Stage {
    let mut any = single_block(nest, &mut stage) || in_one_block(&stage);
    while let Some((axis, block)) = next_split(nest, &stage) {
        any = true;
        let name = &nest.func.vars[axis.var].name;
        nest.steps.push(format!("{}: {name} split into blocks of {block}", stage.name));
        stage = split_axis(nest, &stage, &axis, block);
    }
    if any {
        let indices = stage.indices.clone();
        let position = |a: &Axis| indices.iter().position(|i| mentions(i, a.var));
        stage.spatial.sort_by_key(position);
    }
    stage
}

/// Gives a stage that stores to the only block of a tensor an axis for that block, so that its axes
/// are the indices like those of all others. Returns true if it does.
fn single_block(nest: &mut Nest<'_>, stage: &mut Stage) -> bool {
    let only = |nest: &Nest<'_>, buffer: Buffer, indices: &[Expr]| {
        let shape = &nest.func.buffers[buffer].shape;
        indices.len() == 5 && shape[1].as_int() == Some(1) && indices[1].as_int() == Some(0)
    };
    if !only(nest, stage.buffer, &stage.indices) {
        return false;
    }
    let block = nest.var("co");
    let channel = stage.indices[4].clone();
    stage.spatial.push(Axis { var: block, extent: Expr::i64(1) });
    stage.indices[1] = block.into();
    stage.value = with_block(&stage.value, &|buffer, indices: &[Expr]| {
        (only(nest, buffer, indices) && indices[4] == channel).then(|| block.into())
    });
    true
}

/// Whether a stage stores to one block of a tensor of several, as parts of a concatenation do.
fn in_one_block(stage: &Stage) -> bool {
    matches!(&stage.indices[..], [_, block, _, _, _] if block.as_int().is_some())
}

/// `e` with the block index of those loads replaced that `f` gives one for.
fn with_block(e: &Expr, f: &dyn Fn(Buffer, &[Expr]) -> Option<Expr>) -> Expr {
    let e = e.map_children(&mut |c| with_block(c, f));
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } => match f(*buffer, indices) {
            Some(block) => {
                let mut indices = indices.clone();
                indices[1] = block;
                Expr::load(*buffer, indices, *dtype)
            }
            None => e,
        },
        _ => e,
    }
}

/// The first axis that the channels of a tensor in blocks depend on, and its block.
fn next_split(nest: &Nest<'_>, stage: &Stage) -> Option<(Axis, i64)> {
    let axes = || stage.spatial.iter().chain(&stage.reduce);
    let mut found = None;
    let mut look = |buffer: Buffer, indices: &[Expr]| {
        let Some((channel, block)) = block_access(nest, buffer, indices) else { return };
        let splits = |a: &&Axis| {
            mentions(&channel, a.var) && a.extent.as_int().is_some_and(|n| n % block == 0)
        };
        found = found.take().or_else(|| axes().find(splits).map(|a| (a.clone(), block)));
    };
    look(stage.buffer, &stage.indices);
    stage.value.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            look(*buffer, indices);
        }
    });
    found
}

/// The channel and the block of an access `X[n, c // b, h, w, c % b]`.
fn block_access(nest: &Nest<'_>, buffer: Buffer, indices: &[Expr]) -> Option<(Expr, i64)> {
    let shape = &nest.func.buffers[buffer].shape;
    let [_, _, _, _, lane] = indices else { return None };
    match lane.kind() {
        ExprKind::Binary { op: BinOp::FloorMod, a, b } if shape.last() == Some(b) => {
            Some((a.clone(), b.as_int()?))
        }
        _ => None,
    }
}

fn split_axis(nest: &mut Nest<'_>, stage: &Stage, axis: &Axis, block: i64) -> Stage {
    let (outer, lane) = (nest.var("co"), nest.var("ci"));
    let whole = Expr::from(outer) * block + lane;
    let mut stage = stage.substitute(&|v| (v == axis.var).then(|| whole.clone()));
    let count = axis.extent.as_int().map_or_else(|| axis.extent.clone(), |n| (n / block).into());
    let parts = [Axis { var: outer, extent: count }, Axis { var: lane, extent: Expr::i64(block) }];
    for list in [&mut stage.spatial, &mut stage.reduce] {
        if let Some(at) = list.iter().position(|a| a.var == axis.var) {
            list.splice(at..=at, parts.clone());
        }
    }
    let mut facts = Analyzer::new();
    for a in stage.spatial.iter().chain(&stage.reduce) {
        facts.bind(a.var, Expr::i64(0), a.extent.clone());
    }
    stage.indices = stage.indices.iter().map(|i| facts.simplify(i)).collect();
    stage.value = simplify_indices(&facts, &stage.value);
    stage
}

/// Simplifies what loads are addressed by, and nothing else.
fn simplify_indices(facts: &Analyzer, e: &Expr) -> Expr {
    let e = e.map_children(&mut |c| simplify_indices(facts, c));
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } => {
            let indices = indices.iter().map(|i| facts.simplify(i)).collect();
            Expr::load(*buffer, indices, *dtype)
        }
        _ => e,
    }
}

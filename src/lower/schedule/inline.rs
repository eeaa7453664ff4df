//! Inlining before any loop is written: elementwise producers substituted into their readers, and
//! contractions that store where a transpose would move them.

use std::collections::HashSet;

use reflex_tir::codegen::Target;
use reflex_tir::tile::SIDE;
use reflex_tir::{Buffer, DType, Expr, ExprKind, Intrin, PrimFunc};

use crate::schedule::core::access::{buffers_of, contiguous};
use crate::schedule::core::affine::same;
use crate::schedule::core::cost::cost;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Item, Stage, loads_of, touched_outside};
use crate::schedule::winograd::constant_matrix::is_constant_matrix_product;

/// Larger expressions are not made by inlining.
const MAX_NODES: usize = 3000;

/// Substitutes elementwise stages into their readers where that repeats no real work.
/// Buffers that are `around` the items stay.
pub fn inline_stages(nest: &mut Nest<'_>, items: &mut Vec<Item>, around: &HashSet<Buffer>) {
    for at in 0..items.len() {
        let outside = touched_outside(items, at..at + 1, around);
        if let Item::Loop { items, .. } = &mut items[at] {
            inline_stages(nest, items, &outside);
        }
    }
    let mut at = 0;
    while at < items.len() {
        let private = !matches!(&items[at], Item::Stage(s) if around.contains(&s.buffer));
        let private = private && !loaded_by_amx(nest, &items[at]);
        match private.then(|| inlined(nest, items, at)).flatten() {
            Some(rest) => {
                if let Item::Stage(stage) = &items[at] {
                    nest.steps.push(format!("{}: inlined into its readers", stage.name));
                }
                items.truncate(at);
                items.extend(rest);
            }
            None => at += 1,
        }
    }
}

/// Whether a stage makes VNNI pairs of a bfloat16 tensor, or words of 8-bit integers, that AMX loads: fewer rows than a
/// tile has are multiplied in vectors.
fn loaded_by_amx(nest: &Nest<'_>, item: &Item) -> bool {
    let Item::Stage(stage) = item else { return false };
    let pairs = matches!(stage.value.kind(),
        ExprKind::Call { op: Intrin::PairBf16, args, .. } if args[0].dtype() == DType::BF16);
    let words = matches!(stage.value.kind(), ExprKind::Call { op: Intrin::Pack4x8, .. });
    let rows = nest.func.buffers[stage.buffer].shape.split_last();
    let rows = rows.and_then(|(_, rows)| {
        rows.iter().try_fold(1, |n: i64, extent| n.checked_mul(extent.as_int()?))
    });
    let fills_tile = rows.is_none_or(|rows| rows >= SIDE);
    fills_tile && (pairs && nest.has_amx_bf16() || words && nest.has_amx_int8())
}

/// The items after `at` with the stage at `at` substituted, if it may be.
fn inlined(nest: &Nest<'_>, items: &[Item], at: usize) -> Option<Vec<Item>> {
    let func = &nest.func;
    let Item::Stage(producer) = &items[at] else { return None };
    let buffer = producer.buffer;
    let whole = producer.is_identity() && producer.reduce.is_empty() && !producer.reads(buffer);
    let written_once = items.iter().filter(|i| i.writes(buffer)).count() == 1;
    if !whole || producer.kept || !written_once || !func.allocs.contains(&buffer) {
        return None;
    }
    let sources = buffers_of(&producer.value);
    let last = items.iter().rposition(|i| i.reads(buffer))?;
    let overwritten = items[at + 1..=last].iter().any(|i| sources.iter().any(|b| i.writes(*b)));
    if overwritten || items[..at].iter().any(|i| i.reads(buffer)) {
        return None;
    }
    let readers = items[at + 1..].iter().filter(|i| i.reads(buffer)).count();
    items[at + 1..]
        .iter()
        .map(|item| match item {
            Item::Stage(reader) if reader.reads(buffer) => {
                inline_into(nest, producer, reader, readers).map(Item::Stage)
            }
            other if other.reads(buffer) => None,
            other => Some(other.clone()),
        })
        .collect()
}

fn inline_into(nest: &Nest<'_>, producer: &Stage, reader: &Stage, readers: usize) -> Option<Stage> {
    let func = &nest.func;
    let cheap = cost(&producer.value) <= 4 && !has_guard(&producer.value);
    let loads = loads_of(&reader.value, producer.buffer);
    let same_index = loads.iter().all(|l| l == &loads[0]);
    // A sliding window, an operand of a contraction: elements are read again and again.
    let repeated = reader.init.is_some() && !reads_each_once(reader, &loads[0]);
    let worth = match (cheap, repeated) {
        (true, true) => is_move(&producer.value),
        (true, false) => true,
        (false, _) => readers == 1 && same_index && !repeated,
    };
    // A GPU's threads wait for memory: computing padding where it is read costs less than a launch
    // that writes it.
    let padding = matches!(nest.target, Target::Gpu(_)) && is_padding(&producer.value);
    if !worth && !padding {
        return None;
    }
    let shape = &func.buffers[producer.buffer].shape;
    let value = reader
        .value
        .replace_loads(producer.buffer, &mut |indices, _| produced(func, producer, shape, indices));
    let inlined = Stage { value, ..reader.clone() };
    // A Winograd tile is read in vectors: a copy that gathers them stays.
    let scattered = is_constant_matrix_product(&reader.value)
        && contiguous(func, &inlined).0 < contiguous(func, reader).0;
    (nodes(&inlined.value) <= MAX_NODES && !scattered).then_some(inlined)
}

/// The producer's value at an access of its buffer.
fn produced(func: &PrimFunc, producer: &Stage, shape: &[Expr], indices: &[Expr]) -> Expr {
    let vars = producer.spatial_vars();
    let flat = shape.len() != 1 && indices.len() == 1;
    if !flat {
        return producer
            .value
            .substitute(&|v| vars.iter().position(|x| *x == v).map(|n| indices[n].clone()));
    }
    // A flat access: loads of whole tensors of the same shape stay flat.
    let marked = flatten_loads(func, producer, shape, &indices[0]);
    let mut rest = indices[0].clone();
    let mut at = vec![Expr::i64(0); shape.len()];
    for (n, extent) in shape.iter().enumerate().rev() {
        match n {
            0 => at[0] = rest.clone(),
            _ => {
                at[n] = rest.clone().floormod(extent.clone());
                rest = rest.floordiv(extent.clone());
            }
        }
    }
    marked.substitute(&|v| vars.iter().position(|x| *x == v).map(|n| at[n].clone()))
}

fn flatten_loads(func: &PrimFunc, producer: &Stage, shape: &[Expr], flat: &Expr) -> Expr {
    fn walk(func: &PrimFunc, p: &Stage, shape: &[Expr], flat: &Expr, e: &Expr) -> Expr {
        if let ExprKind::Load { buffer, indices, dtype } = e.kind() {
            let from = &func.buffers[*buffer].shape;
            let vars = p.spatial_vars();
            let whole = from.len() == shape.len()
                && indices.len() == vars.len()
                && from.iter().zip(shape).all(|(a, b)| same(a, b))
                && indices.iter().zip(&vars).all(|(i, v)| i.as_var() == Some(*v));
            if whole {
                return Expr::load(*buffer, vec![flat.clone()], *dtype);
            }
        }
        e.map_children(&mut |c| walk(func, p, shape, flat, c))
    }
    walk(func, producer, shape, flat, &producer.value)
}

/// Lets a contraction store where the stage that only transposes its result would move it.
pub fn store_transposed(nest: &mut Nest<'_>, items: &mut Vec<Item>) {
    for at in 0..items.len() {
        let Item::Stage(product) = &items[at] else { continue };
        let mut readers = (at + 1..items.len()).filter(|n| items[*n].reads(product.buffer));
        let (Some(reader), None) = (readers.next(), readers.next()) else { continue };
        let Item::Stage(mover) = &items[reader] else { continue };
        let Some(stored) = transposed(&nest.func, product, mover) else { continue };
        let writers = items.iter().filter(|i| i.writes(product.buffer)).count();
        let others = items.iter().enumerate().any(|(n, item)| {
            n != reader && (item.writes(mover.buffer) || n < reader && item.reads(mover.buffer))
        });
        if others || writers != 1 {
            continue;
        }
        nest.steps.push(format!("{}: stored where {} would move it", product.name, mover.name));
        items[at] = Item::Stage(stored);
        items.remove(reader);
        return store_transposed(nest, items);
    }
}

/// The contraction stored by a stage `mover[..] = product[axes in another order]`. Contiguous
/// elements stay contiguous.
fn transposed(func: &PrimFunc, product: &Stage, mover: &Stage) -> Option<Stage> {
    let ExprKind::Load { buffer, indices, .. } = mover.value.kind() else { return None };
    let plain = product.init.is_some()
        && product.is_identity()
        && mover.is_identity()
        && mover.init.is_none()
        && *buffer == product.buffer
        && func.allocs.contains(buffer)
        && indices.len() == mover.spatial.len()
        && indices.last()?.as_var() == Some(mover.spatial.last()?.var);
    let from = |axis: &Axis| indices.iter().position(|i| i.as_var() == Some(axis.var));
    let order: Vec<usize> = mover.spatial.iter().map(from).collect::<Option<_>>()?;
    if !plain || order.is_sorted() {
        return None;
    }
    let at: Vec<Expr> = order.iter().map(|n| product.indices[*n].clone()).collect();
    let value = product.value.replace_loads(product.buffer, &mut |_, _| {
        Expr::load(mover.buffer, at.clone(), func.buffers[mover.buffer].dtype)
    });
    Some(Stage { buffer: mover.buffer, indices: at, value, ..product.clone() })
}

/// Whether a reduction reads each element of the access for one result only: the index
/// mentions every axis of the stage.
fn reads_each_once(reader: &Stage, indices: &[Expr]) -> bool {
    let plain = |v| indices.iter().any(|i: &Expr| i.as_var() == Some(v));
    reader
        .spatial
        .iter()
        .chain(&reader.reduce)
        .all(|a| plain(a.var) || a.extent.as_int() == Some(1))
}

/// Only moves or converts elements.
fn is_move(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Load { .. } | ExprKind::Int { .. } | ExprKind::Float { .. } => true,
        ExprKind::Cast { value, .. } => is_move(value),
        ExprKind::Call { op: Intrin::PairBf16, args, .. } => {
            args.iter().all(|a| a.dtype() == DType::BF16 && is_move(a))
        }
        ExprKind::Call { op: Intrin::Pack4x8, args, .. } => are_neighbours(args),
        _ => false,
    }
}

/// Whether elements are moved where a condition holds, and constant elsewhere.
fn is_padding(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => {
            is_move(&args[1]) && is_move(&args[2])
        }
        _ => false,
    }
}

/// Whether elements are loaded from addresses one after the other, so that one load does.
fn are_neighbours(args: &[Expr]) -> bool {
    args.windows(2).all(|pair| {
        let (
            ExprKind::Load { buffer, indices: i, .. },
            ExprKind::Load { buffer: other, indices: j, .. },
        ) = (pair[0].kind(), pair[1].kind())
        else {
            return false;
        };
        let (Some((last, before)), Some((next, before_next))) = (i.split_last(), j.split_last())
        else {
            return false;
        };
        buffer == other && before == before_next && same(&(last.clone() + 1), next)
    })
}

fn has_guard(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Call { op: Intrin::IfThenElse, .. });
    });
    found
}

fn nodes(e: &Expr) -> usize {
    let mut count = 0;
    e.visit(&mut |_| count += 1);
    count
}

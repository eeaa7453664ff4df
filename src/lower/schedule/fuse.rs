//! Stages merged before any loop is written: producers substituted into their readers, and
//! rows of dependent stages gathered.

use std::collections::HashSet;

use reflex_tir::codegen::Target;
use reflex_tir::{Buffer, DType, Expr, ExprKind, Intrin, PrimFunc};

use super::affine::same;
use super::nest::{Nest, has_load};
use super::reduce::contiguous;
use super::stage::{Axis, Item, Stage, loads_of, touched_outside};
use super::tables::is_table_product;

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
        let private = private && !loaded_into_registers(nest.target, &items[at]);
        match private.then(|| inlined(&nest.func, items, at)).flatten() {
            Some(rest) => {
                if let Item::Stage(stage) = &items[at] {
                    nest.steps.push(format!("{}: computed where it is read", stage.name));
                }
                items.truncate(at);
                items.extend(rest);
            }
            None => at += 1,
        }
    }
}

/// Whether a stage takes pairs from a tensor of bfloat16 for matrix registers, which load words.
fn loaded_into_registers(target: &Target, item: &Item) -> bool {
    let Item::Stage(stage) = item else { return false };
    let pairs = matches!(stage.value.kind(),
        ExprKind::Call { op: Intrin::PairBf16, args, .. } if args[0].dtype() == DType::BF16);
    pairs && target.has_amx_bf16()
}

/// The items after `at` with the stage at `at` substituted, if it may be.
fn inlined(func: &PrimFunc, items: &[Item], at: usize) -> Option<Vec<Item>> {
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
                inline_into(func, producer, reader, readers).map(Item::Stage)
            }
            other if other.reads(buffer) => None,
            other => Some(other.clone()),
        })
        .collect()
}

fn inline_into(func: &PrimFunc, producer: &Stage, reader: &Stage, readers: usize) -> Option<Stage> {
    let cheap = cost(&producer.value) <= 4 && !has_guard(&producer.value);
    let loads = loads_of(&reader.value, producer.buffer);
    let one_place = loads.iter().all(|l| l == &loads[0]);
    // A window, a product's operand: elements are read again and again.
    let repeated = reader.init.is_some() && !reads_each_once(reader, &loads[0]);
    let worth = match (cheap, repeated) {
        (true, true) => is_move(&producer.value),
        (true, false) => true,
        (false, _) => readers == 1 && one_place && !repeated,
    };
    if !worth {
        return None;
    }
    let shape = &func.buffers[producer.buffer].shape;
    let value = reader
        .value
        .replace_loads(producer.buffer, &mut |indices, _| produced(func, producer, shape, indices));
    let inlined = Stage { value, ..reader.clone() };
    // A tile is taken in vectors: a copy that makes them of what lies apart stays.
    let scattered = is_table_product(&reader.value)
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

/// Lets a product store where the stage that only permutes its result's axes would move it.
pub fn store_where_moved(nest: &mut Nest<'_>, items: &mut Vec<Item>) {
    for at in 0..items.len() {
        let Item::Stage(product) = &items[at] else { continue };
        let mut readers = (at + 1..items.len()).filter(|n| items[*n].reads(product.buffer));
        let (Some(reader), None) = (readers.next(), readers.next()) else { continue };
        let Item::Stage(mover) = &items[reader] else { continue };
        let Some(stored) = moved(&nest.func, product, mover) else { continue };
        let writers = items.iter().filter(|i| i.writes(product.buffer)).count();
        let others = items.iter().enumerate().any(|(n, item)| {
            n != reader && (item.reads(mover.buffer) || item.writes(mover.buffer))
        });
        if others || writers != 1 {
            continue;
        }
        nest.steps.push(format!("{}: stored where {} would move it", product.name, mover.name));
        items[at] = Item::Stage(stored);
        items.remove(reader);
        return store_where_moved(nest, items);
    }
}

/// The product stored by a stage `mover[..] = product[axes in another order]`. Elements side by
/// side stay so.
fn moved(func: &PrimFunc, product: &Stage, mover: &Stage) -> Option<Stage> {
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
        _ => false,
    }
}

fn has_guard(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Call { op: Intrin::IfThenElse, .. });
    });
    found
}

/// Rough cost of one element in simple vector operations; loads are free, but for those from
/// places that are loaded themselves.
pub fn cost(e: &Expr) -> usize {
    let mut total = 0;
    e.visit(&mut |e| {
        total += match e.kind() {
            ExprKind::Call { op, args, .. } => match op {
                // Two elements side by side: a load.
                Intrin::PairBf16 if args[0].dtype() == DType::BF16 => 0,
                Intrin::IfThenElse | Intrin::Fma | Intrin::Abs | Intrin::Floor => 1,
                Intrin::Sqrt | Intrin::Round | Intrin::Ceil | Intrin::Trunc => 4,
                Intrin::Pow => 40,
                _ => 15,
            },
            ExprKind::Load { indices, .. } if has_load(indices) => 8,
            ExprKind::Binary { op: reflex_tir::BinOp::Div, .. } => 4,
            ExprKind::Binary { .. } | ExprKind::Compare { .. } | ExprKind::Select { .. } => 1,
            _ => 0,
        };
    });
    total
}

fn nodes(e: &Expr) -> usize {
    let mut count = 0;
    e.visit(&mut |_| count += 1);
    count
}

/// Every buffer read.
pub fn buffers_of(e: &Expr) -> HashSet<Buffer> {
    let mut found = HashSet::new();
    e.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            found.insert(*buffer);
        }
    });
    found
}

/// Whether an index is an axis' own place: its variable, or 0 where there is no other.
pub fn is_place((index, axis): (&Expr, &Axis)) -> bool {
    let only = axis.extent.as_int() == Some(1) && index.as_int() == Some(0);
    only || index.as_var() == Some(axis.var)
}

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
        indices.len() == next.spatial.len() && indices.iter().zip(&next.spatial).all(is_place)
    });
    let sources = buffers_of(&next.value);
    let free = !items[at + 1..reader].iter().any(|i| {
        i.writes(next.buffer) || i.reads(next.buffer) || sources.iter().any(|b| i.writes(*b))
    });
    (in_place && free).then_some(reader)
}

/// How many of the first items share an outer loop, and over how many leading axes: each
/// later one reads an earlier one's result only at its own leading index. An axis that a
/// reduction's vectors would run over is not shared: one element at a time, the reduction would
/// jump from row to row.
pub fn row_group(func: &PrimFunc, items: &[Item]) -> Option<(usize, usize)> {
    let Item::Stage(first) = items.first()? else { return None };
    let mut depth = leading(first);
    let mut members: Vec<&Stage> = vec![first];
    for item in &items[1..] {
        let Item::Stage(stage) = item else { break };
        let Some(shared) = shared_depth(&members, stage, depth) else { break };
        depth = shared;
        members.push(stage);
    }
    let (count, reduces) = (members.len(), members.iter().any(|s| s.init.is_some()));
    for stage in members {
        let (spatial, reduced) = contiguous(func, &stage.squeezed());
        let vectors = stage.spatial.iter().rposition(|axis| axis.extent.as_int() != Some(1));
        if stage.init.is_some() && spatial > reduced {
            depth = depth.min(vectors.unwrap_or(depth));
        }
    }
    (count > 1 && reduces && depth > 0).then_some((count, depth))
}

/// Leading axes that are the leading indices of the store.
fn leading(stage: &Stage) -> usize {
    stage.spatial.iter().zip(&stage.indices).take_while(|(a, i)| i.as_var() == Some(a.var)).count()
}

fn shared_depth(members: &[&Stage], stage: &Stage, depth: usize) -> Option<usize> {
    let mut depth = depth.min(leading(stage));
    let extents = stage.spatial.iter().zip(&members[0].spatial);
    depth = depth.min(extents.take_while(|(a, b)| same(&a.extent, &b.extent)).count());
    let mut depends = false;
    for member in members {
        for indices in loads_of(&stage.value, member.buffer) {
            depends = true;
            let own = indices.iter().zip(&stage.spatial);
            depth = depth.min(own.take_while(|at| is_place(*at)).count());
        }
        // Writing what an earlier member reads or writes would need the same care.
        if member.buffer == stage.buffer || member.reads(stage.buffer) {
            return None;
        }
    }
    (depends && depth > 0).then_some(depth)
}

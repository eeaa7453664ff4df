//! Gathers and scatters. Indices wrap when negative and are clamped into range; checks before the
//! body refuse those out of range where the operator does. Those of 8 bits, along an axis of 256 elements, never are.
//!
//! Decision: docs/decisions/0047-index-checks.md

use reflex_graph::{GatherKind, OutOfRange, ScatterKind, ScatterReduce};
use reflex_tir::{BinOp, DType, Expr, IndexCheck, Stmt};

use crate::legalize::builder::{LegalizeError, OpBuilder, loops, wrap_index};

/// `Gather`.
pub fn gather(cx: &mut OpBuilder<'_>, kind: &GatherKind, mode: OutOfRange) {
    let bounds = match kind {
        GatherKind::Axis(axis) | GatherKind::Elements(axis) => *axis..axis + 1,
        GatherKind::Nd { batch_dims } => *batch_dims..batch_dims + coordinates(cx),
    };
    check(cx, mode, bounds);
    let (x, indices, out) = (cx.args[0].clone(), cx.args[1].clone(), cx.outs[0].clone());
    let (read, index) = (cx.reader(0), cx.reader(1));
    cx.f.output("gather", "y", out.dtype, out.shape, |f, i| match kind {
        GatherKind::Axis(axis) => {
            let inner = axis + indices.shape.len();
            let chosen = wrap_index(index(f, &i[*axis..inner]), &x.shape[*axis]);
            let at = [&i[..*axis], &[chosen], &i[inner..]].concat();
            read(f, &at)
        }
        GatherKind::Elements(axis) => {
            let mut at = i.to_vec();
            at[*axis] = wrap_index(index(f, i), &x.shape[*axis]);
            read(f, &at)
        }
        GatherKind::Nd { batch_dims } => {
            let lead = indices.shape.len() - 1;
            let depth = indices.shape[lead].as_int().unwrap_or(0) as usize;
            let mut at = i[..*batch_dims].to_vec();
            for d in 0..depth {
                let position = [&i[..lead], &[Expr::i64(d as i64)]].concat();
                at.push(wrap_index(index(f, &position), &x.shape[batch_dims + d]));
            }
            at.extend_from_slice(&i[lead..]);
            read(f, &at)
        }
    });
}

/// The axes that a coordinate in the last axis of the indices has, as far as that is known.
fn coordinates(cx: &OpBuilder<'_>) -> usize {
    let depth = cx.args[1].shape.last().and_then(Expr::as_int);
    depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(0)
}

/// Asks for a check of the indices, which are of these axes in turn, where the operator raises.
fn check(cx: &mut OpBuilder<'_>, mode: OutOfRange, axes: std::ops::Range<usize>) {
    let is_code = matches!(cx.args[1].dtype, DType::U8 | DType::I8);
    if mode == OutOfRange::Raise && !axes.is_empty() && !is_code {
        let (buffer, bounds) = (cx.buffer(1), cx.args[0].shape[axes].to_vec());
        let check = IndexCheck { buffer, bounds, node: String::new() };
        cx.f.func_mut().checks.push(check);
    }
}

/// `Scatter`: a copy, then the updates in order.
pub fn scatter(
    cx: &mut OpBuilder<'_>,
    kind: &ScatterKind,
    reduce: ScatterReduce,
    mode: OutOfRange,
) -> Result<(), LegalizeError> {
    let (x, indices, updates) = (cx.args[0].clone(), cx.args[1].clone(), cx.args[2].clone());
    let (read, index, update) = (cx.reader(0), cx.reader(1), cx.reader(2));
    let depth = match kind {
        ScatterKind::Elements(_) => 0,
        ScatterKind::Nd => indices
            .shape
            .last()
            .and_then(Expr::as_int)
            .ok_or_else(|| cx.error("the coordinates' rank is not constant"))?,
    } as usize;
    let bounds = match kind {
        ScatterKind::Elements(axis) => *axis..axis + 1,
        ScatterKind::Nd => 0..depth,
    };
    check(cx, mode, bounds);
    let y = cx.f.declare_output("y", x.dtype, x.shape.clone());
    cx.f.fill("copy", &x.shape, |f, at| Stmt::store(y, at.to_vec(), read(f, at)));
    let nest = loops(&mut cx.f, "u", &updates.shape, |f, i| {
        let at = match kind {
            ScatterKind::Elements(axis) => {
                let mut at = i.to_vec();
                at[*axis] = wrap_index(index(f, i), &x.shape[*axis]);
                at
            }
            ScatterKind::Nd => {
                let lead = indices.shape.len() - 1;
                let mut at = vec![];
                for d in 0..depth {
                    let position = [&i[..lead], &[Expr::i64(d as i64)]].concat();
                    at.push(wrap_index(index(f, &position).cast(DType::I64), &x.shape[d]));
                }
                at.extend_from_slice(&i[lead..]);
                at
            }
        };
        let value = combine(reduce, f.at(y, &at), update(f, i));
        Stmt::store(y, at, value)
    });
    cx.f.push(nest);
    Ok(())
}

fn combine(reduce: ScatterReduce, old: Expr, new: Expr) -> Expr {
    match reduce {
        ScatterReduce::Replace => new,
        ScatterReduce::Add => old + new,
        ScatterReduce::Mul => old * new,
        ScatterReduce::Max => Expr::binary(BinOp::Max, old, new),
        ScatterReduce::Min => Expr::binary(BinOp::Min, old, new),
    }
}

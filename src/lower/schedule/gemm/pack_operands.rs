//! Copies that make the column operand of a contraction contiguous.

use reflex_tir::{Buffer, DType, Expr, ExprKind, PrimFunc, Var};

use crate::layout::panel_width_for;
use crate::schedule::core::affine::{coefficient, linear, mentions};
use crate::schedule::core::contraction::{Contraction, is_made_of_codes};
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Item, Stage};
use crate::schedule::winograd::constant_matrix::is_constant_matrix_product;

/// Packs the column operands that need it; the copies come before their contraction.
pub fn stage_operands(nest: &mut Nest<'_>, items: Vec<Item>) -> Vec<Item> {
    let mut out = vec![];
    for item in items {
        match item {
            Item::Loop { var, extent, items } => {
                out.push(Item::Loop { var, extent, items: stage_operands(nest, items) });
            }
            Item::Stage(stage) => match staged(nest, &stage) {
                Some((copy, product)) => {
                    let text = format!("{}: columns packed into {}", product.name, copy.name);
                    nest.steps.push(text);
                    out.extend([Item::Stage(copy), Item::Stage(product)]);
                }
                None => out.push(Item::Stage(stage)),
            },
            opaque => out.push(opaque),
        }
    }
    out
}

/// Moves copies of what no item writes to the front, out of chains of stages that depend on each
/// other.
pub fn hoist_copies(func: &PrimFunc, items: &mut [Item]) {
    let written: Vec<Buffer> =
        func.buffers.keys().filter(|b| items.iter().any(|i| i.writes(*b))).collect();
    let free = |item: &Item| matches!(item, Item::Stage(s) if s.kept && !written.iter().any(|b| s.reads(*b)));
    items.sort_by_key(|item| !free(item));
}

fn staged(nest: &mut Nest<'_>, whole: &Stage) -> Option<(Stage, Stage)> {
    let stage = &whole.squeezed();
    if is_constant_matrix_product(&stage.value) {
        return None;
    }
    let product = Contraction::of(&nest.func, stage).ok().filter(|p| !p.both)?;
    let (copy, column) = column_copy(nest, stage, &product)?;
    let ExprKind::Call { args, .. } = whole.value.kind() else { return None };
    let value = Expr::call(product.op, vec![product.row, column, args[2].clone()]);
    Some((copy, Stage { value, ..whole.clone() }))
}

/// A copy of the column operand and how it is read, where one is wanted.
fn column_copy(nest: &mut Nest<'_>, stage: &Stage, product: &Contraction) -> Option<(Stage, Expr)> {
    // A copy of what is made of codes would be many times their size.
    if is_made_of_codes(&product.column) {
        return None;
    }
    let rows = product.rows(stage);
    let many_rows = rows.iter().map(|a| a.extent.as_int()).try_fold(1, |n, e| Some(n * e?));
    if let ExprKind::Load { buffer, indices, dtype: DType::F32 | DType::U32 } =
        product.column.kind()
    {
        let at = linear(&nest.func, *buffer, indices, &[product.inner.var]);
        let step = at.and_then(|at| at.coefficients[0].as_int());
        if step == Some(1) {
            return im2col(nest, stage, product, many_rows);
        }
        let split = is_split(indices, product.inner.var);
        if let Some(step @ 2..=8) = step
            && let Some(last) = indices.last()
            && coefficient(last, product.inner.var)?.as_int() == Some(step)
        {
            return Some(phases(nest, product, step));
        }
        if split {
            return None;
        }
    }
    if many_rows.is_some_and(|n| n < 4) {
        return None;
    }
    panels(nest, stage, product)
}

/// Whether the column is addressed as panels already.
fn is_split(indices: &[Expr], var: Var) -> bool {
    indices.iter().any(|i| {
        matches!(i.kind(), ExprKind::Binary { op: reflex_tir::BinOp::FloorMod, a, .. }
            if a.as_var() == Some(var))
    })
}

/// `T[.., p, i] = S[.., i * step + p]`: a kernel with stride `step` then walks `T` by 1.
fn phases(nest: &mut Nest<'_>, product: &Contraction, step: i64) -> (Stage, Expr) {
    let ExprKind::Load { buffer, indices, dtype } = product.column.kind() else {
        unreachable!("only loads are split by phase");
    };
    let source = nest.func.buffers[*buffer].shape.clone();
    let last = source.len() - 1;
    let mut shape = source[..last].to_vec();
    shape.extend([Expr::i64(step), source[last].clone().ceildiv(step)]);
    let copy = nest.scratch("phases", product.column.dtype(), shape.clone());
    let spatial: Vec<Axis> =
        shape.into_iter().map(|extent| Axis { var: nest.var("p"), extent }).collect();
    let at: Vec<Expr> = spatial.iter().map(|a| a.var.into()).collect();
    let mut from = at[..last].to_vec();
    let position = at[last + 1].clone() * step + at[last].clone();
    from.push(position.clone());
    let inside = match source[last].as_int() {
        Some(n) if n % step == 0 => Expr::bool(true),
        _ => position.lt(source[last].clone()),
    };
    let value = Expr::load(*buffer, from, *dtype);
    let value = Expr::if_then_else(inside, value, Expr::constant(0.0, *dtype));
    let fill = Stage::fill("phases", copy, spatial, value);
    // index = inner * step + rest, rest >= 0
    let inner: Expr = product.inner.var.into();
    let rest = indices[last].substitute(&|v| (v == product.inner.var).then(|| Expr::i64(0)));
    let mut to = indices[..last].to_vec();
    to.push(rest.clone().floormod(step));
    to.push(inner + rest.floordiv(step));
    (fill, Expr::load(copy, to, *dtype))
}

/// The axes of `stage` that `e` mentions, but for the inner one.
fn mentioned(stage: &Stage, e: &Expr, inner: Var) -> (Vec<Axis>, Vec<Axis>) {
    let pick = |list: &[Axis]| {
        list.iter().filter(|a| a.var != inner && mentions(e, a.var)).cloned().collect()
    };
    (pick(&stage.spatial), pick(&stage.reduce))
}

/// `T[outer.., panel, k.., lane]` holds the column operand in panels filled up with zeros.
fn panels(nest: &mut Nest<'_>, stage: &Stage, product: &Contraction) -> Option<(Stage, Expr)> {
    let inner = &product.inner;
    let lanes = nest.lanes(4);
    let width = match inner.extent.as_int() {
        Some(n) => panel_width_for(n, lanes, 2),
        None => 2 * lanes,
    };
    let (outer, reduce) = mentioned(stage, &product.column, inner.var);
    if reduce.is_empty() {
        return None;
    }
    let extents = |list: &[Axis]| list.iter().map(|a| a.extent.clone()).collect::<Vec<_>>();
    let count = inner.extent.clone().ceildiv(width);
    let shape =
        [extents(&outer), vec![count.clone()], extents(&reduce), vec![Expr::i64(width)]].concat();
    let buffer = nest.scratch("panels", product.column.dtype(), shape);
    let (panel, lane) = (nest.var("panel"), nest.var("lane"));
    let copy_of = |nest: &mut Nest<'_>, list: &[Axis]| -> Vec<Axis> {
        list.iter().map(|a| Axis { var: nest.var("c"), extent: a.extent.clone() }).collect()
    };
    let (outer_copy, reduce_copy) = (copy_of(nest, &outer), copy_of(nest, &reduce));
    let position = Expr::from(panel) * width + lane;
    let value = product.column.substitute(&|v| {
        if v == inner.var {
            return Some(position.clone());
        }
        let of = |from: &[Axis], to: &[Axis]| {
            from.iter().position(|a| a.var == v).map(|n| Expr::from(to[n].var))
        };
        of(&outer, &outer_copy).or_else(|| of(&reduce, &reduce_copy))
    });
    let inside = match inner.extent.as_int() {
        Some(n) if n % width == 0 => Expr::bool(true),
        _ => position.lt(inner.extent.clone()),
    };
    let dtype = product.column.dtype();
    let value = Expr::if_then_else(inside, value, Expr::constant(0.0, dtype));
    let spatial = [
        outer_copy,
        vec![Axis { var: panel, extent: count }],
        reduce_copy,
        vec![Axis { var: lane, extent: Expr::i64(width) }],
    ]
    .concat();
    let fill = Stage::fill("panels", buffer, spatial, value);
    let j: Expr = inner.var.into();
    let vars = |list: &[Axis]| list.iter().map(|a| Expr::from(a.var)).collect::<Vec<_>>();
    let at =
        [vars(&outer), vec![j.clone().floordiv(width)], vars(&reduce), vec![j.floormod(width)]]
            .concat();
    Some((fill, Expr::load(buffer, at, product.column.dtype())))
}

/// Im2col for short rows: `T[outer.., k.., y, x]` holds the operand of each result, so that all
/// results become one long row.
fn im2col(
    nest: &mut Nest<'_>,
    stage: &Stage,
    product: &Contraction,
    rows: Option<i64>,
) -> Option<(Stage, Expr)> {
    let lanes = nest.lanes(4);
    let width = product.inner.extent.as_int()?;
    let vectors = (width + lanes - 1) / lanes;
    // Worth it where a third of the lanes or more would idle, and the copy is used enough.
    let idle = vectors * lanes - width;
    if idle * 3 < vectors * lanes || rows? < 8 || is_split_any(&product.column, stage) {
        return None;
    }
    let only_column =
        |a: &&Axis| mentions(&product.column, a.var) && !mentions(&product.row, a.var);
    let at = stage.spatial.iter().position(|a| a.var == product.inner.var)?;
    let above = stage.spatial[..at].iter().rfind(only_column)?;
    // The store must run on from one row of results to the next.
    let vars = [above.var, product.inner.var];
    let store = linear(&nest.func, stage.buffer, &stage.indices, &vars)?;
    let column_at = match product.column.kind() {
        ExprKind::Load { buffer, indices, .. } => linear(&nest.func, *buffer, indices, &vars)?,
        _ => return None,
    };
    let contiguous = |c: &Expr| c.as_int() == Some(width);
    if !contiguous(&store.coefficients[0]) || contiguous(&column_at.coefficients[0]) {
        return None;
    }
    let (outer, reduce) = mentioned(stage, &product.column, product.inner.var);
    let outer: Vec<Axis> = outer.into_iter().filter(|a| a.var != above.var).collect();
    let axes = [outer, reduce, vec![above.clone(), product.inner.clone()]].concat();
    let shape = axes.iter().map(|a| a.extent.clone()).collect();
    let buffer = nest.scratch("windows", product.column.dtype(), shape);
    let copies: Vec<Axis> =
        axes.iter().map(|a| Axis { var: nest.var("w"), extent: a.extent.clone() }).collect();
    let value = product
        .column
        .substitute(&|v| axes.iter().position(|a| a.var == v).map(|n| Expr::from(copies[n].var)));
    let fill = Stage::fill("windows", buffer, copies, value);
    let at = axes.iter().map(|a| a.var.into()).collect();
    Some((fill, Expr::load(buffer, at, product.column.dtype())))
}

fn is_split_any(e: &Expr, stage: &Stage) -> bool {
    match e.kind() {
        ExprKind::Load { indices, .. } => stage.spatial.iter().any(|a| is_split(indices, a.var)),
        _ => false,
    }
}

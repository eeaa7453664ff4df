//! Moves that read along another axis than they write: through tiles of shared memory, so that
//! neighbouring threads load neighbours and store neighbours.
//!
//! ```text
//! for by, bx in blocks:                                      tiles of 32 x 32
//!     for ty, tx in threads: tile[j, i] = x[.., j, .., i]    tx along i
//!     for ty, tx in threads: y[.., i, .., j] = tile[j, i]    tx along j
//! ```

use reflex_tir::{Buffer, Expr, ExprKind, ForKind, Scope, Stmt, Var};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::grid::{Grid, threads};
use crate::schedule::gpu::work::Work;

/// Rows and columns of a tile.
const TILE: i64 = 32;
/// Threads along the rows of a tile.
const ROWS: i64 = 8;
/// The fewest rows or columns that are worth a tile.
const LEAST: i64 = 16;

/// The launch of a transpose.
pub fn transpose(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = work.alone()?;
    let (i, j) = axes(nest, stage)?;
    let batch: Vec<Axis> =
        stage.spatial.iter().filter(|a| a.var != i.var && a.var != j.var).cloned().collect();
    let dtype = nest.func.buffers[stage.buffer].dtype;
    // One element more in a row: a column is in as many banks as a row.
    let shape = vec![TILE.into(), (TILE + 1).into()];
    let tile = nest.func.new_buffer("tile", dtype, shape, Scope::Shared);
    nest.steps.push(format!("{}: tiles of {TILE} x {TILE} in shared memory", stage.name));
    let (rows, columns) = (i.extent.clone(), j.extent.clone());
    let grid = Grid { batch: &batch, rows, columns, tile: [TILE; 2] };
    let load = |at_i: &Expr, at_j: &Expr| at(&stage.value, [&i, &j], [at_i, at_j]);
    let store = |at_i: &Expr, at_j: &Expr| -> Vec<Expr> {
        stage.indices.iter().map(|e| at(e, [&i, &j], [at_i, at_j])).collect()
    };
    let moved = grid.launch(nest, &[tile], |nest, y, x| {
        let first = |n: &Expr| n.clone() * TILE;
        let loads = each(nest, &mut |r, c| {
            let (at_i, at_j) = (first(y) + c.clone(), first(x) + r.clone());
            let element = Stmt::store(tile, vec![r, c], load(&at_i, &at_j));
            inside([&i, &j], [at_i, at_j], element)
        });
        let stores = each(nest, &mut |r, c| {
            let (at_i, at_j) = (first(y) + r.clone(), first(x) + c.clone());
            let element = Expr::load(tile, vec![c, r], dtype);
            let stored = Stmt::store(stage.buffer, store(&at_i, &at_j), element);
            inside([&i, &j], [at_i, at_j], stored)
        });
        Stmt::Seq(vec![loads, stores])
    });
    Ok(moved)
}

/// The axes along which elements are contiguous: those read, and those written.
fn axes(nest: &Nest<'_>, stage: &Stage) -> Result<(Axis, Axis), Refusal> {
    let (ExprKind::Load { buffer, indices, .. }, None) = (stage.value.kind(), &stage.init) else {
        return Err(Refusal::NoTranspose);
    };
    let rank = |b: Buffer| nest.func.buffers[b].shape.len();
    if indices.len() != rank(*buffer) || stage.indices.len() != rank(stage.buffer) {
        return Err(Refusal::NoTranspose);
    }
    let last = |indices: &[Expr]| -> Option<Axis> {
        let var = indices.last()?.as_var()?;
        stage.spatial.iter().find(|a| a.var == var).cloned()
    };
    let (Some(i), Some(j)) = (last(indices), last(&stage.indices)) else {
        return Err(Refusal::NoTranspose);
    };
    let read = |var: Var| indices.iter().any(|e| mentions(e, var));
    let short = |a: &Axis| a.extent.as_int().is_some_and(|n| n < LEAST);
    match i.var != j.var && read(j.var) {
        true if short(&i) || short(&j) => Err(Refusal::TooSmall),
        true => Ok((i, j)),
        false => Err(Refusal::NoTranspose),
    }
}

/// Each thread's elements of a tile, by row and column.
fn each(nest: &mut Nest<'_>, body: &mut dyn FnMut(Expr, Expr) -> Stmt) -> Stmt {
    threads(nest, [ROWS, TILE], &mut |nest, y, x| {
        nest.repeat(ForKind::Unrolled, "e", TILE / ROWS, |_, e| body(e * ROWS + y.clone(), x))
    })
}

/// An expression where two axes have other positions.
fn at(e: &Expr, axes: [&Axis; 2], places: [&Expr; 2]) -> Expr {
    let place = |v: Var| axes.iter().position(|a| a.var == v).map(|n| places[n].clone());
    e.substitute(&place)
}

/// `body`, if the positions are on their axes.
fn inside(axes: [&Axis; 2], places: [Expr; 2], body: Stmt) -> Stmt {
    let [i, j] = places;
    let cond = i.lt(axes[0].extent.clone()).and(j.lt(axes[1].extent.clone()));
    match cond.as_int() {
        Some(_) => body,
        None => Stmt::If { cond, then: Box::new(body), otherwise: None },
    }
}

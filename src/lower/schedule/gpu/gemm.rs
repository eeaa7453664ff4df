//! Contractions of float32 by fused multiply-adds (implicit GEMM): a block computes a tile of results
//! from tiles of both operands in shared memory, and each thread a square of it in registers.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 64 x 64 results
//!     for ty, tx in threads(16, 16):
//!         acc[4, 4] = 0
//!         for k0 in steps of 16:
//!             a_tile, b_tile = both operands, each thread its share
//!             for kk in 16: acc[r, c] = fma(a_tile[kk, ..], b_tile[kk, ..], acc[r, c])
//!         y[..] = acc
//! ```
//!
//! Axes that only one operand has are its rows, or columns, as one; axes that both have are a batch.
//! Sums keep their order.
//!
//! Decision: docs/decisions/0052-gpu-tiles.md

use reflex_tir::arith::Analyzer;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::grid::{Grid, count, decoded, threads};

/// Rows and columns of a block's tile.
const TILE: i64 = 64;
/// Steps of the reduction between two barriers.
const DEPTH: i64 = 16;
/// Threads along rows, and along columns.
const SIDE: i64 = 16;
/// Results of a thread along rows, and along columns.
const EACH: i64 = TILE / SIDE;
/// The fewest rows or columns that are worth a tile.
const LEAST: i64 = 32;

/// The launch of a contraction.
pub fn gemm(nest: &mut Nest<'_>, stage: &Stage) -> Result<Stmt, Refusal> {
    let stage = stage.squeezed();
    let product = Product::of(nest, &stage)?;
    let tiles = Tiles {
        a: nest.func.new_buffer("a_tile", DType::F32, tile(), Scope::Shared),
        b: nest.func.new_buffer("b_tile", DType::F32, tile(), Scope::Shared),
        acc: nest.local("acc", DType::F32, &[EACH, EACH]),
    };
    nest.steps.push(format!(
        "{}: tiles of {TILE} x {TILE} in shared memory, {DEPTH} steps at once, {EACH} x {EACH} results a thread",
        stage.name
    ));
    Ok(product.launch(nest, &tiles))
}

/// The shape of an operand's tile. One element more in a row: threads that store neighbouring steps
/// store to different banks.
fn tile() -> Vec<Expr> {
    vec![DEPTH.into(), (TILE + 1).into()]
}

struct Tiles {
    a: Buffer,
    b: Buffer,
    acc: Buffer,
}

/// A sum over products of two operands, its axes by the operands that have them.
struct Product<'s> {
    stage: &'s Stage,
    a: Expr,
    b: Expr,
    rows: Vec<Axis>,
    columns: Vec<Axis>,
    batch: Vec<Axis>,
}

/// A position in the result and the reduction.
struct Position {
    row: Expr,
    column: Expr,
    step: Expr,
}

impl<'s> Product<'s> {
    fn of(nest: &Nest<'_>, stage: &'s Stage) -> Result<Product<'s>, Refusal> {
        let ExprKind::Call { op: Intrin::Fma, args, .. } = stage.value.kind() else {
            return Err(Refusal::NoContraction);
        };
        let sums = matches!(args[2].kind(), ExprKind::Load { buffer, indices, .. }
            if *buffer == stage.buffer && *indices == stage.indices);
        if !sums || stage.init.is_none() {
            return Err(Refusal::NoContraction);
        }
        if nest.func.buffers[stage.buffer].dtype != DType::F32 {
            return Err(Refusal::ElementType);
        }
        let (a, b) = (args[0].clone(), args[1].clone());
        let of = |in_a: bool, in_b: bool| -> Vec<Axis> {
            let has =
                |axis: &&Axis| (mentions(&a, axis.var), mentions(&b, axis.var)) == (in_a, in_b);
            stage.spatial.iter().filter(has).cloned().collect()
        };
        let (rows, columns, batch) = (of(true, false), of(false, true), of(true, true));
        if rows.is_empty() || columns.is_empty() || !of(false, false).is_empty() {
            return Err(Refusal::NotSeparable);
        }
        let few = |axes: &[Axis], least| count(axes).as_int().is_some_and(|n| n < least);
        if few(&rows, LEAST) || few(&columns, LEAST) || few(&stage.reduce, DEPTH) {
            return Err(Refusal::TooSmall);
        }
        Ok(Product { stage, a, b, rows, columns, batch })
    }

    /// The grid.
    fn launch(&self, nest: &mut Nest<'_>, tiles: &Tiles) -> Stmt {
        let (rows, columns) = (count(&self.rows), count(&self.columns));
        let grid = Grid { batch: &self.batch, rows, columns, tile: TILE };
        grid.launch(nest, &[tiles.a, tiles.b], |nest, y, x| self.block(nest, tiles, y, x))
    }

    /// The statement of the block of row tile `y` and column tile `x`, for all of its threads.
    fn block(&self, nest: &mut Nest<'_>, tiles: &Tiles, y: &Expr, x: &Expr) -> Stmt {
        let (first_row, first_column) = (y.clone() * TILE, x.clone() * TILE);
        threads(nest, [SIDE, SIDE], &mut |nest, ty, tx| {
            let init = self.stage.init.clone().expect("a contraction");
            let start = each(nest, &mut |i, j| Stmt::store(tiles.acc, vec![i, j], init.clone()));
            let steps = self.steps(nest, tiles, (&first_row, &first_column), (&ty, &tx));
            let store = each(nest, &mut |i, j| {
                let row = first_row.clone() + i.clone() * SIDE + ty.clone();
                let column = first_column.clone() + j.clone() * SIDE + tx.clone();
                self.store(tiles.acc, [i, j], &Position { row, column, step: Expr::i64(0) })
            });
            let body = Box::new(Stmt::Seq(vec![start, steps, store]));
            Stmt::Allocate { buffer: tiles.acc, body }
        })
    }

    /// The reduction: tiles of both operands, then their product.
    fn steps(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        (first_row, first_column): (&Expr, &Expr),
        (ty, tx): (&Expr, &Expr),
    ) -> Stmt {
        let depth = count(&self.stage.reduce);
        let groups = Analyzer::new().simplify(&depth.clone().ceildiv(DEPTH));
        nest.repeat(ForKind::Serial, "k0", groups, |nest, k0| {
            let first = k0 * DEPTH;
            // Neighbouring threads load neighbouring steps of A, and neighbouring columns of B.
            let a = threads(nest, [SIDE, SIDE], &mut |nest, ly, lx| {
                nest.repeat(ForKind::Unrolled, "e", EACH, |_, e| {
                    let (step, r) = (first.clone() + lx.clone(), e * SIDE + ly.clone());
                    let row = first_row.clone() + r.clone();
                    let at = Position { row, column: Expr::i64(0), step };
                    Stmt::store(
                        tiles.a,
                        vec![lx.clone(), r],
                        self.operand(&self.a, &self.rows, &at),
                    )
                })
            });
            let b = threads(nest, [SIDE, SIDE], &mut |nest, ly, lx| {
                nest.repeat(ForKind::Unrolled, "e", EACH, |_, e| {
                    let (kk, c) = (ly.clone(), e * SIDE + lx.clone());
                    let (step, column) =
                        (first.clone() + kk.clone(), first_column.clone() + c.clone());
                    let at = Position { row: Expr::i64(0), column, step };
                    Stmt::store(tiles.b, vec![kk, c], self.operand(&self.b, &self.columns, &at))
                })
            });
            let product = nest.repeat(ForKind::Serial, "kk", DEPTH, |nest, kk| {
                let fma = each(nest, &mut |i, j| {
                    let load = |b: Buffer, at: Vec<Expr>| Expr::load(b, at, DType::F32);
                    let row = load(tiles.a, vec![kk.clone(), i.clone() * SIDE + ty.clone()]);
                    let column = load(tiles.b, vec![kk.clone(), j.clone() * SIDE + tx.clone()]);
                    let acc = load(tiles.acc, vec![i.clone(), j.clone()]);
                    let value = Expr::call(Intrin::Fma, vec![row, column, acc]);
                    Stmt::store(tiles.acc, vec![i, j], value)
                });
                let inside = (first.clone() + kk).lt(depth.clone());
                Stmt::If { cond: inside, then: Box::new(fma), otherwise: None }
            });
            Stmt::Seq(vec![a, b, product])
        })
    }

    /// An operand's element, or 0 outside of its rows or columns and the reduction.
    fn operand(&self, operand: &Expr, own: &[Axis], at: &Position) -> Expr {
        let across = if own == self.rows { &at.row } else { &at.column };
        let inside = across.clone().lt(count(own));
        let inside = inside.and(at.step.clone().lt(count(&self.stage.reduce)));
        let mut places = decoded(own, across);
        places.extend(decoded(&self.stage.reduce, &at.step));
        let element = operand.substitute(&|v| places.get(&v).cloned());
        Expr::if_then_else(inside, element, Expr::float(0.0, DType::F32))
    }

    /// Stores one of a thread's results, if it is one.
    fn store(&self, acc: Buffer, from: [Expr; 2], at: &Position) -> Stmt {
        let mut places = decoded(&self.rows, &at.row);
        places.extend(decoded(&self.columns, &at.column));
        let place = |e: &Expr| e.substitute(&|v| places.get(&v).cloned());
        let indices = self.stage.indices.iter().map(place).collect();
        let value = Expr::load(acc, from.to_vec(), DType::F32);
        let inside = at.row.clone().lt(count(&self.rows));
        let cond = inside.and(at.column.clone().lt(count(&self.columns)));
        let then = Box::new(Stmt::store(self.stage.buffer, indices, value));
        Stmt::If { cond, then, otherwise: None }
    }
}

/// Loops over the results of a thread.
fn each(nest: &mut Nest<'_>, body: &mut dyn FnMut(Expr, Expr) -> Stmt) -> Stmt {
    nest.repeat(ForKind::Unrolled, "r", EACH, |nest, i| {
        nest.repeat(ForKind::Unrolled, "c", EACH, |_, j| body(i, j))
    })
}

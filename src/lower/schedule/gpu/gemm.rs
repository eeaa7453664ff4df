//! Contractions of float32 by fused multiply-adds (implicit GEMM): a block computes a tile of results
//! from tiles of both operands in shared memory, and each thread a square of it in registers.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 64 x 64 results
//!     for ty, tx in threads(16, 16):
//!         acc[4, 4] = 0
//!         for k0 in steps of 16:
//!             a_tile, b_tile = both operands, each thread its share
//!             for kk in 16:
//!                 a[4], b[4] = a_tile[kk, 4 ty ..], b_tile[kk, tx + 16 ..]
//!                 acc[r, c] = fma(a[r], b[c], acc[r, c])
//!         y[..] = acc
//! ```
//!
//! Axes that only one operand has are its rows, or columns, as one; axes that both have are a batch. The
//! operand with the result's contiguous axis has the columns. Sums keep their order, but in `split-k`:
//! there, blocks reduce a part each, and a second launch adds the parts.
//!
//! Decision: docs/decisions/0052-gpu-tiles.md

use reflex_tir::arith::Analyzer;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::grid::{Grid, THREADS, blocks, count, decoded, guarded, threads};
use crate::schedule::gpu::work::Work;

/// Steps of the reduction between two barriers.
const DEPTH: i64 = 16;
/// Elements of a row that a thread loads at once.
const VECTOR: i64 = 4;
/// Steps of an unrolled loop.
const UNROLLED: i64 = 4;
/// The fewest rows or columns that are worth a tile.
const LEAST: i64 = 16;
/// Tiles that keep a GPU busy: one for each multiprocessor of the smallest that are common.
pub(super) const ENOUGH_TILES: i64 = 108;
/// The most parts of a reduction, and steps that each has at least.
const MOST_PARTS: i64 = 32;
const LEAST_STEPS: i64 = 64;

/// The size of tiles.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Rows and columns of a block's tile.
    tile: i64,
    /// Results of a thread along rows, and along columns.
    each: i64,
}

/// The largest first.
const TILINGS: [Tiling; 3] =
    [Tiling { tile: 128, each: 8 }, Tiling { tile: 64, each: 4 }, Tiling { tile: 32, each: 4 }];

impl Tiling {
    /// Threads along rows, and along columns.
    fn side(self) -> i64 {
        self.tile / self.each
    }

    /// Tiles of so many results.
    fn tiles(self, rows: i64, columns: i64) -> i64 {
        (rows + self.tile - 1) / self.tile * ((columns + self.tile - 1) / self.tile)
    }

    /// The shape of an operand's tile: a few elements more in a row, so that threads that store
    /// neighbouring steps store to different banks.
    fn shape(self) -> Vec<Expr> {
        vec![DEPTH.into(), (self.tile + VECTOR).into()]
    }
}

/// The launch of a contraction, with its epilogue where results are stored.
pub fn gemm(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let product = Product::of(nest, &work.stage)?;
    let tiling = product.tiling();
    let Tiling { tile, each } = tiling;
    nest.steps.push(format!(
        "{}: tiles of {tile} x {tile} in shared memory, {DEPTH} steps at once, {each} x {each} results a thread",
        work.stage.name
    ));
    let tiles = Tiles::new(nest, tiling);
    let depth = Analyzer::new().simplify(&count(&work.stage.reduce).ceildiv(DEPTH));
    let steps = Steps { first: Expr::i64(0), groups: depth };
    let store = |result| work.store(result);
    Ok(product.launch(nest, &tiles, &product.batch, &steps, &store))
}

/// The launches of a contraction with few tiles and many steps: parts of the reduction, then their sums.
pub fn gemm_split_k(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let stage = &work.stage;
    let product = Product::of(nest, stage)?;
    let (rows, columns) = (count(&product.rows), count(&product.columns));
    let known = (rows.as_int(), columns.as_int(), count(&stage.reduce).as_int());
    let (Some(m), Some(n), Some(k)) = known else { return Err(Refusal::UnknownExtent) };
    let tiling = TILINGS[1];
    let tiles = tiling.tiles(m, n);
    let parts = (k / LEAST_STEPS).min(2 * ENOUGH_TILES / tiles).min(MOST_PARTS);
    if !product.batch.is_empty() || 2 * tiles > ENOUGH_TILES || parts < 2 {
        return Err(Refusal::EnoughTiles);
    }
    let groups = (k + DEPTH * parts - 1) / (DEPTH * parts);
    let parts = (k + DEPTH * groups - 1) / (DEPTH * groups);
    nest.steps.push(format!("{}: {parts} parts of {} steps", stage.name, DEPTH * groups));
    let shape = vec![parts.into(), m.into(), n.into()];
    let partial = nest.scratch("parts", DType::F32, shape);
    let part = Axis { var: nest.var("part"), extent: parts.into() };
    let steps = Steps { first: Expr::from(part.var) * groups, groups: groups.into() };
    let shared = Tiles::new(nest, tiling);
    let place = |at: &Position| vec![part.var.into(), at.row.clone(), at.column.clone()];
    let of_parts =
        product.launch_parts(nest, &shared, std::slice::from_ref(&part), &steps, &|at, result| {
            (partial, place(at), result)
        });
    // A thread for each result adds its parts in order.
    let results = m * n;
    let acc = nest.local("sum", DType::F32, &[]);
    let sums = blocks(nest, ((results + THREADS - 1) / THREADS).into(), &[], |nest, b| {
        threads(nest, [1, THREADS], &mut |nest, _, tx| {
            let at = b.clone() * THREADS + tx;
            let (row, column) = (at.clone().floordiv(n), at.clone().floormod(n));
            let position = Position { row, column, step: Expr::i64(0) };
            let sum = nest.repeat(ForKind::Serial, "p", parts, |_, p| {
                let index = vec![p, position.row.clone(), position.column.clone()];
                let part = Expr::load(partial, index, DType::F32);
                Stmt::store(acc, vec![], Expr::load(acc, vec![], DType::F32) + part)
            });
            let start = Stmt::store(acc, vec![], Expr::float(0.0, DType::F32));
            let result = Expr::load(acc, vec![], DType::F32);
            let places = product.places(&position);
            let (buffer, indices, value) = work.store(result);
            let place = |e: &Expr| e.substitute(&|v| places.get(&v).cloned());
            let store = Stmt::store(buffer, indices.iter().map(place).collect(), place(&value));
            let body = Stmt::Seq(vec![start, sum, store]);
            guarded(at.lt(results), Stmt::Allocate { buffer: acc, body: Box::new(body) })
        })
    });
    Ok(Stmt::Seq(vec![of_parts, sums]))
}

/// Groups of [`DEPTH`] steps that a block reduces.
struct Steps {
    first: Expr,
    groups: Expr,
}

struct Tiles {
    tiling: Tiling,
    a: Buffer,
    b: Buffer,
    acc: Buffer,
    /// A row's elements that a thread needs for a step, and a column's.
    row: Buffer,
    column: Buffer,
}

impl Tiles {
    fn new(nest: &mut Nest<'_>, tiling: Tiling) -> Tiles {
        let each = tiling.each;
        let mut shared =
            |name| nest.func.new_buffer(name, DType::F32, tiling.shape(), Scope::Shared);
        let (a, b) = (shared("a_tile"), shared("b_tile"));
        Tiles {
            tiling,
            a,
            b,
            acc: nest.local("acc", DType::F32, &[each, each]),
            row: nest.local("row", DType::F32, &[each]),
            column: nest.local("column", DType::F32, &[each]),
        }
    }
}

/// A sum over products of two operands, its axes by the operands that have them.
pub(super) struct Product<'s> {
    pub(super) stage: &'s Stage,
    pub(super) a: Operand,
    pub(super) b: Operand,
    pub(super) rows: Vec<Axis>,
    pub(super) columns: Vec<Axis>,
    pub(super) batch: Vec<Axis>,
}

/// An operand, and whether neighbouring threads load along its own axes rather than along steps.
pub(super) struct Operand {
    pub(super) value: Expr,
    pub(super) across: bool,
}

/// A position in the result and the reduction.
pub(super) struct Position {
    pub(super) row: Expr,
    pub(super) column: Expr,
    pub(super) step: Expr,
}

/// Where a result goes and as what.
type Store<'a> = &'a dyn Fn(&Position, Expr) -> (Buffer, Vec<Expr>, Expr);

impl<'s> Product<'s> {
    pub(super) fn of(nest: &Nest<'_>, stage: &'s Stage) -> Result<Product<'s>, Refusal> {
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
        // The last axis of results, along which neighbouring threads store.
        let last = stage.spatial.last().map(|axis| axis.var);
        let (mut a, mut b) = (args[0].clone(), args[1].clone());
        if last.is_some_and(|var| mentions(&a, var)) {
            (a, b) = (b, a);
        }
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
        if few(&rows, LEAST) || few(&columns, LEAST) || few(&stage.reduce, DEPTH / 2) {
            return Err(Refusal::TooSmall);
        }
        let a = Operand { across: unit_step(nest, &a, &rows), value: a };
        let b = Operand { across: unit_step(nest, &b, &columns), value: b };
        Ok(Product { stage, a, b, rows, columns, batch })
    }

    /// The largest tiles that are enough for a GPU.
    fn tiling(&self) -> Tiling {
        let known = |axes: &[Axis]| count(axes).as_int();
        let (Some(m), Some(n)) = (known(&self.rows), known(&self.columns)) else {
            return TILINGS[1];
        };
        let batch = known(&self.batch).unwrap_or(1);
        let enough = |t: &&Tiling| batch * t.tiles(m, n) >= ENOUGH_TILES;
        *TILINGS.iter().find(enough).unwrap_or(&TILINGS[2])
    }

    fn launch(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        batch: &[Axis],
        steps: &Steps,
        store: &dyn Fn(Expr) -> (Buffer, Vec<Expr>, Expr),
    ) -> Stmt {
        self.launch_parts(nest, tiles, batch, steps, &|at, result| {
            let places = self.places(at);
            let (buffer, indices, value) = store(result);
            let place = |e: &Expr| e.substitute(&|v| places.get(&v).cloned());
            (buffer, indices.iter().map(place).collect(), place(&value))
        })
    }

    /// The grid: a block for each tile of each of `batch`.
    fn launch_parts(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        batch: &[Axis],
        steps: &Steps,
        store: Store<'_>,
    ) -> Stmt {
        let (rows, columns) = (count(&self.rows), count(&self.columns));
        let grid = Grid { batch, rows, columns, tile: tiles.tiling.tile };
        grid.launch(nest, &[tiles.a, tiles.b], |nest, y, x| {
            self.block(nest, tiles, (y, x), steps, store)
        })
    }

    /// The statement of the block of row tile `y` and column tile `x`, for all of its threads.
    fn block(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        (y, x): (&Expr, &Expr),
        steps: &Steps,
        store: Store<'_>,
    ) -> Stmt {
        let Tiling { tile, each } = tiles.tiling;
        let side = tiles.tiling.side();
        let (first_row, first_column) = (y.clone() * tile, x.clone() * tile);
        threads(nest, [side, side], &mut |nest, ty, tx| {
            let init = self.stage.init.clone().expect("a contraction");
            let start =
                square(nest, each, &mut |i, j| Stmt::store(tiles.acc, vec![i, j], init.clone()));
            let sums = self.sums(nest, tiles, (&first_row, &first_column), (&ty, &tx), steps);
            let stores = square(nest, each, &mut |i, j| {
                let row = first_row.clone() + row_of(&i, &ty, side);
                let column = first_column.clone() + j.clone() * side + tx.clone();
                let cond = row.clone().lt(count(&self.rows));
                let cond = cond.and(column.clone().lt(count(&self.columns)));
                let at = Position { row, column, step: Expr::i64(0) };
                let result = Expr::load(tiles.acc, vec![i, j], DType::F32);
                let (buffer, indices, value) = store(&at, result);
                guarded(cond, Stmt::store(buffer, indices, value))
            });
            let body = Stmt::Seq(vec![start, sums, stores]);
            Stmt::Allocate { buffer: tiles.acc, body: Box::new(body) }
        })
    }

    /// The reduction: tiles of both operands, then their product.
    fn sums(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        (first_row, first_column): (&Expr, &Expr),
        (ty, tx): (&Expr, &Expr),
        steps: &Steps,
    ) -> Stmt {
        let depth = count(&self.stage.reduce);
        nest.repeat(ForKind::Serial, "k0", steps.groups.clone(), |nest, k0| {
            let first = (steps.first.clone() + k0) * DEPTH;
            let a = self.fill(nest, tiles, tiles.a, &self.a, &|across, step| {
                let (row, step) = (first_row.clone() + across, first.clone() + step);
                self.operand(
                    &self.a.value,
                    &self.rows,
                    &Position { row, column: Expr::i64(0), step },
                )
            });
            let b = self.fill(nest, tiles, tiles.b, &self.b, &|across, step| {
                let (column, step) = (first_column.clone() + across, first.clone() + step);
                self.operand(
                    &self.b.value,
                    &self.columns,
                    &Position { row: Expr::i64(0), column, step },
                )
            });
            let product = nest.repeat(ForKind::Serial, "kk", DEPTH / UNROLLED, |nest, outer| {
                nest.repeat(ForKind::Unrolled, "u", UNROLLED, |nest, inner| {
                    let kk = outer * UNROLLED + inner;
                    let fma = multiply_add(nest, tiles, &kk, (ty, tx));
                    guarded((first.clone() + kk).lt(depth.clone()), fma)
                })
            });
            Stmt::Seq(vec![a, b, product])
        })
    }

    /// Fills an operand's tile; `element` is that of a position across the tile and along the steps.
    fn fill(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        to: Buffer,
        operand: &Operand,
        element: &dyn Fn(Expr, Expr) -> Expr,
    ) -> Stmt {
        let (tile, side) = (tiles.tiling.tile, tiles.tiling.side());
        let count = side * side;
        threads(nest, [side, side], &mut |nest, ly, lx| {
            nest.repeat(ForKind::Unrolled, "e", tile * DEPTH / count, |_, e| {
                let at = e * count + ly.clone() * side + lx.clone();
                let (across, step) = match operand.across {
                    true => (at.clone().floormod(tile), at.floordiv(tile)),
                    false => (at.clone().floordiv(DEPTH), at.floormod(DEPTH)),
                };
                Stmt::store(to, vec![step.clone(), across.clone()], element(across, step))
            })
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

    /// The axes of results at a position.
    pub(super) fn places(&self, at: &Position) -> std::collections::HashMap<reflex_tir::Var, Expr> {
        let mut places = decoded(&self.rows, &at.row);
        places.extend(decoded(&self.columns, &at.column));
        places
    }
}

/// One step: a thread's elements of both tiles, and their products.
fn multiply_add(nest: &mut Nest<'_>, tiles: &Tiles, kk: &Expr, (ty, tx): (&Expr, &Expr)) -> Stmt {
    let (each, side) = (tiles.tiling.each, tiles.tiling.side());
    let load = |b: Buffer, at: Vec<Expr>| Expr::load(b, at, DType::F32);
    let row = nest.repeat(ForKind::Unrolled, "g", each / VECTOR, |nest, g| {
        nest.lanes_of(VECTOR, |_, l| {
            let at = g.clone() * VECTOR + l.clone();
            let from = g * (VECTOR * side) + ty.clone() * VECTOR + l;
            Stmt::store(tiles.row, vec![at], load(tiles.a, vec![kk.clone(), from]))
        })
    });
    let column = nest.repeat(ForKind::Unrolled, "c", each, |_, c| {
        let from = c.clone() * side + tx.clone();
        Stmt::store(tiles.column, vec![c], load(tiles.b, vec![kk.clone(), from]))
    });
    let fma = square(nest, each, &mut |i, j| {
        let (a, b) = (load(tiles.row, vec![i.clone()]), load(tiles.column, vec![j.clone()]));
        let sum = load(tiles.acc, vec![i.clone(), j.clone()]);
        Stmt::store(tiles.acc, vec![i, j], Expr::call(Intrin::Fma, vec![a, b, sum]))
    });
    let body = Stmt::Seq(vec![row, column, fma]);
    let body = Stmt::Allocate { buffer: tiles.column, body: Box::new(body) };
    Stmt::Allocate { buffer: tiles.row, body: Box::new(body) }
}

/// The row of a tile that is the `i`-th of a thread: vectors of neighbours, `side` vectors apart.
fn row_of(i: &Expr, ty: &Expr, side: i64) -> Expr {
    let (vector, lane) = (i.clone().floordiv(VECTOR), i.clone().floormod(VECTOR));
    vector * (VECTOR * side) + ty.clone() * VECTOR + lane
}

/// Loops over the results of a thread.
fn square(nest: &mut Nest<'_>, each: i64, body: &mut dyn FnMut(Expr, Expr) -> Stmt) -> Stmt {
    nest.repeat(ForKind::Unrolled, "r", each, |nest, i| {
        nest.repeat(ForKind::Unrolled, "c", each, |_, j| body(i.clone(), j))
    })
}

/// Whether neighbours along the last of an operand's own axes are neighbours in memory.
fn unit_step(nest: &Nest<'_>, operand: &Expr, own: &[Axis]) -> bool {
    let Some(last) = own.last() else { return false };
    let mut found = false;
    operand.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            let at = linear(&nest.func, *buffer, indices, &[last.var]);
            found |= at.is_some_and(|at| at.coefficients[0].as_int() == Some(1));
        }
    });
    found
}

//! Contractions of float32 by fused multiply-adds (implicit GEMM): a block computes a tile of results
//! from tiles of both operands in shared memory, and each thread a square of it in registers.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 64 x 64 results
//!     for ty, tx in threads(16, 16):
//!         acc[4, 4] = 0
//!         next = each thread's share of the first tiles of both operands
//!         a_tile[0], b_tile[0] = next
//!         for k0 in steps of 2 * 16:
//!             for s in 2:                     two buffers: one is filled while the other one is read
//!                 next = the share of the tiles behind those
//!                 for kk in 16:
//!                     a[4], b[4] = a_tile[s][kk, 4 ty ..], b_tile[s][kk, 4 tx ..]
//!                     acc[r, c] = fma(a[r], b[c], acc[r, c])
//!                 a_tile[1 - s], b_tile[1 - s] = next
//!         y[..] = acc
//! ```
//!
//! Loads from global memory are on their way while threads multiply (software pipelining).
//!
//! Axes that only one operand has are its rows, or columns, as one; axes that both have are a batch. The
//! operand with the result's contiguous axis has the columns. Sums keep their order, but in `split-k`:
//! there, blocks reduce a part each, and a second launch adds the parts.
//!
//! Decision: docs/decisions/0052-gpu-tiles.md

use reflex_tir::arith::Analyzer;
use reflex_tir::codegen::{GpuTarget, Target};
use reflex_tir::thread::WARP;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::gpu::cost::{Extents, TileCost, fastest};
use crate::schedule::gpu::grid::{DoubleBuffered, Grid, count, decoded, guarded, threads};
use crate::schedule::gpu::split_k::sum_parts;
use crate::schedule::gpu::work::Work;

/// Steps of the reduction between two barriers.
const DEPTH: i64 = 16;
/// Elements of a row that a thread loads at once.
const VECTOR: i64 = 4;
/// Bytes of an element.
const FLOAT: i64 = 4;
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
    /// Registers of a thread, at most.
    registers: i64,
}

/// The largest first.
const TILINGS: [Tiling; 3] = [tiling(128, 8, 168), tiling(64, 4, 128), tiling(32, 4, 128)];

const fn tiling(tile: i64, each: i64, registers: i64) -> Tiling {
    Tiling { tile, each, registers }
}

impl Tiling {
    /// Threads along rows, and along columns.
    fn side(self) -> i64 {
        self.tile / self.each
    }

    /// The cost of tiles.
    fn cost(self, gpu: &GpuTarget) -> TileCost {
        let (side, tile) = (self.side(), self.tile);
        let threads = side * side;
        // Registers are what limits it, whoever shares what is read.
        let reads = threads * 2 * self.each;
        let bytes = |elements: i64| elements * DEPTH * FLOAT;
        // For a step multiply-adds and loads of vectors; for each element that a thread moves one to load or store and one
        // for its place.
        let step = self.each * self.each + 2 * self.each / VECTOR;
        let moved = 2 * 2 * tile / threads;
        TileCost {
            tile: [tile; 2],
            depth: DEPTH,
            stages: 2,
            threads,
            registers: self.registers,
            shared_bytes: 2 * 2 * (tile + VECTOR) * DEPTH * FLOAT,
            rate: i64::from(gpu.fma_per_cycle),
            passes: 1,
            instructions: threads * DEPTH * (step + moved) / WARP,
            traffic: bytes(2 * tile + reads),
            element: FLOAT,
        }
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
    let tiling = product.tiling(nest.target);
    let Tiling { tile, each, .. } = tiling;
    let note = match nest.target {
        Target::Gpu(gpu) => tiling.cost(gpu).note(gpu, product.extents()),
        Target::Cpu(_) => String::new(),
    };
    nest.steps.push(format!(
        "{}: tiles of {tile} x {tile} in shared memory, {DEPTH} steps at once, {each} x {each} results a thread; {note}",
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
    let sums = sum_parts(nest, work, partial, &|at| {
        product.places(&Position { row: at[0].clone(), column: at[1].clone() })
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
    /// The tiles of both operands, twice.
    shared: [[Buffer; 2]; 2],
    /// A thread's share of tiles that are on their way.
    next: [Buffer; 2],
    acc: Buffer,
    /// A row's elements that a thread needs for a step, and a column's.
    row: Buffer,
    column: Buffer,
}

impl Tiles {
    fn new(nest: &mut Nest<'_>, tiling: Tiling) -> Tiles {
        let each = tiling.each;
        let share = tiling.tile * DEPTH / (tiling.side() * tiling.side());
        let mut tile = |name| nest.func.new_buffer(name, DType::F32, tiling.shape(), Scope::Shared);
        let shared = [0, 1].map(|_| ["a_tile", "b_tile"].map(&mut tile));
        Tiles {
            tiling,
            shared,
            next: ["next_a", "next_b"].map(|name| nest.local(name, DType::F32, &[share])),
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
    /// Neighbours in memory that a thread loads at once.
    vector: i64,
}

/// A position in the result.
pub(super) struct Position {
    pub(super) row: Expr,
    pub(super) column: Expr,
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
        let operand = |value: Expr, own: &[Axis]| {
            let across = unit_step(nest, &value, own);
            // Those are whole where the axis along which neighbours are is.
            let along = if across { own } else { &stage.reduce[..] };
            let plain = across || unit_step(nest, &value, along);
            let whole = plain && matches!(value.kind(), ExprKind::Load { .. }) && ends_whole(along);
            Operand { across, value, vector: if whole { VECTOR } else { 1 } }
        };
        let (a, b) = (operand(a, &rows), operand(b, &columns));
        Ok(Product { stage, a, b, rows, columns, batch })
    }

    /// The tiles that take the least time.
    fn tiling(&self, target: &Target) -> Tiling {
        let (Some(extents), Target::Gpu(gpu)) = (self.extents(), target) else {
            return TILINGS[1];
        };
        // Indices of elements that are loaded one by one take registers, of which the largest tiles leave few.
        let whole = self.a.vector > 1 && self.b.vector > 1;
        *fastest(gpu, extents, &TILINGS[usize::from(!whole)..], &|t| t.cost(gpu))
    }

    /// Its extents, where they are known.
    pub(super) fn extents(&self) -> Option<Extents> {
        let known = |axes: &[Axis]| count(axes).as_int();
        let (m, n) = (known(&self.rows)?, known(&self.columns)?);
        Some(Extents { batch: known(&self.batch)?, m, n, k: known(&self.stage.reduce)? })
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
        let grid = Grid { batch, rows, columns, tile: [tiles.tiling.tile; 2] };
        grid.launch(nest, &tiles.shared.concat(), |nest, y, x| {
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
        let Tiling { tile, each, .. } = tiles.tiling;
        let side = tiles.tiling.side();
        let (first_row, first_column) = (y.clone() * tile, x.clone() * tile);
        threads(nest, [side, side], &mut |nest, ty, tx| {
            let init = self.stage.init.clone().expect("a contraction");
            let start =
                square(nest, each, &mut |i, j| Stmt::store(tiles.acc, vec![i, j], init.clone()));
            let sums = self.sums(nest, tiles, [&first_row, &first_column], (&ty, &tx), steps);
            let vector = if ends_whole(&self.columns) { VECTOR } else { 1 };
            let stores = nest.repeat(ForKind::Unrolled, "r", each, |nest, i| {
                nest.repeat(ForKind::Unrolled, "c", each / vector, |nest, j| {
                    let row = first_row.clone() + place_of(&i, &ty, side);
                    let first = j * vector;
                    let column = first_column.clone() + place_of(&first, &tx, side);
                    let cond = row.clone().lt(count(&self.rows));
                    let cond = cond.and(column.clone().lt(count(&self.columns)));
                    let stores = nest.lanes_of(vector, |_, l| {
                        let at = vec![i.clone(), first + l.clone()];
                        let result = Expr::load(tiles.acc, at, DType::F32);
                        let at = Position { row, column: column + l };
                        let (buffer, indices, value) = store(&at, result);
                        Stmt::store(buffer, indices, value)
                    });
                    guarded(cond, stores)
                })
            });
            let body = Stmt::Seq(vec![start, sums, stores]);
            [tiles.acc, tiles.next[0], tiles.next[1]]
                .iter()
                .fold(body, |body, buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) })
        })
    }

    /// The reduction: tiles of both operands, then their product, while the next tiles are loaded.
    fn sums(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        firsts: [&Expr; 2],
        (ty, tx): (&Expr, &Expr),
        steps: &Steps,
    ) -> Stmt {
        let thread = ty.clone() * tiles.tiling.side() + tx.clone();
        let step_of = |group: Expr| (steps.first.clone() + group) * DEPTH;
        let load = |nest: &mut Nest<'_>, group: Expr| {
            self.load(nest, tiles, &thread, firsts, &step_of(group))
        };
        let multiply = |nest: &mut Nest<'_>, s: usize, group: Expr| {
            let (first, depth) = (step_of(group), count(&self.stage.reduce));
            nest.repeat(ForKind::Serial, "kk", DEPTH / UNROLLED, |nest, outer| {
                nest.repeat(ForKind::Unrolled, "u", UNROLLED, |nest, inner| {
                    let kk = outer * UNROLLED + inner;
                    let fma = multiply_add(nest, tiles, s, &kk, (ty, tx));
                    guarded((first + kk).lt(depth), fma)
                })
            })
        };
        let fill = |nest: &mut Nest<'_>, s: usize| self.fill(nest, tiles, s);
        let parts = DoubleBuffered { load: &load, multiply: &multiply, fill: &fill };
        parts.reduce(nest, &steps.groups)
    }

    /// The `n`-th access of a tile: the position across it and along the steps of its first element.
    fn access(tiles: &Tiles, operand: &Operand, n: Expr) -> (Expr, Expr) {
        let vector = operand.vector;
        let row = if operand.across { tiles.tiling.tile } else { DEPTH } / vector;
        let (far, near) = (n.clone().floordiv(row), n.floormod(row) * vector);
        if operand.across { (near, far) } else { (far, near) }
    }

    /// A thread's accesses of a tile: what `body` makes of an access' number in the tile, and of that of its
    /// first element in the thread's share.
    fn accesses(
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        operand: &Operand,
        thread: &Expr,
        body: &mut dyn FnMut(&mut Nest<'_>, Expr, Expr) -> Stmt,
    ) -> Stmt {
        let Tiling { tile, .. } = tiles.tiling;
        let threads = tiles.tiling.side() * tiles.tiling.side();
        let accesses = tile * DEPTH / operand.vector / threads;
        nest.repeat(ForKind::Unrolled, "e", accesses, |nest, e| {
            body(nest, e.clone() * threads + thread.clone(), e * operand.vector)
        })
    }

    /// Loads the share of both operands' tiles from step `step` on.
    fn load(
        &self,
        nest: &mut Nest<'_>,
        tiles: &Tiles,
        thread: &Expr,
        firsts: [&Expr; 2],
        step: &Expr,
    ) -> Stmt {
        let sides = [(&self.a, &self.rows), (&self.b, &self.columns)];
        let mut loads = vec![];
        for ((operand, own), (next, first)) in sides.into_iter().zip(tiles.next.iter().zip(firsts))
        {
            loads.push(Self::accesses(nest, tiles, operand, thread, &mut |nest, n, to| {
                let (across, along) = Self::access(tiles, operand, n);
                let at = (first.clone() + across, step.clone() + along);
                nest.lanes_of(operand.vector, |_, lane| {
                    Stmt::store(
                        *next,
                        vec![to + lane.clone()],
                        self.element(operand, own, at, lane),
                    )
                })
            }));
        }
        Stmt::Seq(loads)
    }

    /// Stores the share into the tiles of a side.
    fn fill(&self, nest: &mut Nest<'_>, tiles: &Tiles, s: usize) -> Stmt {
        let side = tiles.tiling.side();
        threads(nest, [side, side], &mut |nest, ly, lx| {
            let thread = ly * side + lx;
            let mut stores = vec![];
            for (n, operand) in [&self.a, &self.b].into_iter().enumerate() {
                let (to, next) = (tiles.shared[s][n], tiles.next[n]);
                stores.push(Self::accesses(nest, tiles, operand, &thread, &mut |nest, n, from| {
                    let (across, along) = Self::access(tiles, operand, n);
                    let store = |lane: Expr| {
                        let value = Expr::load(next, vec![from.clone() + lane.clone()], DType::F32);
                        let (across, along) = match operand.across {
                            true => (across.clone() + lane, along.clone()),
                            false => (across.clone(), along.clone() + lane),
                        };
                        Stmt::store(to, vec![along, across], value)
                    };
                    // Rows of the tile are steps.
                    match operand.across {
                        true => nest.lanes_of(operand.vector, |_, lane| store(lane)),
                        false => nest
                            .repeat(ForKind::Unrolled, "l", operand.vector, |_, lane| store(lane)),
                    }
                }));
            }
            Stmt::Seq(stores)
        })
    }

    /// An operand's element, or 0 outside of its rows or columns and the reduction: that of a lane of the
    /// access at positions across and along.
    fn element(
        &self,
        operand: &Operand,
        own: &[Axis],
        (across, along): (Expr, Expr),
        lane: Expr,
    ) -> Expr {
        let inside = across.clone().lt(count(own));
        let inside = inside.and(along.clone().lt(count(&self.stage.reduce)));
        let (across, along) = match operand.across {
            true => (across + lane, along),
            false => (across, along + lane),
        };
        let mut places = decoded(own, &across);
        places.extend(decoded(&self.stage.reduce, &along));
        let element = operand.value.substitute(&|v| places.get(&v).cloned());
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
fn multiply_add(
    nest: &mut Nest<'_>,
    tiles: &Tiles,
    s: usize,
    kk: &Expr,
    (ty, tx): (&Expr, &Expr),
) -> Stmt {
    let (each, side) = (tiles.tiling.each, tiles.tiling.side());
    let load = |b: Buffer, at: Vec<Expr>| Expr::load(b, at, DType::F32);
    let [a_tile, b_tile] = tiles.shared[s];
    let mut own = |to: Buffer, tile: Buffer, thread: &Expr| {
        nest.repeat(ForKind::Unrolled, "g", each / VECTOR, |nest, g| {
            nest.lanes_of(VECTOR, |_, l| {
                let from = place_of(&(g.clone() * VECTOR), thread, side) + l.clone();
                Stmt::store(to, vec![g * VECTOR + l], load(tile, vec![kk.clone(), from]))
            })
        })
    };
    let row = own(tiles.row, a_tile, ty);
    let column = own(tiles.column, b_tile, tx);
    let fma = square(nest, each, &mut |i, j| {
        let (a, b) = (load(tiles.row, vec![i.clone()]), load(tiles.column, vec![j.clone()]));
        let sum = load(tiles.acc, vec![i.clone(), j.clone()]);
        Stmt::store(tiles.acc, vec![i, j], Expr::call(Intrin::Fma, vec![a, b, sum]))
    });
    let body = Stmt::Seq(vec![row, column, fma]);
    let body = Stmt::Allocate { buffer: tiles.column, body: Box::new(body) };
    Stmt::Allocate { buffer: tiles.row, body: Box::new(body) }
}

/// The row (or column) of a tile that is the `i`-th of a thread: vectors of neighbours, `side` vectors apart.
fn place_of(i: &Expr, thread: &Expr, side: i64) -> Expr {
    let (vector, lane) = (i.clone().floordiv(VECTOR), i.clone().floormod(VECTOR));
    vector * (VECTOR * side) + thread.clone() * VECTOR + lane
}

/// Whether the last of some axes is whole vectors.
fn ends_whole(axes: &[Axis]) -> bool {
    axes.last().and_then(|axis| axis.extent.as_int()).is_some_and(|n| n % VECTOR == 0)
}

/// Loops over the results of a thread.
fn square(nest: &mut Nest<'_>, each: i64, body: &mut dyn FnMut(Expr, Expr) -> Stmt) -> Stmt {
    nest.repeat(ForKind::Unrolled, "r", each, |nest, i| {
        nest.repeat(ForKind::Unrolled, "c", each, |_, j| body(i.clone(), j))
    })
}

/// Whether neighbours along the last of an operand's own axes are neighbours in memory.
pub(super) fn unit_step(nest: &Nest<'_>, operand: &Expr, own: &[Axis]) -> bool {
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

//! Contractions of 16-bit floats on tensor cores: a block computes a tile of results from tiles of both
//! operands in shared memory, each warp a part of it by `mma.sync`.
//!
//! ```text
//! for by, bx in blocks:                       tiles of 128 x 128 results
//!     for ty, tx in threads(8, 32):           a warp for each ty
//!         acc[4, 2, 8] = 0                    64 x 32 results of the warp
//!         next = each thread's share of the first tiles of both operands
//!         a_tile[0], b_tile[0] = next
//!         for k0 in steps of 2 * 32:
//!             for s in 2:                     two buffers: one is filled while the other one is read
//!                 next = the share of the tiles behind those
//!                 acc += a_tile[s] * b_tile[s]
//!                 a_tile[1 - s], b_tile[1 - s] = next
//!         y[..] = acc
//! ```
//!
//! Loads from global memory are on their way while tensor cores multiply (software pipelining). Tiles lie
//! as the operand's memory does, so that both sides of a copy are 16 bytes; `ldmatrix` transposes.
//! Sums are those of the device's tensor cores. Operands of float32 are rounded to bfloat16 on the way
//! where the kernel's precision says so.
//!
//! Decision: docs/decisions/0082-tensor-cores.md

use reflex_tir::arith::Analyzer;
use reflex_tir::mma::{EACH, SIDE};
use reflex_tir::thread::WARP;
use reflex_tir::tile::{Mma, MmaOperand, StridedRows, TileOp};
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Scope, Stmt};

use crate::precision::BF16_ATTR;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;
use crate::schedule::gpu::gemm::{ENOUGH_TILES, Operand, Position, Product};
use crate::schedule::gpu::grid::{DoubleBuffered, Grid, count, decoded, guarded, threads};
use crate::schedule::gpu::work::Work;

/// Steps of the reduction between two barriers.
const DEPTH: i64 = 32;
/// Elements of 16 bytes, the widest access.
const VECTOR: i64 = 8;

/// The tile of a block, and its warps along rows and columns.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    tile: i64,
    warps: [i64; 2],
}

/// The largest first.
const TILINGS: [Tiling; 3] = [
    Tiling { tile: 128, warps: [2, 4] },
    Tiling { tile: 64, warps: [2, 2] },
    Tiling { tile: 32, warps: [2, 1] },
];

impl Tiling {
    /// The largest tiles that are enough for a GPU; where that is not known, those of medium size.
    fn of(product: &Product<'_>) -> Tiling {
        let known = |axes: &[Axis]| count(axes).as_int();
        let (Some(m), Some(n)) = (known(&product.rows), known(&product.columns)) else {
            return TILINGS[1];
        };
        let batch = known(&product.batch).unwrap_or(1);
        let tiles = |n: i64, tile: i64| (n + tile - 1) / tile;
        let enough = |t: &&Tiling| batch * tiles(m, t.tile) * tiles(n, t.tile) >= ENOUGH_TILES;
        *TILINGS.iter().find(enough).unwrap_or(&TILINGS[2])
    }

    fn warps(self) -> i64 {
        self.warps[0] * self.warps[1]
    }

    /// Products of 16 by 16 of a warp, along rows and columns.
    fn products(self) -> [i64; 2] {
        self.warps.map(|warps| self.tile / warps / SIDE)
    }
}

/// The launch of a contraction of 16-bit floats, or of what is rounded to them, with its epilogue where results are stored.
pub fn tensor_core(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let product = Product::of(nest, &work.stage)?;
    let tiling = Tiling::of(&product);
    let rounds = nest.func.attrs.contains_key(BF16_ATTR);
    let a = Source::of(&product, &product.a, &product.rows, rounds)?;
    let b = Source::of(&product, &product.b, &product.columns, rounds)?;
    if a.dtype != b.dtype {
        return Err(Refusal::ElementType);
    }
    let [down, right] = tiling.products();
    let Tiling { tile, warps } = tiling;
    nest.steps.push(format!(
        "{}: tensor cores, tiles of {tile} x {tile} in shared memory, {DEPTH} steps at once, \
         {} warps of {} x {} results",
        work.stage.name,
        warps[0] * warps[1],
        down * SIDE,
        right * SIDE
    ));
    let mut shared = |source: &Source<'_>, name| {
        [0, 1].map(|_| {
            let shape = source.shape(tile).map(Expr::i64).to_vec();
            nest.func.new_buffer(name, source.dtype, shape, Scope::Shared)
        })
    };
    let (a_tiles, b_tiles) = (shared(&a, "a_tile"), shared(&b, "b_tile"));
    let each = tile * DEPTH / (tiling.warps() * WARP);
    let acc = nest.local("acc", DType::F32, &[down, right, EACH]);
    let next = [("next_a", a.dtype), ("next_b", b.dtype)]
        .map(|(name, dtype)| nest.local(name, dtype, &[each]));
    let kernel = Kernel { work, product: &product, tiling, sources: [a, b], acc, next };
    let grid = Grid {
        batch: &product.batch,
        rows: count(&product.rows),
        columns: count(&product.columns),
        tile,
    };
    let buffers = [a_tiles[0], b_tiles[0], a_tiles[1], b_tiles[1]];
    let tiles = [[a_tiles[0], b_tiles[0]], [a_tiles[1], b_tiles[1]]];
    Ok(grid.launch(nest, &buffers, |nest, y, x| kernel.block(nest, tiles, [y, x])))
}

/// An operand as tiles are filled from it.
struct Source<'p> {
    operand: &'p Operand,
    /// The element, of 16 bits.
    value: Expr,
    dtype: DType,
    own: &'p [Axis],
    steps: &'p [Axis],
    /// Elements of an access.
    vector: i64,
}

impl<'p> Source<'p> {
    fn of(
        product: &'p Product<'_>,
        operand: &'p Operand,
        own: &'p [Axis],
        rounds: bool,
    ) -> Result<Source<'p>, Refusal> {
        let is_half = |e: &Expr| matches!(e.dtype(), DType::F16 | DType::BF16);
        let (value, plain) = match operand.value.kind() {
            ExprKind::Cast { value, .. } if is_half(value) => (value.clone(), value.clone()),
            _ if rounds => (operand.value.clone().cast(DType::BF16), operand.value.clone()),
            _ => return Err(Refusal::ElementType),
        };
        let dtype = value.dtype();
        // Neighbours in memory are whole vectors where the axis along which they are is.
        let steps = &product.stage.reduce[..];
        let along = if operand.across { own } else { steps };
        let whole = |axis: &Axis| axis.extent.as_int().is_some_and(|n| n % VECTOR == 0);
        let plain = matches!(plain.kind(), ExprKind::Load { .. });
        let vector = if plain && along.last().is_some_and(whole) { VECTOR } else { 1 };
        Ok(Source { operand, value, dtype, own, steps, vector })
    }

    /// The shape of a tile. Rows are 16 bytes longer, so that the eight rows of a matrix lie in
    /// different banks.
    fn shape(&self, tile: i64) -> [i64; 2] {
        match self.operand.across {
            true => [DEPTH, tile + VECTOR],
            false => [tile, DEPTH + VECTOR],
        }
    }

    /// Indices of a tile for the `n`-th access of a tile: that of its first element.
    fn access(&self, n: &Expr, tile: i64) -> [Expr; 2] {
        let row = if self.operand.across { tile } else { DEPTH } / self.vector;
        [n.clone().floordiv(row), n.clone().floormod(row) * self.vector]
    }

    /// The element at indices of the tile whose first row (or column) and step are given; 0 outside
    /// of the operand. `lane` is its number in its access.
    fn element(&self, [far, near]: [Expr; 2], lane: &Expr, first: &Expr, step: &Expr) -> Expr {
        let (across, along) = if self.operand.across { (near, far) } else { (far, near) };
        let (across, along) = (first.clone() + across, step.clone() + along);
        let inside = across.clone().lt(count(self.own)).and(along.clone().lt(count(self.steps)));
        let (across, along) = match self.operand.across {
            true => (across + lane.clone(), along),
            false => (across, along + lane.clone()),
        };
        let mut places = decoded(self.own, &across);
        places.extend(decoded(self.steps, &along));
        let element = self.value.substitute(&|v| places.get(&v).cloned());
        Expr::if_then_else(inside, element, Expr::float(0.0, self.dtype))
    }

    /// The operand of a product of 16 steps from `step` on, of the rows (or columns) from `across` on.
    fn of_tile(&self, tile: Buffer, extent: i64, across: Expr, step: Expr) -> MmaOperand {
        let stride = self.shape(extent)[1];
        let transposed = self.operand.across;
        let (far, near) = if transposed { (step, across) } else { (across, step) };
        let rows = StridedRows { buffer: tile, first: far * stride + near, stride: stride.into() };
        MmaOperand { rows, transposed }
    }
}

struct Kernel<'p> {
    work: &'p Work,
    product: &'p Product<'p>,
    tiling: Tiling,
    sources: [Source<'p>; 2],
    acc: Buffer,
    /// A thread's share of tiles that are on their way.
    next: [Buffer; 2],
}

impl Kernel<'_> {
    /// The statement of the block of a row tile and a column tile.
    fn block(&self, nest: &mut Nest<'_>, tiles: [[Buffer; 2]; 2], at: [&Expr; 2]) -> Stmt {
        let tile = self.tiling.tile;
        let firsts = at.map(|n| n.clone() * tile);
        threads(nest, [self.tiling.warps(), WARP], &mut |nest, ty, tx| {
            let thread = ty.clone() * WARP + tx.clone();
            let origin = self.origin(&ty);
            let init = self.product.stage.init.clone().expect("a contraction");
            let start = self.each(nest, &mut |nest, i, j| {
                nest.repeat(ForKind::Unrolled, "n", EACH, |_, n| {
                    Stmt::store(self.acc, vec![i, j, n], init.clone())
                })
            });
            let depth = count(&self.product.stage.reduce);
            let groups = Analyzer::new().simplify(&depth.ceildiv(DEPTH));
            let load = |nest: &mut Nest<'_>, group: Expr| {
                self.load(nest, &thread, &firsts, &(group * DEPTH))
            };
            let multiply = |nest: &mut Nest<'_>, s: usize, _: Expr| {
                self.multiply(nest, tiles[s], &origin, &tx)
            };
            let fill = |nest: &mut Nest<'_>, s: usize| self.fill(nest, tiles[s]);
            let parts = DoubleBuffered { load: &load, multiply: &multiply, fill: &fill };
            let sums = parts.reduce(nest, &groups);
            let all = vec![start, sums, self.store(nest, &firsts, &origin, &tx)];
            [self.acc, self.next[0], self.next[1]].iter().fold(Stmt::Seq(all), |body, buffer| {
                Stmt::Allocate { buffer: *buffer, body: Box::new(body) }
            })
        })
    }

    /// The first row and column of a warp in the tile.
    fn origin(&self, warp: &Expr) -> [Expr; 2] {
        let Tiling { tile, warps: [down, right] } = self.tiling;
        let (row, column) = (warp.clone().floordiv(right), warp.clone().floormod(right));
        [row * (tile / down), column * (tile / right)]
    }

    /// Loops over the products of a warp.
    fn each(
        &self,
        nest: &mut Nest<'_>,
        body: &mut dyn FnMut(&mut Nest<'_>, Expr, Expr) -> Stmt,
    ) -> Stmt {
        let [down, right] = self.tiling.products();
        nest.repeat(ForKind::Unrolled, "i", down, |nest, i| {
            nest.repeat(ForKind::Unrolled, "j", right, |nest, j| body(nest, i.clone(), j))
        })
    }

    /// A thread's accesses of a tile: what `body` makes of the number of an access in the tile, that of its
    /// first element in the thread's share, and the lane.
    fn accesses(
        &self,
        nest: &mut Nest<'_>,
        source: &Source<'_>,
        thread: &Expr,
        body: &dyn Fn(&Expr, Expr, Expr) -> Stmt,
    ) -> Stmt {
        let threads = self.tiling.warps() * WARP;
        let accesses = self.tiling.tile * DEPTH / source.vector / threads;
        nest.repeat(ForKind::Unrolled, "e", accesses, |nest, e| {
            let n = e.clone() * threads + thread.clone();
            nest.lanes_of(source.vector, |_, lane| body(&n, e * source.vector, lane))
        })
    }

    /// Loads the share of both operands' tiles from step `step` on.
    fn load(&self, nest: &mut Nest<'_>, thread: &Expr, firsts: &[Expr; 2], step: &Expr) -> Stmt {
        let loads = [0, 1].map(|side| {
            let (source, next) = (&self.sources[side], self.next[side]);
            self.accesses(nest, source, thread, &|n, to, lane| {
                let at = source.access(n, self.tiling.tile);
                let element = source.element(at, &lane, &firsts[side], step);
                Stmt::store(next, vec![to + lane], element)
            })
        });
        Stmt::Seq(loads.to_vec())
    }

    /// Stores the share into both tiles.
    fn fill(&self, nest: &mut Nest<'_>, tiles: [Buffer; 2]) -> Stmt {
        threads(nest, [self.tiling.warps(), WARP], &mut |nest, ty, tx| {
            let thread = ty * WARP + tx;
            let stores = [0, 1].map(|side| {
                let (source, next) = (&self.sources[side], self.next[side]);
                self.accesses(nest, source, &thread, &|n, from, lane| {
                    let [far, near] = source.access(n, self.tiling.tile);
                    let value = Expr::load(next, vec![from + lane.clone()], source.dtype);
                    Stmt::store(tiles[side], vec![far, near + lane], value)
                })
            });
            Stmt::Seq(stores.to_vec())
        })
    }

    /// Adds the product of two tiles.
    fn multiply(
        &self,
        nest: &mut Nest<'_>,
        tiles: [Buffer; 2],
        [row, column]: &[Expr; 2],
        lane: &Expr,
    ) -> Stmt {
        let (tile, right) = (self.tiling.tile, self.tiling.products()[1]);
        nest.repeat(ForKind::Unrolled, "kk", DEPTH / SIDE, |nest, kk| {
            let step = kk * SIDE;
            self.each(nest, &mut |_, i, j| {
                let first = (i.clone() * right + j.clone()) * EACH;
                let [a, b] = &self.sources;
                let a = a.of_tile(tiles[0], tile, row.clone() + i * SIDE, step.clone());
                let b = b.of_tile(tiles[1], tile, column.clone() + j * SIDE, step.clone());
                let mma = Mma { sum: self.acc, first, a, b, lane: lane.clone() };
                Stmt::Tile(TileOp::Mma(Box::new(mma)))
            })
        })
    }

    /// Stores the warp's results: two neighbours of a row at once, where rows are pairs.
    fn store(
        &self,
        nest: &mut Nest<'_>,
        [first_row, first_column]: &[Expr; 2],
        [row, column]: &[Expr; 2],
        lane: &Expr,
    ) -> Stmt {
        let Product { rows, columns, .. } = self.product;
        let even = |axis: &Axis| axis.extent.as_int().is_some_and(|n| n % 2 == 0);
        let pair = if columns.last().is_some_and(even) { 2 } else { 1 };
        self.each(nest, &mut |nest, i, j| {
            nest.repeat(ForKind::Unrolled, "n", EACH / pair, |nest, n| {
                let n = n * pair;
                // As `mma::element`.
                let of = |divisor: i64, modulus: i64| n.clone().floordiv(divisor).floormod(modulus);
                let down = lane.clone().floordiv(4) + of(2, 2) * 8;
                let right = lane.clone().floormod(4) * 2 + of(4, 2) * 8 + of(1, 2);
                let row = first_row.clone() + row.clone() + i.clone() * SIDE + down;
                let column = first_column.clone() + column.clone() + j.clone() * SIDE + right;
                let cond = row.clone().lt(count(rows)).and(column.clone().lt(count(columns)));
                let store = nest.lanes_of(pair, |_, lane| {
                    let at = vec![i.clone(), j.clone(), n.clone() + lane.clone()];
                    let result = Expr::load(self.acc, at, DType::F32);
                    let at = Position { row, column: column + lane };
                    let places = self.product.places(&at);
                    let (buffer, indices, value) = self.work.store(result);
                    let place = |e: &Expr| e.substitute(&|v| places.get(&v).cloned());
                    Stmt::store(buffer, indices.iter().map(place).collect(), place(&value))
                });
                guarded(cond, store)
            })
        })
    }
}

//! Contractions of 16-bit floats on Hopper whose tiles are copied as boxes of the operands (TMA), ahead of the products,
//! by a warpgroup of their own.
//!
//! ```text
//! for b in blocks:                            as many as there are multiprocessors, or tiles
//!   for c in cluster(2):                      two neighbouring tiles of rows: the same columns
//!     for ty, tx in threads(2, 128):          a warpgroup for each ty
//!         for t in tiles b, b + blocks, ..:   tiles of 128 x 256 results, in an order for the level 2 cache
//!             acc[1, 1, 128] = 0              64 x 256 results of the warpgroup
//!             for k0 in steps of 64:          pipelined: four buffers of each tile
//!                 the first thread: a_tile, b_tile = boxes of both operands
//!                 acc += a_tile * b_tile
//!             y[..] = acc
//! ```
//!
//! The loop over steps means what it says; code generation splits it into a producer and consumers (warp
//! specialisation), and lets each block of a cluster copy a half of the columns' tile for both. What lies outside of an
//! operand is zeros in a box, so rows, columns and steps need no guard.
//!
//! An operand that has boxes is a plain load of a tensor whose rows, as one, and whose steps, as one, are evenly spaced;
//! one of the two is contiguous, and other distances are known multiples of 16 bytes. Others are left to `gemm, tensor
//! cores`.
//!
//! Decisions: docs/decisions/0105-warp-specialisation.md, docs/decisions/0112-clusters.md

use reflex_tir::arith::Analyzer;
use reflex_tir::box_copy::{ALIGN, BoxCopy, BoxDim, MOST_DIMS};
use reflex_tir::codegen::Target;
use reflex_tir::mma::PANEL;
use reflex_tir::thread::PIPELINE_STAGES;
use reflex_tir::tile::TileOp;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Scope, Stmt};

use crate::schedule::core::affine::{linear, same};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;
use crate::schedule::gpu::gemm::{ENOUGH_TILES, Product};
use crate::schedule::gpu::grid::{cluster_blocks, count, decoded, threads};
use crate::schedule::gpu::tensor_core::{Kernel, Source, Tiling, warpgroups};
use crate::schedule::gpu::work::Work;

/// The largest first.
const TILINGS: [Tiling; 2] = [warpgroups([128, 256], 4, 168), warpgroups([128, 128], 4, 168)];
/// The fewest groups of steps that are worth a pipeline.
const LEAST_GROUPS: i64 = 2;
/// Blocks of a cluster.
const CLUSTER: i64 = 2;
/// Rows of tiles that are computed together, column by column: what they read stays in the level 2 cache.
const TOGETHER: i64 = 8;

/// The largest tiles that are enough for a GPU; where that is not known, the smaller ones.
fn tiling_of(product: &Product<'_>) -> Result<Tiling, Refusal> {
    let known = |axes: &[Axis]| count(axes).as_int();
    let (Some(m), Some(n), Some(batch)) =
        (known(&product.rows), known(&product.columns), known(&product.batch))
    else {
        return Ok(TILINGS[1]);
    };
    let tiles = |n: i64, tile: i64| (n + tile - 1) / tile;
    let enough = |t: &&Tiling| batch * tiles(m, t.tile[0]) * tiles(n, t.tile[1]) >= ENOUGH_TILES;
    TILINGS.iter().find(enough).copied().ok_or(Refusal::TooFewTiles)
}

/// The launch of a contraction of 16-bit floats by warp-specialised blocks, with its epilogue where results are stored.
pub fn warp_specialised(nest: &mut Nest<'_>, work: &Work) -> Result<Stmt, Refusal> {
    let sms = match nest.target {
        Target::Gpu(gpu) if gpu.has_warpgroups() => i64::from(gpu.sms),
        _ => return Err(Refusal::Device),
    };
    let product = Product::of(nest, &work.stage)?;
    let tiling = tiling_of(&product)?;
    let groups = tiling.groups(&product);
    match groups.as_int() {
        None => return Err(Refusal::UnknownExtent),
        Some(n) if n < LEAST_GROUPS => return Err(Refusal::TooShort),
        Some(_) => {}
    }
    let a = Source::of(&product, &product.a, &product.rows, (tiling, 0), false)?;
    let b = Source::of(&product, &product.b, &product.columns, (tiling, 1), false)?;
    if a.dtype != b.dtype {
        return Err(Refusal::ElementType);
    }
    let maps = [Map::of(nest, &product, &a)?, Map::of(nest, &product, &b)?];
    let [down, right] = tiling.tile;
    let [rows, columns] = tiling.part();
    let grid = TileGrid::of(&product, tiling, sms);
    let pairs = if grid.cluster > 1 { ", in clusters of two blocks" } else { "" };
    nest.steps.push(format!(
        "{}: tensor cores, tiles of {down} x {right} that are copied as boxes, {PANEL} steps at once, {} stages, \
         {} consumers of {rows} x {columns} results and a producer{pairs}",
        work.stage.name, tiling.stages, tiling.teams[0],
    ));
    let tiles = [("a_tile", &a), ("b_tile", &b)].map(|(name, source)| {
        let shape = source.shape().map(Expr::i64).to_vec();
        nest.func.new_buffer(name, source.dtype, shape, Scope::Shared)
    });
    let acc = nest.local("acc", DType::F32, &[1, 1, tiling.team.each()]);
    let kernel =
        Kernel { work, product: &product, tiling, sources: [a, b], acc, next: [None, None] };
    let most = Analyzer::new().simplify(&grid.tiles.clone().min(sms / grid.cluster));
    Ok(cluster_blocks(nest, (most.clone(), grid.cluster), &tiles, |nest, block, own| {
        threads(nest, tiling.block(), &mut |nest, ty, tx| {
            let rounds =
                (grid.tiles.clone() + most.clone() - 1 - block.clone()).floordiv(most.clone());
            let once = same(&grid.tiles, &most);
            let rounds = if once { Expr::i64(1) } else { rounds };
            let body = nest.repeat(ForKind::Serial, "t", rounds, |nest, t| {
                grid.tile(nest, (block.clone() + t * most.clone(), own.clone()), |nest, at| {
                    tile(nest, &kernel, (&maps, tiles), &at, [&ty, &tx], &groups)
                })
            });
            Stmt::Allocate { buffer: acc, body: Box::new(body) }
        })
    }))
}

/// The statement of a tile, whose first row and column are given.
fn tile(
    nest: &mut Nest<'_>,
    kernel: &Kernel<'_>,
    (maps, tiles): (&[Map; 2], [Buffer; 2]),
    firsts: &[Expr; 2],
    [ty, tx]: [&Expr; 2],
    groups: &Expr,
) -> Stmt {
    let origin = kernel.origin(ty);
    let start = kernel.start(nest);
    let mut sums = nest.repeat(ForKind::Serial, "k0", groups.clone(), |nest, k0| {
        let step = k0 * PANEL;
        let copies = threads(nest, [1, 1], &mut |_, _, _| {
            let of = |side: usize| maps[side].boxes(tiles[side], &firsts[side], &step);
            Stmt::Seq([of(0), of(1)].concat())
        });
        Stmt::Seq(vec![copies, kernel.multiply(nest, kernel.acc, tiles, &origin, tx)])
    });
    if let Stmt::For(l) = &mut sums {
        l.annotations.insert(PIPELINE_STAGES.to_owned(), kernel.tiling.stages.to_string());
    }
    Stmt::Seq(vec![start, sums, kernel.store(nest, firsts, &origin, tx)])
}

/// The tiles of all matrices of a batch, in the order in which they are computed: some rows of tiles together, column by
/// column. The blocks of a cluster compute neighbouring rows, which are one here.
struct TileGrid<'p> {
    batch: &'p [Axis],
    tiling: Tiling,
    /// Blocks of a cluster.
    cluster: i64,
    /// Tiles along rows and columns of a matrix.
    down: Expr,
    right: Expr,
    /// Of all matrices.
    tiles: Expr,
}

impl<'p> TileGrid<'p> {
    /// In clusters, where that takes no more rounds of as many blocks as there are multiprocessors.
    fn of(product: &'p Product<'_>, tiling: Tiling, sms: i64) -> TileGrid<'p> {
        let [one, two] = [1, CLUSTER].map(|cluster| TileGrid::with(product, tiling, cluster));
        let rounds = |grid: &TileGrid<'_>| {
            let (tiles, at_once) = (grid.tiles.as_int()?, sms / grid.cluster);
            (at_once > 0).then(|| (tiles + at_once - 1) / at_once)
        };
        match (rounds(&one), rounds(&two)) {
            (Some(alone), Some(paired)) if paired <= alone => two,
            _ => one,
        }
    }

    fn with(product: &'p Product<'_>, tiling: Tiling, cluster: i64) -> TileGrid<'p> {
        let simplify = |e: Expr| Analyzer::new().simplify(&e);
        let along = |axes: &[Axis], tile: i64| simplify(count(axes).ceildiv(tile));
        let down = along(&product.rows, tiling.tile[0] * cluster);
        let right = along(&product.columns, tiling.tile[1]);
        let batch = &product.batch[..];
        let tiles = simplify(count(batch) * down.clone() * right.clone());
        TileGrid { batch, tiling, cluster, down, right, tiles }
    }

    /// The statement that `body` makes of the first row and column of the `n`-th tile, for the `own`-th block of its cluster.
    fn tile<'n>(
        &self,
        nest: &mut Nest<'n>,
        (n, own): (Expr, Expr),
        body: impl FnOnce(&mut Nest<'n>, [Expr; 2]) -> Stmt,
    ) -> Stmt {
        let TileGrid { down, right, .. } = self;
        let [number, row, column] = ["tile", "row", "column"].map(|name| nest.var(name));
        let each = down.clone() * right.clone();
        let (matrix, within) = match self.batch {
            [] => (Expr::i64(0), Expr::from(number)),
            _ => (Expr::from(number).floordiv(each.clone()), Expr::from(number).floormod(each)),
        };
        let most = TOGETHER / self.cluster;
        let together = right.clone() * most;
        let first = within.clone().floordiv(together.clone()) * most;
        let rows = match down.as_int() {
            Some(n) if n % most == 0 => Expr::i64(most),
            _ => (down.clone() - first.clone()).min(most),
        };
        let within = within.floormod(together);
        let [height, width] = self.tiling.tile;
        let first_row = (first + within.clone().floormod(rows.clone())) * self.cluster + own;
        let first_row = first_row * height;
        let first_column = within.floordiv(rows) * width;
        let places = decoded(self.batch, &matrix);
        let body = body(nest, [row.into(), column.into()]);
        let body = body.substitute(&|v| places.get(&v).cloned());
        [(column, first_column), (row, first_row), (number, n)].into_iter().fold(
            body,
            |body, (var, value)| {
                let value = Analyzer::new().simplify(&value);
                Stmt::Let { var, value, body: Box::new(body) }
            },
        )
    }
}

/// An operand as boxes are copied from it.
struct Map {
    /// Whether rows (or columns) are contiguous, not steps.
    across: bool,
    /// Rows of a tile as the operand has them, and the elements of a row.
    tile: [i64; 2],
    buffer: Buffer,
    /// Elements of the contiguous dimension.
    near: Expr,
    /// Elements of the other dimension of a matrix, and their distance.
    far: [Expr; 2],
    /// Extent, distance and place of dimensions that choose a matrix.
    batch: Vec<[Expr; 3]>,
}

impl Map {
    fn of(nest: &Nest<'_>, product: &Product<'_>, source: &Source<'_>) -> Result<Map, Refusal> {
        let ExprKind::Load { buffer, indices, .. } = source.value.kind() else {
            return Err(Refusal::TensorMap("an operand is more than a load"));
        };
        let axes = [source.own, source.steps, &product.batch].concat();
        let vars: Vec<_> = axes.iter().map(|axis| axis.var).collect();
        let position = linear(&nest.func, *buffer, indices, &vars).ok_or(Refusal::NotAffine)?;
        if position.rest.as_int() != Some(0) {
            return Err(Refusal::TensorMap("an operand begins inside of a tensor"));
        }
        let (own, others) = position.coefficients.split_at(source.own.len());
        let (steps, matrix) = others.split_at(source.steps.len());
        let across = distance(source.own, own)?;
        let along = distance(source.steps, steps)?;
        let (near, far) = match source.operand.across {
            true => ((source.own, across), (source.steps, along)),
            false => ((source.steps, along), (source.own, across)),
        };
        if near.1.as_int() != Some(1) {
            return Err(Refusal::NotContiguous);
        }
        let batch = product
            .batch
            .iter()
            .zip(matrix)
            .map(|(axis, distance)| [axis.extent.clone(), distance.clone(), axis.var.into()]);
        let batch: Vec<_> = batch.collect();
        if batch.len() + 2 > MOST_DIMS {
            return Err(Refusal::TensorMap("too many dimensions"));
        }
        let unit = ALIGN / source.dtype.itemsize() as i64;
        let whole = |e: &Expr| e.as_int().is_some_and(|n| n > 0 && n % unit == 0);
        if !whole(&far.1) || !batch.iter().all(|[_, distance, _]| whole(distance)) {
            return Err(Refusal::TensorMap(
                "rows are not whole vectors of 16 bytes, or not known to be",
            ));
        }
        let (near, far) = (count(near.0), [count(far.0), far.1]);
        let (across, tile) = (source.operand.across, source.rows());
        Ok(Map { across, tile, buffer: *buffer, near, far, batch })
    }

    /// Copies the tile of rows (or columns) from `first` and steps from `step` on.
    fn boxes(&self, tile: Buffer, first: &Expr, step: &Expr) -> Vec<Stmt> {
        let [rows, elements] = self.tile;
        let (far, near) = match self.across {
            true => (step, first),
            false => (first, step),
        };
        let panel = |n: i64| {
            let dim = |extent: &Expr, stride: &Expr, at: Expr, count: i64| BoxDim {
                extent: extent.clone(),
                stride: stride.clone(),
                at,
                count,
            };
            let mut dims = vec![
                dim(&self.near, &Expr::i64(1), near.clone() + n * PANEL, PANEL),
                dim(&self.far[0], &self.far[1], far.clone(), rows),
            ];
            let batch = self.batch.iter();
            dims.extend(batch.map(|[extent, distance, at]| dim(extent, distance, at.clone(), 1)));
            let (to, first, from) = (tile, Expr::i64(n * rows * PANEL), self.buffer);
            Stmt::Tile(TileOp::Box(Box::new(BoxCopy { to, first, from, dims })))
        };
        (0..elements / PANEL).map(panel).collect()
    }
}

/// The distance of neighbours of axes as one, the last of them fastest.
fn distance(axes: &[Axis], distances: &[Expr]) -> Result<Expr, Refusal> {
    let (Some(last), Some(first)) = (distances.last(), axes.last()) else {
        return Err(Refusal::NotAffine);
    };
    let mut expected = last.clone() * first.extent.clone();
    for (axis, distance) in axes.iter().zip(distances).rev().skip(1) {
        if !same(distance, &expected) {
            return Err(Refusal::TensorMap("rows or steps are not evenly spaced"));
        }
        expected = expected * axis.extent.clone();
    }
    Ok(last.clone())
}

//! Operand B as a stream: what a tile asks the memory for while it multiplies.
//!
//! ```text
//! for column tile:
//!   for row tile:                   the first one reads weights from memory, the others from a cache
//!     for k..: for r: for v: acc[r][v] = fma(row[r, k], prefetch(column[k, v], bytes), acc[r][v])
//! ```
//! If each tile asked for its own weights, the first would wait for the memory, and the memory would then wait for the
//! others. So the row tiles ask for the weights of the next tile of columns, each for a run of lines of its own, one line after the
//! other: the same lines at a stride gained nothing.
//! A lone row tile asks for its own weights, a little ahead.
//!
//! Decision: docs/decisions/0114-prefetched-weights.md
//! Decision: docs/decisions/0116-row-tiles-ask-for-the-next-columns.md

use reflex_tir::codegen::Target;
use reflex_tir::{DType, Expr, ExprKind, Intrin, NEAR_BYTES, Var};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::nest::Nest;
use crate::schedule::core::tile::{OutputTile, Tile, TiledAxis};
use crate::schedule::gemm::blocking::TileOrder;
use crate::schedule::gemm::kernel::Gemm;

/// The part of the second-level cache from which on weights are taken not to stay there until the next call: kernels between
/// have weights and feature maps of their own.
const STREAMED_PART: i64 = 8;

/// The part of the second-level cache, as a fraction, that the weights of a tile of columns may take if those of the next one are
/// asked for too.
const TILE_PART: [i64; 2] = [3, 8];

/// Row tiles that a number of rows unknown before a call is taken to make.
pub const ASSUMED_TILES: i64 = 2;

/// Bytes of an element, a float32 or a word of integers.
const ELEMENT: i64 = 4;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Operand B as weights that other kernels drive out of the cache between two calls.
#[derive(Clone, Debug)]
pub struct StreamedWeights {
    dtype: DType,
    /// Where the next tile of columns has its weights; `None` where they do not follow, or would take too much of the cache.
    next: Option<NextColumns>,
    /// Loops over the outer axes are inside of the one over columns.
    columns_first: bool,
}

/// The weights of a tile of columns, which those of the next one follow.
#[derive(Clone, Debug)]
struct NextColumns {
    /// Panels or blocks of a tile of columns.
    count: i64,
    /// Their elements.
    elements: i64,
    /// Elements from one step of each axis of the depth to the next.
    depth: Vec<i64>,
    /// Elements from a vector to the next.
    vector: i64,
    /// The number of tiles of columns, where nothing follows the last one.
    tiles: Option<i64>,
}

impl StreamedWeights {
    /// Of operand B, if that is a parameter, in panels or blocks, of so many bytes that it is a stream.
    pub fn of(nest: &Nest<'_>, gemm: &Gemm) -> Option<StreamedWeights> {
        let Target::Cpu(cpu) = nest.target else { return None };
        let ExprKind::Load { buffer, dtype, .. } = gemm.column.kind() else { return None };
        let is_stream = matches!(*dtype, DType::F32 | DType::U32)
            && gemm.block_sum.is_none()
            && !matches!(gemm.columns, TiledAxis::Plain(_))
            && nest.func.buffer_params().any(|param| param == *buffer)
            && gemm.column_bytes() >= cpu.l2_bytes as i64 / STREAMED_PART;
        let [part, whole] = TILE_PART;
        let fits =
            |next: &NextColumns| next.elements * ELEMENT <= cpu.l2_bytes as i64 * part / whole;
        let columns_first = gemm.order(cpu) == TileOrder::ColumnsFirst;
        let next = || NextColumns::of(nest, gemm).filter(fits);
        is_stream.then(|| StreamedWeights { dtype: *dtype, next: next(), columns_first })
    }
}

impl NextColumns {
    fn of(nest: &Nest<'_>, gemm: &Gemm) -> Option<NextColumns> {
        let ExprKind::Load { buffer, indices, .. } = gemm.column.kind() else { return None };
        let (tile, count): (Var, i64) = match &gemm.columns {
            TiledAxis::Plain(_) => return None,
            TiledAxis::Panels { panel, .. } => (*panel, 1),
            TiledAxis::Blocks { block, .. } => (block.var, gemm.tile_size().vectors),
        };
        let vars: Vec<Var> =
            [tile].into_iter().chain(gemm.stage.reduce.iter().map(|a| a.var)).collect();
        let at = linear(&nest.func, *buffer, indices, &vars)?;
        let known = at.coefficients.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?;
        let (own, depth) = known.split_first()?;
        let vector = if gemm.columns.width().is_some() { gemm.lanes } else { *own };
        // What follows the last tile are the weights of the next batch.
        let batches = gemm.outer.iter().any(|a| mentions(&gemm.column, a.var));
        let tiles = match &gemm.columns {
            TiledAxis::Blocks { block, .. } => block.extent.as_int().map(|n| n / count),
            columns => columns.extent().as_int().zip(columns.width()).map(|(n, w)| (n + w - 1) / w),
        };
        let tiles = tiles.filter(|_| !batches);
        Some(NextColumns { count, elements: own * count, depth: depth.to_vec(), vector, tiles })
    }

    /// Elements from a tile of columns to the next one. The last tile asks for its own.
    fn follow(&self, columns: &Tile) -> Expr {
        let elements = || Expr::i64(self.elements);
        match self.tiles {
            Some(tiles) => {
                let has_next = columns.origin.clone().lt((tiles - 1) * self.count);
                Expr::if_then_else(has_next, elements(), Expr::i64(0))
            }
            None => elements(),
        }
    }
}

/// The steps of a loop over an axis of the depth.
pub struct DepthLoop {
    /// The current step.
    pub step: Expr,
    /// The number of steps.
    pub count: i64,
    /// Elements of the axis in a step.
    pub size: i64,
}

impl StreamedWeights {
    /// `element`, the first one of operand B that a pass over the depth reads in a step, with the lines asked for that are this
    /// step's of the run of the next tile of columns. `None` if nothing follows. The pass has a number of so many over the same tile
    /// of columns.
    pub fn ask_for_lines(
        &self,
        element: &Expr,
        columns: &Tile,
        depth: &[DepthLoop],
        (pass, passes): (Expr, i64),
    ) -> Option<Expr> {
        let next = self.next.as_ref()?;
        let (lines, steps) = (next.elements * ELEMENT / LINE, depth.iter().map(|l| l.count));
        let steps = steps.product::<i64>();
        let each = (lines + passes * steps - 1) / (passes * steps);
        let parts = (lines + each * steps - 1) / (each * steps);
        let mut step = if parts == 1 { Expr::i64(0) } else { pass.floormod(parts) };
        let mut behind = columns.first.clone();
        for (l, stride) in depth.iter().zip(&next.depth) {
            step = step * l.count + l.step.clone();
            behind = behind + l.step.clone() * (l.size * stride);
        }
        let first = (next.follow(columns) - behind) * ELEMENT + step * (each * LINE);
        let ask = |e, line| Expr::call(Intrin::Prefetch, vec![e, first.clone() + line * LINE]);
        Some((0..each).fold(element.clone(), ask))
    }
}

impl Gemm {
    /// Vector `v` of operand B in a tile, asked for ahead where it is a stream: weights that the memory has, and words of codes
    /// of a tile with one row or all rows, which reads each panel once. Making factors of codes takes so many instructions that
    /// a CPU does not come to the next loads in time.
    pub fn streamed(
        &self,
        weights: Option<&StreamedWeights>,
        at: OutputTile<'_>,
        v: &Expr,
        e: Expr,
    ) -> Expr {
        let one_row = at.rows.is_none_or(|t| t.width == 1);
        let all_rows = self.rows.as_ref().zip(at.rows).is_some_and(|(axis, rows)| {
            axis.width().is_none() && axis.extent().as_int() == Some(rows.width)
        });
        if self.has_codes() && (one_row || all_rows) {
            return ahead(&e, DType::U32, &Expr::i64(NEAR_BYTES));
        }
        let Some(weights) = weights else { return e };
        let own = ahead(&e, weights.dtype, &Expr::i64(NEAR_BYTES));
        let (tiles, tile) = self.row_tiles_of(at, weights.columns_first);
        let Some(next) = weights.next.as_ref().filter(|_| tiles > 1) else {
            return own;
        };
        let Some(steps) =
            self.stage.reduce.iter().map(|a| a.extent.as_int()).collect::<Option<Vec<_>>>()
        else {
            return own;
        };
        // Each row tile asks for so many vectors in a step; further tiles ask for the same as the first ones.
        let all = steps.iter().product::<i64>();
        let vectors = next.elements / self.lanes / all;
        let each = (vectors + tiles - 1) / tiles;
        let parts = (vectors + each - 1) / each;
        let mut step = if parts == 1 { Expr::i64(0) } else { tile.floormod(parts) };
        // The lines that were asked for before, and the elements that this step is behind the first one.
        let mut behind = at.columns.first.clone();
        for ((axis, count), stride) in self.stage.reduce.iter().zip(&steps).zip(&next.depth) {
            step = step * *count + Expr::from(axis.var);
            behind = behind + Expr::from(axis.var) * *stride;
        }
        let first = next.follow(at.columns) + step * (each * self.lanes) - behind;
        let from = v.clone() * (self.lanes - next.vector);
        let asked = Expr::call(Intrin::Prefetch, vec![own.clone(), (first + from) * ELEMENT]);
        let own_vectors = (at.columns.width + self.lanes - 1) / self.lanes;
        match each >= own_vectors {
            true => asked,
            false => Expr::if_then_else(v.clone().lt(each), asked, own),
        }
    }

    /// The number of row tiles that share the weights of a tile of columns, at least, and which of them one is.
    fn row_tiles_of(&self, at: OutputTile<'_>, columns_first: bool) -> (i64, Expr) {
        let one = (1, Expr::i64(0));
        let (mut tiles, mut tile) = match (&self.rows, at.rows) {
            _ if self.spread => return one,
            (Some(TiledAxis::Plain(axis)), Some(rows)) => {
                let height = self.tile_size().rows;
                let tiles = match axis.extent.as_int() {
                    Some(n) => (n + height - 1) / height,
                    None if rows.width == height => ASSUMED_TILES,
                    None => return one,
                };
                (tiles, rows.origin.clone().floordiv(height))
            }
            (Some(TiledAxis::Panels { extent, width, .. }), Some(rows)) => {
                let tiles = extent.as_int().map_or(ASSUMED_TILES, |n| (n + width - 1) / width);
                (tiles, rows.origin.clone())
            }
            _ => one,
        };
        if columns_first {
            for axis in &self.outer {
                tile = tile + Expr::from(axis.var) * tiles;
                tiles *= axis.extent.as_int().unwrap_or(1);
            }
        }
        // The parts of a panel that is wider than a tile of results.
        if let Some(width) = self.columns.width()
            && width > at.columns.width
        {
            tile = tile + at.columns.first.clone().floordiv(at.columns.width) * tiles;
            tiles *= width / at.columns.width;
        }
        (tiles, tile)
    }
}

/// `e` with each element of type `of` that it reads asked for `bytes` ahead.
fn ahead(e: &Expr, of: DType, bytes: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Load { dtype, .. } if *dtype == of => {
            Expr::call(Intrin::Prefetch, vec![e.clone(), bytes.clone()])
        }
        _ => e.map_children(&mut |e| ahead(e, of, bytes)),
    }
}

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

/// One of the passes over the depth that share what they ask for of the next tile of columns.
pub struct Pass {
    /// Its number.
    pub number: Expr,
    /// The number of such passes, at least: further ones ask for the same as the first.
    pub count: i64,
    /// The loops that it makes.
    pub depth: Vec<DepthLoop>,
}

/// A step's part of the next tile of columns.
struct Share {
    /// Runs of as many elements as were given, one after the other.
    count: i64,
    /// Elements from the first one that the step reads to the first one of its part.
    first: Expr,
}

impl NextColumns {
    /// The part that a step of a pass over a tile of columns asks for, in runs of `run` elements.
    fn share(&self, run: i64, columns: &Tile, pass: &Pass) -> Share {
        let steps: i64 = pass.depth.iter().map(|l| l.count).product();
        let in_step = (self.elements / run + steps - 1) / steps;
        let count = (in_step + pass.count - 1) / pass.count;
        let parts = (in_step + count - 1) / count;
        let mut step = if parts == 1 { Expr::i64(0) } else { pass.number.clone().floormod(parts) };
        // The runs that were asked for before, and the elements that this step is behind the first one.
        let mut behind = columns.first.clone();
        for (l, stride) in pass.depth.iter().zip(&self.depth) {
            step = step * l.count + l.step.clone();
            behind = behind + l.step.clone() * (l.size * stride);
        }
        Share { count, first: self.follow(columns) + step * (count * run) - behind }
    }
}

impl StreamedWeights {
    /// `element`, the first one of operand B that a step of a pass over the depth reads, with the step's lines of the next tile of
    /// columns asked for. `None` if nothing follows.
    pub fn ask_for_lines(&self, element: &Expr, columns: &Tile, pass: &Pass) -> Option<Expr> {
        let share = self.next.as_ref()?.share(LINE / ELEMENT, columns, pass);
        let first = share.first * ELEMENT;
        let ask = |e, line| Expr::call(Intrin::Prefetch, vec![e, first.clone() + line * LINE]);
        Some((0..share.count).fold(element.clone(), ask))
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
        let depth = self.stage.reduce.iter().map(|axis| {
            let count = axis.extent.as_int()?;
            Some(DepthLoop { step: axis.var.into(), count, size: 1 })
        });
        let Some(depth) = depth.collect::<Option<Vec<_>>>() else { return own };
        let pass = Pass { number: tile, count: tiles, depth };
        let Share { count: each, first } = next.share(self.lanes, at.columns, &pass);
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

//! Register and cache blocking: the size of a tile, the order of tiles, and the loop that threads
//! share.

use reflex_tir::codegen::CpuTarget;

use crate::extent::{UNKNOWN_EXTENT, assumed_extent};
use crate::layout::even_height;
use crate::schedule::core::stage::Axis;
use crate::schedule::core::tile::TiledAxis;
use crate::schedule::gemm::kernel::Gemm;

/// Iterations that threads share well.
const ENOUGH_TASKS: i64 = 8;

/// A tile of accumulators.
#[derive(Clone, Copy, Debug)]
pub struct TileSize {
    /// Rows.
    pub rows: i64,
    /// Vectors of columns.
    pub vectors: i64,
}

/// The loop of a macro-kernel that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedLoop {
    /// The outermost one.
    Outer,
    /// The loop over tiles of columns.
    Columns,
    /// The loop over tiles of rows.
    Rows,
}

/// Which loop over tiles is outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileOrder {
    /// All rows of a tile of columns before the next tile of columns.
    ColumnsFirst,
    /// All columns of a tile of rows before the next tile of rows.
    RowsFirst,
    /// Columns within the outer axes, rows within columns.
    ColumnsInside,
}

impl Gemm {
    /// The loop with enough iterations to share, outermost first; else the longest.
    pub fn shared(&self, target: &CpuTarget, size: TileSize) -> Option<SharedLoop> {
        let TileSize { rows: height, vectors } = size;
        let known = self.outer.iter().filter_map(|a| a.extent.as_int()).max();
        // A lone unknown extent is a batch, most often of one.
        let outer = known.filter(|n| *n > 1).or(match self.outer.len() {
            0 | 1 => None,
            _ => Some(ENOUGH_TASKS),
        });
        let tiles = |cut: &TiledAxis, width: i64| {
            let (extent, per_tile) = match cut {
                TiledAxis::Blocks { block, .. } => (block.extent.as_int(), vectors),
                cut => (cut.extent().as_int(), width),
            };
            extent.map_or(UNKNOWN_EXTENT, |n| (n + per_tile - 1) / per_tile)
        };
        let width = self.columns.width().unwrap_or(vectors * self.lanes);
        let columns = tiles(&self.columns, width);
        let rows = self.rows.as_ref().map_or(1, |rows| tiles(rows, height));
        let levels = [
            (SharedLoop::Outer, outer.unwrap_or(1)),
            (SharedLoop::Columns, columns),
            (SharedLoop::Rows, rows),
        ];
        // An operand B that would fill much of every thread's cache: each keeps that of its
        // columns.
        if outer.unwrap_or(1) == 1
            && columns >= ENOUGH_TASKS / 2
            && self.column_bytes() > target.l2_bytes as i64 / 4
        {
            return Some(SharedLoop::Columns);
        }
        let enough = levels.iter().find(|(_, n)| *n >= ENOUGH_TASKS);
        let longest = || levels.iter().rev().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 1);
        enough.or_else(longest).map(|(level, _)| *level)
    }

    /// Bytes of operand B.
    pub fn column_bytes(&self) -> i64 {
        let columns = match &self.columns {
            TiledAxis::Blocks { block, width, .. } => {
                assumed_extent(&block.extent).saturating_mul(*width)
            }
            cut => assumed_extent(cut.extent()),
        };
        let depth = self
            .stage
            .reduce
            .iter()
            .map(|a| assumed_extent(&a.extent))
            .fold(4, i64::saturating_mul);
        columns.saturating_mul(depth)
    }

    /// Rows and vectors of the main tile.
    pub fn tile_size(&self) -> TileSize {
        if let TiledAxis::Blocks { block, .. } = &self.columns {
            return self.block_tile_size(block);
        }
        let registers = self.registers;
        let rows = self.rows.as_ref().map_or(Some(1), |r| r.extent().as_int());
        let panel_rows = self.rows.as_ref().and_then(TiledAxis::width);
        if let (Some(size), None) = (self.tile_of_codes(rows), panel_rows) {
            return size;
        }
        let vectors = match (self.columns.width(), panel_rows, rows) {
            (Some(width), height, _) => {
                let most = registers / height.or(rows).unwrap_or(6).clamp(1, 6);
                let (all, fits) = (width / self.lanes, |v: &i64| width % (v * self.lanes) == 0);
                (1..=all.min(most)).rev().find(fits).unwrap_or(1)
            }
            (None, Some(height), _) => (registers / height).clamp(1, 4),
            (None, None, Some(rows)) if rows <= 6 || self.spread => 4,
            (None, None, _) => 2,
        };
        let columns = self.columns.extent().as_int();
        let vectors = match columns {
            Some(n) => vectors.min((n + self.lanes - 1) / self.lanes),
            None => vectors,
        };
        let most = match self.spread {
            true => 8 / vectors,
            false => (registers / vectors).min(if self.both { 14 } else { 12 }),
        };
        let height = match (panel_rows, rows) {
            (Some(height), _) => height,
            (None, Some(rows)) if self.columns.width().is_some() => tile_height(rows, most.max(1)),
            (None, Some(rows)) => even_height(rows, most.max(1)),
            // An unknown number of rows: what is left is done one by one, so rather few.
            (None, None) => (registers.min(16) / vectors).clamp(1, 8),
        };
        TileSize { rows: height, vectors }
    }

    /// The tile of all rows of a product by codes, where there are few: numbers are made of codes once, in registers.
    fn tile_of_codes(&self, rows: Option<i64>) -> Option<TileSize> {
        let (rows, width) = (rows?, self.columns.width()?);
        let most = self.registers / 2;
        if !self.has_codes() || self.block_sum.is_some() || !(1..=most).contains(&rows) {
            return None;
        }
        let most = (self.registers / rows).min(width / self.lanes).min(4);
        let fits = |v: &i64| width % (v * self.lanes) == 0;
        let vectors = (1..=most).rev().find(fits)?;
        Some(TileSize { rows, vectors })
    }

    /// Rows and blocks of a tile: the most multiply-adds per element loaded that the registers
    /// hold.
    fn block_tile_size(&self, block: &Axis) -> TileSize {
        let blocks = block.extent.as_int().unwrap_or(1);
        let rows = self.rows.as_ref().map_or(Some(1), |r| r.extent().as_int());
        let panel = self.rows.as_ref().and_then(TiledAxis::width);
        let height = |vectors: i64| {
            let most = (self.registers / vectors).min(14);
            match (panel, rows) {
                (Some(height), _) => height,
                (None, Some(rows)) => tile_height(rows, most),
                (None, None) => (self.registers.min(16) / vectors).clamp(1, 8),
            }
        };
        // Two vector operands share nothing between blocks, and a panel of rows is a tile as a whole.
        let most = if self.both { 1 } else { 4.min(blocks) };
        let most = panel.map_or(most, |height| most.min(self.registers / height).max(1));
        let worth = |vectors: &i64| {
            let (height, left) = (height(*vectors), blocks % vectors);
            let products = height * vectors;
            let idle = if left == 0 { 0 } else { (vectors - left) * 100 / (blocks + vectors) };
            products.min(16) * 1000 / (height + vectors) - idle * 10
        };
        let vectors = (1..=most).max_by_key(worth).unwrap_or(1);
        TileSize { rows: height(vectors), vectors }
    }

    /// The order of tiles: columns first where operand B would not stay in the cache from one row of results to the next.
    pub fn order(&self, target: &CpuTarget) -> TileOrder {
        let columns_first = matches!(self.columns, TiledAxis::Blocks { .. })
            && !self.both
            && self.column_bytes() > target.l2_bytes as i64 / 2;
        if columns_first { TileOrder::ColumnsFirst } else { TileOrder::ColumnsInside }
    }
}

/// The height of tiles over panels or blocks, of at most `most` rows, that go through operand B in the fewest steps: a tile takes a step for each row and
/// half of one besides, and three at least, since it waits for loads and sums. The largest divisor of equals.
fn tile_height(rows: i64, most: i64) -> i64 {
    let halves = |height: i64| if height == 0 { 0 } else { 2 * height.max(3) + 1 };
    let steps = |height: &i64| rows / height * halves(*height) + halves(rows % height);
    (1..=most.min(rows).max(1)).rev().min_by_key(|h| (steps(h), rows % h != 0)).unwrap_or(1)
}

//! Which tiles the macro-kernel runs over, in which order, and which loop the threads share.

use reflex_tir::codegen::Target;
use reflex_tir::{ForKind, Intrin, Stmt};

use super::cut::{Cut, Tile};
use super::gemm::Gemm;
use super::nest::{Nest, Parallel, UNKNOWN_EXTENT, likely};
use super::stage::Axis;
use super::tiles::{TILE, Unit};
use super::{Refusal, even_part};

/// Iterations that threads share well.
const ENOUGH_TASKS: i64 = 8;

/// The loops of a macro-kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Outer,
    Columns,
    Rows,
}

impl Gemm {
    /// The nest over all tiles, in matrix registers where there is a unit for it.
    pub(super) fn nest(
        &self,
        nest: &mut Nest<'_>,
        unit: Option<&Unit>,
        threads: Parallel,
    ) -> Result<Stmt, Refusal> {
        let (height, vectors) = match unit {
            Some(_) => (TILE, TILE / self.lanes),
            None => self.tile_size(),
        };
        let axes = [&self.stage.spatial[..], &self.stage.reduce].concat();
        let rows_first = unit.filter(|u| u.rows_first);
        let shared = match threads {
            Parallel::Yes if nest.parallel_for(&axes, 1) == Parallel::Yes => match rows_first {
                Some(_) => Some(Level::Rows),
                None => self.shared(nest.target, height, vectors),
            },
            _ => None,
        };
        let columns_first = self.columns_first(nest.target) && rows_first.is_none();
        self.note(nest, (height, vectors), shared, (columns_first, unit));
        let kind = |level| match shared == Some(level) {
            true => ForKind::Parallel,
            false => ForKind::Serial,
        };
        let outer = match shared {
            Some(Level::Outer) => Parallel::Yes,
            _ => Parallel::No,
        };
        if let Some(unit) = rows_first {
            let body = self.unit_by_rows(nest, unit, &kind(Level::Rows))?;
            return Ok(nest.outer(&self.outer, outer, body));
        }
        let by_column = kind(Level::Columns);
        let width = self.columns.width().unwrap_or(vectors * self.lanes);
        let rows = |nest: &mut Nest<'_>, columns: &Tile| match unit {
            None => self.row_tiles(nest, columns, (height, vectors), kind(Level::Rows)),
            Some(unit) => self.unit_rows(nest, unit, columns, &kind(Level::Rows)),
        };
        if columns_first {
            return self.columns.tiles(nest, by_column, width, self.lanes, &mut |nest, columns| {
                let rows = rows(nest, &columns)?;
                Ok(nest.outer(&self.outer, outer, rows))
            });
        }
        let body =
            self.columns.tiles(nest, by_column, width, self.lanes, &mut |nest, columns| {
                rows(nest, &columns)
            })?;
        Ok(nest.outer(&self.outer, outer, body))
    }

    /// All rows of a tile of columns. Where that is a panel made for wider vectors, its parts one
    /// after the other, but for the rows left over, whose results fit into registers.
    fn row_tiles(
        &self,
        nest: &mut Nest<'_>,
        columns: &Tile,
        (height, vectors): (i64, i64),
        kind: ForKind,
    ) -> Result<Stmt, Refusal> {
        let width = vectors * self.lanes;
        let by_parts = |nest: &mut Nest<'_>, rows: Option<&Tile>| {
            let sums = rows.map_or(1, |r| r.width) * columns.width / self.lanes;
            match columns.width <= width || sums <= self.registers {
                true => self.tile(nest, rows, columns),
                false => columns.parts(nest, width, &mut |nest, part| self.tile(nest, rows, &part)),
            }
        };
        let Some(rows) = &self.rows else {
            return by_parts(nest, None);
        };
        if columns.width <= width {
            return rows.tiles(nest, kind, height, 1, &mut |nest, rows| {
                self.tile(nest, Some(&rows), columns)
            });
        }
        let main = columns.parts(nest, width, &mut |nest, part| {
            rows.whole(nest, kind.clone(), height, &mut |nest, rows| {
                self.tile(nest, Some(&rows), &part)
            })
        })?;
        let rest = rows.rest(nest, height, 1, &mut |nest, rows| by_parts(nest, Some(&rows)))?;
        Ok(match rest {
            None => main,
            Some(rest) => Stmt::Seq(vec![main, rest]),
        })
    }

    /// The loop with enough iterations to share, outermost first; else the longest.
    fn shared(&self, target: &Target, height: i64, vectors: i64) -> Option<Level> {
        let known = self.outer.iter().filter_map(|a| a.extent.as_int()).max();
        // A lone unknown extent is a batch, most often of one.
        let outer = known.filter(|n| *n > 1).or(match self.outer.len() {
            0 | 1 => None,
            _ => Some(ENOUGH_TASKS),
        });
        let tiles = |cut: &Cut, width: i64| {
            let (extent, per_tile) = match cut {
                Cut::Blocks { block, .. } => (block.extent.as_int(), vectors),
                cut => (cut.extent().as_int(), width),
            };
            extent.map_or(UNKNOWN_EXTENT, |n| (n + per_tile - 1) / per_tile)
        };
        let width = self.columns.width().unwrap_or(vectors * self.lanes);
        let columns = tiles(&self.columns, width);
        let rows = self.rows.as_ref().map_or(1, |rows| tiles(rows, height));
        let levels =
            [(Level::Outer, outer.unwrap_or(1)), (Level::Columns, columns), (Level::Rows, rows)];
        // Factors that would fill much of every thread's cache: each keeps those of its columns.
        if outer.unwrap_or(1) == 1
            && columns >= ENOUGH_TASKS / 2
            && self.column_bytes() > target.l2_bytes as i64 / 4
        {
            return Some(Level::Columns);
        }
        let enough = levels.iter().find(|(_, n)| *n >= ENOUGH_TASKS);
        let longest = || levels.iter().rev().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 1);
        enough.or_else(longest).map(|(level, _)| *level)
    }

    /// Bytes of the factors of all columns.
    fn column_bytes(&self) -> i64 {
        let columns = match &self.columns {
            Cut::Blocks { block, width, .. } => likely(&block.extent).saturating_mul(*width),
            cut => likely(cut.extent()),
        };
        let depth =
            self.stage.reduce.iter().map(|a| likely(&a.extent)).fold(4, i64::saturating_mul);
        columns.saturating_mul(depth)
    }

    fn note(
        &self,
        nest: &mut Nest<'_>,
        (height, vectors): (i64, i64),
        shared: Option<Level>,
        (columns_first, unit): (bool, Option<&Unit>),
    ) {
        let names = |axes: &[Axis]| {
            let list: Vec<&str> = axes.iter().map(|a| &nest.func.vars[a.var].name[..]).collect();
            list.join(", ")
        };
        let threads = match shared {
            None => "no threads",
            Some(Level::Outer) => "threads share the outermost loop",
            Some(Level::Columns) => "threads share tiles of columns",
            Some(Level::Rows) => "threads share tiles of rows",
        };
        let pairs = match self.op {
            _ if unit.is_some_and(Unit::of_terms) => "; terms of bfloat16 in matrix registers",
            _ if unit.is_some() => "; bfloat16 pairs in matrix registers",
            Intrin::DotBf16 => "; dot products of bfloat16 pairs",
            _ => "",
        };
        let order = match columns_first {
            true => "columns first",
            false if unit.is_some_and(|u| u.rows_first) => "rows first",
            false => "columns inside",
        };
        let text = format!(
            "{}: tile of {height} rows by {vectors} vectors of {} lanes, depth over {}; \
             outer loops over ({}), {order}; {threads}{pairs}",
            self.stage.name,
            self.lanes,
            names(&self.stage.reduce),
            names(&self.outer),
        );
        nest.steps.push(text);
    }

    /// Rows and vectors of the main tile.
    fn tile_size(&self) -> (i64, i64) {
        if let Cut::Blocks { block, .. } = &self.columns {
            return self.block_tile_size(block);
        }
        let registers = self.registers;
        let rows = self.rows.as_ref().map_or(Some(1), |r| r.extent().as_int());
        let panel_rows = self.rows.as_ref().and_then(Cut::width);
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
            (None, Some(rows)) => even_part(rows, most.max(1)),
            // An unknown number of rows: what is left is done one by one, so rather few.
            (None, None) => (registers.min(16) / vectors).clamp(1, 8),
        };
        (height, vectors)
    }

    /// Rows and blocks of a tile: the most products per element loaded that the registers hold.
    fn block_tile_size(&self, block: &Axis) -> (i64, i64) {
        let blocks = block.extent.as_int().unwrap_or(1);
        let rows = self.rows.as_ref().map_or(Some(1), |r| r.extent().as_int());
        let height = |vectors: i64| {
            let most = (self.registers / vectors).min(14);
            match rows {
                Some(rows) => even_part(rows, most),
                None => (self.registers.min(16) / vectors).clamp(1, 8),
            }
        };
        // With a vector on both sides nothing is shared between blocks.
        let most = if self.both { 1 } else { 4.min(blocks) };
        let worth = |vectors: &i64| {
            let (height, left) = (height(*vectors), blocks % vectors);
            let products = height * vectors;
            let idle = if left == 0 { 0 } else { (vectors - left) * 100 / (blocks + vectors) };
            products.min(16) * 1000 / (height + vectors) - idle * 10
        };
        let vectors = (1..=most).max_by_key(worth).unwrap_or(1);
        (height(vectors), vectors)
    }

    /// Whether all columns of a tile are done before the next tile of columns: their factors
    /// would not stay in the cache from one row of results to the next.
    fn columns_first(&self, target: &Target) -> bool {
        matches!(self.columns, Cut::Blocks { .. })
            && !self.both
            && self.column_bytes() > target.l2_bytes as i64 / 2
    }
}

//! The macro-kernel: loops over tiles of the result, of which threads share one.

use reflex_tir::{ForKind, Intrin, Stmt};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::Axis;
use crate::schedule::core::tile::{OutputTile, Tile, TiledAxis};
use crate::schedule::gemm::amx::{AmxKernel, TILE};
use crate::schedule::gemm::blocking::{SharedLoop, TileOrder, TileSize};
use crate::schedule::gemm::kernel::Gemm;

impl Gemm {
    /// The nest over all tiles, in AMX tiles where there is a kernel for them.
    pub fn nest(
        &self,
        nest: &mut Nest<'_>,
        amx: Option<&AmxKernel>,
        threads: Parallel,
    ) -> Result<Stmt, Refusal> {
        let size = match amx {
            Some(_) => TileSize { rows: TILE, vectors: TILE / self.lanes },
            None => self.tile_size(),
        };
        let axes = [&self.stage.spatial[..], &self.stage.reduce].concat();
        let rows_first = amx.filter(|u| u.rows_first);
        let shared = match threads {
            Parallel::Yes if nest.parallel_for(&axes, 1) == Parallel::Yes => match rows_first {
                Some(_) => Some(SharedLoop::Rows),
                None => self.shared(nest.cpu(), size),
            },
            _ => None,
        };
        let order = match rows_first {
            Some(_) => TileOrder::RowsFirst,
            None => self.order(nest.cpu()),
        };
        let note = self.note(nest, amx, size, shared, order);
        nest.steps.push(note);
        let kind = |level| match shared == Some(level) {
            true => ForKind::Parallel,
            false => ForKind::Serial,
        };
        let outer = match shared {
            Some(SharedLoop::Outer) => Parallel::Yes,
            _ => Parallel::No,
        };
        if let Some(amx) = rows_first {
            let body = self.amx_rows_first(nest, amx, &kind(SharedLoop::Rows))?;
            return Ok(nest.outer(&self.outer, outer, body));
        }
        let by_column = kind(SharedLoop::Columns);
        if let (Some(amx), Some(TiledAxis::Plain(rows))) = (amx, &self.rows)
            && order == TileOrder::ColumnsInside
            && shared != Some(SharedLoop::Rows)
            && let Some(tiles) = amx.row_block(rows, nest.cpu())
        {
            nest.steps.push(format!("{}: blocks of {tiles} tiles of rows", self.stage.name));
            let body = self.amx_row_blocks(nest, amx, tiles, &by_column)?;
            return Ok(nest.outer(&self.outer, outer, body));
        }
        let width = self.columns.width().unwrap_or(size.vectors * self.lanes);
        let rows = |nest: &mut Nest<'_>, columns: &Tile| match amx {
            None if self.expanded => {
                self.expanded_rows(nest, columns, size, kind(SharedLoop::Rows))
            }
            None => self.row_tiles(nest, columns, size, kind(SharedLoop::Rows)),
            Some(amx) => self.amx_rows(nest, amx, columns, &kind(SharedLoop::Rows)),
        };
        if order == TileOrder::ColumnsFirst {
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

    /// All rows of a tile of columns. Where that is a panel made for wider vectors, its parts come
    /// one after the other, but for the remaining rows, whose results fit into registers.
    pub fn row_tiles(
        &self,
        nest: &mut Nest<'_>,
        columns: &Tile,
        size: TileSize,
        kind: ForKind,
    ) -> Result<Stmt, Refusal> {
        let (height, width) = (size.rows, size.vectors * self.lanes);
        let by_parts = |nest: &mut Nest<'_>, rows: Option<&Tile>| {
            let sums = rows.map_or(1, |r| r.width) * columns.width / self.lanes;
            match columns.width <= width || sums <= self.registers {
                true => self.tile(nest, OutputTile { rows, columns }),
                false => columns.parts(nest, width, &mut |nest, part| {
                    self.tile(nest, OutputTile { rows, columns: &part })
                }),
            }
        };
        let Some(rows) = &self.rows else {
            return by_parts(nest, None);
        };
        if columns.width <= width {
            return rows.tiles(nest, kind, height, 1, &mut |nest, rows| {
                self.tile(nest, OutputTile { rows: Some(&rows), columns })
            });
        }
        let main = columns.parts(nest, width, &mut |nest, part| {
            rows.whole(nest, kind.clone(), height, &mut |nest, rows| {
                self.tile(nest, OutputTile { rows: Some(&rows), columns: &part })
            })
        })?;
        let rest = rows.rest(nest, height, 1, &mut |nest, rows| by_parts(nest, Some(&rows)))?;
        Ok(match rest {
            None => main,
            Some(rest) => Stmt::Seq(vec![main, rest]),
        })
    }

    /// The note of how the nest is tiled.
    fn note(
        &self,
        nest: &Nest<'_>,
        amx: Option<&AmxKernel>,
        size: TileSize,
        shared: Option<SharedLoop>,
        order: TileOrder,
    ) -> String {
        let names = |axes: &[Axis]| {
            let list: Vec<&str> = axes.iter().map(|a| &nest.func.vars[a.var].name[..]).collect();
            list.join(", ")
        };
        let threads = match shared {
            None => "no threads",
            Some(SharedLoop::Outer) => "threads share the outermost loop",
            Some(SharedLoop::Columns) => "threads share tiles of columns",
            Some(SharedLoop::Rows) => "threads share tiles of rows",
        };
        let operands = match self.op {
            _ if amx.is_some_and(AmxKernel::is_split) => "; split-bf16 on AMX tiles",
            Intrin::DotI8 { .. } if amx.is_some() => "; VNNI-packed 8-bit integers on AMX tiles",
            _ if amx.is_some() => "; VNNI-packed bfloat16 on AMX tiles",
            Intrin::DotI16 if self.block_sum.is_some() => "; sums of blocks of 16-bit integers",
            _ if self.block_sum.is_some() => "; sums of blocks of 8-bit integers",
            _ if self.has_codes() && !self.expanded => "; weights of codes",
            Intrin::DotBf16 => "; dot products of VNNI-packed bfloat16",
            Intrin::DotI8 { .. } => "; dot products of VNNI-packed 8-bit integers",
            Intrin::DotI16 => "; dot products of VNNI-packed 16-bit integers",
            _ => "",
        };
        let expanded =
            if self.expanded { "; weights of codes, expanded panel by panel" } else { "" };
        let order = match order {
            TileOrder::ColumnsFirst => "columns first",
            TileOrder::RowsFirst => "rows first",
            TileOrder::ColumnsInside => "columns inside",
        };
        format!(
            "{}: tile of {} rows by {} vectors of {} lanes, depth over {}; \
             outer loops over ({}), {order}; {threads}{operands}{expanded}",
            self.stage.name,
            size.rows,
            size.vectors,
            self.lanes,
            names(&self.stage.reduce),
            names(&self.outer),
        )
    }
}

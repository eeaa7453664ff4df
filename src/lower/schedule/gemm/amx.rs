//! The micro-kernel of VNNI-packed bfloat16 or 8-bit integers in AMX tiles: 16 rows by 16 columns each, two by two of
//! them, over the whole depth.
//!
//! ```text
//! tiles sums[2][2], rows[2], columns[2]          around everything that threads do not share
//! for column tile (32)
//!   for row tile (32), then one of 16
//!     sums = 0
//!     for depth (16 pairs): load rows, columns; sums[r][c] += rows[r] * columns[c]
//!     tile = sums; out = epilogue(tile)
//!   rows left over (less than 16): the vectors of the macro-kernel, or a tile of which so many
//!                                  rows are stored
//! ```
//! AMX tiles add bfloat16 in another order than the naive nest
//! ([`TileOp::DotBf16`](reflex_tir::tile::TileOp::DotBf16)): results are those of the stage
//! reassociated. A row's result depends on whether the row is one of whole sixteens, not on whether
//! extents are static. Loops over scalars are written first; the primitive `tensorize` makes them
//! AMX instructions.

use std::collections::{BTreeMap, HashSet};

use reflex_tir::codegen::CpuTarget;
use reflex_tir::schedule::Schedule;
use reflex_tir::tensor_intrin::{
    TILE_DOT_BF16, TILE_LOAD, TILE_STORE, TILE_STORE_INT32, TILE_ZERO, TILE_ZERO_INT32,
    TensorIntrin, tile_dot_i8,
};
use reflex_tir::tile::{SIDE, StridedRows};
use reflex_tir::{
    BinOp, Buffer, DType, Expr, ExprKind, ForKind, Intrin, PrimFunc, Scope, Stmt, Var,
};

use crate::extent::assumed_extent;
use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::bind;
use crate::schedule::core::stage::Axis;
use crate::schedule::core::tile::{Bound, OutputTile, Tile, TiledAxis};
use crate::schedule::gemm::kernel::Gemm;
use crate::schedule::gemm::streamed_weights::{ASSUMED_TILES, DepthLoop, Pass, StreamedWeights};

/// Multiply-adds of pairs or words below which configuring AMX, some 80 ns, does not pay.
const MIN_PRODUCTS: i64 = 1 << 15;

/// Tiles of sums on each side.
const TILES_PER_SIDE: i64 = 2;

/// Rows or columns of a whole tile.
pub const TILE: i64 = TILES_PER_SIDE * SIDE;

/// The AMX tiles and operands of a contraction.
#[derive(Clone, Debug)]
pub struct AmxKernel {
    /// `TILES_PER_SIDE` by `TILES_PER_SIDE`.
    sums: Vec<Buffer>,
    rows: Vec<Buffer>,
    columns: Vec<Buffer>,
    /// The axis that the tiles sum over: `step` pairs at a time.
    depth: Axis,
    step: i64,
    /// The operands that are multiplied, one pair after the other in each step of the depth.
    passes: Vec<OperandPair>,
    left: RowRemainder,
    /// Whether all tiles of the same rows come before the next rows: operand B stays in the cache
    /// as a whole, operand A does not.
    pub rows_first: bool,
}

/// The treatment of rows that fill no tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowRemainder {
    /// By vectors.
    Vectors,
    /// In a tile like the others: there are zeros behind the last row.
    ZeroFilled,
}

/// The instructions that begin, add to and store a sum.
struct TileIntrinsics {
    zero: &'static TensorIntrin,
    dot: &'static TensorIntrin,
    store: &'static TensorIntrin,
}

/// Two VNNI-packed operands, over the stage's axes and the depth.
#[derive(Clone, Debug)]
pub struct OperandPair {
    /// Elements of rows.
    pub row: Expr,
    /// Elements of columns.
    pub column: Expr,
}

impl Gemm {
    /// The AMX kernel of this contraction, where the CPU has AMX and the contraction suits it.
    pub fn amx(&self, nest: &mut Nest<'_>) -> Option<AmxKernel> {
        let suits = match self.op {
            Intrin::DotBf16 => nest.has_amx_bf16(),
            Intrin::DotI8 { .. } => nest.has_amx_int8() && self.block_sum.is_none(),
            _ => false,
        };
        let depth = self.depth(nest).filter(|_| suits)?;
        let pass = OperandPair { row: self.row.clone(), column: self.column.clone() };
        self.amx_of(nest, &depth, vec![pass], RowRemainder::Vectors)
    }

    /// The type of the sums: operands of any type but 8-bit integers are pairs of bfloat16 in tiles.
    fn tile_type(&self) -> DType {
        match self.op {
            Intrin::DotI8 { .. } => DType::I32,
            _ => DType::F32,
        }
    }

    fn tile_intrinsics(&self) -> TileIntrinsics {
        match self.op {
            Intrin::DotI8 { a, b } => TileIntrinsics {
                zero: &TILE_ZERO_INT32,
                dot: tile_dot_i8([a, b]),
                store: &TILE_STORE_INT32,
            },
            _ => TileIntrinsics { zero: &TILE_ZERO, dot: &TILE_DOT_BF16, store: &TILE_STORE },
        }
    }

    /// The reduction axis along which elements of operand A are contiguous.
    pub fn depth(&self, nest: &Nest<'_>) -> Option<Axis> {
        let mut axes = self.stage.reduce.iter().rev();
        let depth = axes.find(|a| {
            let of_row = coefficients(&nest.func, &self.row, &[a.var]);
            of_row.is_some_and(|c| c[0].as_int() == Some(1))
        });
        depth.cloned()
    }

    /// The AMX kernel of a contraction along `depth`, where it suits one.
    pub fn amx_of(
        &self,
        nest: &mut Nest<'_>,
        depth: &Axis,
        passes: Vec<OperandPair>,
        left: RowRemainder,
    ) -> Option<AmxKernel> {
        let suits = !self.both && !self.spread && self.lanes == SIDE;
        let Some(TiledAxis::Plain(rows)) = self.rows.as_ref().filter(|_| suits) else {
            return None;
        };
        let whole = match &self.columns {
            TiledAxis::Plain(axis) => axis.extent.as_int().is_some_and(|n| n % SIDE == 0),
            TiledAxis::Panels { width, .. } => width % SIDE == 0,
            TiledAxis::Blocks { width, .. } => *width == SIDE,
        };
        let axes = self.stage.spatial.iter().chain(&self.stage.reduce);
        let products = axes.map(|a| assumed_extent(&a.extent)).fold(1, i64::saturating_mul);
        let short = assumed_extent(&rows.extent) < SIDE && left == RowRemainder::Vectors;
        if !whole || short || products < MIN_PRODUCTS {
            return None;
        }
        let extent = depth.extent.as_int()?;
        let step = [SIDE, SIDE / 2].into_iter().find(|step| extent % step == 0)?;
        let even = |pass: &OperandPair| {
            let of_row = coefficients(&nest.func, &pass.row, &[depth.var, rows.var])?;
            coefficients(&nest.func, &pass.column, &[depth.var])?;
            (of_row[0].as_int() == Some(1)).then_some(())
        };
        passes.iter().try_for_each(even)?;
        let mut register = |name: &str, dtype, shape: [i64; 2]| {
            let shape = shape.map(Expr::i64).to_vec();
            nest.func.new_buffer(name, dtype, shape, Scope::Tile)
        };
        let mut several = |name, count, dtype, shape| -> Vec<Buffer> {
            (0..count).map(|_| register(name, dtype, shape)).collect()
        };
        Some(AmxKernel {
            sums: several("sum", TILES_PER_SIDE * TILES_PER_SIDE, self.tile_type(), [SIDE, SIDE]),
            rows: several("row", TILES_PER_SIDE, DType::U32, [SIDE, step]),
            columns: several("column", TILES_PER_SIDE, DType::U32, [step, SIDE]),
            depth: depth.clone(),
            step,
            passes,
            left,
            rows_first: false,
        })
    }

    /// All rows of a tile of columns.
    pub fn amx_rows(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        columns: &Tile,
        kind: &ForKind,
    ) -> Result<Stmt, Refusal> {
        let rows = self.plain_rows()?;
        let (first, count) = (Expr::i64(0), rows.extent.clone().floordiv(TILE));
        let main = self.amx_whole_tiles(nest, amx, columns, kind, [first, count])?;
        Ok(Stmt::Seq(vec![main, self.amx_rest(nest, amx, columns)?]))
    }

    /// So many tiles of whole rows, from the first on, of a tile of columns.
    fn amx_whole_tiles(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        columns: &Tile,
        kind: &ForKind,
        [first, count]: [Expr; 2],
    ) -> Result<Stmt, Refusal> {
        columns.parts(nest, TILE.min(columns.width), &mut |nest, part| {
            nest.try_repeat(kind.clone(), "t", count.clone(), |nest, t| {
                let rows = tile((first.clone() + t) * TILE, TILE);
                self.amx_tile(nest, amx, &rows, &part, &TILE.into())
            })
        })
    }

    /// The rows of a tile of columns that are behind the last whole tile.
    fn amx_rest(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        columns: &Tile,
    ) -> Result<Stmt, Refusal> {
        let (rows, width) = (self.plain_rows()?, TILE.min(columns.width));
        let half = columns.parts(nest, width, &mut |nest, part| {
            half_rows(nest, rows, &mut |nest, rows, stored| {
                self.amx_tile(nest, amx, rows, &part, stored)
            })
        })?;
        let left = columns.parts(nest, width, &mut |nest, part| match amx.left {
            RowRemainder::Vectors => self.left_rows(nest, rows, &part),
            RowRemainder::ZeroFilled => filled_rows(nest, rows, &mut |nest, rows, stored| {
                self.amx_tile(nest, amx, rows, &part, stored)
            }),
        })?;
        Ok(Stmt::Seq(vec![half, left]))
    }

    /// All tiles, in blocks of `tiles` tiles of rows: the rows of a block stay in the cache while all columns go by,
    /// which threads may share.
    pub fn amx_row_blocks(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        tiles: i64,
        kind: &ForKind,
    ) -> Result<Stmt, Refusal> {
        let whole = self.plain_rows()?.extent.clone().floordiv(TILE);
        let width = self.columns.width().unwrap_or(TILE);
        let blocks = whole.clone().ceildiv(tiles);
        let main = nest.try_repeat(ForKind::Serial, "block", blocks, |nest, block| {
            let first = block * tiles;
            let count = Expr::binary(BinOp::Min, tiles.into(), whole.clone() - first.clone());
            self.columns.tiles(nest, kind.clone(), width, SIDE, &mut |nest, columns| {
                let range = [first.clone(), count.clone()];
                self.amx_whole_tiles(nest, amx, &columns, &ForKind::Serial, range)
            })
        })?;
        let left = self.plain_rows()?.extent.clone().floormod(TILE);
        if left.as_int() == Some(0) {
            return Ok(main);
        }
        let rest = self.columns.tiles(nest, kind.clone(), width, SIDE, &mut |nest, columns| {
            self.amx_rest(nest, amx, &columns)
        })?;
        let rest = match left.as_int() {
            Some(_) => rest,
            None => Stmt::If { cond: left.gt(0), then: Box::new(rest), otherwise: None },
        };
        Ok(Stmt::Seq(vec![main, rest]))
    }

    fn plain_rows(&self) -> Result<&Axis, Refusal> {
        match &self.rows {
            Some(TiledAxis::Plain(rows)) => Ok(rows),
            _ => Err(Refusal::NotAffine),
        }
    }

    /// All tiles, those of the same rows one after the other.
    pub fn amx_rows_first(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        kind: &ForKind,
    ) -> Result<Stmt, Refusal> {
        let rows = self.plain_rows()?;
        let mut each = |nest: &mut Nest<'_>, rows: &Tile, stored: &Expr| {
            self.columns.tiles(nest, ForKind::Serial, TILE, SIDE, &mut |nest, columns| {
                self.amx_tile(nest, amx, rows, &columns, stored)
            })
        };
        let main = whole_rows(nest, rows, kind, &mut each)?;
        let rest = filled_rows(nest, rows, &mut each)?;
        Ok(Stmt::Seq(vec![main, rest]))
    }

    /// The rows that fill no tile, by vectors.
    fn left_rows(&self, nest: &mut Nest<'_>, rows: &Axis, columns: &Tile) -> Result<Stmt, Refusal> {
        let first = rows.extent.clone().floordiv(SIDE) * SIDE;
        let left = rows.extent.clone().floormod(SIDE);
        let vectors = (columns.width + self.lanes - 1) / self.lanes;
        let most = (self.registers / vectors).min(SIDE);
        if let Some(left) = left.as_int() {
            let firsts = (0..left).step_by(most as usize);
            let parts = firsts.map(|at| {
                let rows = tile(first.clone() + at, most.min(left - at));
                self.tile(nest, OutputTile { rows: Some(&rows), columns })
            });
            return Ok(Stmt::Seq(parts.collect::<Result<_, _>>()?));
        }
        let few = 4;
        let fours =
            nest.try_repeat(ForKind::Serial, "t", left.clone().floordiv(few), |nest, t| {
                let rows = tile(first.clone() + t * few, few);
                self.tile(nest, OutputTile { rows: Some(&rows), columns })
            })?;
        let done = first + left.clone().floordiv(few) * few;
        let singles = nest.try_repeat(ForKind::Serial, "t", left.floormod(few), |nest, t| {
            let rows = tile(done.clone() + t, 1);
            self.tile(nest, OutputTile { rows: Some(&rows), columns })
        })?;
        Ok(Stmt::Seq(vec![fours, singles]))
    }

    /// One or two tiles of rows by one or two of columns, of which the first so many rows are
    /// `stored`.
    fn amx_tile(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        rows: &Tile,
        columns: &Tile,
        stored: &Expr,
    ) -> Result<Stmt, Refusal> {
        let (mut loops, of) = (IntrinsicLoops::default(), self.tile_intrinsics());
        let all = || registers(rows, columns);
        let start: Vec<Stmt> =
            all().map(|(r, c)| loops.write(nest, of.zero, &[amx.sum(r, c)])).collect();
        let step = nest.var("step");
        let at = OutputTile { rows: Some(rows), columns };
        let products = self.products(nest, amx, step, at, &mut loops)?;

        let copy = nest.local("tile", self.tile_type(), &[rows.width * columns.width]);
        let spill: Vec<Stmt> = all()
            .map(|(r, c)| {
                let first = (r * SIDE * columns.width + c * SIDE).into();
                let to = StridedRows { buffer: copy, first, stride: columns.width.into() };
                loops.write(nest, of.store, &[amx.sum(r, c), to])
            })
            .collect();
        let compute = Stmt::Seq(vec![Stmt::Seq(start), products, Stmt::Seq(spill)]);
        let compute = self.tensorized(nest, compute, &loops.list)?;
        let store = match stored.as_int() {
            Some(count) => {
                let rows = tile(rows.origin.clone(), count);
                self.store_from(nest, OutputTile { rows: Some(&rows), columns }, copy, &0.into())?
            }
            None => nest.try_repeat(ForKind::Serial, "t", stored.clone(), |nest, t| {
                let row = tile(rows.origin.clone() + t.clone(), 1);
                self.store_from(nest, OutputTile { rows: Some(&row), columns }, copy, &t)
            })?,
        };
        Ok(Stmt::Allocate { buffer: copy, body: Box::new(Stmt::Seq(vec![compute, store])) })
    }

    /// Loads and multiply-adds of all pairs of operands over the whole depth, in steps of `step`. An operand that
    /// neighbours share is loaded once.
    fn products(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        step: Var,
        at: OutputTile<'_>,
        loops: &mut IntrinsicLoops,
    ) -> Result<Stmt, Refusal> {
        let (Some(TiledAxis::Plain(axis)), Some(rows)) = (&self.rows, at.rows) else {
            return Err(Refusal::NotAffine);
        };
        let element = |e: &Expr, r: i64, c: i64| {
            let lane = [&c.into(), &Expr::i64(0)];
            let mut bound = self.at(at, &(r * SIDE).into(), lane);
            bound.push((amx.depth.var, Expr::from(step) * amx.step));
            bind(e, &bound)
        };
        let stride = |nest: &Nest<'_>, e: &Expr, var: Var| {
            let found = coefficients(&nest.func, e, &[var]).ok_or(Refusal::NotAffine)?;
            Ok(found[0].clone())
        };
        let mut body = vec![];
        let (mut row, mut column): (Option<&Expr>, Option<&Expr>) = (None, None);
        for pass in &amx.passes {
            if row != Some(&pass.row) {
                let stride = stride(nest, &pass.row, axis.var)?;
                for r in 0..rows.width / SIDE {
                    let from = in_memory(&nest.func, &element(&pass.row, r, 0), &stride)?;
                    let to = register(amx.rows[r as usize]);
                    body.push(loops.write(nest, &TILE_LOAD, &[to, from]));
                }
            }
            if column != Some(&pass.column) {
                let stride = stride(nest, &pass.column, amx.depth.var)?;
                for c in 0..at.columns.width / SIDE {
                    let from = in_memory(&nest.func, &element(&pass.column, 0, c), &stride)?;
                    let to = register(amx.columns[c as usize]);
                    body.push(loops.write(nest, &TILE_LOAD, &[to, from]));
                }
            }
            (row, column) = (Some(&pass.row), Some(&pass.column));
            for (r, c) in registers(rows, at.columns) {
                let [a, b] = [amx.rows[r as usize], amx.columns[c as usize]].map(register);
                let dot = self.tile_intrinsics().dot;
                body.push(loops.write(nest, dot, &[amx.sum(r, c), a, b]));
            }
        }
        if let Some(asked) = self.asked_lines(nest, amx, step, rows, at.columns, &element) {
            body.push(asked);
        }
        let steps = amx.depth.extent.clone().floordiv(amx.step);
        let body = Stmt::serial(step, steps, Stmt::Seq(body));
        let used = |axis: &&Axis| {
            let of = |pass: &OperandPair| {
                mentions(&pass.row, axis.var) || mentions(&pass.column, axis.var)
            };
            axis.var != amx.depth.var && amx.passes.iter().any(of)
        };
        let others = self.stage.reduce.iter().rev().filter(used);
        Ok(others.fold(body, |s, a| Stmt::serial(a.var, a.extent.clone(), s)))
    }

    /// Asks the memory for a part of the next tile of columns, in a step of the depth of a tile: tile loads have no form that
    /// does. What is asked for is kept where nothing reads it, and LLVM leaves that out.
    fn asked_lines(
        &self,
        nest: &mut Nest<'_>,
        amx: &AmxKernel,
        step: Var,
        rows: &Tile,
        columns: &Tile,
        element: &dyn Fn(&Expr, i64, i64) -> Expr,
    ) -> Option<Stmt> {
        let [OperandPair { column, .. }] = &amx.passes[..] else { return None };
        let axis = self.plain_rows().ok()?;
        let whole = axis.extent.as_int().map_or(ASSUMED_TILES, |n| (n / TILE).max(1));
        let tiles = amx.row_block(axis, nest.cpu()).map_or(whole, |most| most.min(whole));
        // A tile of the last rows finds what the others asked for.
        if amx.rows_first || (rows.width < TILE && whole > 1) {
            return None;
        }
        let TiledAxis::Panels { width, .. } = &self.columns else { return None };
        let part = columns.first.clone().floordiv(columns.width);
        let number = part * tiles + rows.origin.clone().floordiv(TILE).floormod(tiles);
        let depth = self.stage.reduce.iter().map(|axis| {
            let extent = axis.extent.as_int()?;
            Some(match axis.var == amx.depth.var {
                true => DepthLoop { step: step.into(), count: extent / amx.step, size: amx.step },
                false => DepthLoop { step: axis.var.into(), count: extent, size: 1 },
            })
        });
        let count = tiles * (width / columns.width);
        let pass = Pass { number, count, depth: depth.collect::<Option<_>>()? };
        let weights = StreamedWeights::of(nest, self)?;
        let asked = weights.ask_for_lines(&element(column, 0, 0), columns, &pass)?;
        let unread = nest.local("asked", asked.dtype(), &[1]);
        let store = Stmt::store(unread, vec![Expr::i64(0)], asked);
        Some(Stmt::Allocate { buffer: unread, body: Box::new(store) })
    }

    /// `stmt` with its loops as the instructions that they are.
    fn tensorized(
        &self,
        nest: &mut Nest<'_>,
        stmt: Stmt,
        loops: &[(Var, &'static TensorIntrin)],
    ) -> Result<Stmt, Refusal> {
        let mut func = std::mem::replace(&mut nest.func, PrimFunc::new(""));
        func.body = stmt;
        let mut s = Schedule::new(func);
        let done = loops.iter().try_for_each(|(var, of)| s.tensorize(*var, of));
        nest.func = s.into_func();
        let stmt = std::mem::replace(&mut nest.func.body, Stmt::nop());
        let name = &self.stage.name;
        if let Err(refused) = done {
            nest.steps.push(format!("{name}: {refused}"));
            return Err(Refusal::Primitive(refused.primitive));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        loops.iter().for_each(|(_, of)| *counts.entry(of.name).or_default() += 1);
        let counts: Vec<String> = counts.iter().map(|(of, n)| format!("{n} {of}")).collect();
        nest.steps.push(format!("{name}: tensorize -> {}", counts.join(", ")));
        Ok(stmt)
    }
}

/// Scalar loops that `tensorize` makes instructions of.
#[derive(Default)]
struct IntrinsicLoops {
    list: Vec<(Var, &'static TensorIntrin)>,
}

impl IntrinsicLoops {
    /// The loops that an instruction stands for.
    fn write(
        &mut self,
        nest: &mut Nest<'_>,
        of: &'static TensorIntrin,
        operands: &[StridedRows],
    ) -> Stmt {
        let (stmt, var) = of.loops(&mut nest.func, operands);
        self.list.push((var, of));
        stmt
    }
}

/// The registers of sums that a tile fills, by row and column.
fn registers(rows: &Tile, columns: &Tile) -> impl Iterator<Item = (i64, i64)> + use<> {
    let (height, width) = (rows.width / SIDE, columns.width / SIDE);
    (0..height).flat_map(move |r| (0..width).map(move |c| (r, c)))
}

impl AmxKernel {
    /// The register of sums at a row and column.
    fn sum(&self, r: i64, c: i64) -> StridedRows {
        register(self.sums[(r * TILES_PER_SIDE + c) as usize])
    }

    /// Tiles of rows whose elements take half of the second-level cache; `None` where all rows do not take more.
    pub fn row_block(&self, rows: &Axis, cpu: &CpuTarget) -> Option<i64> {
        let distinct = |pass: &OperandPair| matches!(pass.row.kind(), ExprKind::Load { .. });
        let terms: HashSet<&Expr> =
            self.passes.iter().filter(|pass| distinct(pass)).map(|pass| &pass.row).collect();
        let words = self.depth.extent.as_int()?.checked_mul(terms.len().max(1) as i64)?;
        let of_tile = words.checked_mul(4 * TILE)?.max(1);
        let most = (cpu.l2_bytes as i64 / 2 / of_tile).max(1);
        rows.extent.as_int().is_none_or(|rows| rows.div_euclid(TILE) > most).then_some(most)
    }

    /// Whether its operands are terms of split-bf16.
    pub fn is_split(&self) -> bool {
        self.passes.len() > 1
    }

    /// `stmt` with the tiles allocated around every part that threads do not share.
    pub fn allocated(&self, stmt: &Stmt) -> Stmt {
        match (uses_tiles(stmt), stmt) {
            ((false, _), _) => stmt.clone(),
            ((true, false), _) => self.around(stmt.clone()),
            ((true, true), Stmt::Seq(_)) => {
                // Neighbours share a configuration.
                let (mut parts, mut own) = (vec![], vec![]);
                for part in flat(stmt) {
                    if uses_tiles(part) == (true, false) {
                        own.push(part.clone());
                        continue;
                    }
                    parts.extend(self.around_all(std::mem::take(&mut own)));
                    parts.push(self.allocated(part));
                }
                parts.extend(self.around_all(own));
                Stmt::Seq(parts)
            }
            ((true, true), _) => stmt.map_children(&mut |s| self.allocated(s)),
        }
    }

    fn around_all(&self, mut list: Vec<Stmt>) -> Option<Stmt> {
        let last = list.pop()?;
        Some(self.around(match list.is_empty() {
            true => last,
            false => Stmt::Seq(list.into_iter().chain([last]).collect()),
        }))
    }

    fn around(&self, stmt: Stmt) -> Stmt {
        let all = self.sums.iter().chain(&self.rows).chain(&self.columns);
        all.rev()
            .fold(stmt, |body, buffer| Stmt::Allocate { buffer: *buffer, body: Box::new(body) })
    }
}

/// Whether there are registers in a statement, and loops that threads share.
fn uses_tiles(stmt: &Stmt) -> (bool, bool) {
    let (mut used, mut shared) = (false, false);
    stmt.visit(&mut |s| {
        shared |= matches!(s, Stmt::For(l) if l.kind == ForKind::Parallel);
        used |= matches!(s, Stmt::Tile(_));
    });
    (used, shared)
}

/// A sequence's statements, and those of sequences in it.
fn flat(stmt: &Stmt) -> Vec<&Stmt> {
    match stmt {
        Stmt::Seq(list) => list.iter().flat_map(flat).collect(),
        other => vec![other],
    }
}

/// The statement of a tile of rows, of which the first so many are stored.
type RowTileBody<'a> = dyn FnMut(&mut Nest<'_>, &Tile, &Expr) -> Result<Stmt, Refusal> + 'a;

/// The rows that fill tiles.
fn whole_rows(
    nest: &mut Nest<'_>,
    rows: &Axis,
    kind: &ForKind,
    each: &mut RowTileBody<'_>,
) -> Result<Stmt, Refusal> {
    let whole = rows.extent.clone().floordiv(TILE);
    let main = nest.try_repeat(kind.clone(), "t", whole, |nest, t| {
        each(nest, &tile(t * TILE, TILE), &TILE.into())
    })?;
    Ok(Stmt::Seq(vec![main, half_rows(nest, rows, each)?]))
}

/// One tile of rows behind the whole ones, if there are as many.
fn half_rows(
    nest: &mut Nest<'_>,
    rows: &Axis,
    each: &mut RowTileBody<'_>,
) -> Result<Stmt, Refusal> {
    let some = rows.extent.clone().floormod(TILE).ge(SIDE);
    if some.as_int() == Some(0) {
        return Ok(Stmt::nop());
    }
    let first = rows.extent.clone().floordiv(TILE) * TILE;
    let half = each(nest, &tile(first, SIDE), &SIDE.into())?;
    Ok(match some.as_int() {
        Some(_) => half,
        None => Stmt::If { cond: some, then: Box::new(half), otherwise: None },
    })
}

/// The rows that fill no tile, in one whose last rows are not stored.
fn filled_rows(
    nest: &mut Nest<'_>,
    rows: &Axis,
    each: &mut RowTileBody<'_>,
) -> Result<Stmt, Refusal> {
    let left = rows.extent.clone().floormod(SIDE);
    if left.as_int() == Some(0) {
        return Ok(Stmt::nop());
    }
    let first = rows.extent.clone().floordiv(SIDE) * SIDE;
    let stmt = each(nest, &tile(first, SIDE), &left)?;
    Ok(match left.as_int() {
        Some(_) => stmt,
        None => Stmt::If { cond: left.gt(0), then: Box::new(stmt), otherwise: None },
    })
}

/// So many rows.
fn tile(origin: Expr, width: i64) -> Tile {
    Tile { origin, first: Expr::i64(0), width, bound: Bound::Full }
}

/// A whole tile as an operand.
fn register(buffer: Buffer) -> StridedRows {
    StridedRows { buffer, first: Expr::i64(0), stride: Expr::i64(SIDE) }
}

/// Rows that begin at an element.
fn in_memory(func: &PrimFunc, first: &Expr, stride: &Expr) -> Result<StridedRows, Refusal> {
    let ExprKind::Load { buffer, indices, .. } = first.kind() else {
        return Err(Refusal::NotContiguous);
    };
    let first = linear(func, *buffer, indices, &[]).ok_or(Refusal::NotAffine)?.rest;
    Ok(StridedRows { buffer: *buffer, first, stride: stride.clone() })
}

fn coefficients(func: &PrimFunc, e: &Expr, vars: &[Var]) -> Option<Vec<Expr>> {
    let ExprKind::Load { buffer, indices, .. } = e.kind() else { return None };
    Some(linear(func, *buffer, indices, vars)?.coefficients)
}

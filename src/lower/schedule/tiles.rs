//! Products of bfloat16 pairs in the CPU's matrix registers: 16 rows by 16 columns each, two by two
//! of them, over the whole depth.
//!
//! ```text
//! registers sums[2][2], rows[2], columns[2]      around everything that threads do not share
//! for column tile (32)
//!   for row tile (32), then one of 16
//!     sums = 0
//!     for depth (16 pairs): load rows, columns; sums[r][c] += rows[r] * columns[c]
//!     tile = sums; out = epilogue(tile)
//!   rows left over (less than 16): the vectors of the macro-kernel, or a tile of which so many
//!                                  rows are stored
//! ```
//! The registers add in another order than the naive nest
//! ([`Tile::DotBf16`](reflex_tir::tile::Tile::DotBf16)): results are those of the stage reassociated.
//! What a row's result is depends on whether the row is one of whole sixteens, so extents that are
//! known only when the kernel runs give the same results as known ones. Loops over scalars are
//! written first; the primitive `tensorize` makes them the unit's instructions.

use std::collections::BTreeMap;

use reflex_tir::schedule::Schedule;
use reflex_tir::tensor_intrin::{TILE_DOT_BF16, TILE_LOAD, TILE_STORE, TILE_ZERO, TensorIntrin};
use reflex_tir::tile::{SIDE, StridedRows};
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, PrimFunc, Scope, Stmt, Var};

use super::Refusal;
use super::affine::{linear, mentions};
use super::cut::{Bound, Cut, Tile};
use super::gemm::{Gemm, bind};
use super::nest::{Nest, likely};
use super::stage::Axis;

/// Products of pairs below which configuring the unit, some 80 ns, is not worth it.
const MIN_PRODUCTS: i64 = 1 << 15;
/// Registers of sums on each side.
const BLOCK: i64 = 2;
/// Rows or columns of a whole tile.
pub const TILE: i64 = BLOCK * SIDE;

/// How a product goes through matrix registers.
#[derive(Clone, Debug)]
pub struct Unit {
    /// `BLOCK` by `BLOCK`.
    sums: Vec<Buffer>,
    rows: Vec<Buffer>,
    columns: Vec<Buffer>,
    /// The axis that the registers sum over: `step` pairs at a time.
    depth: Axis,
    step: i64,
    /// What is multiplied, one after the other.
    passes: Vec<Pass>,
    left: Left,
    /// Whether all tiles of the same rows come before the next rows: the factors of all columns stay
    /// in the cache, those of all rows do not.
    pub(super) rows_first: bool,
}

/// How rows that fill no register are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By vectors.
    Vectors,
    /// In a tile like the others: there are zeros behind the last row.
    FilledUp,
}

/// Two factors in pairs, over the stage's axes and the depth.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Elements of rows.
    pub row: Expr,
    /// Elements of columns.
    pub column: Expr,
}

impl Gemm {
    /// The unit for this product, where the CPU has it and the product suits it.
    pub(super) fn unit(&self, nest: &mut Nest<'_>) -> Option<Unit> {
        let pairs = self.op == Intrin::DotBf16 && nest.target.has_amx_bf16();
        let depth = self.depth(nest).filter(|_| pairs)?;
        let pass = Pass { row: self.row.clone(), column: self.column.clone() };
        self.unit_of(nest, &depth, vec![pass], Left::Vectors)
    }

    /// The axis of the sum along which elements of rows lie side by side.
    pub(super) fn depth(&self, nest: &Nest<'_>) -> Option<Axis> {
        let mut axes = self.stage.reduce.iter().rev();
        let depth = axes.find(|a| {
            let of_row = coefficients(&nest.func, &self.row, &[a.var]);
            of_row.is_some_and(|c| c[0].as_int() == Some(1))
        });
        depth.cloned()
    }

    /// The unit for a sum of products along `depth`, where they suit it.
    pub(super) fn unit_of(
        &self,
        nest: &mut Nest<'_>,
        depth: &Axis,
        passes: Vec<Pass>,
        left: Left,
    ) -> Option<Unit> {
        let suits = !self.both && !self.spread && self.lanes == SIDE;
        let Some(Cut::Plain(rows)) = self.rows.as_ref().filter(|_| suits) else { return None };
        let whole = match &self.columns {
            Cut::Plain(axis) => axis.extent.as_int().is_some_and(|n| n % SIDE == 0),
            Cut::Panels { width, .. } => width % SIDE == 0,
            Cut::Blocks { width, .. } => *width == SIDE,
        };
        let axes = self.stage.spatial.iter().chain(&self.stage.reduce);
        let products = axes.map(|a| likely(&a.extent)).fold(1, i64::saturating_mul);
        let short = likely(&rows.extent) < SIDE && left == Left::Vectors;
        if !whole || short || products < MIN_PRODUCTS {
            return None;
        }
        let extent = depth.extent.as_int()?;
        let step = [SIDE, SIDE / 2].into_iter().find(|step| extent % step == 0)?;
        let even = |pass: &Pass| {
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
        Some(Unit {
            sums: several("sum", BLOCK * BLOCK, DType::F32, [SIDE, SIDE]),
            rows: several("row", BLOCK, DType::U32, [SIDE, step]),
            columns: several("column", BLOCK, DType::U32, [step, SIDE]),
            depth: depth.clone(),
            step,
            passes,
            left,
            rows_first: false,
        })
    }

    /// All rows of a tile of columns.
    pub(super) fn unit_rows(
        &self,
        nest: &mut Nest<'_>,
        unit: &Unit,
        columns: &Tile,
        kind: &ForKind,
    ) -> Result<Stmt, Refusal> {
        let Some(Cut::Plain(rows)) = &self.rows else { return Err(Refusal::NotAffine) };
        let width = TILE.min(columns.width);
        let main = columns.parts(nest, width, &mut |nest, part| {
            whole_rows(nest, rows, kind, &mut |nest, rows, stored| {
                self.unit_tile(nest, unit, rows, &part, stored)
            })
        })?;
        let rest = columns.parts(nest, width, &mut |nest, part| match unit.left {
            Left::Vectors => self.left_rows(nest, rows, &part),
            Left::FilledUp => filled_rows(nest, rows, &mut |nest, rows, stored| {
                self.unit_tile(nest, unit, rows, &part, stored)
            }),
        })?;
        Ok(Stmt::Seq(vec![main, rest]))
    }

    /// All tiles, those of the same rows one after the other.
    pub(super) fn unit_by_rows(
        &self,
        nest: &mut Nest<'_>,
        unit: &Unit,
        kind: &ForKind,
    ) -> Result<Stmt, Refusal> {
        let Some(Cut::Plain(rows)) = &self.rows else { return Err(Refusal::NotAffine) };
        let mut each = |nest: &mut Nest<'_>, rows: &Tile, stored: &Expr| {
            self.columns.tiles(nest, ForKind::Serial, TILE, SIDE, &mut |nest, columns| {
                self.unit_tile(nest, unit, rows, &columns, stored)
            })
        };
        let main = whole_rows(nest, rows, kind, &mut each)?;
        let rest = filled_rows(nest, rows, &mut each)?;
        Ok(Stmt::Seq(vec![main, rest]))
    }

    /// The rows that fill no register, by vectors.
    fn left_rows(&self, nest: &mut Nest<'_>, rows: &Axis, columns: &Tile) -> Result<Stmt, Refusal> {
        let first = rows.extent.clone().floordiv(SIDE) * SIDE;
        let left = rows.extent.clone().floormod(SIDE);
        let vectors = (columns.width + self.lanes - 1) / self.lanes;
        let most = (self.registers / vectors).min(SIDE);
        if let Some(left) = left.as_int() {
            let firsts = (0..left).step_by(most as usize);
            let parts = firsts.map(|at| {
                let rows = tile(first.clone() + at, most.min(left - at));
                self.tile(nest, Some(&rows), columns)
            });
            return Ok(Stmt::Seq(parts.collect::<Result<_, _>>()?));
        }
        let few = 4;
        let fours =
            nest.try_repeat(ForKind::Serial, "t", left.clone().floordiv(few), |nest, t| {
                let rows = tile(first.clone() + t * few, few);
                self.tile(nest, Some(&rows), columns)
            })?;
        let done = first + left.clone().floordiv(few) * few;
        let singles = nest.try_repeat(ForKind::Serial, "t", left.floormod(few), |nest, t| {
            let rows = tile(done.clone() + t, 1);
            self.tile(nest, Some(&rows), columns)
        })?;
        Ok(Stmt::Seq(vec![fours, singles]))
    }

    /// One or two registers of rows by one or two of columns, of which the first so many rows are
    /// `stored`.
    fn unit_tile(
        &self,
        nest: &mut Nest<'_>,
        unit: &Unit,
        rows: &Tile,
        columns: &Tile,
        stored: &Expr,
    ) -> Result<Stmt, Refusal> {
        let mut loops: Vec<(Var, &'static TensorIntrin)> = vec![];
        let mut plain =
            |nest: &mut Nest<'_>, of: &'static TensorIntrin, operands: &[StridedRows]| {
                let (stmt, var) = of.loops(&mut nest.func, operands);
                loops.push((var, of));
                stmt
            };
        let (height, width) = (rows.width / SIDE, columns.width / SIDE);
        let sum = |r: i64, c: i64| register(unit.sums[(r * BLOCK + c) as usize]);
        let all = (0..height).flat_map(|r| (0..width).map(move |c| (r, c)));
        let start: Vec<Stmt> =
            all.clone().map(|(r, c)| plain(nest, &TILE_ZERO, &[sum(r, c)])).collect();

        let steps = unit.depth.extent.clone().floordiv(unit.step);
        let step = nest.var("step");
        let at = |e: &Expr, r: i64, c: i64| {
            let lane = [&c.into(), &Expr::i64(0)];
            let mut bound = self.at(Some(rows), columns, &(r * SIDE).into(), lane);
            bound.push((unit.depth.var, Expr::from(step) * unit.step));
            bind(e, &bound)
        };
        let Some(Cut::Plain(axis)) = &self.rows else { return Err(Refusal::NotAffine) };
        let mut passes = vec![];
        for pass in &unit.passes {
            let stride = |e: &Expr, var: Var| {
                let found = coefficients(&nest.func, e, &[var]).ok_or(Refusal::NotAffine)?;
                Ok(found[0].clone())
            };
            let row_stride = stride(&pass.row, axis.var)?;
            let column_stride = stride(&pass.column, unit.depth.var)?;
            let mut body = vec![];
            for r in 0..height {
                let from = in_memory(&nest.func, &at(&pass.row, r, 0), &row_stride)?;
                body.push(plain(nest, &TILE_LOAD, &[register(unit.rows[r as usize]), from]));
            }
            for c in 0..width {
                let from = in_memory(&nest.func, &at(&pass.column, 0, c), &column_stride)?;
                body.push(plain(nest, &TILE_LOAD, &[register(unit.columns[c as usize]), from]));
            }
            for (r, c) in all.clone() {
                let factors = [unit.rows[r as usize], unit.columns[c as usize]].map(register);
                body.push(plain(nest, &TILE_DOT_BF16, &[&[sum(r, c)], &factors[..]].concat()));
            }
            let body = Stmt::serial(step, steps.clone(), Stmt::Seq(body));
            let others = self.stage.reduce.iter().rev().filter(|a| self.goes_over(unit, pass, a));
            passes.push(others.fold(body, |s, a| Stmt::serial(a.var, a.extent.clone(), s)));
        }

        let copy = nest.local("tile", DType::F32, &[rows.width * columns.width]);
        let spill: Vec<Stmt> = all
            .map(|(r, c)| {
                let first = (r * SIDE * columns.width + c * SIDE).into();
                let to = StridedRows { buffer: copy, first, stride: columns.width.into() };
                plain(nest, &TILE_STORE, &[sum(r, c), to])
            })
            .collect();
        let compute = Stmt::Seq(vec![Stmt::Seq(start), Stmt::Seq(passes), Stmt::Seq(spill)]);
        let compute = self.tensorized(nest, compute, &loops)?;
        let store = match stored.as_int() {
            Some(count) => {
                let rows = tile(rows.place.clone(), count);
                self.store_from(nest, Some(&rows), columns, (copy, &0.into()))?
            }
            None => nest.try_repeat(ForKind::Serial, "t", stored.clone(), |nest, t| {
                let row = tile(rows.place.clone() + t.clone(), 1);
                self.store_from(nest, Some(&row), columns, (copy, &t))
            })?,
        };
        Ok(Stmt::Allocate { buffer: copy, body: Box::new(Stmt::Seq(vec![compute, store])) })
    }

    /// Whether a pass has a loop over an axis of the sum, beside the depth.
    fn goes_over(&self, unit: &Unit, pass: &Pass, axis: &Axis) -> bool {
        let used = mentions(&pass.row, axis.var) || mentions(&pass.column, axis.var);
        axis.var != unit.depth.var && used
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

impl Unit {
    /// Whether what it multiplies are terms.
    pub(super) fn of_terms(&self) -> bool {
        self.passes.len() > 1
    }

    /// `stmt` with the registers allocated around whatever threads do not share.
    pub(super) fn allocated(&self, stmt: &Stmt) -> Stmt {
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

/// What is done with a tile of rows, of which the first so many are stored.
type Rowed<'a> = dyn FnMut(&mut Nest<'_>, &Tile, &Expr) -> Result<Stmt, Refusal> + 'a;

/// The rows of whole registers.
fn whole_rows(
    nest: &mut Nest<'_>,
    rows: &Axis,
    kind: &ForKind,
    each: &mut Rowed<'_>,
) -> Result<Stmt, Refusal> {
    let whole = rows.extent.clone().floordiv(TILE);
    let main = nest.try_repeat(kind.clone(), "t", whole.clone(), |nest, t| {
        each(nest, &tile(t * TILE, TILE), &TILE.into())
    })?;
    let some = rows.extent.clone().floormod(TILE).ge(SIDE);
    if some.as_int() == Some(0) {
        return Ok(main);
    }
    let half = each(nest, &tile(whole * TILE, SIDE), &SIDE.into())?;
    let half = match some.as_int() {
        Some(_) => half,
        None => Stmt::If { cond: some, then: Box::new(half), otherwise: None },
    };
    Ok(Stmt::Seq(vec![main, half]))
}

/// The rows that fill no register, in one whose last ones are not stored.
fn filled_rows(nest: &mut Nest<'_>, rows: &Axis, each: &mut Rowed<'_>) -> Result<Stmt, Refusal> {
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
fn tile(place: Expr, width: i64) -> Tile {
    Tile { place, first: Expr::i64(0), width, bound: Bound::Full }
}

/// A whole register as an operand.
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

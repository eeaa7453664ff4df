//! The macro-kernel of products: tiles of `rows x vectors` accumulators that stay in registers
//! over the whole depth, for matrix products and convolutions alike.
//!
//! ```text
//! for outer..                       batches, groups, rows of a window
//!   for column tile                 panels, or runs of the inner axis
//!     for row tile                  `registers.rs`, by primitives
//!       acc = 0                     on the stack, constant indices: registers
//!       for k..: for r: for v: acc[r][v] = fma(row[r, k], column[k, v], acc[r][v])
//!       out[r][v] = epilogue(acc[r][v])
//! ```
//! The order over k is the stage's own, so results equal the naive nest's bit for bit. What is
//! left of the rows gets smaller tiles, never a branch inside the k loop.

use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin, Stmt, Var};

use super::Refusal;
use super::affine::{linear, mentions};
use super::contraction::Contraction;
use super::cut::Cut;
use super::nest::{Nest, Parallel, merged_with};
use super::splits;
use super::stage::{Axis, Stage};

/// Everything a tile needs.
pub(super) struct Gemm {
    pub(super) stage: Stage,
    pub(super) epilogue: Option<Stage>,
    pub(super) row: Expr,
    pub(super) column: Expr,
    /// What multiplies and adds.
    pub(super) op: Intrin,
    pub(super) rows: Option<Cut>,
    /// Rows have columns of their own and share the row factor instead.
    pub(super) spread: bool,
    /// The row factor is a vector too.
    pub(super) both: bool,
    pub(super) columns: Cut,
    pub(super) outer: Vec<Axis>,
    pub(super) lanes: i64,
    /// Vector registers for accumulators.
    pub(super) registers: i64,
}

/// The nest of a contraction; `epilogue` is computed from each result and stored instead.
pub fn gemm(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    let kernel = Gemm::of(nest, stage, epilogue)?;
    if threads == Parallel::Yes
        && let Some((worth, words)) = splits::words(nest, &kernel, threads)
    {
        if worth.as_int().is_some() {
            return Ok(words);
        }
        let otherwise = Some(Box::new(as_it_is(nest, &kernel, threads)?));
        return Ok(Stmt::If { cond: worth, then: Box::new(words), otherwise });
    }
    as_it_is(nest, &kernel, threads)
}

/// The nest of a contraction whose factors stay where they are.
fn as_it_is(nest: &mut Nest<'_>, kernel: &Gemm, threads: Parallel) -> Result<Stmt, Refusal> {
    // Loops over other stages have blocks of rows by their extents, known or not; sums in order do
    // not depend on them.
    let unit = if threads == Parallel::Yes { kernel.unit(nest) } else { None };
    if let Some(unit) = unit {
        match kernel.nest(nest, Some(&unit), threads) {
            Ok(stmt) => return Ok(unit.allocated(&stmt)),
            Err(why) => {
                nest.steps.push(format!("{}: no matrix registers: {why}", kernel.stage.name))
            }
        }
    }
    kernel.nest(nest, None, threads)
}

/// Both stages without axes of extent 1 and over the same variables.
pub(super) fn aligned(stage: &Stage, epilogue: Option<&Stage>) -> (Stage, Option<Stage>) {
    let epilogue = epilogue.map(|e| {
        let renamed = e.substitute(&|v| {
            let at = e.spatial.iter().position(|a| a.var == v)?;
            Some(stage.spatial[at].var.into())
        });
        let axes = stage.spatial.iter().map(|a| a.var).zip(&e.spatial);
        let spatial = axes.map(|(var, a)| Axis { var, extent: a.extent.clone() }).collect();
        Stage { spatial, ..renamed }.squeezed()
    });
    (stage.squeezed(), epilogue)
}

/// An axis `v` that an operand addresses as `v // width` and `v % width`, made two.
pub(super) struct Split {
    pub(super) panel: Var,
    pub(super) lane: Var,
    pub(super) width: i64,
    pub(super) extent: Expr,
}

impl Split {
    /// Whether the last panel is surely filled.
    pub(super) fn is_whole(&self) -> bool {
        self.extent.as_int().is_some_and(|n| n % self.width == 0)
    }
}

pub(super) type Splitted = (Stage, Option<Stage>, Vec<Split>);

pub(super) fn split_panels(
    nest: &mut Nest<'_>,
    mut stage: Stage,
    mut epilogue: Option<Stage>,
) -> Result<Splitted, Refusal> {
    let mut splits = vec![];
    for axis in stage.spatial.clone() {
        let Some(width) = divisor(&stage.value, axis.var) else { continue };
        let (panel, lane) = (nest.var("panel"), nest.var("lane"));
        stage.value = undivided(&stage.value, axis.var, width, panel, lane);
        let whole = Expr::from(panel) * width + lane;
        let split = |s: &Stage| {
            let mut s = s.substitute(&|v| (v == axis.var).then(|| whole.clone()));
            let at = s.spatial.iter().position(|a| a.var == axis.var);
            let both = [
                Axis { var: panel, extent: axis.extent.clone().ceildiv(width) },
                Axis { var: lane, extent: Expr::i64(width) },
            ];
            if let Some(at) = at {
                s.spatial.splice(at..=at, both);
            }
            s
        };
        epilogue = epilogue.as_ref().map(&split);
        stage = split(&stage);
        if divisor(&stage.value, axis.var).is_some() {
            return Err(Refusal::NotAffine);
        }
        splits.push(Split { panel, lane, width, extent: axis.extent });
    }
    Ok((stage, epilogue, splits))
}

/// The constant that `var` is divided by somewhere in `e`.
fn divisor(e: &Expr, var: Var) -> Option<i64> {
    let mut found = None;
    e.visit(&mut |e| {
        if let ExprKind::Binary { op: BinOp::FloorDiv | BinOp::FloorMod, a, b } = e.kind()
            && a.as_var() == Some(var)
        {
            found = found.or(b.as_int());
        }
    });
    found
}

/// `e` with `var // width` and `var % width` replaced by variables.
fn undivided(e: &Expr, var: Var, width: i64, panel: Var, lane: Var) -> Expr {
    match e.kind() {
        ExprKind::Binary { op, a, b } if a.as_var() == Some(var) && b.as_int() == Some(width) => {
            match op {
                BinOp::FloorDiv => panel.into(),
                BinOp::FloorMod => lane.into(),
                _ => e.clone(),
            }
        }
        _ => e.map_children(&mut |c| undivided(c, var, width, panel, lane)),
    }
}

impl Gemm {
    /// The macro-kernel of a contraction, with panels as axes of their own and neighbouring axes
    /// merged; `epilogue` is computed from each result and stored instead.
    pub(super) fn of(
        nest: &mut Nest<'_>,
        stage: &Stage,
        epilogue: Option<&Stage>,
    ) -> Result<Gemm, Refusal> {
        let (stage, epilogue) = aligned(stage, epilogue);
        Contraction::of(&nest.func, &stage)?;
        let (stage, epilogue, splits) = split_panels(nest, stage, epilogue)?;
        let (stage, epilogue) = merged_with(nest, &stage, epilogue.as_ref());
        Gemm::new(nest, stage, epilogue, &splits)
    }

    fn new(
        nest: &Nest<'_>,
        stage: Stage,
        epilogue: Option<Stage>,
        splits: &[Split],
    ) -> Result<Gemm, Refusal> {
        let Contraction { row, column, inner, both, op } = Contraction::of(&nest.func, &stage)?;
        let mut lanes = nest.lanes(4);
        let only = |v: Var, e: &Expr, other: &Expr| mentions(e, v) && !mentions(other, v);
        let cut = |axis: &Axis, e: &Expr, other: &Expr| match splits
            .iter()
            .find(|s| s.lane == axis.var && only(s.panel, e, other))
        {
            Some(s) => Cut::Panels {
                panel: s.panel,
                lane: s.lane,
                width: s.width,
                extent: s.extent.clone(),
            },
            None => Cut::Plain(axis.clone()),
        };
        let columns = cut(&inner, &column, &row);
        // Short rows: narrower vectors cross fewer cache lines.
        while lanes > 4
            && columns.width().is_none()
            && inner.extent.as_int().is_some_and(|n| n <= lanes / 2)
        {
            lanes /= 2;
        }
        // Columns that fill one vector: further vectors come from the next axis.
        let beside_lanes = |a: &&Axis| {
            a.var != inner.var && mentions(&column, a.var) && mentions(&row, a.var) == both
        };
        let next_block = stage.spatial.iter().find(beside_lanes).cloned();
        let columns = match (columns, next_block) {
            (Cut::Plain(lane), Some(block))
                if lane.extent.as_int() == Some(lanes) && block.extent.as_int().is_some() =>
            {
                Cut::Blocks { block, lane, width: lanes }
            }
            (columns, _) => columns,
        };
        let last_row = stage.spatial.iter().rev().find(|a| only(a.var, &row, &column));
        let rows = last_row.map(|a| cut(a, &row, &column));
        // Without rows (a depthwise window), rows of results side by side keep the
        // multiply-adds independent of each other.
        let beside = |a: &&Axis| {
            a.var != inner.var && only(a.var, &column, &row) && a.extent.as_int().is_some()
        };
        let spread = rows.is_none() && !both && matches!(columns, Cut::Plain(_));
        let rows = match rows {
            None if spread => stage.spatial.iter().rev().find(beside).cloned().map(Cut::Plain),
            rows => rows,
        };
        // A panel that did not become part of a tile is an outer axis, which must be exact.
        let inside = |v: Var| columns.has(v) || rows.as_ref().is_some_and(|r| r.has(v));
        let ragged = splits.iter().any(|s| !inside(s.panel) && !s.is_whole());
        if ragged || !contiguous(nest, &column, inner.var, &columns, lanes) {
            return Err(Refusal::NotContiguous);
        }
        let mut outer: Vec<Axis> =
            stage.spatial.iter().filter(|a| !inside(a.var)).cloned().collect();
        // Known extents first, so that the parallel loop is one that surely has iterations.
        outer.reverse();
        outer.sort_by_key(|a| std::cmp::Reverse(a.extent.as_int().unwrap_or(0)));
        let registers = if nest.lanes(4) >= 16 { 24 } else { 12 };
        let kernel = Gemm {
            stage,
            epilogue,
            row,
            column,
            op,
            rows,
            spread,
            both,
            columns,
            outer,
            lanes,
            registers,
        };
        Ok(kernel)
    }

    /// How many elements of a factor, or copies of them, results are made of.
    pub(super) fn elements(&self, factor: &Expr) -> Expr {
        let axes = self.stage.spatial.iter().chain(&self.stage.reduce);
        let own = axes.filter(|a| mentions(factor, a.var));
        own.fold(Expr::i64(1), |n, a| n * a.extent.clone())
    }
}

/// `e` for given values of variables.
pub(super) fn bind(e: &Expr, bound: &[(Var, Expr)]) -> Expr {
    e.substitute(&|v| bound.iter().find(|(b, _)| *b == v).map(|(_, e)| e.clone()))
}

/// A float32 variable as an expression.
pub(super) fn float(var: Var) -> Expr {
    Expr::new(ExprKind::Var { var, dtype: DType::F32 })
}

/// Whether lanes of the column operand are side by side, in whole vectors where it is panels.
fn contiguous(nest: &Nest<'_>, column: &Expr, inner: Var, cut: &Cut, lanes: i64) -> bool {
    let ExprKind::Load { buffer, indices, .. } = column.kind() else { return false };
    let at = linear(&nest.func, *buffer, indices, &[inner]);
    let unit = at.is_some_and(|at| at.coefficients[0].as_int() == Some(1));
    unit && cut.width().is_none_or(|w| w % lanes == 0)
}

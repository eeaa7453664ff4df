//! A contraction as a GEMM: tiles of `rows x vectors` accumulators that stay in registers over the
//! whole depth, for matmuls and convolutions alike.
//!
//! ```text
//! for outer..                       batches, groups, rows of a kernel
//!   for column tile                 panels, or runs of the inner axis
//!     for row tile                  `micro_kernel.rs`, by primitives
//!       acc = 0                     on the stack, constant indices: registers
//!       for k..: for r: for v: acc[r][v] = fma(row[r, k], column[k, v], acc[r][v])
//!       out[r][v] = epilogue(acc[r][v])
//! ```
//! The order over k is the stage's own, so results equal the naive nest's bit for bit. Remaining
//! rows get smaller tiles, never a branch inside the k loop.
//!
//! Decision: docs/decisions/0033-macro-kernel.md

use reflex_tir::{Buffer, Expr, ExprKind, Intrin, Var};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::collapse::collapsed_with;
use crate::schedule::core::contraction::{Contraction, inner_product, is_made_of_codes};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::{PanelAxis, PanelStages, aligned, split_panels};
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::core::tile::TiledAxis;

/// A contraction, its operands, and the axes of its tiles.
#[derive(Clone)]
pub struct Gemm {
    pub stage: Stage,
    pub epilogue: Option<Stage>,
    pub row: Expr,
    pub column: Expr,
    /// The multiply-add.
    pub op: Intrin,
    /// The sum of a block's products, which are a term of the result's sum over blocks; the first axis
    /// of the depth is that of blocks.
    pub block_sum: Option<Buffer>,
    pub rows: Option<TiledAxis>,
    /// Rows have columns of their own and share operand A instead.
    pub spread: bool,
    /// Operand A is a vector too.
    pub both: bool,
    pub columns: TiledAxis,
    pub outer: Vec<Axis>,
    pub lanes: i64,
    /// Vector registers for accumulators.
    pub registers: i64,
    /// Panels of codes are expanded once for all rows.
    pub expanded: bool,
}

/// Most codes in a word.
const MAX_CODES: i64 = 16;

/// Whether an axis can be that of the codes in a word.
pub fn is_word(axis: &Axis) -> bool {
    axis.extent.as_int().is_some_and(|n| n <= MAX_CODES)
}

impl Gemm {
    /// The macro-kernel of a contraction, with panels as axes of their own and neighbouring axes
    /// collapsed; `epilogue` is computed from each result and stored instead.
    pub fn of(
        nest: &mut Nest<'_>,
        stage: &Stage,
        epilogue: Option<&Stage>,
    ) -> Result<Gemm, Refusal> {
        let (stage, epilogue) = aligned(stage, epilogue);
        Contraction::of(&nest.func, &stage)?;
        let PanelStages { stage, epilogue, panels } = split_panels(nest, stage, epilogue)?;
        let (stage, epilogue) = collapsed_with(nest, &stage, epilogue.as_ref());
        Gemm::new(nest, PanelStages { stage, epilogue, panels })
    }

    fn new(nest: &Nest<'_>, stages: PanelStages) -> Result<Gemm, Refusal> {
        let PanelStages { stage, epilogue, panels } = stages;
        let product = Contraction::of(&nest.func, &stage)?;
        let axes = ResultAxes { stage: &stage, product: &product, panels: &panels };
        let lanes = axes.lanes(nest.lanes(4));
        let columns = axes.columns(lanes);
        let rows = axes.rows();
        // Without rows (a depthwise kernel), rows of results next to each other keep the
        // multiply-adds independent of each other.
        let spread = rows.is_none() && !product.both && matches!(columns, TiledAxis::Plain(_));
        let rows = if spread { axes.spread_rows() } else { rows };
        // A panel that did not become part of a tile is an outer axis, which must be exact.
        let inside = |v: Var| columns.has(v) || rows.as_ref().is_some_and(|r| r.has(v));
        let ragged = panels.iter().any(|s| !inside(s.panel) && !s.is_whole());
        if ragged || !contiguous(nest, &product.column, product.inner.var, &columns, lanes) {
            return Err(Refusal::NotContiguous);
        }
        let mut outer: Vec<Axis> =
            stage.spatial.iter().filter(|a| !inside(a.var)).cloned().collect();
        // Known extents first, so that the parallel loop is one that surely has iterations.
        outer.reverse();
        outer.sort_by_key(|a| std::cmp::Reverse(a.extent.as_int().unwrap_or(0)));
        let registers = if nest.lanes(4) >= 16 { 24 } else { 12 };
        let block_sum = inner_product(&stage.value).map(|inner| inner.sum);
        // Each result has two accumulators then.
        let registers = if block_sum.is_some() { registers / 2 } else { registers };
        let Contraction { row, column, both, op, .. } = product;
        Ok(Gemm {
            stage,
            epilogue,
            row,
            column,
            op,
            block_sum,
            rows,
            spread,
            both,
            columns,
            outer,
            lanes,
            registers,
            expanded: false,
        })
    }

    /// Whether operand B is made of codes.
    pub fn has_codes(&self) -> bool {
        is_made_of_codes(&self.column)
    }

    /// Elements of an operand, or copies of them, that results are made of.
    pub fn elements(&self, factor: &Expr) -> Expr {
        let axes = self.stage.spatial.iter().chain(&self.stage.reduce);
        let own = axes.filter(|a| mentions(factor, a.var));
        own.fold(Expr::i64(1), |n, a| n * a.extent.clone())
    }
}

/// The axes of a contraction's result, from which rows and columns of tiles are chosen.
struct ResultAxes<'a> {
    stage: &'a Stage,
    product: &'a Contraction,
    panels: &'a [PanelAxis],
}

impl ResultAxes<'_> {
    /// Lanes of a vector, `most` at most: for short rows narrower vectors cross fewer cache lines.
    fn lanes(&self, most: i64) -> i64 {
        let inner = &self.product.inner;
        let panels = self.tiled(inner, &self.product.column, &self.product.row).width().is_some();
        let mut lanes = most;
        while lanes > 4 && !panels && inner.extent.as_int().is_some_and(|n| n <= lanes / 2) {
            lanes /= 2;
        }
        lanes
    }

    /// An axis in panels where operand `of`, but not `other`, is stored in panels along it.
    fn tiled(&self, axis: &Axis, of: &Expr, other: &Expr) -> TiledAxis {
        let panel = |s: &&PanelAxis| s.lane == axis.var && only(s.panel, of, other);
        match self.panels.iter().find(panel) {
            Some(s) => TiledAxis::Panels {
                panel: s.panel,
                lane: s.lane,
                width: s.width,
                extent: s.extent.clone(),
            },
            None => TiledAxis::Plain(axis.clone()),
        }
    }

    /// The columns. Where they fill one vector, further vectors come from the next axis.
    fn columns(&self, lanes: i64) -> TiledAxis {
        let Contraction { row, column, inner, both, .. } = self.product;
        let beside_lanes = |a: &&Axis| {
            a.var != inner.var && mentions(column, a.var) && mentions(row, a.var) == *both
        };
        let next_block = self.stage.spatial.iter().find(beside_lanes).cloned();
        match (self.tiled(inner, column, row), next_block) {
            (TiledAxis::Plain(lane), Some(block))
                if lane.extent.as_int() == Some(lanes) && block.extent.as_int().is_some() =>
            {
                TiledAxis::Blocks { block, lane, width: lanes }
            }
            (columns, _) => columns,
        }
    }

    /// The rows: the last axis that only the row operand has.
    fn rows(&self) -> Option<TiledAxis> {
        let Contraction { row, column, .. } = self.product;
        let last = self.stage.spatial.iter().rev().find(|a| only(a.var, row, column));
        last.map(|a| self.tiled(a, row, column))
    }

    /// The last axis of static extent, but for the lanes, that only the column operand has.
    fn spread_rows(&self) -> Option<TiledAxis> {
        let Contraction { row, column, inner, .. } = self.product;
        let beside = |a: &&Axis| {
            a.var != inner.var && only(a.var, column, row) && a.extent.as_int().is_some()
        };
        self.stage.spatial.iter().rev().find(beside).cloned().map(TiledAxis::Plain)
    }
}

/// Whether one expression mentions a variable that another does not.
fn only(v: Var, e: &Expr, other: &Expr) -> bool {
    mentions(e, v) && !mentions(other, v)
}

/// Whether lanes of operand B, or of the words that it is made of, are contiguous, in whole vectors
/// where it is packed.
fn contiguous(nest: &Nest<'_>, column: &Expr, inner: Var, cut: &TiledAxis, lanes: i64) -> bool {
    let mut unit = matches!(column.kind(), ExprKind::Load { .. }) || is_made_of_codes(column);
    column.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            let at = linear(&nest.func, *buffer, indices, &[inner]);
            unit &= at.is_some_and(|at| at.coefficients[0].as_int() == Some(1));
        }
    });
    unit && cut.width().is_none_or(|w| w % lanes == 0)
}

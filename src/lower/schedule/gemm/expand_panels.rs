//! Panels of codes, expanded once for many rows.
//!
//! ```text
//! for column tile
//!   sums = 0
//!   for part of the depth                     as much of a panel as the first-level cache holds
//!     panel[k, l] = element of the codes      a workspace, written once
//!     for row tile
//!       acc[r][v] = sums[r, v]
//!       acc[r][v] = fma(row[r, k] broadcast, panel[k, v], acc[r][v])
//!       sums[r, v] = acc[r][v]
//!   out = epilogue(sums)
//! ```
//! Where threads share rows, the panel is as deep as the matrix, and accumulators stay in registers. A lone tile of
//! rows makes floats of codes in registers instead: nothing is written. The sums are the same everywhere. For sums of
//! blocks of integers ([`block_sums`](super::block_sums)) a panel has words of codes in bytes or halves, as deep as the matrix.
//!
//! Source of the parts: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
//!
//! Decision: docs/decisions/0076-packed-weights.md
//! Decision: docs/decisions/0117-codes-by-columns.md

use reflex_tir::codegen::CpuTarget;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Intrin, Scope, Stmt};

use crate::schedule::core::affine::{linear, same};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::bind;
use crate::schedule::core::stage::Axis;
use crate::schedule::core::tile::{Bound, OutputTile, Tile, TiledAxis};
use crate::schedule::gemm::blocking::TileSize;
use crate::schedule::gemm::kernel::{Gemm, is_word};

/// Elements of a column that are expanded at once: of 64 columns they take 24 KiB, half to three quarters of a first-level cache.
const DEPTH_PART: i64 = 96;

/// Fewest elements of a column for which a part is worth its sums.
const LEAST_PART: i64 = 32;

/// The axis of the depth that is divided, and its steps in a part.
struct DepthPart {
    axis: usize,
    count: i64,
}

impl Gemm {
    /// The condition under which panels are expanded: there are rows for several tiles. `None` where
    /// operand B is not made of codes in panels.
    pub fn expands_panels(&self, cpu: &CpuTarget) -> Option<Expr> {
        let rows = self.rows.as_ref()?;
        // Without an instruction for 8-bit integers, sums of codes that are known to be small take `pmaddubsw`.
        let by_bits = matches!(self.op, Intrin::DotI8 { .. }) && !cpu.has_int8_dots();
        let panels = self.has_codes() && !by_bits && self.columns.width().is_some();
        panels.then(|| rows.extent().clone().gt(self.tile_size().rows))
    }

    /// All rows of a panel of columns that is expanded before.
    pub fn expanded_rows(
        &self,
        nest: &mut Nest<'_>,
        columns: &Tile,
        size: TileSize,
        kind: ForKind,
    ) -> Result<Stmt, Refusal> {
        let TiledAxis::Panels { lane, width, .. } = self.columns else {
            return Err(Refusal::NotContiguous);
        };
        if kind == ForKind::Serial
            && self.block_sum.is_none()
            && let (Some(part), Some(TiledAxis::Plain(rows))) = (self.depth_part(), &self.rows)
        {
            return self.expanded_by_parts(nest, columns, size, &part, rows);
        }
        let steps = self.stage.reduce.iter().map(|a| a.extent.as_int()).product::<Option<i64>>();
        let depth = steps.ok_or(Refusal::UnknownExtent)?;
        let shape = vec![Expr::i64(depth), Expr::i64(width)];
        let dtype = self.column.dtype();
        let panel = nest.func.new_buffer("panel", dtype, shape, Scope::Global);
        let fill = self.fill_panel(nest, columns, panel);
        let at = vec![position(&self.stage.reduce), lane.into()];
        let column = Expr::load(panel, at, dtype);
        let kernel = match self.block_sum {
            Some(_) => Gemm { column, ..self.clone() },
            None => self.over(nest, column),
        };
        let rows = kernel.row_tiles(nest, columns, size, kind)?;
        Ok(Stmt::Allocate { buffer: panel, body: Box::new(Stmt::Seq(vec![fill, rows])) })
    }

    /// The parts of the depth; `None` where it is short, or has no divisor for it.
    fn depth_part(&self) -> Option<DepthPart> {
        let axes = &self.stage.reduce;
        let steps = axes.iter().map(|a| a.extent.as_int()).collect::<Option<Vec<_>>>()?;
        let inner = |axis: usize| steps[axis + 1..].iter().product::<i64>();
        let axis = (0..axes.len()).find(|axis| inner(*axis) <= DEPTH_PART)?;
        let divides = |n: &i64| steps[axis] % n == 0 && n * inner(axis) <= DEPTH_PART;
        let count = (1..=steps[axis]).rev().find(divides)?;
        let of_part = count * inner(axis);
        let several = of_part < steps.iter().product::<i64>();
        (several && of_part >= LEAST_PART && !is_word(&axes[axis]))
            .then_some(DepthPart { axis, count })
    }

    /// [`Gemm::expanded_rows`], one part of the depth after the other.
    fn expanded_by_parts(
        &self,
        nest: &mut Nest<'_>,
        columns: &Tile,
        size: TileSize,
        depth: &DepthPart,
        rows: &Axis,
    ) -> Result<Stmt, Refusal> {
        let TiledAxis::Panels { lane, width, .. } = self.columns else {
            return Err(Refusal::NotContiguous);
        };
        let buffer = |nest: &mut Nest<'_>, name: &str, shape: Vec<Expr>| {
            nest.func.new_buffer(name, DType::F32, shape, Scope::Global)
        };
        let sums = buffer(nest, "sums", vec![rows.extent.clone(), width.into()]);
        let sum_at = vec![Expr::from(rows.var), Expr::from(lane)];
        let (outer, rest) = self.stage.reduce.split_at(depth.axis);
        let (whole, rest) = (&rest[0], &rest[1..]);
        let (part, step) = (nest.var("part"), nest.var("v_k"));
        let divided = [(whole.var, Expr::from(part) * depth.count + Expr::from(step))];
        let [row, column, value] =
            [&self.row, &self.column, &self.stage.value].map(|e| bind(e, &divided));
        let mut gemm = Gemm { row, column, epilogue: None, ..self.clone() };
        let own = Axis { var: step, extent: depth.count.into() };
        gemm.stage.reduce = [&[own][..], rest].concat();
        gemm.stage.value = value;
        gemm.stage.init = Some(Expr::load(sums, sum_at.clone(), DType::F32));
        (gemm.stage.buffer, gemm.stage.indices) = (sums, sum_at);

        let elements = gemm.stage.reduce.iter().map(|a| a.extent.as_int());
        let elements = elements.product::<Option<i64>>().ok_or(Refusal::UnknownExtent)?;
        let note = format!("{}: panels of {elements} steps of the depth", self.stage.name);
        if !nest.steps.contains(&note) {
            nest.steps.push(note);
        }
        let panel = buffer(nest, "panel", vec![elements.into(), width.into()]);
        let fill = gemm.fill_panel(nest, columns, panel);
        let at = vec![position(&gemm.stage.reduce), lane.into()];
        let column = Expr::load(panel, at, DType::F32);
        let products = gemm.over(nest, column).row_tiles(nest, columns, size, ForKind::Serial)?;
        let parts = whole.extent.clone().floordiv(depth.count);
        let parts = Stmt::serial(part, parts, Stmt::Seq(vec![fill, products]));
        let parts = outer.iter().rev().fold(parts, |s, a| Stmt::serial(a.var, a.extent.clone(), s));

        let lanes = self.lanes;
        let start = nest.repeat(ForKind::Serial, "t", rows.extent.clone(), |nest, t| {
            nest.repeat(ForKind::Unrolled, "v", width / lanes, |nest, v| {
                nest.lanes_of(lanes, |_, l| {
                    let at = vec![t.clone(), v * lanes + l];
                    Stmt::store(sums, at, Expr::constant(0.0, DType::F32))
                })
            })
        });
        let store = nest.try_repeat(ForKind::Serial, "t", rows.extent.clone(), |nest, t| {
            let row = Tile { origin: t.clone(), first: Expr::i64(0), width: 1, bound: Bound::Full };
            let at = OutputTile { rows: Some(&row), columns };
            self.store_elements(nest, at, |func, [_, v, l]| {
                func.load(sums, vec![t.clone(), v * lanes + l])
            })
        })?;
        let body = Stmt::Seq(vec![start, parts, store]);
        Ok([panel, sums]
            .into_iter()
            .fold(body, |body, buffer| Stmt::Allocate { buffer, body: Box::new(body) }))
    }

    /// The elements of a panel of columns in order.
    fn fill_panel(&self, nest: &mut Nest<'_>, columns: &Tile, panel: Buffer) -> Stmt {
        let (lanes, width) = (self.lanes, columns.width);
        let mut axes: Vec<Axis> = self.stage.reduce.clone();
        axes.iter_mut().for_each(|a| a.var = nest.var("d"));
        let steps = self.stage.reduce.iter().zip(&axes).map(|(a, to)| (a.var, to.var.into()));
        let value = bind(&self.column, &steps.collect::<Vec<_>>());
        let at = position(&axes);
        let codes = axes.pop_if(|a| is_word(a));
        let body = nest.repeat(ForKind::Unrolled, "v", width / lanes, |nest, v| {
            let store = nest.lanes_of(lanes, |_, l| {
                let value = bind(&value, &self.columns.bind(columns, [&v, &l], lanes));
                Stmt::store(panel, vec![at.clone(), v.clone() * lanes + l], value)
            });
            match codes {
                Some(a) => Stmt::loop_of(ForKind::Unrolled, a.var, a.extent, store),
                None => store,
            }
        });
        axes.into_iter().rev().fold(body, |body, a| Stmt::serial(a.var, a.extent, body))
    }

    /// The contraction with another operand B, over one axis where operand A can be read so.
    fn over(&self, nest: &mut Nest<'_>, column: Expr) -> Gemm {
        let mut kernel = Gemm { column, ..self.clone() };
        let one = self.has_one_depth(nest);
        if let Some((last, others)) = self.stage.reduce.split_last().filter(|_| one) {
            let extent = others.iter().fold(last.extent.clone(), |n, a| a.extent.clone() * n);
            let depth = Axis { var: nest.var("v_k"), extent };
            let merged = |e: &Expr| {
                e.substitute(&|v| match v {
                    _ if v == last.var => Some(depth.var.into()),
                    _ => others.iter().any(|a| a.var == v).then(|| Expr::i64(0)),
                })
            };
            (kernel.row, kernel.column) = (merged(&kernel.row), merged(&kernel.column));
            kernel.stage.reduce = vec![depth];
        }
        if let ExprKind::Call { args, .. } = self.stage.value.kind() {
            let args = vec![kernel.row.clone(), kernel.column.clone(), args[2].clone()];
            kernel.stage.value = Expr::call(kernel.op, args);
        }
        kernel
    }

    /// Whether operand A is as far from one step of the depth to the next everywhere.
    fn has_one_depth(&self, nest: &Nest<'_>) -> bool {
        let vars: Vec<_> = self.stage.reduce.iter().map(|a| a.var).collect();
        let Some((buffer, indices)) = loaded(&self.row) else { return false };
        let Some(at) = linear(&nest.func, buffer, indices, &vars) else { return false };
        let mut pairs = at.coefficients.windows(2).zip(&self.stage.reduce[1..]);
        pairs.all(|(c, inner)| same(&c[0], &(c[1].clone() * inner.extent.clone())))
    }
}

/// The place of an element of the depth.
fn position(depth: &[Axis]) -> Expr {
    depth.iter().fold(Expr::i64(0), |at, a| at * a.extent.clone() + Expr::from(a.var))
}

/// The access of an element that is converted at most.
fn loaded(e: &Expr) -> Option<(Buffer, &[Expr])> {
    match e.kind() {
        ExprKind::Load { buffer, indices, .. } => Some((*buffer, indices)),
        ExprKind::Cast { value, .. } => loaded(value),
        _ => None,
    }
}

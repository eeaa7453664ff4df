//! Panels of codes, expanded once for many rows.
//!
//! ```text
//! for column tile
//!   panel[k, l] = element of the codes      a workspace, written once
//!   for row tile
//!     acc[r][v] = fma(row[r, k] broadcast, panel[k, v], acc[r][v])
//! ```
//! A tile of few rows makes floats of codes in registers instead: the codes are read once, and nothing is
//! written. The sums are the same.
//!
//! Decision: docs/decisions/0076-packed-weights.md

use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Scope, Stmt};

use crate::schedule::core::affine::{linear, same};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::bind;
use crate::schedule::core::stage::Axis;
use crate::schedule::core::tile::{Tile, TiledAxis};
use crate::schedule::gemm::blocking::TileSize;
use crate::schedule::gemm::kernel::{Gemm, is_word};

impl Gemm {
    /// The condition under which panels are expanded: there are rows for several tiles. `None` where
    /// operand B is not made of codes in panels.
    pub fn expands_panels(&self) -> Option<Expr> {
        let rows = self.rows.as_ref()?;
        let panels = self.has_codes() && self.block_sum.is_none() && self.columns.width().is_some();
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
        let steps = self.stage.reduce.iter().map(|a| a.extent.as_int()).product::<Option<i64>>();
        let depth = steps.ok_or(Refusal::UnknownExtent)?;
        let shape = vec![Expr::i64(depth), Expr::i64(width)];
        let panel = nest.func.new_buffer("panel", DType::F32, shape, Scope::Global);
        let fill = self.fill_panel(nest, columns, panel, width);
        let at = vec![position(&self.stage.reduce), lane.into()];
        let column = Expr::load(panel, at, DType::F32);
        let rows = self.over(nest, column).row_tiles(nest, columns, size, kind)?;
        Ok(Stmt::Allocate { buffer: panel, body: Box::new(Stmt::Seq(vec![fill, rows])) })
    }

    /// The elements of a panel of columns in order.
    fn fill_panel(&self, nest: &mut Nest<'_>, columns: &Tile, panel: Buffer, width: i64) -> Stmt {
        let lanes = self.lanes;
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

//! Weights as a product with few rows reads them: elements, or words of codes that elements are made of in registers.

use std::collections::HashMap;

use reflex_tir::{DType, Expr, ExprKind, Var};

use crate::schedule::core::affine::mentions;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::panels::{divisor, undivided};
use crate::schedule::core::stage::Axis;
use crate::schedule::gpu::gemm::unit_step;
use crate::schedule::gpu::grid::decoded;

/// Bytes of an access.
const ACCESS: i64 = 16;

/// The weights of a product.
pub struct Weights {
    /// The loads that an element is made of.
    pub loads: Vec<Expr>,
    /// Whether neighbours in memory are neighbouring columns, not steps.
    pub across: bool,
    /// Neighbours that an access loads.
    pub vector: i64,
    /// Steps that an access has weights for.
    pub steps: i64,
    /// An element, of the loads.
    value: Expr,
    panels: Option<Panels>,
}

/// Columns in panels of so many: variables that loads have in the place of the column's.
struct Panels {
    panel: Var,
    lane: Var,
    width: i64,
}

impl Weights {
    /// The weights that are an element over steps and columns.
    pub fn of(
        nest: &mut Nest<'_>,
        value: &Expr,
        steps: &[Axis],
        columns: &[Axis],
    ) -> Result<Weights, Refusal> {
        let load = uncast(value);
        let ExprKind::Load { .. } = load.kind() else {
            return Weights::of_codes(nest, value, steps, columns);
        };
        let along = unit_step(nest, load, steps);
        if !along && !unit_step(nest, load, columns) {
            return Err(Refusal::NotContiguous);
        }
        let neighbours = if along { steps } else { columns };
        let most = ACCESS / load.dtype().itemsize() as i64;
        let whole = neighbours.last().and_then(|axis| axis.extent.as_int());
        let vector = if whole.is_some_and(|n| n % most == 0) { most } else { 1 };
        Ok(Weights {
            loads: vec![load.clone()],
            across: !along,
            vector,
            steps: if along { vector } else { 1 },
            value: load.clone(),
            panels: None,
        })
    }

    /// Weights in panels of words of codes: loads are the same for all steps of the last axis, whose elements are made of
    /// them.
    fn of_codes(
        nest: &mut Nest<'_>,
        value: &Expr,
        steps: &[Axis],
        columns: &[Axis],
    ) -> Result<Weights, Refusal> {
        let ([column], Some(code)) = (columns, steps.last()) else {
            return Err(Refusal::NotContiguous);
        };
        let width = divisor(value, column.var).ok_or(Refusal::NotContiguous)?;
        let codes = code.extent.as_int().ok_or(Refusal::UnknownExtent)?;
        let (panel, lane) = (nest.var("panel"), nest.var("lane"));
        let value = undivided(value, column.var, width, panel, lane);
        let mut loads: Vec<Expr> = vec![];
        value.visit(&mut |e| {
            if matches!(e.kind(), ExprKind::Load { .. }) && !loads.contains(e) {
                loads.push(e.clone());
            }
        });
        let lane_axis = Axis { var: lane, extent: width.into() };
        let is_word = |load: &Expr| {
            load.dtype() == DType::U32
                && !mentions(load, code.var)
                && unit_step(nest, load, std::slice::from_ref(&lane_axis))
        };
        if loads.is_empty() || !loads.iter().all(is_word) || mentions(&value, column.var) {
            return Err(Refusal::NotContiguous);
        }
        let most = ACCESS / DType::U32.itemsize() as i64;
        let whole = width % most == 0 && column.extent.as_int().is_some_and(|n| n % most == 0);
        let vector = if whole { most } else { 1 };
        let panels = Some(Panels { panel, lane, width });
        Ok(Weights { loads, across: true, vector, steps: codes, value, panels })
    }

    /// The axes of columns at the `lane`-th column from one on.
    pub fn columns(&self, axes: &[Axis], column: &Expr, lane: Expr) -> HashMap<Var, Expr> {
        match &self.panels {
            None => neighbours(axes, column, lane),
            Some(panels) => HashMap::from([
                (panels.panel, column.clone().floordiv(panels.width)),
                (panels.lane, column.clone().floormod(panels.width) + lane),
            ]),
        }
    }

    /// An element in float32: `load` has what was loaded, and `rest` makes of the others what they are.
    pub fn element(
        &self,
        rest: &dyn Fn(&Expr) -> Expr,
        load: &dyn Fn(usize, DType) -> Expr,
    ) -> Expr {
        let walk = Walk { loads: &self.loads, rest, load };
        walk.of(&self.value).cast(DType::F32)
    }
}

/// The replacements of an element's parts.
struct Walk<'a> {
    loads: &'a [Expr],
    rest: &'a dyn Fn(&Expr) -> Expr,
    load: &'a dyn Fn(usize, DType) -> Expr,
}

impl Walk<'_> {
    fn of(&self, e: &Expr) -> Expr {
        match self.loads.iter().position(|own| own == e) {
            Some(n) => (self.load)(n, e.dtype()),
            None if e.children().is_empty() => (self.rest)(e),
            None => e.map_children(&mut |child| self.of(child)),
        }
    }
}

/// Axes at the `lane`-th place from one on, where those are neighbours along the last axis.
pub fn neighbours(axes: &[Axis], at: &Expr, lane: Expr) -> HashMap<Var, Expr> {
    let mut places = decoded(axes, at);
    if let Some(first) = axes.last().and_then(|last| places.get_mut(&last.var)) {
        *first = first.clone() + lane;
    }
    places
}

/// Without a conversion.
pub fn uncast(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Cast { value, .. } => value,
        _ => e,
    }
}

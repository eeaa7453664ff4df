//! Stages over panels: an axis that an operand addresses as `v // width` and `v % width` becomes
//! two axes.

use reflex_tir::{BinOp, DType, Expr, ExprKind, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Axis, Stage};

/// Both stages without axes of extent 1 and over the same variables.
pub fn aligned(stage: &Stage, epilogue: Option<&Stage>) -> (Stage, Option<Stage>) {
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
pub struct PanelAxis {
    pub panel: Var,
    pub lane: Var,
    pub width: i64,
    pub extent: Expr,
}

impl PanelAxis {
    /// Whether the last panel is surely filled.
    pub fn is_whole(&self) -> bool {
        self.extent.as_int().is_some_and(|n| n % self.width == 0)
    }
}

/// Stages over panels as axes of their own.
pub struct PanelStages {
    pub stage: Stage,
    pub epilogue: Option<Stage>,
    pub panels: Vec<PanelAxis>,
}

pub fn split_panels(
    nest: &mut Nest<'_>,
    mut stage: Stage,
    mut epilogue: Option<Stage>,
) -> Result<PanelStages, Refusal> {
    let mut panels = vec![];
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
        panels.push(PanelAxis { panel, lane, width, extent: axis.extent });
    }
    Ok(PanelStages { stage, epilogue, panels })
}

/// The constant that `var` is divided by somewhere in `e`.
pub fn divisor(e: &Expr, var: Var) -> Option<i64> {
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
pub fn undivided(e: &Expr, var: Var, width: i64, panel: Var, lane: Var) -> Expr {
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

/// `e` for given values of variables.
pub fn bind(e: &Expr, bound: &[(Var, Expr)]) -> Expr {
    e.substitute(&|v| bound.iter().find(|(b, _)| *b == v).map(|(_, e)| e.clone()))
}

/// A float32 variable as an expression.
pub fn float(var: Var) -> Expr {
    Expr::new(ExprKind::Var { var, dtype: DType::F32 })
}

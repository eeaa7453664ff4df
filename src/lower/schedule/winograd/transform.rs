//! Winograd transforms: multiplication by constant matrices, `Y = P X Qᵀ` for tiles or `y = P x`
//! for rows, a vector of channels at a time.
//!
//! ```text
//! for outer..                       batches, tiles, blocks of channels
//!   for column l of the tile
//!     for lane (vector)
//!       x[k]                        loaded
//!       t[i][l] = sum over k of P[i][k] * x[k]
//!   for row i of the tile
//!     for lane (vector)
//!       y[i][j] = sum over l of t[i][l] * Q[j][l], stored or kept for the epilogue
//! ```
//! Everything in a vector loop is unrolled and named: constants are folded, zeros cost nothing. The loops over columns
//! and rows are not: a tile does not fit into registers, and each product is emitted once, not for each column and row.
//! The sums are taken one side after the other, not in the naive nest's order.

use reflex_tir::{DType, Expr, ExprKind, ForKind, Intrin, Stmt, Var};

use crate::schedule::core::affine::{linear, mentions};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::panels::{PanelAxis, PanelStages, aligned, bind, float, split_panels};
use crate::schedule::core::stage::{Axis, Stage};
use crate::schedule::winograd::constant_matrix::{
    ConstantMatrix, constant_matrices, constant_matrix,
};

/// A constant matrix, and the axes that index its rows and its columns.
struct MatrixSide {
    table: ConstantMatrix,
    result: Axis,
    element: Axis,
}

/// The transform of a tile.
pub struct TransformKernel {
    stage: Stage,
    epilogue: Option<Stage>,
    left: MatrixSide,
    right: Option<MatrixSide>,
    /// Element of `X`.
    source: Expr,
    lane: Axis,
    outer: Vec<Axis>,
    panels: Vec<PanelAxis>,
}

/// The nest of a stage; `epilogue` is computed from each result and stored instead.
pub fn winograd_transform(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    constant_matrices(&stage.value)?;
    let (stage, epilogue) = aligned(stage, epilogue);
    let stages = split_panels(nest, stage, epilogue)?;
    let kernel = TransformKernel::new(nest, stages)?;
    Ok(kernel.nest(nest, threads))
}

impl TransformKernel {
    /// Reads a stage and its epilogue over the same variables, with panels as axes.
    pub fn new(nest: &Nest<'_>, stages: PanelStages) -> Result<TransformKernel, Refusal> {
        let PanelStages { stage, epilogue, panels } = stages;
        let (p, q, source) = constant_matrices(&stage.value)?;
        let zero =
            matches!(stage.init.as_ref().map(Expr::kind), Some(ExprKind::Float { bits: 0, .. }));
        let index = |list: &[Axis], e: &Expr| {
            let mut found = list.iter().filter(|a| mentions(e, a.var));
            match (found.next(), found.next()) {
                (Some(axis), None) => Ok(axis.clone()),
                _ => Err(Refusal::NoConstantMatrix),
            }
        };
        let side = |e: &Expr| {
            let (result, element) = (index(&stage.spatial, e)?, index(&stage.reduce, e)?);
            Ok(MatrixSide { table: constant_matrix(e, &result, &element)?, result, element })
        };
        let (left, right) = (side(p)?, q.map(side).transpose()?);
        let distinct = |r: &MatrixSide| r.result != left.result && r.element != left.element;
        let sides = 1 + usize::from(right.is_some());
        if !zero || !right.as_ref().is_none_or(distinct) || stage.reduce.len() != sides {
            return Err(Refusal::NoConstantMatrix);
        }
        let vars = stage.spatial_vars();
        let store = linear(&nest.func, stage.buffer, &stage.indices, &vars);
        let store = store.ok_or(Refusal::NotAffine)?;
        let unit = store.coefficients.iter().position(|c| c.as_int() == Some(1));
        let lane = stage.spatial[unit.ok_or(Refusal::NotContiguous)?].clone();
        let ExprKind::Load { buffer, indices, .. } = source.kind() else {
            return Err(Refusal::NoConstantMatrix);
        };
        let step = linear(&nest.func, *buffer, indices, &[lane.var]);
        let side_by_side = step.is_some_and(|s| s.coefficients[0].as_int() == Some(1));
        if !side_by_side || !matches!(lane.extent.as_int(), Some(4..=16)) {
            return Err(Refusal::NotContiguous);
        }
        let within = |a: &Axis| {
            *a == lane || *a == left.result || right.as_ref().is_some_and(|r| *a == r.result)
        };
        let outer = stage.spatial.iter().filter(|a| !within(a)).cloned().collect();
        let source = source.clone();
        Ok(TransformKernel { stage, epilogue, left, right, source, lane, outer, panels })
    }

    pub fn nest(&self, nest: &mut Nest<'_>, threads: Parallel) -> Stmt {
        let (height, width) = self.results();
        let cost = (height * width) as i64 * self.lanes();
        let parallel = match threads {
            Parallel::Yes => nest.parallel_for(&self.outer, 8 * cost),
            Parallel::No => Parallel::No,
        };
        let tables: Vec<String> = std::iter::once(&self.left)
            .chain(&self.right)
            .map(|side| format!("{}x{}", side.table.len(), side.table[0].len()))
            .collect();
        let by = if self.right.is_some() { " for each column and row of a tile" } else { "" };
        nest.steps.push(format!(
            "{}: constant matrices of {} unrolled{by}, vectors of {} lanes",
            self.stage.name,
            tables.join(" and "),
            self.lanes(),
        ));
        let tile = self.tile(nest);
        nest.outer(&self.outer, parallel, tile)
    }

    /// Rows and columns of `Y`.
    fn results(&self) -> (usize, usize) {
        (self.left.table.len(), self.right.as_ref().map_or(1, |side| side.table.len()))
    }

    /// One tile, in vectors of the lane axis.
    fn tile(&self, nest: &mut Nest<'_>) -> Stmt {
        let lanes = self.lanes();
        let (height, width) = self.results();
        let direct = self.epilogue.is_none() && self.ragged().is_empty();
        if direct {
            return self.transformed(nest, &mut |i, j, l, value| self.store(i, j, l, value));
        }
        let tile = nest.local("tile", DType::F32, &[(height * width) as i64 * lanes]);
        let slot = |i: &Expr, j: &Expr, l: &Expr| {
            vec![(i.clone() * width as i64 + j.clone()) * lanes + l.clone()]
        };
        let compute =
            self.transformed(nest, &mut |i, j, l, value| Stmt::store(tile, slot(i, j, l), value));
        let finish = nest.repeat(ForKind::Serial, "i", height as i64, |nest, i| {
            nest.repeat(ForKind::Serial, "j", width as i64, |nest, j| {
                let store = nest.lanes_of(lanes, |nest, l| {
                    let value = nest.func.load(tile, slot(&i, &j, &l));
                    self.store(&i, &j, &l, value)
                });
                let inside = self.ragged().into_iter().map(|s| {
                    let at = Expr::from(s.panel) * s.width + s.lane;
                    at.lt(s.extent.clone())
                });
                match inside.reduce(Expr::and) {
                    Some(cond) => {
                        let bound = self.at(&i, &j);
                        let then = Box::new(store);
                        Stmt::If { cond: bind(&cond, &bound), then, otherwise: None }
                    }
                    None => store,
                }
            })
        });
        Stmt::Allocate { buffer: tile, body: Box::new(Stmt::Seq(vec![compute, finish])) }
    }

    fn lanes(&self) -> i64 {
        self.lane.extent.as_int().unwrap_or(1)
    }

    /// The axes whose last tile may be partial.
    fn ragged(&self) -> Vec<&PanelAxis> {
        self.panels.iter().filter(|s| !s.is_whole()).collect()
    }

    fn at(&self, i: &Expr, j: &Expr) -> Vec<(Var, Expr)> {
        let mut at = vec![(self.left.result.var, i.clone())];
        at.extend(self.right.as_ref().map(|side| (side.result.var, j.clone())));
        at
    }

    /// Stores a result, or its epilogue.
    fn store(&self, i: &Expr, j: &Expr, lane: &Expr, result: Expr) -> Stmt {
        let last = self.epilogue.as_ref().unwrap_or(&self.stage);
        let value = match &self.epilogue {
            Some(e) => e.value.replace_loads(self.stage.buffer, &mut |_, _| result.clone()),
            None => result,
        };
        let mut bound = self.at(i, j);
        bound.push((self.lane.var, lane.clone()));
        let indices = last.indices.iter().map(|e| bind(e, &bound)).collect();
        Stmt::store(last.buffer, indices, bind(&value, &bound))
    }

    /// `store(i, j, lane, y)` for every result of a tile.
    fn transformed(
        &self,
        nest: &mut Nest<'_>,
        store: &mut dyn FnMut(&Expr, &Expr, &Expr, Expr) -> Stmt,
    ) -> Stmt {
        let Some(right) = &self.right else {
            let zero = Expr::i64(0);
            return self.column(nest, &[], &mut |i, l, sum| store(&i, &zero, l, sum));
        };
        let (height, depth) = (self.left.table.len() as i64, right.table[0].len() as i64);
        let lanes = self.lanes();
        let half = nest.local("half", DType::F32, &[height * depth * lanes]);
        let slot = |i: &Expr, c: &Expr, l: &Expr| {
            vec![(i.clone() * depth + c.clone()) * lanes + l.clone()]
        };
        let columns = nest.repeat(ForKind::Serial, "column", depth, |nest, c| {
            let at = [(right.element.var, c.clone())];
            self.column(nest, &at, &mut |i, l, sum| Stmt::store(half, slot(&i, &c, l), sum))
        });
        let rows = nest.repeat(ForKind::Serial, "row", height, |nest, i| {
            nest.lanes_of(lanes, |nest, l| {
                let row = |nest: &Nest<'_>, c| nest.func.load(half, slot(&i, &Expr::i64(c), &l));
                self.sums(nest, right, &row, &mut |j, sum| store(&i, &j, &l, sum))
            })
        });
        Stmt::Allocate { buffer: half, body: Box::new(Stmt::Seq(vec![columns, rows])) }
    }

    /// `store(i, lane, t)` for the products of the left matrix by a column of `X`, which `at` selects.
    fn column(
        &self,
        nest: &mut Nest<'_>,
        at: &[(Var, Expr)],
        store: &mut dyn FnMut(Expr, &Expr, Expr) -> Stmt,
    ) -> Stmt {
        nest.lanes_of(self.lanes(), |nest, l| {
            let element = |_: &Nest<'_>, k| {
                let own = [(self.left.element.var, Expr::i64(k)), (self.lane.var, l.clone())];
                bind(&self.source, &[at, &own].concat())
            };
            self.sums(nest, &self.left, &element, &mut |i, sum| store(i, &l, sum))
        })
    }

    /// `store(i, y)` for the products of a matrix by a vector of elements.
    fn sums(
        &self,
        nest: &mut Nest<'_>,
        side: &MatrixSide,
        element: &dyn Fn(&Nest<'_>, i64) -> Expr,
        store: &mut dyn FnMut(Expr, Expr) -> Stmt,
    ) -> Stmt {
        let mut named: Vec<(Var, Expr)> = vec![];
        let values: Vec<Expr> = (0..side.table[0].len() as i64)
            .map(|k| {
                let var = nest.float_var("x");
                named.push((var, element(nest, k)));
                float(var)
            })
            .collect();
        let sums = matrix_times_vector(nest, &side.table, &values, &mut named).into_iter();
        let stores = sums.enumerate().map(|(i, sum)| store(Expr::i64(i as i64), sum)).collect();
        named.into_iter().rev().fold(Stmt::Seq(stores), |body, (var, value)| Stmt::Let {
            var,
            value,
            body: Box::new(body),
        })
    }
}

/// A matrix times a vector of values; sums are noted in `named`. Interpolation points of opposite
/// sign make rows (or columns) that differ in signs alone: their common terms are computed once.
fn matrix_times_vector(
    nest: &mut Nest<'_>,
    table: &ConstantMatrix,
    values: &[Expr],
    named: &mut Vec<(Var, Expr)>,
) -> Vec<Expr> {
    let mut name = |value: Expr| {
        let var = nest.float_var("t");
        named.push((var, value));
        float(var)
    };
    let (mut table, mut values) = (table.clone(), values.to_vec());
    for k in 1..values.len() {
        let alike = |r: &Vec<f64>| r[k - 1].abs() == r[k].abs();
        let some = |sign: f64| table.iter().any(|r| r[k] != 0.0 && r[k - 1] == sign * r[k]);
        if table.iter().all(alike) && some(1.0) && some(-1.0) {
            let (a, b) = (values[k - 1].clone(), values[k].clone());
            values[k - 1] = name(a.clone() + b.clone());
            values[k] = name(a - b);
            for row in &mut table {
                let (together, apart) =
                    if row[k - 1] == row[k] { (row[k], 0.0) } else { (0.0, row[k - 1]) };
                (row[k - 1], row[k]) = (together, apart);
            }
        }
    }
    let mut sums = vec![];
    let mut rest = &table[..];
    while let [row, after @ ..] = rest {
        let part = |other: &[f64], sign: f64| -> Vec<f64> {
            row.iter().zip(other).map(|(a, b)| if *a == sign * b { *a } else { 0.0 }).collect()
        };
        let count = |r: &[f64]| r.iter().filter(|c| **c != 0.0).count();
        let pair = after.first().map(|other| (part(other, 1.0), part(other, -1.0)));
        match pair {
            Some((same, opposite))
                if count(&same) > 0
                    && count(&opposite) > 0
                    && count(&same) + count(&opposite) == count(row)
                    && count(row) == count(&after[0])
                    && count(row) > 2 =>
            {
                let (same, opposite) = (name(sum(&same, &values)), name(sum(&opposite, &values)));
                sums.push(name(same.clone() + opposite.clone()));
                sums.push(name(same - opposite));
                rest = &after[1..];
            }
            _ => {
                sums.push(name(sum(row, &values)));
                rest = after;
            }
        }
    }
    sums
}

/// The sum of constants times values: plain additions and subtractions for 1 and -1.
fn sum(constants: &[f64], values: &[Expr]) -> Expr {
    let mut terms: Vec<(f64, &Expr)> =
        constants.iter().copied().zip(values).filter(|(c, _)| *c != 0.0).collect();
    // A coefficient of 1 starts the sum without a multiplication.
    if let Some(one) = terms.iter().position(|(c, _)| *c == 1.0) {
        terms[..=one].rotate_right(1);
    }
    let mut terms = terms.into_iter();
    let constant = |c: f64| Expr::float(c, DType::F32);
    let Some((c, value)) = terms.next() else { return constant(0.0) };
    let first = if c == 1.0 { value.clone() } else { value.clone() * constant(c) };
    terms.fold(first, |acc, (c, value)| match c {
        1.0 => acc + value.clone(),
        -1.0 => acc - value.clone(),
        _ => Expr::call(Intrin::Fma, vec![value.clone(), constant(c), acc]),
    })
}

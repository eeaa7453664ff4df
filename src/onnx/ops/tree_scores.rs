//! Scores of a tree ensemble, by one of two evaluations.
//!
//! Small ensembles are evaluated by predication ([`super::predicated_trees`]): no row waits for an
//! address. Otherwise every row traverses all trees at once, one level a step, over tables of node
//! attributes; a leaf is its own successor, so that short paths wait at their end.

use std::sync::Arc;

use reflex_graph::{Binary, GatherKind, Literal, Op, OutOfRange, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::iterate::{Iterated, iterate};
use super::predicated_trees::{LeafColumns, SelectTrees};
use super::tree_ensemble::{Ensemble, Leaves, Test, constant};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::Tensor;

/// Successors are looked up at twice a node's index, which has 32 bits.
const MAX_NODES: usize = 1 << 30;
/// More levels are steps of a loop.
const UNROLLED: usize = 64;
/// Most members of a set where trees are walked: each is a comparison at every level.
const MAX_MEMBERS: usize = 256;

impl Ensemble {
    /// The weights of the leaves that the rows of `x` reach, over the trees, for some of the
    /// columns: `[rows, columns]`.
    pub fn scores(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        outputs: &LeafColumns<'_>,
        kind: ReduceKind,
    ) -> Result<Tensor> {
        let x = self.features_of(cx, x)?;
        // Features of rows of unknown width are gathered with checked indices.
        let width = x.shape()[1].as_int();
        let selects = width.and_then(|_| SelectTrees::of(self, outputs));
        if let Some(selects) = selects {
            return selects.scores(cx, self, &x, kind, outputs.leaves.dtype);
        }
        let reached = self.walk(cx, &x)?;
        let scores = outputs.leaves.reduced(cx, &reached, kind)?;
        let count = Expr::i64(outputs.columns.len() as i64);
        cx.slice(&scores, 1, &Expr::i64(outputs.columns.start as i64), &count)
    }

    /// The rows as numbers that thresholds are compared with; an error where they do not fit.
    fn features_of(&self, cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
        if x.rank() != 2 {
            return Err(invalid(format!("rows of features expected, not {}", x.ty)));
        }
        let wide = x.dtype() == DType::F64 || self.dtype == DType::F64;
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let x = cx.cast(x, dtype)?;
        let width = x.shape()[1].as_int();
        let out_of_range = |(f, test): (&i64, &Test)| {
            *test != Test::Leaf && width.is_some_and(|w| !(0..w).contains(f))
        };
        if self.features.iter().zip(&self.tests).any(out_of_range) {
            return Err(invalid("a feature that the input does not have"));
        }
        Ok(x)
    }

    /// The leaves that the rows of `x` reach, `[rows, trees]`.
    fn walk(&self, cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
        let trees = self.roots.len() as i64;
        let shape = [x.shape()[0].clone(), Expr::i64(trees)];
        if self.tests.len() > MAX_NODES {
            return Err(unsupported(format!("more than {MAX_NODES} nodes")));
        }
        let used = self.features.iter().zip(&self.tests);
        let used = used.map(|(f, test)| if *test == Test::Leaf { 0 } else { *f });
        let features = node_table(&used.collect::<Vec<_>>())?;
        // Where a node goes when its test fails, and when it passes.
        let successors = self.when_false.iter().zip(&self.when_true);
        let successors =
            node_table(&successors.flat_map(|(no, yes)| [*no, *yes]).collect::<Vec<_>>())?;
        let nodes = vec![self.thresholds.len() as i64];
        let thresholds = constant(x.dtype(), nodes, &self.thresholds)?;
        let tables = [features, thresholds, successors];
        let start = cx.broadcast(&node_table(&self.roots)?, &shape)?;
        if self.depth > UNROLLED {
            let levels = Expr::i64(self.depth as i64);
            let done = iterate(cx, &levels, &[start], |cx, _, at| {
                let carried = vec![self.level(cx, x, &tables, &at[0])?];
                Ok(Iterated { carried, stacked: vec![] })
            })?;
            return Ok(done.carried[0].clone());
        }
        let mut at = start;
        for _ in 0..self.depth {
            at = self.level(cx, x, &tables, &at)?;
        }
        Ok(at)
    }

    /// The successors of the nodes `at`, by the tables of features, thresholds and successors.
    fn level(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        [features, thresholds, successors]: &[Tensor; 3],
        at: &Tensor,
    ) -> Result<Tensor> {
        let feature = cx.take(features, at, 0)?;
        let (kind, out_of_range) = (GatherKind::Elements(1), OutOfRange::Clamp);
        let value = cx.op(Op::Gather { kind, out_of_range }, &[x, &feature])?;
        let threshold = cx.take(thresholds, at, 0)?;
        let passed = self.passed(cx, at, &value, &threshold)?;
        let passed = cx.cast(&passed, DType::I32)?;
        let twice = cx.binary(Binary::Add, at, at)?;
        let successor = cx.binary(Binary::Add, &twice, &passed)?;
        cx.take(successors, &successor, 0)
    }

    fn passed(
        &self,
        cx: &mut ImportContext,
        at: &Tensor,
        x: &Tensor,
        threshold: &Tensor,
    ) -> Result<Tensor> {
        let mut kinds: Vec<Binary> = vec![];
        for test in &self.tests {
            match test {
                Test::Compare(f) if !kinds.contains(f) => kinds.push(*f),
                _ => {}
            }
        }
        let mut passed: Option<Tensor> = None;
        for kind in kinds {
            let other = cx.binary(kind, x, threshold)?;
            passed = Some(match passed {
                None => other,
                Some(passed) => {
                    let is = |t: &Test| i64::from(*t == Test::Compare(kind));
                    let is: Vec<i64> = self.tests.iter().map(is).collect();
                    let of_kind = self.node_flag(cx, at, &is)?;
                    cx.choose(&of_kind, &other, &passed)?
                }
            });
        }
        if self.tests.iter().any(|t| matches!(t, Test::Member { .. })) {
            let (of_kind, member) = self.membership(cx, at, x)?;
            passed = Some(match passed {
                None => member,
                Some(passed) => cx.choose(&of_kind, &member, &passed)?,
            });
        }
        let mut passed = passed.ok_or_else(|| invalid("a level without tests"))?;
        if self.nan_true.iter().any(|f| *f != 0) {
            let (tracked, nan) =
                (self.node_flag(cx, at, &self.nan_true)?, cx.unary(Unary::IsNan, x)?);
            let missing = cx.binary(Binary::And, &tracked, &nan)?;
            passed = cx.binary(Binary::Or, &passed, &missing)?;
        }
        Ok(passed)
    }

    /// Which of the nodes `at` test for membership, and whether `x` is a member of their sets.
    fn membership(
        &self,
        cx: &mut ImportContext,
        at: &Tensor,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let ranges: Vec<(usize, usize)> = self
            .tests
            .iter()
            .map(|test| match test {
                Test::Member { start, end } => (*start, *end),
                _ => (0, 0),
            })
            .collect();
        let most = ranges.iter().map(|(start, end)| end - start).max().unwrap_or(0);
        if most > MAX_MEMBERS {
            return Err(unsupported(format!("sets of more than {MAX_MEMBERS} members")));
        }
        let table = |of: &dyn Fn(&(usize, usize)) -> usize| {
            node_table(&ranges.iter().map(|r| of(r) as i64).collect::<Vec<_>>())
        };
        let start = cx.take(&table(&|(start, _)| *start)?, at, 0)?;
        let end = cx.take(&table(&|(_, end)| *end)?, at, 0)?;
        let mut members = self.members.clone();
        members.resize(members.len() + most + 1, 0.0);
        let members = constant(x.dtype(), vec![members.len() as i64], &members)?;
        let mut found = cx.num(0.0, DType::BOOL)?;
        for n in 0..most {
            let place = cx.binary_num(Binary::Add, &start, n as f64)?;
            let inside = cx.binary(Binary::Less, &place, &end)?;
            let member = cx.take(&members, &place, 0)?;
            let equal = cx.binary(Binary::Equal, x, &member)?;
            let equal = cx.binary(Binary::And, &equal, &inside)?;
            found = cx.binary(Binary::Or, &found, &equal)?;
        }
        let found = cx.broadcast(&found, at.shape())?;
        let is: Vec<i64> =
            self.tests.iter().map(|t| i64::from(matches!(t, Test::Member { .. }))).collect();
        Ok((self.node_flag(cx, at, &is)?, found))
    }

    fn node_flag(&self, cx: &mut ImportContext, at: &Tensor, table: &[i64]) -> Result<Tensor> {
        let value = cx.take(&node_table(table)?, at, 0)?;
        let zero = cx.num(0.0, DType::I32)?;
        cx.binary(Binary::NotEqual, &value, &zero)
    }
}

impl Leaves {
    /// The weights of the leaves `at`, over the trees, `[rows, columns]`.
    fn reduced(&self, cx: &mut ImportContext, at: &Tensor, kind: ReduceKind) -> Result<Tensor> {
        let nodes = (self.table.len() / self.columns) as i64;
        let table = constant(self.dtype, vec![nodes, self.columns as i64], &self.table)?;
        let weights = cx.take(&table, at, 0)?;
        cx.reduce(kind, &weights, &[1])
    }
}

/// Indices of nodes and features as int32, of which a vector holds twice as many as of int64.
fn node_table(values: &[i64]) -> Result<Tensor> {
    let narrow = |v: &i64| {
        i32::try_from(*v).map_err(|_| unsupported("features by numbers of more than 32 bits"))
    };
    let values = values.iter().map(narrow).collect::<Result<Vec<i32>>>()?;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let literal = Literal::new(DType::I32, vec![values.len() as i64], Arc::new(bytes));
    Ok(Tensor::literal(literal.expect("four bytes each")))
}

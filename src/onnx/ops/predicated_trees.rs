//! Predicated evaluation of tree ensembles (if-conversion): every test of a tree is evaluated and
//! selects between the results of its two subtrees, from the leaves up.
//!
//! A vector of rows takes a comparison and a select for each test. Traversal takes four gathers for
//! each level, which wait for those of the level before.
//!
//! Decision: docs/decisions/0032-tree-ensembles.md

use std::collections::HashMap;
use std::ops::Range;

use reflex_graph::{Binary, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::tree_ensemble::{Ensemble, Leaves, Test, constant};
use crate::context::ImportContext;
use crate::error::Result;
use crate::value::Tensor;

/// Most tests of an ensemble: each is some instructions of a kernel.
const MOST: usize = 1024;
/// Most tests for each level that a row would traverse, over all trees: a level takes as long as
/// these.
const PER_LEVEL: usize = 16;

/// The leaves of an ensemble, and the columns of their weights that are wanted.
pub(super) struct LeafColumns<'a> {
    pub leaves: &'a Leaves,
    pub columns: Range<usize>,
}

/// A tree for one column: selects between leaf weights.
#[derive(PartialEq)]
enum SelectTree {
    Weight(f64),
    Select { node: usize, on_true: Box<SelectTree>, on_false: Box<SelectTree> },
}

impl SelectTree {
    /// The tree below node `at`. A test whose sides have equal weights is dropped.
    fn of(ensemble: &Ensemble, at: usize, weight: &dyn Fn(usize) -> f64) -> SelectTree {
        if ensemble.tests[at] == Test::Leaf {
            return SelectTree::Weight(weight(at));
        }
        let side = |next: &[i64]| SelectTree::of(ensemble, next[at] as usize, weight);
        let (on_true, on_false) = (side(&ensemble.when_true), side(&ensemble.when_false));
        match (&on_true, &on_false) {
            (SelectTree::Weight(a), SelectTree::Weight(b)) if a.to_bits() == b.to_bits() => on_true,
            _ => SelectTree::Select {
                node: at,
                on_true: Box::new(on_true),
                on_false: Box::new(on_false),
            },
        }
    }

    fn tests(&self) -> usize {
        match self {
            SelectTree::Weight(_) => 0,
            SelectTree::Select { on_true, on_false, .. } => 1 + on_true.tests() + on_false.tests(),
        }
    }
}

/// The trees of an ensemble for each column.
pub(super) struct SelectTrees(Vec<Vec<SelectTree>>);

impl SelectTrees {
    /// The select trees of an ensemble; `None` if traversal is expected to be faster.
    pub fn of(ensemble: &Ensemble, outputs: &LeafColumns<'_>) -> Option<SelectTrees> {
        let LeafColumns { leaves, columns } = outputs;
        // An estimate before any tree is built: each tree once for a column.
        let inner = ensemble.tests.iter().filter(|test| **test != Test::Leaf).count();
        let traversed = ensemble.depth.saturating_mul(ensemble.roots.len());
        // A membership test is a comparison for each member.
        let inner = inner + ensemble.members.len();
        let few = inner <= MOST && inner <= PER_LEVEL * traversed;
        if !few || columns.len() > MOST || columns.len() * ensemble.roots.len() > MOST {
            return None;
        }
        let column = |column: usize| {
            let weight = |leaf: usize| leaves.weight(leaf, column);
            let roots = ensemble.roots.iter();
            roots.map(|root| SelectTree::of(ensemble, *root as usize, &weight)).collect()
        };
        let trees: Vec<Vec<SelectTree>> = columns.clone().map(column).collect();
        let tests: usize = trees.iter().flatten().map(SelectTree::tests).sum();
        (tests <= MOST).then_some(SelectTrees(trees))
    }

    /// Scores of the rows of `x` over all trees, `[rows, columns]`.
    pub fn scores(
        &self,
        cx: &mut ImportContext,
        ensemble: &Ensemble,
        x: &Tensor,
        kind: ReduceKind,
        dtype: DType,
    ) -> Result<Tensor> {
        let combine = match kind {
            ReduceKind::Min => Binary::Min,
            ReduceKind::Max => Binary::Max,
            _ => Binary::Add,
        };
        let shape = [x.shape()[0].clone(), Expr::i64(1)];
        let mut rows =
            Rows { ensemble, x, scores: dtype, columns: HashMap::new(), passed: HashMap::new() };
        let mut columns = vec![];
        for trees in &self.0 {
            let score = rows.sum(cx, combine, trees)?;
            columns.push(cx.broadcast(&score, &shape)?);
        }
        cx.concat(&columns, 1)
    }
}

/// Rows of features, with the tensors that several tests share.
struct Rows<'a> {
    ensemble: &'a Ensemble,
    x: &'a Tensor,
    /// The type of weights.
    scores: DType,
    /// By feature, `[rows, 1]`.
    columns: HashMap<i64, Tensor>,
    /// By node, `[rows, 1]`.
    passed: HashMap<usize, Tensor>,
}

impl Rows<'_> {
    /// Combines trees by a tree reduction: each half is an expression of its own, which may fill a
    /// kernel.
    fn sum(
        &mut self,
        cx: &mut ImportContext,
        combine: Binary,
        trees: &[SelectTree],
    ) -> Result<Tensor> {
        match trees {
            [] => constant(self.scores, vec![], &[0.0]),
            [one] => self.selected(cx, one),
            _ => {
                let (low, high) = trees.split_at(trees.len() / 2);
                let (low, high) = (self.sum(cx, combine, low)?, self.sum(cx, combine, high)?);
                cx.binary(combine, &low, &high)
            }
        }
    }

    fn selected(&mut self, cx: &mut ImportContext, tree: &SelectTree) -> Result<Tensor> {
        match tree {
            SelectTree::Weight(weight) => constant(self.scores, vec![], &[*weight]),
            SelectTree::Select { node, on_true, on_false } => {
                let (on_true, on_false) =
                    (self.selected(cx, on_true)?, self.selected(cx, on_false)?);
                let passed = self.passed(cx, *node)?;
                cx.choose(&passed, &on_true, &on_false)
            }
        }
    }

    fn passed(&mut self, cx: &mut ImportContext, node: usize) -> Result<Tensor> {
        if let Some(known) = self.passed.get(&node) {
            return Ok(known.clone());
        }
        let feature = self.ensemble.features[node];
        let column = match self.columns.get(&feature) {
            Some(known) => known.clone(),
            None => cx.slice(self.x, 1, &feature.into(), &1.into())?,
        };
        self.columns.insert(feature, column.clone());
        let mut passed = match self.ensemble.tests[node] {
            Test::Compare(test) => {
                let threshold = [self.ensemble.thresholds[node]];
                cx.binary(test, &column, &constant(column.dtype(), vec![], &threshold)?)?
            }
            Test::Member { start, end } => {
                let mut found = cx.num(0.0, DType::BOOL)?;
                for member in &self.ensemble.members[start..end] {
                    let member = constant(column.dtype(), vec![], &[*member])?;
                    let equal = cx.binary(Binary::Equal, &column, &member)?;
                    found = cx.binary(Binary::Or, &found, &equal)?;
                }
                found
            }
            Test::Leaf => unreachable!("a select has a test"),
        };
        if self.ensemble.nan_true.get(node).is_some_and(|f| *f != 0) {
            let missing = cx.unary(Unary::IsNan, &column)?;
            passed = cx.binary(Binary::Or, &passed, &missing)?;
        }
        self.passed.insert(node, passed.clone());
        Ok(passed)
    }
}

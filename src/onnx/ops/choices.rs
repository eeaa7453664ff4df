//! Trees without addresses: every test of a tree is made, and chooses between what its two sides
//! give, from the leaves up. A vector of rows takes a comparison and a choice for each test, where a
//! walk takes four gathers for each level, which wait for those of the level before.

use std::collections::HashMap;
use std::ops::Range;

use reflex_graph::{Binary, Literal, ReduceKind, Unary};
use reflex_tir::Expr;

use super::trees::{Ensemble, Leaves, Test};
use crate::error::Result;
use crate::import::Cx;
use crate::value::Tensor;

/// Most tests of an ensemble: each is some instructions of a kernel.
const MOST: usize = 1024;
/// Most tests for each level that a row would walk, over all trees: a level takes as long as these.
const PER_LEVEL: usize = 16;

/// What a tree gives for one column.
#[derive(PartialEq)]
enum Choice {
    Weight(f32),
    Test { node: usize, yes: Box<Choice>, no: Box<Choice> },
}

impl Choice {
    /// From node `at` down. What both sides give alike needs no test.
    fn of(ensemble: &Ensemble, at: usize, weight: &dyn Fn(usize) -> f32) -> Choice {
        if ensemble.tests[at] == Test::Leaf {
            return Choice::Weight(weight(at));
        }
        let side = |next: &[i64]| Choice::of(ensemble, next[at] as usize, weight);
        let (yes, no) = (side(&ensemble.when_true), side(&ensemble.when_false));
        match (&yes, &no) {
            (Choice::Weight(a), Choice::Weight(b)) if a.to_bits() == b.to_bits() => yes,
            _ => Choice::Test { node: at, yes: Box::new(yes), no: Box::new(no) },
        }
    }

    fn tests(&self) -> usize {
        match self {
            Choice::Weight(_) => 0,
            Choice::Test { yes, no, .. } => 1 + yes.tests() + no.tests(),
        }
    }
}

/// For each column what every tree gives.
pub(super) struct Choices(Vec<Vec<Choice>>);

impl Choices {
    /// The choices of an ensemble, where they are worth it.
    pub fn of(ensemble: &Ensemble, leaves: &Leaves, columns: Range<usize>) -> Option<Choices> {
        // Before anything is written: each tree once for a column.
        let inner = ensemble.tests.iter().filter(|test| **test != Test::Leaf).count();
        let walked = ensemble.depth.saturating_mul(ensemble.roots.len());
        let few = inner <= MOST && inner <= PER_LEVEL * walked;
        if !few || columns.len() > MOST || columns.len() * ensemble.roots.len() > MOST {
            return None;
        }
        let column = |column: usize| {
            let weight = |leaf: usize| leaves.weight(leaf, column);
            let roots = ensemble.roots.iter();
            roots.map(|root| Choice::of(ensemble, *root as usize, &weight)).collect()
        };
        let choices: Vec<Vec<Choice>> = columns.map(column).collect();
        let tests: usize = choices.iter().flatten().map(Choice::tests).sum();
        (tests <= MOST).then_some(Choices(choices))
    }

    /// What the rows of `x` get from all trees, `[rows, columns]`.
    pub fn scores(
        &self,
        cx: &mut Cx,
        ensemble: &Ensemble,
        x: &Tensor,
        kind: ReduceKind,
    ) -> Result<Tensor> {
        let combine = match kind {
            ReduceKind::Min => Binary::Min,
            ReduceKind::Max => Binary::Max,
            _ => Binary::Add,
        };
        let shape = [x.shape()[0].clone(), Expr::i64(1)];
        let mut rows = Rows { ensemble, x, columns: HashMap::new(), passed: HashMap::new() };
        let mut columns = vec![];
        for trees in &self.0 {
            let score = rows.sum(cx, combine, trees)?;
            columns.push(cx.broadcast(&score, &shape)?);
        }
        cx.concat(&columns, 1)
    }
}

/// Rows of features, with what was made of them.
struct Rows<'a> {
    ensemble: &'a Ensemble,
    x: &'a Tensor,
    /// By feature, `[rows, 1]`.
    columns: HashMap<i64, Tensor>,
    /// By node, `[rows, 1]`.
    passed: HashMap<usize, Tensor>,
}

impl Rows<'_> {
    /// Trees combined by halves: each half is an expression of its own, which may fill a kernel.
    fn sum(&mut self, cx: &mut Cx, combine: Binary, trees: &[Choice]) -> Result<Tensor> {
        match trees {
            [] => Ok(number(0.0)),
            [one] => self.chosen(cx, one),
            _ => {
                let (low, high) = trees.split_at(trees.len() / 2);
                let (low, high) = (self.sum(cx, combine, low)?, self.sum(cx, combine, high)?);
                cx.binary(combine, &low, &high)
            }
        }
    }

    fn chosen(&mut self, cx: &mut Cx, choice: &Choice) -> Result<Tensor> {
        match choice {
            Choice::Weight(weight) => Ok(number(*weight)),
            Choice::Test { node, yes, no } => {
                let (yes, no) = (self.chosen(cx, yes)?, self.chosen(cx, no)?);
                let passed = self.passed(cx, *node)?;
                cx.choose(&passed, &yes, &no)
            }
        }
    }

    fn passed(&mut self, cx: &mut Cx, node: usize) -> Result<Tensor> {
        if let Some(known) = self.passed.get(&node) {
            return Ok(known.clone());
        }
        let Test::Compare(test) = self.ensemble.tests[node] else {
            unreachable!("a leaf is no choice")
        };
        let feature = self.ensemble.features[node];
        let column = match self.columns.get(&feature) {
            Some(known) => known.clone(),
            None => cx.slice(self.x, 1, &feature.into(), &1.into())?,
        };
        self.columns.insert(feature, column.clone());
        let threshold = cx.cast(&number(self.ensemble.thresholds[node]), column.dtype())?;
        let mut passed = cx.binary(test, &column, &threshold)?;
        if self.ensemble.nan_true.get(node).is_some_and(|f| *f != 0) {
            let missing = cx.unary(Unary::IsNan, &column)?;
            passed = cx.binary(Binary::Or, &passed, &missing)?;
        }
        self.passed.insert(node, passed.clone());
        Ok(passed)
    }
}

fn number(value: f32) -> Tensor {
    Tensor::literal(Literal::from_f32(vec![], &[value]))
}

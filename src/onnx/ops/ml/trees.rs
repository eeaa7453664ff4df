//! TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble.

use reflex_graph::{Binary, ReduceKind};
use reflex_tir::{DType, Expr};

use super::super::predicated_trees::LeafColumns;
use super::super::table::{Table, one};
use super::super::tree_ensemble::{Ensemble, Leaves, constant, doubles};
use super::features::numbers;
use super::scores::{FirstScore, Labels, PostTransform, best};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("TreeEnsemble", tree_ensemble),
    ("TreeEnsembleClassifier", tree_classifier),
    ("TreeEnsembleRegressor", tree_regressor),
];

/// Numbers that are added to the scores, one for each column.
struct Base(Vec<f64>);

impl Base {
    fn read(cx: &mut ImportContext, call: &Call) -> Result<Base> {
        let values = doubles(cx, call, "base_values", "base_values_as_tensor")?;
        Ok(Base(values.map_or(vec![], |(values, _)| values)))
    }

    fn added(&self, cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
        let (base, columns) = (&self.0, scores.shape()[1].as_int());
        if base.is_empty() {
            return Ok(scores.clone());
        }
        if columns != Some(base.len() as i64) {
            let message = format!("{} base values for scores {}", base.len(), scores.ty);
            return Err(unsupported(message));
        }
        cx.add(scores, &constant(scores.dtype(), vec![base.len() as i64], base)?)
    }
}

/// The rows of an input; a vector is one row.
fn features(cx: &mut ImportContext, call: &Call) -> Result<Tensor> {
    let x = numbers(call, 0)?;
    if x.rank() == 1 { cx.unsqueeze(x, &[0]) } else { Ok(x.clone()) }
}

/// The way in which the trees' results become one.
struct Aggregate {
    kind: ReduceKind,
    average: bool,
}

impl Aggregate {
    fn scores(
        &self,
        cx: &mut ImportContext,
        ensemble: &Ensemble,
        leaves: &Leaves,
        x: &Tensor,
    ) -> Result<Tensor> {
        let outputs = LeafColumns { leaves, columns: 0..leaves.columns };
        let scores = ensemble.scores(cx, x, &outputs, self.kind)?;
        match self.average {
            true => cx.binary_num(Binary::Div, &scores, ensemble.trees() as f64),
            false => Ok(scores),
        }
    }
}

fn tree_regressor(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ensemble = Ensemble::read(cx, call)?;
    let targets = call.int("n_targets", 1)?;
    let targets = usize::try_from(targets).ok().filter(|n| *n > 0);
    let targets = targets.ok_or_else(|| invalid("n_targets"))?;
    let names = [
        "target_ids",
        "target_nodeids",
        "target_treeids",
        "target_weights",
        "target_weights_as_tensor",
    ];
    let leaves = ensemble.leaves(cx, call, names, targets)?;
    let (kind, average) = match call.text("aggregate_function", "SUM")? {
        "SUM" => (ReduceKind::Sum, false),
        "AVERAGE" => (ReduceKind::Sum, true),
        "MIN" => (ReduceKind::Min, false),
        "MAX" => (ReduceKind::Max, false),
        other => return Err(invalid(format!("aggregate_function `{other}`"))),
    };
    let x = features(cx, call)?;
    let scores = Aggregate { kind, average }.scores(cx, &ensemble, &leaves, &x)?;
    let scores = Base::read(cx, call)?.added(cx, &scores)?;
    let scores = PostTransform::read(call)?.of_targets(cx, &scores)?;
    one(cx.cast(&scores, DType::F32)?)
}

fn tree_ensemble(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (ensemble, leaves) = Ensemble::read_trees(cx, call)?;
    let x = call.input(0)?;
    if x.dtype() != leaves.dtype {
        return Err(invalid(format!("rows {} and weights of {}", x.ty, leaves.dtype)));
    }
    let (kind, average) = match call.int("aggregate_function", 1)? {
        0 => (ReduceKind::Sum, true),
        1 => (ReduceKind::Sum, false),
        2 => (ReduceKind::Min, false),
        3 => (ReduceKind::Max, false),
        other => return Err(invalid(format!("aggregate_function {other}"))),
    };
    let post = match call.int("post_transform", 0)? {
        0 => PostTransform::None,
        1 => PostTransform::Softmax,
        2 => PostTransform::Logistic,
        3 => PostTransform::SoftmaxZero,
        4 => PostTransform::Probit,
        other => return Err(invalid(format!("post_transform {other}"))),
    };
    let scores = Aggregate { kind, average }.scores(cx, &ensemble, &leaves, x)?;
    one(post.of_targets(cx, &scores)?)
}

/// Labels and scores. Two labels with weights for one class only have one score, or that of the second
/// beside zero, which ONNX Runtime transforms differently.
fn tree_classifier(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let labels = Labels::read(call, "classlabels_int64s", "classlabels_strings")?;
    if labels.len() < 2 {
        return Err(unsupported("a classifier of one class"));
    }
    let ensemble = Ensemble::read(cx, call)?;
    let names =
        ["class_ids", "class_nodeids", "class_treeids", "class_weights", "class_weights_as_tensor"];
    let leaves = ensemble.leaves(cx, call, names, labels.len())?;
    let base = Base::read(cx, call)?;
    let post = PostTransform::read(call)?;
    let x = features(cx, call)?;
    let (label, scores) = match leaves.weighed.as_slice() {
        [true, false] if base.0.len() < 2 => {
            let outputs = LeafColumns { leaves: &leaves, columns: 0..1 };
            let score = ensemble.scores(cx, &x, &outputs, ReduceKind::Sum)?;
            let score = base.added(cx, &score)?;
            let label = second(cx, &labels, &leaves, &score)?;
            let rest = leaves.all_positive();
            let first = if rest { FirstScore::Rest } else { FirstScore::Opposite };
            (label, post.of_one(cx, &score, first)?)
        }
        [false, true] if base.0.len() < 2 => {
            let scores = ensemble.scores(cx, &x, &all_columns(&leaves), ReduceKind::Sum)?;
            let score = cx.slice(&scores, 1, &Expr::i64(1), &Expr::i64(1))?;
            (second(cx, &labels, &leaves, &score)?, post.of_classes(cx, &scores)?)
        }
        weighed => {
            let scores = ensemble.scores(cx, &x, &all_columns(&leaves), ReduceKind::Sum)?;
            let scores = base.added(cx, &scores)?;
            let candidates = match base.0.is_empty() {
                true => only_weighed(cx, &scores, weighed)?,
                false => scores.clone(),
            };
            let at = best(cx, &candidates)?;
            (labels.at(cx, &at)?, post.of_classes(cx, &scores)?)
        }
    };
    Ok(vec![label, OnnxValue::Tensor(cx.cast(&scores, DType::F32)?)])
}

fn all_columns(leaves: &Leaves) -> LeafColumns<'_> {
    LeafColumns { leaves, columns: 0..leaves.columns }
}

/// The second label where the one score is high: above a half where no weight is negative.
fn second(
    cx: &mut ImportContext,
    labels: &Labels,
    leaves: &Leaves,
    score: &Tensor,
) -> Result<OnnxValue> {
    let limit = if leaves.all_positive() { 0.5 } else { 0.0 };
    let positive = cx.binary_num(Binary::Greater, score, limit)?;
    let positive = cx.squeeze(&positive, &[1])?;
    labels.second_if(cx, &positive)
}

/// Scores of which those without any weight are lower than all others: no row has that class.
fn only_weighed(cx: &mut ImportContext, scores: &Tensor, weighed: &[bool]) -> Result<Tensor> {
    if weighed.iter().all(|w| *w) || weighed.iter().all(|w| !*w) {
        return Ok(scores.clone());
    }
    let penalty = |w: &bool| if *w { 0.0 } else { f64::NEG_INFINITY };
    let penalties: Vec<f64> = weighed.iter().map(penalty).collect();
    cx.add(scores, &constant(scores.dtype(), vec![weighed.len() as i64], &penalties)?)
}

//! The ai.onnx.ml domain, as far as converters of scikit-learn models use it around numbers.

use reflex_graph::{ArgReduceKind, Binary, GatherKind, Literal, Op, ReduceKind, Unary, dims};
use reflex_tir::DType;

use super::predicated_trees::LeafColumns;
use super::table::{Table, all, one};
use super::tree_ensemble::Ensemble;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("ArrayFeatureExtractor", extract_features),
    ("Binarizer", binarizer),
    ("Scaler", scaler),
    ("TreeEnsembleClassifier", tree_classifier),
    ("TreeEnsembleRegressor", tree_regressor),
];

fn vector(values: &[f32]) -> Tensor {
    Tensor::literal(Literal::from_f32(vec![values.len() as i64], values))
}

/// Elements of the last axis by their positions.
fn extract_features(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, at) = (call.input(0)?, call.input(1)?);
    let last = x.rank().checked_sub(1).ok_or_else(|| invalid("a scalar has no features"))?;
    let at = cx.reshape(at, &[dims::product(at.shape())])?;
    let at = cx.cast(&at, DType::I64)?;
    let found = cx.gather(GatherKind::Axis(last), x, &at)?;
    // Of a vector the result is a row.
    one(if last == 0 { cx.unsqueeze(&found, &[0])? } else { found })
}

/// 1 above the threshold, else 0.
fn binarizer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let threshold = cx.num(call.float("threshold", 0.0)?, x.dtype())?;
    let above = cx.binary(Binary::Greater, x, &threshold)?;
    one(cx.cast(&above, x.dtype())?)
}

/// `(x - offset) * scale`, per feature or for all.
fn scaler(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let mut x = cx.cast(call.input(0)?, DType::F32)?;
    let features = x.shape().last().and_then(|n| n.as_int());
    let fits = |list: &[f32]| list.len() == 1 || features.is_none_or(|n| n == list.len() as i64);
    for (name, f) in [("offset", Binary::Sub), ("scale", Binary::Mul)] {
        let Some(list) = call.floats(name)? else { continue };
        if !fits(list) {
            return Err(invalid(format!("`{name}` has {} elements", list.len())));
        }
        x = cx.binary(f, &x, &vector(list))?;
    }
    one(x)
}

fn with_base(
    cx: &mut ImportContext,
    call: &Call,
    scores: Tensor,
    columns: usize,
) -> Result<Tensor> {
    match call.floats("base_values")? {
        None | Some([]) => Ok(scores),
        Some(base) if base.len() == columns => cx.add(&scores, &vector(base)),
        Some(base) => Err(unsupported(format!("{} base values for {columns} scores", base.len()))),
    }
}

fn transformed(cx: &mut ImportContext, call: &Call, scores: Tensor) -> Result<Tensor> {
    match call.text("post_transform", "NONE")? {
        "NONE" => Ok(scores),
        "LOGISTIC" => cx.unary(Unary::Sigmoid, &scores),
        "SOFTMAX" => cx.op(Op::Softmax { axis: 1, log: false }, &[&scores]),
        other => Err(unsupported(format!("post_transform `{other}`"))),
    }
}

fn tree_regressor(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let ensemble = Ensemble::read(call)?;
    let targets = usize::try_from(call.int("n_targets", 1)?).map_err(|_| invalid("n_targets"))?;
    let names = ["target_ids", "target_nodeids", "target_treeids", "target_weights"];
    let leaves = ensemble.leaves(call, names, targets)?;
    let kind = match call.text("aggregate_function", "SUM")? {
        "SUM" | "AVERAGE" => ReduceKind::Sum,
        "MIN" => ReduceKind::Min,
        "MAX" => ReduceKind::Max,
        other => return Err(invalid(format!("aggregate_function `{other}`"))),
    };
    let outputs = LeafColumns { leaves: &leaves, columns: 0..targets };
    let mut scores = ensemble.scores(cx, call.input(0)?, &outputs, kind)?;
    if call.text("aggregate_function", "SUM")? == "AVERAGE" {
        scores = cx.binary_num(Binary::Div, &scores, ensemble.trees() as f64)?;
    }
    let scores = with_base(cx, call, scores, targets)?;
    one(transformed(cx, call, scores)?)
}

/// Labels and scores. With two labels and weights for one class only, those weights speak for
/// the second label, and the first one's score is what is left to 1 (weights of frequencies)
/// or the opposite (weights of either sign).
fn tree_classifier(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let labels = call.ints("classlabels_int64s")?;
    let labels = labels.filter(|l| l.len() > 1).ok_or_else(|| unsupported("such labels"))?;
    let ensemble = Ensemble::read(call)?;
    let ids = call.ints("class_ids")?.unwrap_or_default();
    let binary = labels.len() == 2 && ids.iter().all(|id| *id == ids[0]);
    let names = ["class_ids", "class_nodeids", "class_treeids", "class_weights"];
    let columns =
        if binary { 1 + ids.first().copied().unwrap_or(0) as usize } else { labels.len() };
    if columns > labels.len() {
        return Err(invalid("a class without a label"));
    }
    let leaves = ensemble.leaves(call, names, columns)?;
    let wanted = if binary { columns - 1..columns } else { 0..columns };
    let outputs = LeafColumns { leaves: &leaves, columns: wanted };
    let scores = ensemble.scores(cx, call.input(0)?, &outputs, ReduceKind::Sum)?;
    if !binary {
        let scores = with_base(cx, call, scores, columns)?;
        let best = Op::ArgReduce {
            kind: ArgReduceKind::Max,
            axis: 1,
            keep_dims: false,
            select_last: false,
        };
        let best = cx.op(best, &[&scores])?;
        let label = cx.take(&cx.ints(labels), &best, 0)?;
        return all(vec![label, transformed(cx, call, scores)?]);
    }
    let score = with_base(cx, call, scores, 1)?;
    let frequencies = leaves.all_positive();
    let limit = if frequencies { 0.5 } else { 0.0 };
    let limit = cx.num(limit, DType::F32)?;
    let positive = cx.binary(Binary::Greater, &score, &limit)?;
    let choices = [cx.num(labels[1] as f64, DType::I64)?, cx.num(labels[0] as f64, DType::I64)?];
    let label = cx.choose(&positive, &choices[0], &choices[1])?;
    let label = cx.squeeze(&label, &[1])?;
    let other = match frequencies {
        true => {
            let whole = cx.num(1.0, DType::F32)?;
            cx.sub(&whole, &score)?
        }
        false => cx.unary(Unary::Neg, &score)?,
    };
    let both = cx.concat(&[other, score], 1)?;
    if call.text("post_transform", "NONE")? != "NONE" && frequencies {
        return Err(unsupported("post_transform of frequencies"));
    }
    all(vec![label, transformed(cx, call, both)?])
}

//! LinearRegressor and LinearClassifier.

use reflex_graph::{Binary, Literal};

use super::super::table::{Table, one};
use super::features::{check_width, rows, vector};
use super::scores::{FirstScore, Labels, PostTransform, best};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table =
    &[("LinearClassifier", linear_classifier), ("LinearRegressor", linear_regressor)];

/// A constant matrix from a list of rows, transposed: `[columns, rows]`.
pub(super) fn columns_of(
    cx: &mut ImportContext,
    list: &[f32],
    rows: usize,
    what: &str,
) -> Result<Tensor> {
    if list.is_empty() || rows == 0 || !list.len().is_multiple_of(rows) {
        return Err(invalid(format!("{} {what} in {rows} rows", list.len())));
    }
    let shape = vec![rows as i64, (list.len() / rows) as i64];
    cx.transpose(&Tensor::literal(Literal::from_f32(shape, list)), &[1, 0])
}

/// `x` times the transposed coefficients, plus the intercepts, `[rows, targets]`.
fn scores(cx: &mut ImportContext, call: &Call, targets: usize) -> Result<Tensor> {
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let x = rows(cx, call)?;
    let w = columns_of(cx, coefficients, targets, "coefficients")?;
    check_width(cx, &x, coefficients.len() / targets)?;
    let scores = cx.matmul(&x, &w)?;
    match call.floats("intercepts")? {
        None | Some([]) => Ok(scores),
        Some(list) if list.len() == targets => cx.add(&scores, &vector(list)),
        Some(list) => Err(invalid(format!("{} intercepts for {targets} targets", list.len()))),
    }
}

fn linear_regressor(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let targets = call.int("targets", 1)?;
    let targets = usize::try_from(targets).map_err(|_| invalid(format!("{targets} targets")))?;
    let scores = scores(cx, call, targets)?;
    one(PostTransform::read(call)?.of_targets(cx, &scores)?)
}

/// The number of scores is that of the intercepts; with one for two labels, it is the second's.
fn linear_classifier(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    call.ignore(&["multi_class"]);
    let labels = Labels::read(call, "classlabels_ints", "classlabels_strings")?;
    let intercepts = call.floats("intercepts")?.map_or(0, <[f32]>::len);
    let targets = if intercepts == 0 { labels.len() } else { intercepts };
    let post = PostTransform::read(call)?;
    let scores = scores(cx, call, targets)?;
    if targets == 1 && labels.len() == 2 {
        let positive = cx.binary_num(Binary::Greater, &scores, 0.0)?;
        let positive = cx.squeeze(&positive, &[1])?;
        let label = labels.second_if(cx, &positive)?;
        let both = post.of_one(cx, &scores, FirstScore::Rest)?;
        return Ok(vec![label, OnnxValue::Tensor(both)]);
    }
    if targets != labels.len() || targets < 2 {
        return Err(invalid(format!("{targets} scores for {} labels", labels.len())));
    }
    let at = best(cx, &scores)?;
    let label = labels.at(cx, &at)?;
    Ok(vec![label, OnnxValue::Tensor(post.of_classes(cx, &scores)?)])
}

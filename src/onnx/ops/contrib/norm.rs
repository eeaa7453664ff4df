//! Normalisations over the last axis, of a sum with a residual or of embeddings.

use reflex_graph::Op;

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, unsupported};
use crate::ops::norm::root_mean_square;
use crate::ops::table::{Table, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("SkipLayerNormalization", |cx, call| {
        skip(cx, call, 4, |cx, x, epsilon| {
            let args: Vec<&Tensor> =
                [Some(x), Some(call.input(2)?), call.opt(3)?].into_iter().flatten().collect();
            cx.op(Op::LayerNorm { axis: last_axis(x)?, epsilon }, &args)
        })
    }),
    ("SkipSimplifiedLayerNormalization", |cx, call| {
        skip(cx, call, 3, |cx, x, epsilon| {
            root_mean_square(cx, x, &[last_axis(x)?], call.input(2)?, epsilon)
        })
    }),
];

/// RMS normalisation under the name that ONNX Runtime's exporters give it, in the default domain.
pub(super) const SIMPLIFIED: Table = &[("SimplifiedLayerNormalization", simplified)];

pub(super) fn last_axis(x: &Tensor) -> Result<usize> {
    x.rank().checked_sub(1).ok_or_else(|| unsupported("a scalar input"))
}

fn simplified(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    call.ignore(&["stash_type"]);
    if call.axis("axis", -1, x.rank())? != last_axis(x)? {
        return Err(unsupported("an axis other than the last"));
    }
    one(root_mean_square(cx, x, &[last_axis(x)?], call.input(1)?, epsilon)?)
}

/// The normalised sum of input, skip and bias (input `bias_at`), and, as output 3, that sum.
fn skip(
    cx: &mut ImportContext,
    call: &Call,
    bias_at: usize,
    norm: impl FnOnce(&mut ImportContext, &Tensor, f64) -> Result<Tensor>,
) -> Result<Vec<OnnxValue>> {
    let epsilon = call.float("epsilon", 1e-5)?;
    if call.wants(1) || call.wants(2) {
        return Err(unsupported("outputs `mean` and `inv_std_var`, which training alone reads"));
    }
    let mut sum = cx.add(call.input(0)?, call.input(1)?)?;
    if let Some(bias) = call.opt(bias_at)? {
        sum = cx.add(&sum, bias)?;
    }
    let normal = norm(cx, &sum, epsilon)?;
    let unused = OnnxValue::Absent;
    let (normal, sum) = (OnnxValue::Tensor(normal), OnnxValue::Tensor(sum));
    Ok(vec![normal, unused.clone(), unused, sum])
}

//! Class labels and post transforms, which classifiers and regressors have in common.

use std::f64::consts::{PI, SQRT_2};

use reflex_graph::{ArgReduceKind, Binary, Op, ReduceKind, Unary};
use reflex_tir::DType;

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::strings;
use crate::value::{OnnxValue, Tensor};

/// The labels of classes, in the order of the scores' columns.
pub(super) enum Labels<'a> {
    Ints(&'a [i64]),
    Strings(Vec<&'a str>),
}

impl<'a> Labels<'a> {
    /// Reads one of two attributes; exactly one has labels.
    pub fn read(call: &Call<'a>, ints: &'static str, texts: &'static str) -> Result<Labels<'a>> {
        let numbers = call.ints(ints)?.filter(|l| !l.is_empty());
        let words = call.texts(texts)?.filter(|l| !l.is_empty());
        match (numbers, words) {
            (Some(numbers), None) => Ok(Labels::Ints(numbers)),
            (None, Some(words)) => Ok(Labels::Strings(words)),
            _ => Err(invalid(format!("either `{ints}` or `{texts}` has to hold labels"))),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Strings(labels) => labels.len(),
        }
    }

    /// All of them as a tensor.
    pub fn table(&self, cx: &ImportContext) -> Result<OnnxValue> {
        Ok(match self {
            Labels::Ints(labels) => OnnxValue::Tensor(cx.ints(labels)),
            Labels::Strings(labels) => OnnxValue::Strings(strings::constant(labels)?),
        })
    }

    /// The labels at class indices that are in range.
    pub fn at(&self, cx: &mut ImportContext, index: &Tensor) -> Result<OnnxValue> {
        Ok(match self.table(cx)? {
            OnnxValue::Strings(table) => OnnxValue::Strings(cx.take(&table, index, 0)?),
            OnnxValue::Tensor(table) => OnnxValue::Tensor(cx.take(&table, index, 0)?),
            other => other,
        })
    }

    /// The second of two labels where a condition holds, else the first.
    pub fn second_if(&self, cx: &mut ImportContext, condition: &Tensor) -> Result<OnnxValue> {
        let index = cx.cast(condition, DType::I64)?;
        self.at(cx, &index)
    }
}

/// The column of the highest score of each row, the first of equal ones.
pub(super) fn best(cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
    let (kind, axis) = (ArgReduceKind::Max, 1);
    cx.op(Op::ArgReduce { kind, axis, keep_dims: false, select_last: false }, &[scores])
}

/// A function of the scores of a row.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PostTransform {
    None,
    Logistic,
    Softmax,
    /// Softmax of which zeros are no part.
    SoftmaxZero,
    Probit,
}

impl PostTransform {
    /// Reads the attribute.
    pub fn read(call: &Call) -> Result<PostTransform> {
        Ok(match call.text("post_transform", "NONE")? {
            "NONE" => PostTransform::None,
            "LOGISTIC" => PostTransform::Logistic,
            "SOFTMAX" => PostTransform::Softmax,
            "SOFTMAX_ZERO" => PostTransform::SoftmaxZero,
            "PROBIT" => PostTransform::Probit,
            other => return Err(invalid(format!("post_transform `{other}`"))),
        })
    }

    /// Of several scores a row.
    pub fn of_classes(self, cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
        match self {
            PostTransform::None => Ok(scores.clone()),
            PostTransform::Logistic => cx.unary(Unary::Sigmoid, scores),
            PostTransform::Softmax => cx.op(Op::Softmax { axis: 1, log: false }, &[scores]),
            PostTransform::SoftmaxZero => softmax_zero(cx, scores),
            PostTransform::Probit => probit(cx, scores),
        }
    }

    /// Of the targets of a regression: of a single one only PROBIT has an effect.
    pub fn of_targets(self, cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
        let single = scores.shape()[1].as_int() == Some(1);
        if single && self != PostTransform::Probit {
            return Ok(scores.clone());
        }
        self.of_classes(cx, scores)
    }

    /// Scores of two classes from the second one's, `[rows, 1]`. The first one's is what is left to 1,
    /// or the opposite.
    pub fn of_one(
        self,
        cx: &mut ImportContext,
        score: &Tensor,
        first: FirstScore,
    ) -> Result<Tensor> {
        let opposite = cx.unary(Unary::Neg, score)?;
        let both = match (self, first) {
            (PostTransform::Probit, _) => {
                return Err(unsupported("post_transform PROBIT of one score for two classes"));
            }
            (PostTransform::Logistic, _) => {
                let both = cx.concat(&[opposite, score.clone()], 1)?;
                return cx.unary(Unary::Sigmoid, &both);
            }
            (_, FirstScore::Opposite) => opposite,
            (_, FirstScore::Rest) => {
                let whole = cx.num(1.0, score.dtype())?;
                cx.sub(&whole, score)?
            }
        };
        cx.concat(&[both, score.clone()], 1)
    }
}

/// The score of the first of two classes where only the second has one.
#[derive(Clone, Copy)]
pub(super) enum FirstScore {
    /// `1 - score`
    Rest,
    /// `-score`
    Opposite,
}

fn softmax_zero(cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
    let highest = cx.reduce_keep_dims(ReduceKind::Max, scores, &[1])?;
    let size = cx.unary(Unary::Abs, scores)?;
    let counts = cx.binary_num(Binary::Greater, &size, f64::from(1e-7_f32))?;
    let shifted = cx.sub(scores, &highest)?;
    let power = cx.unary(Unary::Exp, &shifted)?;
    let zero = cx.num(0.0, scores.dtype())?;
    let counted = cx.choose(&counts, &power, &zero)?;
    let sum = cx.reduce_keep_dims(ReduceKind::Sum, &counted, &[1])?;
    let lowest = cx.unary(Unary::Neg, &highest)?;
    let lowest = cx.unary(Unary::Exp, &lowest)?;
    let small = cx.mul(scores, &lowest)?;
    let each = cx.choose(&counts, &power, &small)?;
    cx.div(&each, &sum)
}

/// The quantile function of the normal distribution, by Winitzki's approximation of the inverse error
/// function, as ONNX Runtime computes it.
fn probit(cx: &mut ImportContext, scores: &Tensor) -> Result<Tensor> {
    let a = f64::from(0.147_f32);
    let twice = cx.binary_num(Binary::Mul, scores, 2.0)?;
    let x = cx.binary_num(Binary::Sub, &twice, 1.0)?;
    let whole = cx.num(1.0, x.dtype())?;
    let (below, above) = (cx.sub(&whole, &x)?, cx.add(&whole, &x)?);
    let product = cx.mul(&below, &above)?;
    let log = cx.unary(Unary::Log, &product)?;
    let half = cx.binary_num(Binary::Mul, &log, 0.5)?;
    let v = cx.binary_num(Binary::Add, &half, 2.0 / (PI * a))?;
    let v2 = cx.binary_num(Binary::Mul, &log, 1.0 / a)?;
    let square = cx.mul(&v, &v)?;
    let inner = cx.sub(&square, &v2)?;
    let root = cx.unary(Unary::Sqrt, &inner)?;
    let v3 = cx.sub(&root, &v)?;
    let size = cx.unary(Unary::Sqrt, &v3)?;
    let negative = cx.binary_num(Binary::Less, &x, 0.0)?;
    let opposite = cx.unary(Unary::Neg, &size)?;
    let inverse = cx.choose(&negative, &opposite, &size)?;
    cx.binary_num(Binary::Mul, &inverse, SQRT_2)
}

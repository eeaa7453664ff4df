//! Support vector machines: SVMRegressor and SVMClassifier, in libsvm's form (support vectors) and
//! liblinear's (coefficients alone).

use reflex_graph::{Binary, Literal, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::super::table::{Table, one};
use super::coupling;
use super::features::{check_width, rows, vector};
use super::linear::columns_of;
use super::scores::{FirstScore, Labels, PostTransform, best};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table =
    &[("SVMClassifier", svm_classifier), ("SVMRegressor", svm_regressor)];

/// Most classes that vote in pairs: each pair is some operators.
const MAX_CLASSES: usize = 256;

/// A kernel function with its parameters.
enum Kernel {
    Linear,
    Poly { gamma: f32, coef0: f32, degree: f32 },
    Rbf { gamma: f32 },
    Sigmoid { gamma: f32, coef0: f32 },
}

impl Kernel {
    fn read(call: &Call) -> Result<Kernel> {
        let params = call.floats("kernel_params")?.unwrap_or_default();
        let (gamma, coef0, degree) = match params {
            [] => (0.0, 0.0, 0.0),
            [gamma, coef0, degree] => (*gamma, *coef0, *degree),
            _ => return Err(invalid(format!("{} kernel_params, not 3", params.len()))),
        };
        Ok(match call.text("kernel_type", "LINEAR")? {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Poly { gamma, coef0, degree },
            "RBF" => Kernel::Rbf { gamma },
            "SIGMOID" => Kernel::Sigmoid { gamma, coef0 },
            other => return Err(invalid(format!("kernel_type `{other}`"))),
        })
    }

    /// The kernel function of each row of `x` with each of `count` vectors, `[rows, count]`.
    fn of(
        &self,
        cx: &mut ImportContext,
        x: &Tensor,
        vectors: &[f32],
        count: usize,
    ) -> Result<Tensor> {
        let w = columns_of(cx, vectors, count, "support_vectors")?;
        let width = vectors.len() / count;
        check_width(cx, x, width)?;
        if let Kernel::Rbf { gamma } = self {
            let shape = vec![1, count as i64, width as i64];
            let vectors = Tensor::literal(Literal::from_f32(shape, vectors));
            let x = cx.unsqueeze(x, &[1])?;
            let distance = cx.sub(&x, &vectors)?;
            let square = cx.mul(&distance, &distance)?;
            let sum = cx.reduce(ReduceKind::Sum, &square, &[2])?;
            let exponent = cx.binary_num(Binary::Mul, &sum, f64::from(-gamma))?;
            return cx.unary(Unary::Exp, &exponent);
        }
        let product = cx.matmul(x, &w)?;
        let affine = |cx: &mut ImportContext, gamma: f32, coef0: f32| {
            let scaled = cx.binary_num(Binary::Mul, &product, f64::from(gamma))?;
            cx.binary_num(Binary::Add, &scaled, f64::from(coef0))
        };
        match self {
            Kernel::Linear | Kernel::Rbf { .. } => Ok(product),
            Kernel::Sigmoid { gamma, coef0 } => {
                let inner = affine(cx, *gamma, *coef0)?;
                cx.unary(Unary::Tanh, &inner)
            }
            Kernel::Poly { gamma, coef0, degree } => {
                let inner = affine(cx, *gamma, *coef0)?;
                let square = cx.mul(&inner, &inner)?;
                match *degree {
                    2.0 => Ok(square),
                    3.0 => cx.mul(&square, &inner),
                    degree => cx.binary_num(Binary::Pow, &inner, f64::from(degree)),
                }
            }
        }
    }
}

/// A list attribute that has to hold something.
fn list<'a>(call: &Call<'a>, name: &'static str) -> Result<&'a [f32]> {
    let found = call.floats(name)?.filter(|l| !l.is_empty());
    found.ok_or_else(|| invalid(format!("`{name}` is missing")))
}

fn svm_regressor(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let kernel = Kernel::read(call)?;
    // A machine has one target, for which only PROBIT would have a meaning; it is not applied.
    PostTransform::read(call)?;
    let (coefficients, rho) = (list(call, "coefficients")?, list(call, "rho")?);
    let vectors = call.floats("support_vectors")?.unwrap_or_default();
    let count = call.int("n_supports", 0)?;
    let count = usize::try_from(count).map_err(|_| invalid(format!("{count} supports")))?;
    let x = rows(cx, call)?;
    let score = match count {
        0 => Kernel::Linear.of(cx, &x, coefficients, 1)?,
        _ if coefficients.len() == count => {
            let kernels = kernel.of(cx, &x, vectors, count)?;
            let weights = columns_of(cx, coefficients, 1, "coefficients")?;
            cx.matmul(&kernels, &weights)?
        }
        _ => {
            let message = format!("{} coefficients for {count} supports", coefficients.len());
            return Err(invalid(message));
        }
    };
    let score = cx.binary_num(Binary::Add, &score, f64::from(rho[0]))?;
    if !call.flag("one_class")? {
        return one(score);
    }
    let inside = cx.binary_num(Binary::Greater, &score, 0.0)?;
    let (yes, no) = (cx.num(1.0, DType::F32)?, cx.num(-1.0, DType::F32)?);
    one(cx.choose(&inside, &yes, &no)?)
}

fn svm_classifier(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let labels = Labels::read(call, "classlabels_ints", "classlabels_strings")?;
    let per_class = call.ints("vectors_per_class")?.unwrap_or_default();
    let post = PostTransform::read(call)?;
    if per_class.iter().all(|n| *n == 0) {
        return linear_machine(cx, call, &labels, post);
    }
    let pairs = Pairs::read(call, per_class, labels.len())?;
    let kernel = Kernel::read(call)?;
    let x = rows(cx, call)?;
    let vectors = list(call, "support_vectors")?;
    let kernels = kernel.of(cx, &x, vectors, pairs.vectors)?;
    let decisions = pairs.decisions(cx, &kernels, list(call, "rho")?)?;
    let votes = pairs.votes(cx, &decisions)?;
    let at = best(cx, &votes)?;
    let label = labels.at(cx, &at)?;
    let (a, b) = (call.floats("prob_a")?, call.floats("prob_b")?);
    let scores = match (a.unwrap_or_default(), b.unwrap_or_default()) {
        ([], []) if pairs.classes > 2 => post.of_classes(cx, &decisions)?,
        ([], []) => {
            let plain = post == PostTransform::None;
            let first = if plain { FirstScore::Opposite } else { FirstScore::Rest };
            post.of_one(cx, &decisions, first)?
        }
        (a, b) if a.len() == pairs.count() && b.len() == pairs.count() => {
            let probabilities = coupling::probabilities(cx, &decisions, a, b, pairs.classes)?;
            post.of_classes(cx, &probabilities)?
        }
        (a, b) => {
            let message =
                format!("{} prob_a, {} prob_b, {} pairs", a.len(), b.len(), pairs.count());
            return Err(invalid(message));
        }
    };
    Ok(vec![label, OnnxValue::Tensor(scores)])
}

/// liblinear's form: a row of coefficients for each class.
fn linear_machine(
    cx: &mut ImportContext,
    call: &Call,
    labels: &Labels,
    post: PostTransform,
) -> Result<Vec<OnnxValue>> {
    call.ignore(&["kernel_type", "kernel_params", "prob_a", "prob_b", "support_vectors"]);
    let (coefficients, rho) = (list(call, "coefficients")?, list(call, "rho")?);
    let x = rows(cx, call)?;
    let scores = Kernel::Linear.of(cx, &x, coefficients, labels.len())?;
    let scores = cx.binary_num(Binary::Add, &scores, f64::from(rho[0]))?;
    let mut at = best(cx, &scores)?;
    let proba = call.floats("prob_a")?.is_some_and(|p| !p.is_empty());
    if labels.len() == 2 && !proba {
        // Of two classes the second is taken as soon as any score is high enough.
        let highest = cx.reduce(ReduceKind::Max, &scores, &[1])?;
        let high = match coefficients.iter().all(|w| *w >= 0.0) {
            true => cx.binary_num(Binary::GreaterEqual, &highest, 0.5)?,
            false => cx.binary_num(Binary::Greater, &highest, 0.0)?,
        };
        let second = cx.num(1.0, DType::I64)?;
        at = cx.choose(&high, &second, &at)?;
    }
    let label = labels.at(cx, &at)?;
    Ok(vec![label, OnnxValue::Tensor(post.of_classes(cx, &scores)?)])
}

/// Machines that compare two classes each: (0, 1), (0, 2), ..., (1, 2), ...
struct Pairs<'a> {
    classes: usize,
    /// Support vectors, those of a class after those of the one before.
    vectors: usize,
    /// Where the vectors of each class start and end.
    of_class: Vec<std::ops::Range<usize>>,
    /// `[classes - 1, vectors]`: weights of a vector against each other class.
    coefficients: &'a [f32],
}

impl<'a> Pairs<'a> {
    fn read(call: &Call<'a>, per_class: &[i64], classes: usize) -> Result<Pairs<'a>> {
        if per_class.len() != classes || classes < 2 {
            let have = per_class.len();
            return Err(invalid(format!("{have} vectors_per_class for {classes} labels")));
        }
        if classes > MAX_CLASSES {
            return Err(unsupported(format!("more than {MAX_CLASSES} classes")));
        }
        let coefficients = list(call, "coefficients")?;
        let mut of_class = vec![];
        let mut vectors = 0usize;
        for count in per_class {
            let end = usize::try_from(*count).ok().and_then(|n| vectors.checked_add(n));
            let end = end.filter(|end| *end <= coefficients.len());
            let end = end.ok_or_else(|| invalid(format!("{count} vectors of a class")))?;
            of_class.push(vectors..end);
            vectors = end;
        }
        if vectors.checked_mul(classes - 1) != Some(coefficients.len()) {
            let have = coefficients.len();
            return Err(invalid(format!("{have} coefficients for {vectors} vectors")));
        }
        Ok(Pairs { classes, vectors, of_class, coefficients })
    }

    fn each(&self) -> impl Iterator<Item = (usize, usize)> {
        let classes = self.classes;
        (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)))
    }

    fn count(&self) -> usize {
        self.classes * (self.classes - 1) / 2
    }

    /// Decision values, `[rows, pairs]`: above zero speaks for the first class of a pair.
    fn decisions(&self, cx: &mut ImportContext, kernels: &Tensor, rho: &[f32]) -> Result<Tensor> {
        if rho.len() != self.count() {
            return Err(invalid(format!("{} rho for {} pairs", rho.len(), self.count())));
        }
        let cells = self.vectors.checked_mul(self.count()).filter(|n| *n <= 1 << 26);
        let mut table = vec![0.0; cells.ok_or_else(|| unsupported("that many support vectors"))?];
        for (pair, (i, j)) in self.each().enumerate() {
            for (class, row) in [(i, j - 1), (j, i)] {
                for vector in self.of_class[class].clone() {
                    table[vector * self.count() + pair] =
                        self.coefficients[row * self.vectors + vector];
                }
            }
        }
        let shape = vec![self.vectors as i64, self.count() as i64];
        let weights = Tensor::literal(Literal::from_f32(shape, &table));
        let sums = cx.matmul(kernels, &weights)?;
        cx.add(&sums, &vector(rho))
    }

    /// The votes for each class, `[rows, classes]`.
    fn votes(&self, cx: &mut ImportContext, decisions: &Tensor) -> Result<Tensor> {
        let first = cx.binary_num(Binary::Greater, decisions, 0.0)?;
        let first = cx.cast(&first, DType::F32)?;
        // A vote for the first class is none for the second, which has one to begin with.
        let mut table = vec![0.0; self.count() * self.classes];
        let mut start = vec![0.0; self.classes];
        for (pair, (i, j)) in self.each().enumerate() {
            table[pair * self.classes + i] = 1.0;
            table[pair * self.classes + j] = -1.0;
            start[j] += 1.0;
        }
        let shape = vec![self.count() as i64, self.classes as i64];
        let counts = cx.matmul(&first, &Tensor::literal(Literal::from_f32(shape, &table)))?;
        let shape = [decisions.shape()[0].clone(), Expr::i64(self.classes as i64)];
        let votes = cx.add(&counts, &vector(&start))?;
        cx.broadcast(&votes, &shape)
    }
}

//! The products and the softmax of an attention, from its stages.

use reflex_tir::{BinOp, Buffer, Expr, ExprKind, Intrin, Var};

use crate::schedule::attention::AttentionChain;
use crate::schedule::core::affine::{mentions, same};
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::stage::{Axis, Stage, loads_of};

/// `softmax(score(q @ k)) @ v`, over axes that all parts share.
pub struct Pattern {
    /// Axes that choose matrices: batch, head.
    pub batch: Vec<Axis>,
    /// Rows of queries and of results.
    pub row: Axis,
    /// Keys and values.
    pub key: Axis,
    /// Elements of a query and of a key.
    pub depth: Axis,
    /// Elements of a value and of a result.
    pub column: Axis,
    /// An element of the queries over row and depth.
    pub q: Expr,
    /// An element of the keys over key and depth.
    pub k: Expr,
    /// An element of the values over key and column.
    pub v: Expr,
    /// The score that is made of a product before the softmax, over row and key.
    score: Expr,
    products: Buffer,
    /// The product with values, over batch, row and column.
    pub result: Stage,
}

impl Pattern {
    /// The pattern of a chain, or what it has instead.
    pub fn of(chain: &AttentionChain) -> Result<Pattern, Refusal> {
        let [scores, max, exp, sum, normalize, result, ..] = &chain.stages[..] else {
            return Err(Refusal::NoSoftmax);
        };
        let leading = chain.depth - 1;
        let axes = |stage: &Stage, spatial: usize, reduce: usize| {
            stage.spatial.len() == leading + spatial && stage.reduce.len() == reduce
        };
        if !axes(scores, 2, 1)
            || !axes(max, 1, 1)
            || !axes(exp, 2, 0)
            || !axes(sum, 1, 1)
            || !axes(normalize, 2, 0)
            || !axes(result, 2, 1)
        {
            return Err(Refusal::NoSoftmax);
        }
        let (batch, row) = (scores.spatial[..leading].to_vec(), scores.spatial[leading].clone());
        let (key, depth) = (scores.spatial[leading + 1].clone(), scores.reduce[0].clone());
        // Stages over the axes of the scores.
        let own: Vec<Var> = scores.spatial_vars();
        let over = |stage: &Stage| {
            let vars: Vec<Var> = stage.spatial.iter().chain(&stage.reduce).map(|a| a.var).collect();
            stage.value.substitute(&|v| {
                let at = vars.iter().position(|x| *x == v)?;
                own.get(at).map(|v| Expr::var(*v))
            })
        };
        if !same(&max.reduce[0].extent, &key.extent) || !same(&result.reduce[0].extent, &key.extent)
        {
            return Err(Refusal::NoSoftmax);
        }
        let score = largest(max, &over(max)).ok_or(Refusal::NoSoftmax)?;
        let is_softmax = over(exp) == exponential(max, &score, &over(exp))?
            && sums(sum, exp)
            && is_quotient(&normalize.value, exp.buffer, sum.buffer);
        let last = |at: &[Expr]| at.len() == leading + 2 && key.is_index(&at[leading + 1]);
        if !is_softmax || !loads_of(&score, scores.buffer).iter().all(|at| last(at)) {
            return Err(Refusal::NoSoftmax);
        }
        let (q, k) = factors(&scores.value, key.var)?;
        // The product with values has its own column, and keys where the scores have them.
        let column = result.spatial[leading + 1].clone();
        let vars: Vec<Var> = result.spatial[..=leading].iter().map(|axis| axis.var).collect();
        let keys = result.reduce[0].var;
        let mut result = result.substitute(&|v| {
            if v == keys {
                return Some(key.var.into());
            }
            Some(own[vars.iter().position(|x| *x == v)?].into())
        });
        result.spatial = batch.iter().chain([&row, &column]).cloned().collect();
        let (weights, v) = factors(&result.value, column.var)?;
        if !matches!(uncast(&weights).kind(), ExprKind::Load { buffer, .. } if *buffer == normalize.buffer)
            || mentions(&v, row.var)
            || mentions(&k, row.var)
        {
            return Err(Refusal::NotSeparable);
        }
        let products = scores.buffer;
        Ok(Pattern { batch, row, key, depth, column, q, k, v, score, products, result })
    }

    /// The score that is made of a product at a row and a key.
    pub fn score(&self, product: &Expr, row: &Expr, key: &Expr) -> Expr {
        let score = self.score.substitute(&|v| match v {
            v if v == self.row.var => Some(row.clone()),
            v if v == self.key.var => Some(key.clone()),
            _ => None,
        });
        score.replace_loads(self.products, &mut |_, _| product.clone())
    }

    /// Whether a score depends on its row or key, and not on its product alone.
    pub fn is_masked(&self) -> bool {
        let zero = |_: &[Expr], dtype| Expr::constant(0.0, dtype);
        let alone = self.score.replace_loads(self.products, &mut |at, dtype| zero(at, dtype));
        mentions(&alone, self.row.var) || mentions(&alone, self.key.var)
    }
}

/// Without conversions.
pub fn uncast(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Cast { value, .. } => uncast(value),
        _ => e,
    }
}

/// The factors of a sum of products; the second one has the axis.
fn factors(value: &Expr, axis: Var) -> Result<(Expr, Expr), Refusal> {
    let ExprKind::Call { op: Intrin::Fma, args, .. } = value.kind() else {
        return Err(Refusal::NoContraction);
    };
    match (mentions(&args[0], axis), mentions(&args[1], axis)) {
        (false, true) => Ok((args[0].clone(), args[1].clone())),
        (true, false) => Ok((args[1].clone(), args[0].clone())),
        _ => Err(Refusal::NotSeparable),
    }
}

/// The elements of which a stage takes the largest.
fn largest(stage: &Stage, value: &Expr) -> Option<Expr> {
    let lowest = Expr::float(f64::NEG_INFINITY, value.dtype());
    let ExprKind::Binary { op: BinOp::Max, a, b } = value.kind() else { return None };
    let own = is_load(a, stage.buffer) && loads_of(b, stage.buffer).is_empty();
    (own && stage.init.as_ref() == Some(&lowest)).then(|| b.clone())
}

/// `exp(score - max)` with the maximum as the stage reads it.
fn exponential(max: &Stage, score: &Expr, value: &Expr) -> Result<Expr, Refusal> {
    let found = loads_of(value, max.buffer);
    let [at] = &found[..] else { return Err(Refusal::NoSoftmax) };
    let max = Expr::load(max.buffer, at.clone(), score.dtype());
    Ok(Expr::call(Intrin::Exp, vec![score.clone() - max]))
}

/// Whether a stage sums the exponentials.
fn sums(sum: &Stage, exp: &Stage) -> bool {
    let zero = sum.init.as_ref().and_then(Expr::as_float) == Some(0.0);
    let ExprKind::Binary { op: BinOp::Add, a, b } = sum.value.kind() else { return false };
    zero && is_load(a, sum.buffer) && is_load(b, exp.buffer)
}

/// Whether a value is an exponential over the sum, perhaps rounded.
fn is_quotient(value: &Expr, exp: Buffer, sum: Buffer) -> bool {
    let ExprKind::Binary { op: BinOp::Div, a, b } = uncast(value).kind() else { return false };
    is_load(a, exp) && is_load(b, sum)
}

fn is_load(e: &Expr, from: Buffer) -> bool {
    matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == from)
}

//! Matrix multiplication: MatMul, Gemm and Einsum.

use reflex_graph::{Binary, ReduceKind, dims};
use reflex_tir::Expr;

use super::integer_products::{dequantised_matmul, transposed};
use super::packed_weights::dequantised_columns;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("Einsum", einsum),
    ("Gemm", gemm),
    ("MatMul", |cx, call| one(product(cx, call.input(0)?, call.input(1)?)?)),
];

/// A matrix multiplication, of the operands' integers where both are dequantised. Constant weights that alone are, stay codes.
fn product(cx: &mut ImportContext, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match dequantised_matmul(cx, a, b)? {
        Some(product) => Ok(product),
        None => {
            let codes = b.dequantised.as_deref().and_then(dequantised_columns);
            cx.matmul(a, codes.as_ref().unwrap_or(b))
        }
    }
}

fn gemm(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(gemm_of(cx, call)?)
}

/// `alpha * a * b + beta * c` with the call's attributes.
pub(super) fn gemm_of(cx: &mut ImportContext, call: &Call) -> Result<Tensor> {
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    // Opset 6 asked for the broadcasting that is the rule since.
    call.ignore(&["broadcast"]);
    let mut operands = vec![];
    for (index, name) in [(0, "transA"), (1, "transB")] {
        let x = call.input(index)?;
        if x.rank() != 2 {
            return Err(invalid(format!("input {index} has rank {}", x.rank())));
        }
        operands.push(if call.flag(name)? { transposed(cx, x)? } else { x.clone() });
    }
    let mut result = product(cx, &operands[0], &operands[1])?;
    if alpha != 1.0 {
        result = cx.binary_num(Binary::Mul, &result, alpha)?;
    }
    match call.opt(2)? {
        Some(c) if beta != 0.0 => {
            let c = if beta == 1.0 { c.clone() } else { cx.binary_num(Binary::Mul, c, beta)? };
            cx.add(&result, &c)
        }
        _ => Ok(result),
    }
}

/// An operand with one label per axis.
struct Labelled {
    x: Tensor,
    labels: Vec<Label>,
}

/// A letter, or an axis that an ellipsis covers, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

fn einsum(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let equation: String = call.text("equation", "")?.split_whitespace().collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let inputs = call.tensors()?;
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != inputs.len() {
        return Err(invalid(format!("equation `{equation}` for {} inputs", inputs.len())));
    }
    let mut operands = vec![];
    for (x, term) in inputs.into_iter().zip(terms) {
        let labels = labels(term, Some(x.rank()))?;
        operands.push(diagonal(cx, Labelled { x, labels })?);
    }
    let output = match right {
        Some(right) => {
            let covered = operands.iter().flat_map(|o| &o.labels).filter_map(|l| match l {
                Label::Ellipsis(i) => Some(i + 1),
                Label::Letter(_) => None,
            });
            let width = covered.max().unwrap_or(0);
            let letters = right.replace("...", "").len();
            labels(right, Some(letters + if right.contains("...") { width } else { 0 }))?
        }
        None => implied(&operands),
    };
    let mut rest = operands.into_iter();
    let mut acc = rest.next().ok_or_else(|| invalid("no inputs"))?;
    let mut rest: Vec<Labelled> = rest.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let needed =
            |label: &Label| output.contains(label) || rest.iter().any(|o| o.labels.contains(label));
        acc = contract(cx, acc, next, &needed)?;
    }
    let acc = keep(cx, acc, &|label| output.contains(label))?;
    let perm = positions(&acc.labels, &output)?;
    one(cx.transpose(&acc.x, &perm)?)
}

/// The axis labels of an Einsum operand of a given rank.
fn labels(term: &str, rank: Option<usize>) -> Result<Vec<Label>> {
    let letters = term.replace("...", "").chars().count();
    let covered = rank.unwrap_or(letters).checked_sub(letters);
    let covered = covered.ok_or_else(|| invalid(format!("term `{term}` has too many letters")))?;
    let bad = || invalid(format!("term `{term}`"));
    let (head, tail) = match term.split_once("...") {
        Some(parts) => parts,
        None if covered == 0 => (term, ""),
        None => return Err(invalid(format!("term `{term}` has too few letters"))),
    };
    let letter = |c: char| if c.is_ascii_alphabetic() { Ok(Label::Letter(c)) } else { Err(bad()) };
    let head = head.chars().map(letter);
    let middle = (0..covered).rev().map(|i| Ok(Label::Ellipsis(i)));
    head.chain(middle).chain(tail.chars().map(letter)).collect()
}

/// Without an arrow: the ellipsis, then letters that occur once, sorted.
fn implied(operands: &[Labelled]) -> Vec<Label> {
    let every: Vec<Label> = operands.iter().flat_map(|o| o.labels.iter().copied()).collect();
    let count = |label: &Label| every.iter().filter(|l| *l == label).count();
    let mut output: Vec<Label> =
        every.iter().copied().filter(|l| matches!(l, Label::Ellipsis(_))).collect();
    output.sort_by_key(|l| std::cmp::Reverse(*l));
    output.dedup();
    let mut once: Vec<Label> =
        every.iter().copied().filter(|l| matches!(l, Label::Letter(_)) && count(l) == 1).collect();
    once.sort_unstable();
    output.extend(once);
    output
}

fn positions(have: &[Label], want: &[Label]) -> Result<Vec<usize>> {
    let find = |label: &Label| {
        let at = have.iter().position(|l| l == label);
        at.ok_or_else(|| invalid("a label of the output is in no input"))
    };
    want.iter().map(find).collect()
}

/// Merges a repeated label: only elements on the diagonal count.
fn diagonal(cx: &mut ImportContext, mut operand: Labelled) -> Result<Labelled> {
    loop {
        let labels = &operand.labels;
        let twice = (0..labels.len()).find_map(|i| {
            let again = labels[i + 1..].iter().position(|l| *l == labels[i])?;
            Some((i, i + 1 + again))
        });
        let Some((first, second)) = twice else { return Ok(operand) };
        let x = &operand.x;
        let mut index = |axis: usize| {
            let mut shape = vec![Expr::i64(1); x.rank()];
            shape[axis] = x.shape()[axis].clone();
            let positions = cx.iota(&shape[axis])?;
            cx.reshape(&positions, &shape)
        };
        let (rows, columns) = (index(first)?, index(second)?);
        let same = cx.binary(Binary::Equal, &rows, &columns)?;
        let zero = cx.num(0.0, x.dtype())?;
        let kept = cx.choose(&same, x, &zero)?;
        operand.x = cx.reduce(ReduceKind::Sum, &kept, &[second])?;
        operand.labels.remove(second);
    }
}

/// Sums over the labels that are not needed any more.
fn keep(
    cx: &mut ImportContext,
    operand: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled> {
    let dropped: Vec<usize> =
        (0..operand.labels.len()).filter(|i| !needed(&operand.labels[*i])).collect();
    let x = cx.reduce(ReduceKind::Sum, &operand.x, &dropped)?;
    Ok(Labelled { x, labels: operand.labels.into_iter().filter(needed).collect() })
}

/// A contraction of two operands as a batched matrix multiplication.
fn contract(
    cx: &mut ImportContext,
    a: Labelled,
    b: Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled> {
    let in_b = b.labels.clone();
    let in_a = a.labels.clone();
    let a = keep(cx, a, &|l| needed(l) || in_b.contains(l))?;
    let b = keep(cx, b, &|l| needed(l) || in_a.contains(l))?;
    let shared = |l: &Label| a.labels.contains(l) && b.labels.contains(l);
    let pick = |from: &[Label], f: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        from.iter().copied().filter(|l| f(l)).collect()
    };
    let batch = pick(&a.labels, &|l| shared(l) && needed(l));
    let summed = pick(&a.labels, &|l| shared(l) && !needed(l));
    let rows = pick(&a.labels, &|l| !shared(l));
    let columns = pick(&b.labels, &|l| !shared(l));
    for label in batch.iter().chain(&summed) {
        let dim = |o: &Labelled| {
            let at = o.labels.iter().position(|l| l == label);
            at.map(|i| o.x.shape()[i].clone())
        };
        if let (Some(x), Some(y)) = (dim(&a), dim(&b))
            && dims::equal(&x, &y) != Some(true)
        {
            return Err(unsupported(format!("extents {x:?} and {y:?} under one label")));
        }
    }
    let left = arranged(cx, &a, &[&batch, &rows, &summed], batch.len())?;
    let right = arranged(cx, &b, &[&batch, &summed, &columns], batch.len())?;
    let product = cx.matmul(&left, &right)?;
    let dim = |label: &Label, o: &Labelled| {
        let at = o.labels.iter().position(|l| l == label).expect("a label of the operand");
        o.x.shape()[at].clone()
    };
    let shape: Vec<Expr> = batch
        .iter()
        .chain(&rows)
        .map(|l| dim(l, &a))
        .chain(columns.iter().map(|l| dim(l, &b)))
        .collect();
    let x = cx.reshape(&product, &shape)?;
    Ok(Labelled { x, labels: [batch, rows, columns].concat() })
}

/// Axes ordered by groups; the groups after the first `batch` axes become one axis each.
fn arranged(
    cx: &mut ImportContext,
    o: &Labelled,
    groups: &[&Vec<Label>; 3],
    batch: usize,
) -> Result<Tensor> {
    let order: Vec<Label> = groups.iter().flat_map(|g| g.iter().copied()).collect();
    let perm = positions(&o.labels, &order)?;
    let x = cx.transpose(&o.x, &perm)?;
    let middle = batch + groups[1].len();
    let mut shape = x.shape()[..batch].to_vec();
    shape.push(dims::product(&x.shape()[batch..middle]));
    shape.push(dims::product(&x.shape()[middle..]));
    cx.reshape(&x, &shape)
}

//! Einstein sums: products of matrices, two operands at a time.

use reflex_graph::{ReduceKind, Value, dims};
use reflex_tir::Expr;

use super::table::{Results, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};

/// A tensor whose axes have labels.
struct Term {
    value: Value,
    labels: Vec<char>,
}

pub(super) fn einsum(cx: &mut ImportContext, call: &Call) -> Results {
    let text = call.text("equation", "")?.to_owned();
    let operands = call.tensors("tensors")?;
    call.ignore(&["path"]);
    let ranks: Vec<usize> = operands.iter().map(|x| cx.rank(*x)).collect();
    let (inputs, output) = labels(&text, &ranks)?;
    let mut terms = inputs.into_iter().zip(operands);
    let first = terms.next().ok_or_else(|| invalid("no operands"))?;
    let mut result = diagonal_free(Term { value: first.1, labels: first.0 })?;
    let rest: Vec<Term> = terms.map(|(labels, value)| Term { value, labels }).collect();
    for (i, term) in rest.iter().enumerate() {
        let later = &rest[i + 1..];
        let kept = |label: &char| {
            output.contains(label) || later.iter().any(|term| term.labels.contains(label))
        };
        let term = diagonal_free(Term { value: term.value, labels: term.labels.clone() })?;
        result = contracted(cx, result, term, &kept)?;
    }
    let summed: Vec<usize> =
        (0..result.labels.len()).filter(|i| !output.contains(&result.labels[*i])).collect();
    let value = cx.reduce(ReduceKind::Sum, result.value, &summed, false)?;
    let left: Vec<char> = result.labels.iter().copied().filter(|l| output.contains(l)).collect();
    let perm: Option<Vec<usize>> =
        output.iter().map(|label| left.iter().position(|l| l == label)).collect();
    let perm =
        perm.ok_or_else(|| invalid(format!("`{text}`: a result's label without operand")))?;
    one(cx.transpose(value, &perm)?)
}

/// The labels of the operands and of the result. Those of an ellipsis are capital letters from the private area.
fn labels(text: &str, ranks: &[usize]) -> Result<(Vec<Vec<char>>, Vec<char>)> {
    let bad = || invalid(format!("`{text}` does not fit the operands"));
    let text: String = text.split_whitespace().collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = inputs.split(',').collect();
    if parts.len() != ranks.len() {
        return Err(bad());
    }
    let hidden = |count: usize| {
        // The last axes of an ellipsis are those that operands share.
        (0..count).rev().map(|i| char::from_u32(0xe000 + i as u32).unwrap_or('?'))
    };
    let expand = |part: &str, count: usize| -> Vec<char> {
        match part.split_once("...") {
            Some((before, after)) => {
                before.chars().chain(hidden(count)).chain(after.chars()).collect()
            }
            None => part.chars().collect(),
        }
    };
    let mut most = 0;
    let mut named = vec![];
    for (part, rank) in parts.iter().zip(ranks) {
        let own = part.chars().filter(|c| *c != '.').count();
        let count = rank.checked_sub(own).ok_or_else(bad)?;
        if !part.contains("...") && count > 0 {
            return Err(bad());
        }
        most = most.max(count);
        named.push(expand(part, count));
    }
    let output = match output {
        Some(output) => expand(output, most),
        None => {
            let all: Vec<char> = named.iter().flatten().copied().collect();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|c| all.iter().filter(|d| *d == c).count() == 1)
                .collect();
            once.retain(char::is_ascii_alphabetic);
            once.sort_unstable();
            hidden(most).chain(once).collect()
        }
    };
    let fine = |c: &char| c.is_ascii_alphabetic() || ('\u{e000}'..'\u{f000}').contains(c);
    match named.iter().flatten().chain(&output).all(fine) {
        true => Ok((named, output)),
        false => Err(bad()),
    }
}

/// Refuses a diagonal: a label that is there twice.
fn diagonal_free(term: Term) -> Result<Term> {
    let twice = term.labels.iter().enumerate().any(|(i, label)| term.labels[..i].contains(label));
    if twice { Err(unsupported("a label twice in one operand")) } else { Ok(term) }
}

/// The product of two terms, summed over labels that nothing keeps.
fn contracted(
    cx: &mut ImportContext,
    a: Term,
    b: Term,
    kept: &dyn Fn(&char) -> bool,
) -> Result<Term> {
    let a = summed(cx, a, &b.labels, kept)?;
    let b = summed(cx, b, &a.labels, kept)?;
    let pick = |labels: &[char], holds: &dyn Fn(&char) -> bool| -> Vec<char> {
        labels.iter().copied().filter(|label| holds(label)).collect()
    };
    let both = |label: &char| a.labels.contains(label) && b.labels.contains(label);
    let batch = pick(&a.labels, &|label| both(label) && kept(label));
    let inner = pick(&a.labels, &|label| both(label) && !kept(label));
    let rows = pick(&a.labels, &|label| !both(label));
    let columns = pick(&b.labels, &|label| !both(label));
    let left = ordered(cx, &a, &[&batch, &rows, &inner])?;
    let right = ordered(cx, &b, &[&batch, &inner, &columns])?;
    let extents = |cx: &ImportContext, term: &Term, labels: &[char]| -> Vec<Expr> {
        let at = |label: &char| term.labels.iter().position(|l| l == label);
        let shape = cx.shape(term.value);
        labels.iter().filter_map(|label| Some(shape[at(label)?].clone())).collect()
    };
    let shared: Vec<Expr> = extents(cx, &a, &batch)
        .into_iter()
        .zip(extents(cx, &b, &batch))
        .map(|(x, y)| if x.as_int() == Some(1) { y } else { x })
        .collect();
    let (own_rows, own_columns) = (extents(cx, &a, &rows), extents(cx, &b, &columns));
    let depth = dims::product(&extents(cx, &a, &inner));
    let left = flat(cx, left, batch.len(), [dims::product(&own_rows), depth.clone()])?;
    let right = flat(cx, right, batch.len(), [depth, dims::product(&own_columns)])?;
    let product = cx.matmul(left, right)?;
    let value = cx.reshape(product, &[shared, own_rows, own_columns].concat())?;
    Ok(Term { value, labels: [batch, rows, columns].concat() })
}

/// A term without the labels that neither it nor others need.
fn summed(
    cx: &mut ImportContext,
    term: Term,
    other: &[char],
    kept: &dyn Fn(&char) -> bool,
) -> Result<Term> {
    let gone = |label: &char| !kept(label) && !other.contains(label);
    let axes: Vec<usize> = (0..term.labels.len()).filter(|i| gone(&term.labels[*i])).collect();
    let value = cx.reduce(ReduceKind::Sum, term.value, &axes, false)?;
    let labels = term.labels.into_iter().filter(|label| !gone(label)).collect();
    Ok(Term { value, labels })
}

/// The axes of a term in the order of labels.
fn ordered(cx: &mut ImportContext, term: &Term, groups: &[&[char]]) -> Result<Value> {
    let at = |label: &char| term.labels.iter().position(|l| l == label);
    let perm: Vec<usize> = groups.concat().iter().filter_map(at).collect();
    cx.transpose(term.value, &perm)
}

/// The axes behind the batch as those of a matrix.
fn flat(cx: &mut ImportContext, x: Value, batch: usize, matrix: [Expr; 2]) -> Result<Value> {
    let shape = cx.shape(x);
    cx.reshape(x, &[&shape[..batch], &matrix[..]].concat())
}

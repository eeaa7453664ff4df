//! `R.einsum`: products of matrices, two operands at a time.

use reflex_tir::Expr;
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Op, ReduceKind, Value, dims};

/// A tensor whose axes have labels.
struct Term {
    value: Value,
    labels: Vec<char>,
}

/// The labels of `list` that `keep` holds for.
fn labels(list: &[char], keep: impl Fn(&char) -> bool) -> Vec<char> {
    list.iter().copied().filter(keep).collect()
}

impl FuncParser<'_, '_> {
    pub(super) fn einsum(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["operands", "subscripts"])?;
        let operands = self.values(args.need("operands")?)?;
        args.need("subscripts")?;
        let text: String = args.string("subscripts", "")?.split_whitespace().collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text.as_str(), None),
        };
        let named: Vec<Vec<char>> = inputs.split(',').map(|s| s.chars().collect()).collect();
        let output = match output {
            Some(output) => output.chars().collect(),
            None => once(&named),
        };
        let known = |c: &char| named.iter().any(|labels| labels.contains(c));
        let plain = |labels: &[char]| {
            let different = labels.iter().enumerate().all(|(i, c)| !labels[..i].contains(c));
            different && labels.iter().all(char::is_ascii_alphabetic)
        };
        if !named.iter().all(|l| plain(l)) || !plain(&output) || !output.iter().all(known) {
            let message = format!("`{text}`: the labels of a tensor are different letters");
            return Err(self.source.refuse(at, message));
        }
        if named.len() != operands.len()
            || named.iter().zip(&operands).any(|(l, v)| l.len() != self.rank(*v))
        {
            return Err(self.source.refuse(at, format!("`{text}` does not fit the operands")));
        }
        let terms: Vec<(Value, Vec<char>)> = operands.into_iter().zip(named).collect();
        let Some(((value, first), others)) = terms.split_first() else {
            return Err(self.source.unsupported(call));
        };
        let mut result = Term { value: *value, labels: first.clone() };
        for (i, (value, own)) in others.iter().enumerate() {
            let rest = &others[i + 1..];
            let keep =
                |c: &char| output.contains(c) || rest.iter().any(|(_, labels)| labels.contains(c));
            let next = Term { value: *value, labels: own.clone() };
            result = self.contract(at, result, next, keep)?;
        }
        let result = self.sum_out(at, result, |c| output.contains(c))?;
        self.arranged(at, &result, &output).map(ParsedValue::Value)
    }

    /// The product of two terms, summed over the labels that nothing else needs.
    fn contract(
        &mut self,
        at: TextSize,
        a: Term,
        b: Term,
        keep: impl Fn(&char) -> bool,
    ) -> Result<Term> {
        let of_b = b.labels.clone();
        let a = self.sum_out(at, a, |c| keep(c) || of_b.contains(c))?;
        let b = self.sum_out(at, b, |c| keep(c) || a.labels.contains(c))?;
        let batch = labels(&a.labels, |c| b.labels.contains(c) && keep(c));
        let summed = labels(&a.labels, |c| b.labels.contains(c) && !keep(c));
        let rows = labels(&a.labels, |c| !b.labels.contains(c));
        let columns = labels(&b.labels, |c| !a.labels.contains(c));
        let left = self.matrices(at, &a, [&batch, &rows, &summed])?;
        let right = self.matrices(at, &b, [&batch, &summed, &columns])?;
        let product = self.emit_value(at, Op::MatMul, &[left, right])?;
        let dims_a = self.extents(&a, &[&batch[..], &rows].concat());
        let shape = [dims_a, self.extents(&b, &columns)].concat();
        let value = self.emit_value(at, Op::Reshape(shape), &[product])?;
        Ok(Term { value, labels: [batch, rows, columns].concat() })
    }

    fn extents(&self, term: &Term, order: &[char]) -> Vec<Expr> {
        let shape = self.shape_of(term.value);
        order
            .iter()
            .filter_map(|c| term.labels.iter().position(|l| l == c))
            .map(|at| shape[at].clone())
            .collect()
    }

    /// A term with its axes in this order.
    fn arranged(&mut self, at: TextSize, term: &Term, order: &[char]) -> Result<Value> {
        let axes = order.iter().filter_map(|c| term.labels.iter().position(|l| l == c)).collect();
        self.emit_value(at, Op::Transpose(axes), &[term.value])
    }

    /// A batch of matrices: the labels before, of the rows and of the columns.
    fn matrices(&mut self, at: TextSize, term: &Term, parts: [&[char]; 3]) -> Result<Value> {
        let arranged = self.arranged(at, term, &parts.concat())?;
        let mut shape = self.extents(term, parts[0]);
        shape.extend(parts[1..].iter().map(|part| dims::product(&self.extents(term, part))));
        self.emit_value(at, Op::Reshape(shape), &[arranged])
    }

    /// Sums over the labels that are not kept.
    fn sum_out(&mut self, at: TextSize, term: Term, keep: impl Fn(&char) -> bool) -> Result<Term> {
        let gone = |(_, c): &(usize, &char)| !keep(c);
        let axes: Vec<usize> =
            term.labels.iter().enumerate().filter(gone).map(|(i, _)| i).collect();
        if axes.is_empty() {
            return Ok(term);
        }
        let op = Op::Reduce { kind: ReduceKind::Sum, axes, keep_dims: false };
        let value = self.emit_value(at, op, &[term.value])?;
        Ok(Term { value, labels: labels(&term.labels, keep) })
    }
}

/// The labels that stand once, sorted: the result's where none is named.
fn once(named: &[Vec<char>]) -> Vec<char> {
    let mut all: Vec<char> = named.concat();
    all.sort_unstable();
    labels(&all, |c| all.iter().filter(|other| *other == c).count() == 1)
}

//! `R.layout_transform`: elements of a tensor moved by an index map.

use std::collections::HashMap;

use reflex_tir::arith::{Coverage, IterMap, IterSplit, MarkSource, detect_iter_map};
use reflex_tir::{BinOp, Expr, ExprKind, PrimFunc, Var};
use ruff_python_ast::{self as ast, Expr as Py, Operator};
use ruff_text_size::{Ranged, TextSize};

use super::args::{Args, int};
use super::parser::{FuncParser, ParsedValue};
use super::source::{Result, Source};
use crate::{Op, PadMode, Value};

/// Names of the indices and their variables.
type Names = HashMap<String, Expr>;

impl FuncParser<'_, '_> {
    /// Moves elements by an index map, whose results are parts of numbers that the indices are digits of: a reshape, a
    /// transpose and a reshape. Where parts do not divide an axis, it is padded first.
    pub(super) fn layout_transform(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["x", "index_map", "pad_value", "axis_separators", "input_axis_separators"];
        let args = Args::bind(self.source, call, names)?;
        for name in ["axis_separators", "input_axis_separators"] {
            if args.ints(name)?.is_some_and(|list| !list.is_empty()) {
                return Err(self.source.unsupported(call));
            }
        }
        let mut x = self.value(args.need("x")?)?;
        let Some(mut extents) =
            self.shape_of(x).iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()
        else {
            return Err(self.source.refuse(at, "`R.layout_transform` takes known extents"));
        };
        let (vars, indices) = index_map(self.source, args.need("index_map")?)?;
        if vars.len() != extents.len() {
            let message =
                format!("the index map has {} indices, not {}", vars.len(), extents.len());
            return Err(self.source.refuse(at, message));
        }
        let detect = |extents: &[i64]| {
            let inputs: Vec<_> = vars.iter().zip(extents).map(|(v, n)| (*v, 0, *n)).collect();
            detect_iter_map(&indices, &inputs, &Expr::bool(true), Coverage::Bijective)
        };
        let map = match detect(&extents) {
            Ok(map) => map,
            Err(why) => {
                let padded: Vec<i64> =
                    vars.iter().zip(&extents).map(|(v, n)| padded(&indices, *v, *n)).collect();
                let refuse =
                    |why: &str| Err(self.source.refuse(at, format!("the index map: {why}")));
                if padded == extents {
                    return refuse(&why);
                }
                let Ok(map) = detect(&padded) else { return refuse(&why) };
                if args.get("pad_value").is_none() {
                    return refuse("it pads, and there is no `pad_value`");
                }
                x = self.padded_to(at, x, &extents, &padded, args.float("pad_value", 0.0)?)?;
                extents = padded;
                map
            }
        };
        self.moved(at, x, &extents, &map).map(ParsedValue::Value)
    }

    /// Longer axes, filled with a number.
    fn padded_to(
        &mut self,
        at: TextSize,
        x: Value,
        from: &[i64],
        to: &[i64],
        value: f64,
    ) -> Result<Value> {
        let mut operands = vec![x];
        if value != 0.0 {
            operands.push(self.number(at, self.dtype_of(x), value)?);
        }
        let after = from.iter().zip(to).map(|(from, to)| Expr::i64(to - from)).collect();
        let before = vec![Expr::i64(0); from.len()];
        self.emit_value(at, Op::Pad { mode: PadMode::Constant, before, after }, &operands)
    }

    /// The elements of `x`, whose axes are the inputs of the map, where the map has them.
    fn moved(&mut self, at: TextSize, x: Value, extents: &[i64], map: &IterMap) -> Result<Value> {
        let refuse = || self.source.refuse(at, "the index map is not of digits from zero");
        if map.sums.iter().any(|s| s.base != 0 || s.step() != 1) {
            return Err(refuse());
        }
        let sums: Vec<Vec<IterSplit>> = map.sums.iter().map(|s| s.splits.clone()).collect();
        let inputs: Vec<usize> = (0..extents.len()).collect();
        let mut used: Vec<usize> = vec![];
        for split in sums.iter().flatten() {
            if !used.contains(&split.mark) {
                used.push(split.mark);
            }
        }
        let (mut x, mut axes) = (x, inputs);
        // Numbers of several indices are made first.
        if used.iter().any(|mark| matches!(map.marks[*mark].source, MarkSource::Sum(_))) {
            let terms = |mark: &usize| match &map.marks[*mark].source {
                MarkSource::Sum(terms) => terms.clone(),
                MarkSource::Input(_) => {
                    let extent = map.marks[*mark].extent;
                    vec![IterSplit { mark: *mark, lower_factor: 1, extent, scale: 1 }]
                }
            };
            let numbers: Vec<Vec<IterSplit>> = used.iter().map(terms).collect();
            let plain = |s: &IterSplit| matches!(map.marks[s.mark].source, MarkSource::Input(_));
            if !numbers.iter().flatten().all(plain) {
                return Err(refuse());
            }
            x = self.regrouped(at, x, &axes, &numbers)?;
            axes = used;
        }
        self.regrouped(at, x, &axes, &sums)
    }

    /// `x`, whose axes are these marks, as axes of these splits of them.
    fn regrouped(
        &mut self,
        at: TextSize,
        x: Value,
        axes: &[usize],
        sums: &[Vec<IterSplit>],
    ) -> Result<Value> {
        let mut digits: Vec<IterSplit> = vec![];
        for mark in axes {
            let mut own: Vec<IterSplit> =
                sums.iter().flatten().filter(|s| s.mark == *mark).copied().collect();
            own.sort_by_key(|s| std::cmp::Reverse(s.lower_factor));
            digits.extend(own);
        }
        let shape = digits.iter().map(|s| Expr::i64(s.extent)).collect();
        let x = self.emit_value(at, Op::Reshape(shape), &[x])?;
        let place = |split: &IterSplit| {
            let same = |d: &IterSplit| (d.mark, d.lower_factor) == (split.mark, split.lower_factor);
            digits.iter().position(same)
        };
        let order: Option<Vec<usize>> = sums.iter().flatten().map(place).collect();
        let order = order.ok_or_else(|| self.source.refuse(at, "the index map lost a digit"))?;
        let x = self.emit_value(at, Op::Transpose(order), &[x])?;
        let extent = |sum: &Vec<IterSplit>| Expr::i64(sum.iter().map(|s| s.extent).product());
        self.emit_value(at, Op::Reshape(sums.iter().map(extent).collect()), &[x])
    }
}

/// The extent to which an axis is padded: a multiple of all that its index alone is divided by.
fn padded(indices: &[Expr], var: Var, extent: i64) -> i64 {
    let mut multiple = 1i64;
    for index in indices {
        index.visit(&mut |e| {
            if let ExprKind::Binary { op: BinOp::FloorDiv | BinOp::FloorMod, a, b } = e.kind()
                && let (Some(of), Some(by)) = (a.as_var(), b.as_int())
                && of == var
                && by > 0
                && multiple % by != 0
            {
                multiple = if by % multiple == 0 { by } else { multiple.saturating_mul(by) };
            }
        });
    }
    match extent % multiple {
        0 => extent,
        rest => extent.saturating_add(multiple - rest),
    }
}

/// The variables and results of `T.index_map(lambda i, j: (...))`.
fn index_map(source: Source<'_>, e: &Py) -> Result<(Vec<Var>, Vec<Expr>)> {
    let lambda = match e {
        Py::Call(call) => match &call.arguments.args[..] {
            [Py::Lambda(lambda)] => lambda,
            _ => return Err(source.unsupported(e)),
        },
        Py::Lambda(lambda) => lambda,
        _ => return Err(source.unsupported(e)),
    };
    let mut scratch = PrimFunc::new("index_map");
    let (mut vars, mut names) = (vec![], Names::new());
    for param in lambda.parameters.iter().flat_map(|p| p.iter()) {
        let name = param.name().to_string();
        let var = scratch.new_var(name.clone());
        vars.push(var);
        names.insert(name, Expr::var(var));
    }
    let results: Vec<&Py> = match &*lambda.body {
        Py::Tuple(tuple) => tuple.elts.iter().collect(),
        Py::List(list) => list.elts.iter().collect(),
        one => vec![one],
    };
    let results = results.into_iter().map(|r| index(source, r, &names)).collect::<Result<_>>()?;
    Ok((vars, results))
}

/// An index over the names of others.
fn index(source: Source<'_>, e: &Py, names: &Names) -> Result<Expr> {
    match e {
        Py::Name(name) => names.get(name.id.as_str()).cloned().ok_or_else(|| source.unsupported(e)),
        Py::BinOp(binary) => {
            let a = index(source, &binary.left, names)?;
            let b = index(source, &binary.right, names)?;
            Ok(match binary.op {
                Operator::Add => a + b,
                Operator::Sub => a - b,
                Operator::Mult => a * b,
                Operator::FloorDiv => a.floordiv(b),
                Operator::Mod => a.floormod(b),
                _ => return Err(source.unsupported(e)),
            })
        }
        _ => int(source, e).map(Expr::i64),
    }
}

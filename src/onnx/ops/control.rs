//! `If` and `Loop`.
//!
//! A condition that is known while importing chooses its branch here. Otherwise both sides are
//! imported, and a result whose extents differ between them (or between iterations) gets fresh
//! symbols, bound by a `match_cast` right behind the node.
//!
//! A result has one rank. Where the branches differ in it and the condition is a fact about
//! dimensions (exporters write "squeeze if the extent is 1" so), the import settles on the first
//! branch and checks at run time that the condition holds: other shapes are refused there.

use reflex_graph::{Body, Loop, Node, TensorType, Value, dims};
use reflex_tir::{CmpOp, DType, Expr, ExprKind};

use super::{Table, all};
use crate::call::Call;
use crate::error::{Result, invalid, unsupported};
use crate::fold::{as_bool, known_condition};
use crate::import::Cx;
use crate::proto::GraphProto;
use crate::value::{Known, Tensor, Val};

pub(super) const TABLE: Table = &[("If", branch), ("Loop", repeat)];

fn branch(cx: &mut Cx, call: &Call) -> Result<Vec<Val>> {
    let cond = call.input(0)?;
    if cond.dtype() != DType::BOOL || cond.count().is_some_and(|n| n != 1) {
        return Err(invalid(format!("condition of type {}", cond.ty)));
    }
    let (then, otherwise) = (call.graph("then_branch")?, call.graph("else_branch")?);
    if let Some(known) = known_condition(cond) {
        return cx.subgraph(if known { then } else { otherwise }, vec![]);
    }
    let source = cx.b.source().to_string();
    let first_new = cx.b.sym_count();
    let chosen = then;
    let then = side(cx, then).map_err(|e| e.at("then_branch"))?;
    let otherwise = side(cx, otherwise).map_err(|e| e.at("else_branch"))?;
    let ranks = |side: &Side| side.types.iter().map(|t| t.shape.len()).collect::<Vec<_>>();
    if let Known::Elements(elements) = &cond.known
        && ranks(&then) != ranks(&otherwise)
    {
        cx.b.set_source(source);
        assume(cx, &elements[0])?;
        return cx.subgraph(chosen, vec![]);
    }
    let cond = cx.value(cond)?;
    if then.types.len() != otherwise.types.len() {
        return Err(invalid("the branches have different numbers of results"));
    }
    let mut types = vec![];
    for (index, (a, b)) in then.types.iter().zip(&otherwise.types).enumerate() {
        let name = format!("{source}_{index}");
        types.push(joined(cx, a, b, first_new, &name)?);
    }
    cx.b.set_source(source);
    let node = Node::If { cond, then: then.body, otherwise: otherwise.body };
    let results = cx.bind(node, types);
    all(results.into_iter().map(|t| bound(cx, t, first_new)).collect())
}

/// Checks at run time that a condition over dimensions holds.
fn assume(cx: &mut Cx, condition: &Expr) -> Result<()> {
    let holds = as_bool(condition);
    // An equation is checked as such, so that the message names both sides.
    let (found, wanted) = match holds.kind() {
        ExprKind::Compare { op: CmpOp::Eq, a, b } if a.dtype() == DType::I64 => (a, b),
        _ => (condition, &Expr::i64(1)),
    };
    cx.check_dim(found, wanted)
}

/// One branch and the types of its results.
struct Side {
    body: Body,
    types: Vec<TensorType>,
}

fn side(cx: &mut Cx, graph: &GraphProto) -> Result<Side> {
    cx.b.open();
    let results = cx.subgraph(graph, vec![]).and_then(|outputs| values(cx, outputs));
    let body = cx.b.close(results.as_ref().map_or(vec![], Clone::clone));
    let types = results?.iter().map(|v| cx.b.tensor(*v).clone()).collect();
    Ok(Side { body, types })
}

fn values(cx: &mut Cx, outputs: Vec<Val>) -> Result<Vec<Value>> {
    let tensor = |val| match val {
        Val::Tensor(tensor) => Ok(tensor),
        Val::Sequence(..) | Val::Absent => {
            Err(unsupported("sequences and optionals as results of subgraphs"))
        }
    };
    outputs.into_iter().map(|val| cx.value(&tensor(val)?)).collect()
}

/// A type that both results have. Symbols from `first_new` on exist in one branch only.
fn joined(
    cx: &mut Cx,
    a: &TensorType,
    b: &TensorType,
    first_new: usize,
    name: &str,
) -> Result<TensorType> {
    if a.dtype != b.dtype || a.shape.len() != b.shape.len() {
        return Err(unsupported(format!("branches of types {a} and {b}")));
    }
    let mut shape = vec![];
    for (axis, (x, y)) in a.shape.iter().zip(&b.shape).enumerate() {
        let same = dims::equal(x, y) == Some(true) && !mentions_new(x, first_new);
        let fresh = |cx: &mut Cx| Expr::var(cx.b.sym(format!("{name}_{axis}")));
        shape.push(if same { x.clone() } else { fresh(cx) });
    }
    Ok(TensorType::new(a.dtype, shape))
}

fn mentions_new(dim: &Expr, first_new: usize) -> bool {
    let mut found = false;
    dim.visit(&mut |e| found |= e.as_var().is_some_and(|v| v.as_u32() as usize >= first_new));
    found
}

/// Binds the symbols that are new in a result's type.
fn bound(cx: &mut Cx, result: Tensor, first_new: usize) -> Tensor {
    let value = result.value.expect("results of a node have values");
    if !result.shape().iter().any(|dim| mentions_new(dim, first_new)) {
        return result;
    }
    let cast = cx.b.bind(Node::MatchCast(value), vec![result.ty])[0];
    cx.tensor_of(cast)
}

fn repeat(cx: &mut Cx, call: &Call) -> Result<Vec<Val>> {
    let body = call.graph("body")?;
    let scalar = |cx: &mut Cx, index: usize, dtype: DType| -> Result<Option<Value>> {
        let Some(tensor) = call.opt(index)? else { return Ok(None) };
        if tensor.dtype() != dtype {
            return Err(invalid(format!("input {index} has type {}", tensor.ty)));
        }
        let tensor = cx.reshape(tensor, &[])?;
        cx.value(&tensor).map(Some)
    };
    let max_trips = scalar(cx, 0, DType::I64)?;
    let cond = match call.opt(1)?.map(known_condition) {
        Some(Some(true)) => None,
        _ => scalar(cx, 1, DType::BOOL)?,
    };
    let init: Vec<Option<Val>> = call.inputs.iter().skip(2).cloned().collect();
    let init = init.into_iter().map(|v| v.ok_or_else(|| invalid("a carried value is missing")));
    let outputs = init.collect::<Result<Vec<Val>>>()?;
    let init = values(cx, outputs)?;
    let scans = body.output.len().checked_sub(1 + init.len());
    let scans = scans.ok_or_else(|| invalid("the body has too few results"))?;
    if body.input.len() != init.len() + 2 {
        return Err(invalid(format!("the body has {} inputs", body.input.len())));
    }
    let source = cx.b.source().to_string();
    let mut types: Vec<TensorType> = init.iter().map(|v| cx.b.tensor(*v).clone()).collect();
    // Extents that an iteration changes become symbols; each round opens at least one more.
    loop {
        let first_new = cx.b.sym_count();
        let attempt = iteration(cx, body, &types)?;
        if !widen(cx, &mut types, &attempt.types[1..=init.len()], first_new, &source)? {
            cx.b.set_source(source.clone());
            return finish(cx, max_trips, cond, init, attempt, &types, scans, first_new, &source);
        }
    }
}

/// A body with its parameters.
struct Iteration {
    iter: Value,
    cond_in: Value,
    carried: Vec<Value>,
    body: Body,
    types: Vec<TensorType>,
}

fn iteration(cx: &mut Cx, graph: &GraphProto, types: &[TensorType]) -> Result<Iteration> {
    cx.b.open();
    let iter = cx.b.body_param("", TensorType::new(DType::I64, vec![]));
    let cond_in = cx.b.body_param("", TensorType::new(DType::BOOL, vec![]));
    let carried: Vec<Value> = types.iter().map(|ty| cx.b.body_param("", ty.clone())).collect();
    let params = [&[iter, cond_in], carried.as_slice()].concat();
    let inputs = params.iter().map(|v| Val::Tensor(cx.tensor_of(*v))).collect();
    let results = cx.subgraph(graph, inputs).and_then(|mut outputs| {
        if let Some(Val::Tensor(cond)) = outputs.first() {
            outputs[0] = Val::Tensor(cx.reshape(cond, &[])?);
        }
        values(cx, outputs)
    });
    let body = cx.b.close(results.as_ref().map_or(vec![], Clone::clone));
    let types = results.map_err(|e| e.at("body"))?;
    let types = types.iter().map(|v| cx.b.tensor(*v).clone()).collect();
    Ok(Iteration { iter, cond_in, carried, body, types })
}

/// Opens the extents of carried types that the body changes; says whether there were any.
fn widen(
    cx: &mut Cx,
    types: &mut [TensorType],
    results: &[TensorType],
    first_new: usize,
    name: &str,
) -> Result<bool> {
    let mut changed = false;
    for (index, (ty, result)) in types.iter_mut().zip(results).enumerate() {
        if ty.dtype != result.dtype || ty.shape.len() != result.shape.len() {
            return Err(unsupported(format!(
                "carried value {index} turns from {ty} into {result}"
            )));
        }
        for (axis, (dim, next)) in ty.shape.iter_mut().zip(&result.shape).enumerate() {
            let open = dim.as_var().is_some_and(|v| cx.b.sym_name(v).starts_with("carried "));
            let same = dims::equal(dim, next) == Some(true) && !mentions_new(next, first_new);
            if !open && !same {
                *dim = Expr::var(cx.b.sym(format!("carried {name}_{index}_{axis}")));
                changed = true;
            }
        }
    }
    Ok(changed)
}

#[allow(clippy::too_many_arguments)]
fn finish(
    cx: &mut Cx,
    max_trips: Option<Value>,
    cond: Option<Value>,
    init: Vec<Value>,
    attempt: Iteration,
    types: &[TensorType],
    scans: usize,
    first_new: usize,
    name: &str,
) -> Result<Vec<Val>> {
    let Iteration { iter, cond_in, carried, body, types: results } = attempt;
    let first_out = cx.b.sym_count();
    let fresh = |cx: &mut Cx, what: String| Expr::var(cx.b.sym(what));
    let mut outer = vec![];
    for (index, ty) in types.iter().enumerate() {
        let mut ty = ty.clone();
        for (axis, dim) in ty.shape.iter_mut().enumerate() {
            if dim.as_var().is_some_and(|v| cx.b.sym_name(v).starts_with("carried ")) {
                *dim = fresh(cx, format!("{name}_{index}_{axis}"));
            }
        }
        outer.push(ty);
    }
    let is_carried = |cx: &Cx, dim: &Expr| {
        let mut found = false;
        dim.visit(&mut |e| {
            found |= e.as_var().is_some_and(|v| cx.b.sym_name(v).starts_with("carried "));
        });
        found
    };
    for (index, ty) in results.iter().enumerate().skip(1 + init.len()) {
        let mut shape = vec![fresh(cx, format!("{name}_trips_{index}"))];
        for (axis, dim) in ty.shape.iter().enumerate() {
            let inside = mentions_new(dim, first_new) || is_carried(cx, dim);
            shape.push(match inside {
                true => fresh(cx, format!("{name}_{index}_{axis}")),
                false => dim.clone(),
            });
        }
        outer.push(TensorType::new(ty.dtype, shape));
    }
    debug_assert_eq!(outer.len(), init.len() + scans);
    let node = Loop { max_trips, cond, init, iter, cond_in, carried, body };
    let outputs = cx.bind(Node::Loop(Box::new(node)), outer);
    all(outputs.into_iter().map(|t| bound(cx, t, first_out)).collect())
}

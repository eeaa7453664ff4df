//! `If`, and the results of nested bodies.
//!
//! A condition that is known while importing chooses its branch here. Otherwise both sides are
//! imported, and a result whose dimensions differ between them gets fresh symbols, bound by a
//! `match_cast` right behind the node.
//!
//! A result has one rank. Where the branches differ in it and the condition is a fact about
//! dimensions (exporters write "squeeze if the dimension is 1" so), the import settles on the first
//! branch and checks at run time that the condition holds: other shapes are refused there.

use reflex_graph::{Body, Node, TensorType, Value, dims};
use reflex_tir::{CmpOp, DType, Expr, ExprKind};

use super::table::{Table, all};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::fold::{as_bool, known_condition};
use crate::proto::GraphProto;
use crate::value::{KnownElements, OnnxValue, Tensor};

pub(super) const TABLE: Table = &[("If", branch)];

fn branch(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
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
    if let KnownElements::Symbolic(elements) = &cond.known
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
fn assume(cx: &mut ImportContext, condition: &Expr) -> Result<()> {
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

fn side(cx: &mut ImportContext, graph: &GraphProto) -> Result<Side> {
    cx.b.open();
    let results = cx.subgraph(graph, vec![]).and_then(|outputs| values(cx, outputs));
    let body = cx.b.close(results.as_ref().map_or(vec![], Clone::clone));
    let types = results?.iter().map(|v| cx.b.tensor(*v).clone()).collect();
    Ok(Side { body, types })
}

/// Run-time values of a subgraph's results.
pub(super) fn values(cx: &mut ImportContext, outputs: Vec<OnnxValue>) -> Result<Vec<Value>> {
    let tensor = |val| match val {
        OnnxValue::Tensor(tensor) => Ok(tensor),
        OnnxValue::Sequence(..) | OnnxValue::Absent => {
            Err(unsupported("sequences and optionals as results of subgraphs"))
        }
    };
    outputs.into_iter().map(|val| cx.value(&tensor(val)?)).collect()
}

/// A type that both results have. Symbols from `first_new` on exist in one branch only.
fn joined(
    cx: &mut ImportContext,
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
        let fresh = |cx: &mut ImportContext| Expr::var(cx.b.sym(format!("{name}_{axis}")));
        shape.push(if same { x.clone() } else { fresh(cx) });
    }
    Ok(TensorType::new(a.dtype, shape))
}

/// Returns true if a dimension depends on a symbol from `first_new` on.
pub(super) fn mentions_new(dim: &Expr, first_new: usize) -> bool {
    let mut found = false;
    dim.visit(&mut |e| found |= e.as_var().is_some_and(|v| v.as_u32() as usize >= first_new));
    found
}

/// Binds the symbols that are new in a result's type.
pub(super) fn bound(cx: &mut ImportContext, result: Tensor, first_new: usize) -> Tensor {
    let value = result.value.expect("results of a node have values");
    if !result.shape().iter().any(|dim| mentions_new(dim, first_new)) {
        return result;
    }
    let cast = cx.b.bind(Node::MatchCast(value), vec![result.ty])[0];
    cx.tensor_of(cast)
}

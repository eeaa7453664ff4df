//! `If`, and the results of nested bodies.
//!
//! A condition that is known while importing chooses its branch here. Otherwise both sides are
//! imported, and a result whose dimensions differ between them gets fresh symbols, bound by a
//! `match_cast` right behind the node.
//!
//! A result has one rank. Where the branches differ in it and the condition is a fact about
//! dimensions (exporters write "squeeze if the dimension is 1" so), the import settles on one
//! branch and checks the condition at run time: other shapes are refused there. The branch is the first,
//! but the second where the condition is a strict inequality: that asks for a special case, such as a list of rows
//! without data that is not empty (skl2onnx's KNNImputer).

use reflex_graph::{Body, Node, TensorType, Type, Value, dims};
use reflex_tir::{CmpOp, DType, Expr, ExprKind};

use super::table::Table;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::fold::{as_bool, known_condition};
use crate::narrow::carrier;
use crate::proto::GraphProto;
use crate::value::{KnownElements, ObjectKind, OnnxValue, Tensor};

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
    let graphs = (then, otherwise);
    let then = side(cx, then).map_err(|e| e.at("then_branch"))?;
    let otherwise = side(cx, otherwise).map_err(|e| e.at("else_branch"))?;
    let ranks = |side: &Side| side.slots.iter().map(Slot::rank).collect::<Vec<_>>();
    if let KnownElements::Symbolic(elements) = &cond.known
        && ranks(&then) != ranks(&otherwise)
    {
        cx.b.set_source(source);
        let chosen = if assume(cx, &elements[0])? { graphs.0 } else { graphs.1 };
        return cx.subgraph(chosen, vec![]);
    }
    let cond = cx.value(cond)?;
    if then.slots.len() != otherwise.slots.len() {
        return Err(invalid("the branches have different numbers of results"));
    }
    let mut slots = vec![];
    for (index, (a, b)) in then.slots.iter().zip(&otherwise.slots).enumerate() {
        let name = format!("{source}_{index}");
        slots.push(joined(cx, a, b, first_new, &name)?);
    }
    cx.b.set_source(source);
    let node = Node::If { cond, then: then.body, otherwise: otherwise.body };
    let results = cx.b.bind_values(node, slots.iter().map(Slot::ty).collect());
    let pairs = results.into_iter().zip(slots);
    Ok(pairs.map(|(value, slot)| slot.bound(cx, value, first_new)).collect())
}

/// Settles on the value of a condition over dimensions, which is checked at run time.
fn assume(cx: &mut ImportContext, condition: &Expr) -> Result<bool> {
    let holds = as_bool(condition);
    // An equation is checked as such, so that the message names both sides.
    let (found, wanted, value) = match holds.kind() {
        ExprKind::Compare { op: CmpOp::Eq, a, b } if a.dtype() == DType::I64 => (a, b, true),
        ExprKind::Compare { op: CmpOp::Lt | CmpOp::Gt, .. } => (condition, &Expr::i64(0), false),
        _ => (condition, &Expr::i64(1), true),
    };
    cx.check_dim(found, wanted)?;
    Ok(value)
}

/// One branch and what its results are.
struct Side {
    body: Body,
    slots: Vec<Slot>,
}

fn side(cx: &mut ImportContext, graph: &GraphProto) -> Result<Side> {
    cx.b.open();
    let results = cx.subgraph(graph, vec![]).and_then(|outputs| values(cx, outputs));
    let values = |results: &Vec<(Value, Slot)>| results.iter().map(|(value, _)| *value).collect();
    let body = cx.b.close(results.as_ref().map_or(vec![], values));
    Ok(Side { body, slots: results?.into_iter().map(|(_, slot)| slot).collect() })
}

/// The kind of a value that passes between a body and what is around it.
#[derive(Clone, PartialEq)]
pub(super) enum Slot {
    Tensor(TensorType),
    /// The bytes of strings.
    Strings(TensorType),
    Object(ObjectKind),
}

impl Slot {
    /// The type in the graph.
    pub fn ty(&self) -> Type {
        match self {
            Slot::Tensor(ty) | Slot::Strings(ty) => Type::Tensor(ty.clone()),
            Slot::Object(_) => Type::Object,
        }
    }

    /// The tensor type, unless it is an object.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Slot::Tensor(ty) | Slot::Strings(ty) => Some(ty),
            Slot::Object(_) => None,
        }
    }

    /// The same with another tensor type.
    pub fn with(&self, ty: TensorType) -> Slot {
        match self {
            Slot::Tensor(_) => Slot::Tensor(ty),
            Slot::Strings(_) => Slot::Strings(ty),
            Slot::Object(kind) => Slot::Object(kind.clone()),
        }
    }

    fn rank(&self) -> Option<usize> {
        self.tensor().map(|ty| ty.shape.len())
    }

    /// The ONNX value that a value of the graph is.
    pub fn value(&self, cx: &ImportContext, value: Value) -> OnnxValue {
        match self {
            Slot::Tensor(_) => OnnxValue::Tensor(cx.tensor_of(value)),
            Slot::Strings(_) => OnnxValue::Strings(cx.tensor_of(value)),
            Slot::Object(kind) => OnnxValue::Object(value, kind.clone()),
        }
    }

    /// The ONNX value of a node's result, whose type has symbols that are new.
    pub fn bound(&self, cx: &mut ImportContext, value: Value, first_new: usize) -> OnnxValue {
        if self.tensor().is_none() {
            return self.value(cx, value);
        }
        let tensor = cx.tensor_of(value);
        let tensor = bound(cx, tensor, first_new);
        match self {
            Slot::Strings(_) => OnnxValue::Strings(tensor),
            _ => OnnxValue::Tensor(tensor),
        }
    }
}

/// Run-time values of a subgraph's results.
pub(super) fn values(
    cx: &mut ImportContext,
    outputs: Vec<OnnxValue>,
) -> Result<Vec<(Value, Slot)>> {
    outputs.into_iter().map(|val| run_time(cx, val)).collect()
}

/// The run-time value of any ONNX value.
pub(super) fn run_time(cx: &mut ImportContext, val: OnnxValue) -> Result<(Value, Slot)> {
    match val {
        OnnxValue::Tensor(tensor) if carrier(tensor.dtype()).is_some() => {
            Err(unsupported(format!("{} as results of subgraphs", tensor.dtype())))
        }
        OnnxValue::Tensor(tensor) => {
            let value = cx.value(&tensor)?;
            Ok((value, Slot::Tensor(cx.b.tensor(value).clone())))
        }
        OnnxValue::Strings(bytes) => {
            let value = cx.value(&bytes)?;
            Ok((value, Slot::Strings(cx.b.tensor(value).clone())))
        }
        other => {
            let (value, kind) = cx.object(other)?;
            Ok((value, Slot::Object(kind)))
        }
    }
}

/// A type that both results have. Symbols from `first_new` on exist in one branch only.
fn joined(
    cx: &mut ImportContext,
    a: &Slot,
    b: &Slot,
    first_new: usize,
    name: &str,
) -> Result<Slot> {
    let (x, y) = match (a, b) {
        (Slot::Object(x), Slot::Object(y)) => {
            let kind = x.and(y).ok_or_else(|| unsupported("branches of different types"))?;
            return Ok(Slot::Object(kind));
        }
        (Slot::Tensor(x), Slot::Tensor(y)) | (Slot::Strings(x), Slot::Strings(y)) => (x, y),
        _ => return Err(unsupported("branches of different types")),
    };
    if x.dtype != y.dtype || x.shape.len() != y.shape.len() {
        return Err(unsupported(format!("branches of types {x} and {y}")));
    }
    let mut shape = vec![];
    for (axis, (x, y)) in x.shape.iter().zip(&y.shape).enumerate() {
        let same = dims::equal(x, y) == Some(true) && !mentions_new(x, first_new);
        let fresh = |cx: &mut ImportContext| Expr::var(cx.b.sym(format!("{name}_{axis}")));
        shape.push(if same { x.clone() } else { fresh(cx) });
    }
    Ok(a.with(TensorType::new(x.dtype, shape)))
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

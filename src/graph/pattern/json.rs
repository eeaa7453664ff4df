//! Patterns as JSON, for other languages: a list of nodes, each of which refers to earlier ones, and the root.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use super::{Callee, Link, MAX_UNORDERED, Pattern, PatternKind, op_callee, pattern};
use crate::Literal;
use crate::registered::AttrValue;

/// Most nodes of a pattern.
const MAX_NODES: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    nodes: Vec<NodeText>,
    root: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TogetherText {
    nodes: Vec<NodeText>,
    roots: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlternativesText {
    nodes: Vec<NodeText>,
    root: Option<usize>,
    roots: Option<Vec<usize>>,
    alternatives: Option<Vec<Vec<usize>>>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum NodeText {
    Wildcard,
    Const,
    /// `bytes` are hexadecimal digits.
    Literal {
        dtype: String,
        shape: Vec<i64>,
        bytes: String,
    },
    Var {
        name: String,
    },
    DataflowVar {
        name: String,
    },
    ExternFunc {
        name: String,
    },
    Op {
        name: String,
        args: Option<Vec<usize>>,
        #[serde(default)]
        more: bool,
    },
    CallPacked {
        name: String,
        args: Option<Vec<usize>>,
        #[serde(default)]
        more: bool,
    },
    CallTir {
        name: String,
        args: Option<Vec<usize>>,
        #[serde(default)]
        more: bool,
    },
    /// Calls of a `function`, `global_var` or `extern_func`.
    CallFunction {
        function: usize,
        args: Option<Vec<usize>>,
        #[serde(default)]
        more: bool,
    },
    GlobalVar {
        name: String,
    },
    /// Without `params`, whatever they are.
    Function {
        params: Option<Vec<usize>>,
        body: usize,
    },
    Tuple {
        fields: Vec<usize>,
    },
    UnorderedTuple {
        fields: Vec<usize>,
    },
    TupleGetItem {
        tuple: usize,
        index: Option<usize>,
    },
    Or {
        left: usize,
        right: usize,
    },
    And {
        left: usize,
        right: usize,
    },
    Not {
        pattern: usize,
    },
    Dtype {
        pattern: usize,
        dtype: String,
    },
    Shape {
        pattern: usize,
        dims: Vec<Option<i64>>,
    },
    Attrs {
        pattern: usize,
        attrs: serde_json::Map<String, Json>,
    },
    SameShape {
        pattern: usize,
        others: Vec<usize>,
    },
    ShapeOperand {
        dims: Vec<Option<i64>>,
    },
    /// `only[i]`: whether `patterns[i]` is read by `patterns[i + 1]` alone.
    Chain {
        patterns: Vec<usize>,
        only: Vec<bool>,
    },
}

/// The pattern of a text, and all its nodes by number.
pub fn from_json(text: &str) -> Result<(Pattern, Vec<Pattern>), String> {
    let text: Text = serde_json::from_str(text).map_err(|e| format!("a pattern: {e}"))?;
    let (mut roots, made) = all(text.nodes, &[text.root])?;
    Ok((roots.remove(0), made))
}

/// The patterns of a text that match together (`roots` in the place of `root`), and all its nodes by number.
pub fn together_from_json(text: &str) -> Result<(Vec<Pattern>, Vec<Pattern>), String> {
    let text: TogetherText = serde_json::from_str(text).map_err(|e| format!("patterns: {e}"))?;
    all(text.nodes, &text.roots)
}

/// The alternatives of a text in order, each of patterns that match together, and all its nodes by number: `root`
/// for one pattern, `roots` for several, `alternatives` for lists of these.
pub fn alternatives_from_json(text: &str) -> Result<(Vec<Vec<Pattern>>, Vec<Pattern>), String> {
    let AlternativesText { nodes, root, roots, alternatives } =
        serde_json::from_str(text).map_err(|e| format!("a pattern: {e}"))?;
    let lists = match (root, roots, alternatives) {
        (Some(root), None, None) => vec![vec![root]],
        (None, Some(roots), None) => vec![roots],
        (None, None, Some(lists)) => lists,
        _ => return Err("a pattern: it has one of `root`, `roots` and `alternatives`".to_owned()),
    };
    if lists.is_empty() || lists.iter().any(Vec::is_empty) {
        return Err("a pattern: an alternative is empty".to_owned());
    }
    let (mut patterns, made) = all(nodes, &lists.concat())?;
    let take = |list: &Vec<usize>| patterns.drain(..list.len()).collect();
    Ok((lists.iter().map(take).collect(), made))
}

fn all(nodes: Vec<NodeText>, roots: &[usize]) -> Result<(Vec<Pattern>, Vec<Pattern>), String> {
    if nodes.len() > MAX_NODES {
        return Err(format!("a pattern has at most {MAX_NODES} nodes"));
    }
    let mut made: Vec<Pattern> = Vec::with_capacity(nodes.len());
    for (number, node) in nodes.into_iter().enumerate() {
        let next = read(node, &made).map_err(|why| format!("node {number} of a pattern: {why}"))?;
        made.push(next);
    }
    let root = |at: &usize| {
        let missing = || format!("a pattern has no node {at}");
        made.get(*at).cloned().ok_or_else(missing)
    };
    let roots = roots.iter().map(root).collect::<Result<Vec<Pattern>, String>>()?;
    Ok((roots, made))
}

fn read(node: NodeText, made: &[Pattern]) -> Result<Pattern, String> {
    let of = |number: usize| {
        made.get(number).cloned().ok_or_else(|| format!("node {number} does not come before it"))
    };
    let list = |numbers: Vec<usize>| -> Result<Vec<Pattern>, String> {
        numbers.into_iter().map(of).collect()
    };
    let call = |callee: Callee, args: Option<Vec<usize>>, more: bool| {
        let args = args.map(list).transpose()?;
        Ok::<PatternKind, String>(PatternKind::Call { callee, args, more })
    };
    let kind = match node {
        NodeText::Wildcard => PatternKind::Wildcard,
        NodeText::Const => PatternKind::Const,
        NodeText::Literal { dtype, shape, bytes } => {
            PatternKind::Literal(literal(&dtype, shape, &bytes)?)
        }
        NodeText::Var { name } => PatternKind::Var(name),
        NodeText::DataflowVar { name } => PatternKind::DataflowVar(name),
        NodeText::ExternFunc { name } => PatternKind::ExternFunc(name),
        NodeText::Op { name, args, more } => call(op_callee(&name), args, more)?,
        NodeText::CallPacked { name, args, more } => call(Callee::Packed(name), args, more)?,
        NodeText::CallTir { name, args, more } => call(Callee::Kernel(name), args, more)?,
        NodeText::CallFunction { function, args, more } => {
            let function = of(function)?;
            if let PatternKind::ExternFunc(name) = function.kind() {
                return Ok(pattern(call(Callee::Packed(name.clone()), args, more)?));
            }
            if !matches!(function.kind(), PatternKind::Function(..) | PatternKind::GlobalVar(_)) {
                return Err("what it calls is no pattern of a function".to_owned());
            }
            call(Callee::Function(function), args, more)?
        }
        NodeText::GlobalVar { name } => PatternKind::GlobalVar(name),
        NodeText::Function { params, body } => {
            PatternKind::Function(params.map(list).transpose()?, of(body)?)
        }
        NodeText::Tuple { fields } => PatternKind::Tuple(list(fields)?),
        NodeText::UnorderedTuple { fields } if fields.len() > MAX_UNORDERED => {
            return Err(format!("more than {MAX_UNORDERED} fields in any order"));
        }
        NodeText::UnorderedTuple { fields } => PatternKind::UnorderedTuple(list(fields)?),
        NodeText::SameShape { pattern, others } => {
            PatternKind::SameShape(of(pattern)?, list(others)?)
        }
        NodeText::TupleGetItem { tuple, index } => PatternKind::TupleGet(of(tuple)?, index),
        NodeText::Or { left, right } => PatternKind::Or(of(left)?, of(right)?),
        NodeText::And { left, right } => PatternKind::And(of(left)?, of(right)?),
        NodeText::Not { pattern } => PatternKind::Not(of(pattern)?),
        NodeText::Dtype { pattern, dtype } => {
            let parsed = dtype.parse().map_err(|_| format!("{dtype:?} is no type of elements"))?;
            PatternKind::DType(of(pattern)?, parsed)
        }
        NodeText::Shape { pattern, dims } => PatternKind::Shape(of(pattern)?, dims),
        NodeText::Attrs { pattern, attrs } => {
            let attrs = attrs.iter().map(|(name, value)| {
                let found = AttrValue::from_json(value);
                found
                    .map(|value| (name.clone(), value))
                    .ok_or_else(|| format!("attribute {name:?}"))
            });
            PatternKind::Attrs(of(pattern)?, attrs.collect::<Result<_, String>>()?)
        }
        NodeText::ShapeOperand { dims } => PatternKind::ShapeOperand(dims),
        NodeText::Chain { patterns, only } => {
            if patterns.is_empty() || only.len() + 1 != patterns.len() {
                return Err("a chain has a link between each two patterns".to_owned());
            }
            let link = |only: bool| if only { Link::OnlyUsedBy } else { Link::UsedBy };
            PatternKind::Chain(list(patterns)?, only.into_iter().map(link).collect())
        }
    };
    Ok(pattern(kind))
}

/// A constant of hexadecimal digits.
fn literal(dtype: &str, shape: Vec<i64>, digits: &str) -> Result<Literal, String> {
    let dtype = dtype.parse().map_err(|_| format!("{dtype:?} is no type of elements"))?;
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = match digits.len() % 2 {
        0 => digits.as_bytes().chunks(2).map(pair).collect(),
        _ => None,
    };
    let bytes = bytes.ok_or("the bytes of a constant are hexadecimal digits")?;
    Literal::new(dtype, shape, Arc::new(bytes))
        .ok_or_else(|| "a constant has the bytes of its shape".into())
}

//! Patterns over dataflow, with the words of TVM's pattern language (`tvm.relax.dpl`): which expressions a
//! pattern matches, and the values that its parts stand for. Several patterns match together
//! ([`Matcher::find_together`]) where those that share a part share its value, such as products of one input.
//!
//! Operators, their operands and their attributes are what the text of the module shows
//! ([`crate::print`]): `R.nn.conv2d(x, w, strides=[1, 1], ...)` is matched by
//! `is_op("relax.nn.conv2d").call([wildcard(), wildcard()])`. A pattern that occurs twice in another stands for one
//! value.
//!
//! ```
//! use reflex_graph::pattern::{Matcher, is_op, wildcard};
//! use reflex_graph::{FuncData, script};
//!
//! let text = r#"
//! @I.ir_module
//! class Module:
//!     @R.function
//!     def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
//!         y = R.matmul(x, w)
//!         return R.nn.relu(y)
//! "#;
//! let module = script::parse(text, "example.py")?;
//! let FuncData::Graph(main) = module.funcs.values().next().unwrap() else { unreachable!() };
//! let product = is_op("relax.matmul").call([wildcard(), wildcard()]);
//! let pattern = is_op("relax.nn.relu").call([product.clone()]);
//! let matcher = Matcher::new(&module, main, &main.body);
//! let found = matcher.find(&pattern, main.body.results[0]).unwrap();
//! assert_eq!(found.bindings.len(), 2);
//! assert_eq!(main.values[found.value(&product).unwrap()].name, "y");
//! # Ok::<(), reflex_graph::script::ScriptError>(())
//! ```
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

mod call_view;
mod json;
mod matcher;

use std::ops::{BitAnd, BitOr, BitXor, Not, Shr};
use std::sync::Arc;

use reflex_tir::DType;

use crate::Literal;
use crate::registered::AttrValue;

pub use call_view::CallView;
pub use json::{alternatives_from_json, from_json, together_from_json};
pub use matcher::{Match, Matcher};

/// A pattern. Clones are the same pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Arc<PatternKind>);

/// Most fields of a tuple in any order.
pub const MAX_UNORDERED: usize = 8;

/// The use of a value by the next one of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It is among the operands.
    UsedBy,
    /// And nothing else reads it.
    OnlyUsedBy,
}

#[derive(Clone, Debug)]
pub(crate) enum PatternKind {
    Wildcard,
    /// A constant.
    Const,
    /// This constant: its type, shape and bytes.
    Literal(Literal),
    /// A parameter of the function; by name, unless it is empty.
    Var(String),
    /// A result of a binding of the body that the function does not return; by name, unless it is empty.
    DataflowVar(String),
    /// A packed function, which is called; values are none.
    ExternFunc(String),
    /// A call of an operator, of a packed function or of a kernel, by its name.
    Call {
        callee: Callee,
        /// Without them, whatever they are.
        args: Option<Vec<Pattern>>,
        /// Whether there may be more operands.
        more: bool,
    },
    Tuple(Vec<Pattern>),
    /// The fields in any order.
    UnorderedTuple(Vec<Pattern>),
    /// A field of a tuple, or a result of an operator with several.
    TupleGet(Pattern, Option<usize>),
    Or(Pattern, Pattern),
    And(Pattern, Pattern),
    Not(Pattern),
    DType(Pattern, DType),
    /// Extents; one that is `None` is any.
    Shape(Pattern, Vec<Option<i64>>),
    Attrs(Pattern, Vec<(String, AttrValue)>),
    /// Has the shape of each of these, where they stand for something.
    SameShape(Pattern, Vec<Pattern>),
    /// A shape operand, as that of `reshape`.
    ShapeOperand(Vec<Option<i64>>),
    /// A function of the module; any where the name is empty.
    GlobalVar(String),
    /// A function by its parameters, whatever they are without patterns of them, and its result.
    Function(Option<Vec<Pattern>>, Pattern),
    /// Each is used by the next one; the last one is what matches.
    Chain(Vec<Pattern>, Vec<Link>),
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// With `relax.` before it.
    Op(String),
    Packed(String),
    /// Any kernel where the name is empty.
    Kernel(String),
    /// A function of the module that the pattern matches.
    Function(Pattern),
}

fn pattern(kind: PatternKind) -> Pattern {
    Pattern(Arc::new(kind))
}

/// Matches everything.
pub fn wildcard() -> Pattern {
    pattern(PatternKind::Wildcard)
}

/// Matches constants.
pub fn is_const() -> Pattern {
    pattern(PatternKind::Const)
}

/// Matches parameters: that of a name, or all for an empty one.
pub fn is_var(name: &str) -> Pattern {
    pattern(PatternKind::Var(name.to_owned()))
}

/// Matches variables of a dataflow block (TVM: `is_dfv`): what a binding gives and the function does not return, by
/// name, or all for an empty one.
pub fn is_dfv(name: &str) -> Pattern {
    pattern(PatternKind::DataflowVar(name.to_owned()))
}

/// Matches constants that are the same expression (TVM: `is_expr`): of this type and shape, with these bits.
///
/// ```
/// use reflex_graph::Literal;
/// use reflex_graph::pattern::{is_expr, is_op, wildcard};
///
/// let one = is_expr(Literal::from_f32(vec![], &[1.0]));
/// let increment = is_op("relax.add").call([wildcard(), one]);
/// ```
pub fn is_expr(expr: Literal) -> Pattern {
    pattern(PatternKind::Literal(expr))
}

/// Matches packed functions by name (TVM: `ExternFuncPattern`); [`Pattern::call`] makes it calls of these.
pub fn is_extern_func(name: &str) -> Pattern {
    pattern(PatternKind::ExternFunc(name.to_owned()))
}

fn call(callee: Callee) -> Pattern {
    pattern(PatternKind::Call { callee, args: None, more: false })
}

/// Matches calls of an operator such as `relax.matmul`, whatever its operands; [`Pattern::call`] adds patterns
/// of these.
pub fn is_op(name: &str) -> Pattern {
    call(op_callee(name))
}

fn op_callee(name: &str) -> Callee {
    let full = if name.starts_with("relax.") { name.to_owned() } else { format!("relax.{name}") };
    Callee::Op(full)
}

/// Matches calls of a packed function.
pub fn is_call_packed(name: &str) -> Pattern {
    call(Callee::Packed(name.to_owned()))
}

/// Matches calls of a kernel: that of a name, or all for an empty one.
pub fn is_call_tir(name: &str) -> Pattern {
    call(Callee::Kernel(name.to_owned()))
}

/// Matches tuples.
pub fn is_tuple(fields: impl IntoIterator<Item = Pattern>) -> Pattern {
    pattern(PatternKind::Tuple(fields.into_iter().collect()))
}

/// Matches tuples with these fields in any order.
///
/// # Panics
/// There are more than [`MAX_UNORDERED`] fields: all orders are tried.
pub fn is_unordered_tuple(fields: impl IntoIterator<Item = Pattern>) -> Pattern {
    let fields: Vec<Pattern> = fields.into_iter().collect();
    assert!(fields.len() <= MAX_UNORDERED, "at most {MAX_UNORDERED} fields in any order");
    pattern(PatternKind::UnorderedTuple(fields))
}

/// Matches a field of a tuple, and a result of an operator with several; any without an index.
pub fn is_tuple_get_item(tuple: Pattern, index: Option<usize>) -> Pattern {
    pattern(PatternKind::TupleGet(tuple, index))
}

/// Matches a shape operand; extents that are `None` are any.
pub fn is_shape(dims: impl IntoIterator<Item = Option<i64>>) -> Pattern {
    pattern(PatternKind::ShapeOperand(dims.into_iter().collect()))
}

/// Matches functions of the module as values: that of a name, or all for an empty one. [`Pattern::call`] makes it
/// calls of these.
pub fn is_gv(name: &str) -> Pattern {
    pattern(PatternKind::GlobalVar(name.to_owned()))
}

/// Matches functions whose parameters and result match (TVM: `FunctionPattern`), as values; [`Pattern::call`]
/// makes it calls of these. The parts are matched in the function's own body, so a [`Match`] has no values of them, and
/// one that is also outside stands for another value there.
///
/// ```
/// use reflex_graph::pattern::{function, is_op, wildcard};
///
/// let x = wildcard();
/// let square = function(Some(vec![x.clone()]), is_op("relax.multiply").call([x.clone(), x]));
/// let square_of_sum = square.call([is_op("relax.add")]);
/// ```
pub fn function(params: Option<Vec<Pattern>>, body: Pattern) -> Pattern {
    pattern(PatternKind::Function(params, body))
}

/// A product with or without a bias and an activation: `activation(op(x, w) + bias)`.
pub fn make_fused_bias_activation_pattern(
    op: &str,
    with_bias: bool,
    activation: Option<&str>,
) -> Pattern {
    let mut out = is_op(op).call([wildcard(), wildcard()]);
    if with_bias {
        out = is_op("relax.add").call([out, wildcard()]);
    }
    match activation {
        Some(name) => is_op(name).call([out]),
        None => out,
    }
}

impl Pattern {
    pub(crate) fn kind(&self) -> &PatternKind {
        &self.0
    }

    /// Tells patterns apart.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The same call with patterns of its operands, of which there are no others, or calls of the function.
    ///
    /// # Panics
    /// When the pattern is no call and no function.
    #[must_use]
    pub fn call(&self, args: impl IntoIterator<Item = Pattern>) -> Pattern {
        self.with_args(args, false)
    }

    /// The same call with patterns of its first operands (TVM: `varg_default_wildcard`).
    ///
    /// # Panics
    /// When the pattern is no call and no function.
    #[must_use]
    pub fn call_with_more(&self, args: impl IntoIterator<Item = Pattern>) -> Pattern {
        self.with_args(args, true)
    }

    fn with_args(&self, args: impl IntoIterator<Item = Pattern>, more: bool) -> Pattern {
        let callee = match self.kind() {
            PatternKind::Call { callee, .. } => callee.clone(),
            PatternKind::Function(..) | PatternKind::GlobalVar(_) => Callee::Function(self.clone()),
            PatternKind::ExternFunc(name) => Callee::Packed(name.clone()),
            _ => panic!("only patterns of calls and functions have operands: {self:?}"),
        };
        let args = Some(args.into_iter().collect());
        pattern(PatternKind::Call { callee, args, more })
    }

    /// Matches what this matches, of an element type.
    #[must_use]
    pub fn has_dtype(&self, dtype: DType) -> Pattern {
        pattern(PatternKind::DType(self.clone(), dtype))
    }

    /// Matches what this matches, of a shape; extents that are `None` are any.
    #[must_use]
    pub fn has_shape(&self, dims: impl IntoIterator<Item = Option<i64>>) -> Pattern {
        pattern(PatternKind::Shape(self.clone(), dims.into_iter().collect()))
    }

    /// Matches what this matches, with attributes of these values, as the text of the module shows them.
    #[must_use]
    pub fn has_attr<'a>(&self, attrs: impl IntoIterator<Item = (&'a str, AttrValue)>) -> Pattern {
        let attrs = attrs.into_iter().map(|(name, value)| (name.to_owned(), value));
        pattern(PatternKind::Attrs(self.clone(), attrs.collect()))
    }

    /// Matches what this matches, if it has the shape of what each of the others stands for. Those are parts of the
    /// same pattern, or of one that is matched together with it.
    #[must_use]
    pub fn same_shape_as(&self, others: impl IntoIterator<Item = Pattern>) -> Pattern {
        pattern(PatternKind::SameShape(self.clone(), others.into_iter().collect()))
    }

    /// A pattern of the same kind that may stand for another value. The parts stay the same.
    #[must_use]
    pub fn dup(&self) -> Pattern {
        Pattern(Arc::new(PatternKind::clone(&self.0)))
    }

    /// Matches what `next` matches where this is among its operands; `^` in short.
    #[must_use]
    pub fn used_by(&self, next: &Pattern) -> Pattern {
        self.linked(Link::UsedBy, next)
    }

    /// Matches what `next` matches where this is among its operands and nothing else reads it; `>>` in short.
    #[must_use]
    pub fn only_used_by(&self, next: &Pattern) -> Pattern {
        self.linked(Link::OnlyUsedBy, next)
    }

    fn linked(&self, link: Link, next: &Pattern) -> Pattern {
        let parts = |of: &Pattern| match of.kind() {
            PatternKind::Chain(patterns, links) => (patterns.clone(), links.clone()),
            _ => (vec![of.clone()], vec![]),
        };
        let ((mut patterns, mut links), (more, after)) = (parts(self), parts(next));
        patterns.extend(more);
        links.push(link);
        links.extend(after);
        pattern(PatternKind::Chain(patterns, links))
    }
}

impl BitOr for Pattern {
    type Output = Pattern;

    fn bitor(self, other: Pattern) -> Pattern {
        pattern(PatternKind::Or(self, other))
    }
}

impl BitAnd for Pattern {
    type Output = Pattern;

    fn bitand(self, other: Pattern) -> Pattern {
        pattern(PatternKind::And(self, other))
    }
}

impl Not for Pattern {
    type Output = Pattern;

    fn not(self) -> Pattern {
        pattern(PatternKind::Not(self))
    }
}

impl BitXor for Pattern {
    type Output = Pattern;

    fn bitxor(self, next: Pattern) -> Pattern {
        self.used_by(&next)
    }
}

impl Shr for Pattern {
    type Output = Pattern;

    fn shr(self, next: Pattern) -> Pattern {
        self.only_used_by(&next)
    }
}

#[cfg(test)]
mod tests;

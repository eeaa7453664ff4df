//! State of a function that is being read: names, symbolic dimensions and the builder.
//!
//! The other files of this folder add the methods of [`FuncParser`]: `func` reads statements,
//! `control` branches and loops, `expr` and `call` expressions, the rest operators by family.

use std::collections::{HashMap, HashSet};

use reflex_tir::Expr;

use super::context::ModuleContext;
use super::source::Source;
use super::types::SymbolicDims;
use crate::builder::FuncBuilder;
use crate::{Module, Value};

/// The meaning of a name or an expression in a function.
#[derive(Clone)]
pub(super) enum ParsedValue {
    /// A value of the function.
    Value(Value),
    /// Several values that Relax has as one tuple.
    Values(Vec<Value>),
    /// A shape.
    Shape(Vec<Expr>),
    /// The elements of a 1-D tensor as a shape that is not known yet.
    ShapeOf(Value),
    /// The class, through which its functions are called.
    Class,
}

/// A function that is being read.
pub(super) struct FuncParser<'s, 'm> {
    pub source: Source<'s>,
    pub cx: &'s ModuleContext,
    pub b: FuncBuilder<'m>,
    pub dims: SymbolicDims<'s>,
    /// Number of dimensions that the builder knows.
    synced: usize,
    pub(super) scopes: Vec<HashMap<String, ParsedValue>>,
    pub(super) result_names: Option<Vec<String>>,
    /// True if calls of the function are to be inlined.
    pub inline: bool,
    /// Fields of the tuples that this function builds.
    pub tuples: HashMap<Value, Vec<Value>>,
    /// Nesting depth of the expression that is read.
    pub depth: usize,
    /// True if TVM has lowered the function for its virtual machine, where types are erased.
    pub vm_lowered: bool,
}

impl<'s, 'm> FuncParser<'s, 'm> {
    /// A function without parameters or body so far.
    pub(super) fn new(
        source: Source<'s>,
        cx: &'s ModuleContext,
        symbols: &'s HashSet<String>,
        name: &str,
        module: &'m mut Module,
    ) -> FuncParser<'s, 'm> {
        FuncParser {
            source,
            cx,
            b: FuncBuilder::new(module, name),
            dims: SymbolicDims::new(source, symbols),
            synced: 0,
            scopes: vec![HashMap::new()],
            result_names: None,
            inline: false,
            tuples: HashMap::new(),
            depth: 0,
            vm_lowered: false,
        }
    }

    /// Makes the builder's dimensions those of the text.
    pub fn sync_dims(&mut self) {
        for name in &self.dims.order[self.synced..] {
            self.b.sym(name.clone());
        }
        self.synced = self.dims.order.len();
    }

    pub fn lookup(&self, name: &str) -> Option<ParsedValue> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    pub(super) fn define(&mut self, name: &str, item: ParsedValue) {
        self.scopes.last_mut().expect("a scope is open").insert(name.to_string(), item);
    }
}

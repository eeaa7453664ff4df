//! Expressions and statements as text, for any dialect.
//!
//! A vectorized loop is a loop over its lanes: what it means does not depend on how many run at once, and the compiler
//! that reads the text knows the vectors of its processor. On a GPU, its loads and stores of neighbours are
//! vectors where they are aligned (`lanes`). Lazy choices are `?:`, so nothing is read that the loop IR guards.
//!
//! Decision: docs/decisions/0099-source-text.md

mod arith;
mod call;
mod convert;
mod expr;
mod lanes;
mod memory;
pub mod plain;
pub mod register;
pub mod stmt;
pub mod text;

use std::collections::{HashMap, HashSet};

use reflex_tir::{Buffer, DType, PrimFunc, Var};

use crate::dialect::{Dialect, value_type};
use crate::error::{Result, SourceError};
use crate::helpers::Helpers;
use crate::names::Names;
use crate::print::text::{Text, Writer};

/// Expressions or statements within each other.
const MAX_NESTING: usize = 500;
/// Blocks within blocks. Clang takes 256, brackets included.
const MAX_BLOCKS: usize = 100;

/// Prints the body of one function.
pub struct Printer<'p, 'f> {
    /// The language.
    pub dialect: Dialect,
    /// The kernel.
    pub func: &'f PrimFunc,
    /// The functions that the text begins with.
    pub helpers: &'p mut Helpers,
    /// Lines so far.
    pub out: Writer,
    /// Names in scope.
    pub names: Names,
    /// Variables in scope.
    pub vars: HashMap<Var, String>,
    /// Variables that are positions: loop variables, extents, and sums of those.
    pub positions: HashSet<Var>,
    /// Pointers to element 0.
    pub buffers: HashMap<Buffer, String>,
    /// Copies of elements in registers, while lanes of a vector are printed.
    pub registers: Vec<register::Register>,
    /// Workspaces to release on every way out.
    pub workspaces: Vec<String>,
    /// Whether this function already is one part of a parallel loop.
    pub in_parallel: bool,
    /// Functions of parts of parallel loops, which come before this one.
    pub parts: String,
    /// Parallel loops so far.
    pub part_count: usize,
    /// Expressions and statements that this one is within.
    depth: usize,
}

impl<'p, 'f> Printer<'p, 'f> {
    /// Starts a function.
    pub fn new(dialect: Dialect, func: &'f PrimFunc, helpers: &'p mut Helpers) -> Self {
        Printer {
            dialect,
            func,
            helpers,
            out: Writer::default(),
            names: Names::default(),
            vars: HashMap::new(),
            positions: HashSet::new(),
            buffers: HashMap::new(),
            registers: vec![],
            workspaces: vec![],
            in_parallel: false,
            parts: String::new(),
            part_count: 0,
            depth: 0,
        }
    }

    /// The word for the type that values of `dtype` have.
    pub fn value_word(&mut self, dtype: DType) -> Result<&'static str> {
        self.helpers.has_double |= dtype == DType::F64;
        self.dialect.word(value_type(dtype))
    }

    /// Declares a variable and what it is called.
    pub fn declare(&mut self, var: Var) -> String {
        let name = self.names.declare(&self.func.vars[var].name);
        self.vars.insert(var, name.clone());
        name
    }

    /// Prints within one more expression or statement.
    pub fn nested<T>(&mut self, print: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_NESTING || self.out.blocks() > MAX_BLOCKS {
            return Err(SourceError::new(format!(
                "loops are nested deeper than {MAX_BLOCKS}, or expressions deeper than {MAX_NESTING}"
            )));
        }
        self.depth += 1;
        let printed = print(self);
        self.depth -= 1;
        printed
    }

    /// A call of a function.
    pub fn call(&self, function: &str, args: &[Text]) -> Text {
        Text::call(function, args)
    }

    /// A call of a helper for a type.
    pub fn helper(&mut self, name: &'static str, dtype: DType, args: &[Text]) -> Result<Text> {
        let function = self.helpers.of(name, dtype)?;
        Ok(self.call(&function, args))
    }
}

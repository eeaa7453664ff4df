//! The arguments of a primitive, by name and type.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::random::Random;
use crate::schedule::{Schedule, ScheduleError};
use crate::{Buffer, Scope, Var};

/// The meaning of a name or an argument.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Block(String),
    Loop(Var),
    /// No loop: a block stays where it is.
    Root,
    /// No loop: a block goes into its readers.
    Inline,
    List(Vec<Value>),
    IndexMap {
        params: Vec<String>,
        body: Vec<String>,
    },
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "a number",
            Value::Float(_) => "a number with a fraction",
            Value::Str(_) => "a text",
            Value::Block(_) => "a block",
            Value::Loop(_) => "a loop",
            Value::Root | Value::Inline => "a place that is no loop",
            Value::List(_) => "a list",
            Value::IndexMap { .. } => "an index map",
        }
    }
}

/// The arguments of a call.
#[derive(Debug, Default)]
pub struct Args {
    values: BTreeMap<String, Value>,
    /// The generator of the trace, if it has a seed.
    random: Cell<Option<Random>>,
    /// A decision that was drawn, which the instruction is to record.
    decided: RefCell<Option<Value>>,
}

impl Args {
    /// No arguments yet, for a trace with this generator.
    pub fn new(random: Option<Random>) -> Args {
        Args { random: Cell::new(random), ..Args::default() }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn random(&self) -> Option<Random> {
        self.random.get()
    }

    pub fn set_random(&self, random: Random) {
        self.random.set(Some(random));
    }

    pub fn decide(&self, decision: Value) {
        *self.decided.borrow_mut() = Some(decision);
    }

    pub fn decided(&self) -> Option<Value> {
        self.decided.borrow_mut().take()
    }

    pub fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        match self.values.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("`{name}` is given twice")),
        }
    }

    /// Adds to the arguments that a variadic parameter takes.
    pub fn push_rest(&mut self, name: &str, value: Value) {
        match self.values.entry(name.to_owned()).or_insert_with(|| Value::List(vec![])) {
            Value::List(items) => items.push(value),
            _ => unreachable!("a variadic parameter is a list"),
        }
    }

    /// The argument, if it is there and not None.
    pub fn optional(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !matches!(value, Value::None))
    }

    pub fn get(&self, name: &str) -> Result<&Value, String> {
        self.optional(name).ok_or_else(|| format!("the argument `{name}` is missing"))
    }

    fn wrong(name: &str, wanted: &str, found: &Value) -> String {
        format!("`{name}` is {}, where {wanted} is needed", found.kind())
    }

    pub fn block(&self, name: &str) -> Result<&str, String> {
        match self.get(name)? {
            Value::Block(block) => Ok(block),
            other => Err(Args::wrong(name, "a block", other)),
        }
    }

    pub fn at(&self, name: &str) -> Result<Var, String> {
        match self.get(name)? {
            Value::Loop(var) => Ok(*var),
            other => Err(Args::wrong(name, "a loop", other)),
        }
    }

    pub fn loops(&self, name: &str) -> Result<Vec<Var>, String> {
        let of = |value: &Value| match value {
            Value::Loop(var) => Ok(*var),
            other => Err(Args::wrong(name, "loops", other)),
        };
        self.list(name)?.iter().map(of).collect()
    }

    pub fn list(&self, name: &str) -> Result<&[Value], String> {
        match self.get(name)? {
            Value::List(items) => Ok(items),
            other => Err(Args::wrong(name, "a list", other)),
        }
    }

    pub fn int(&self, name: &str) -> Result<i64, String> {
        match self.get(name)? {
            Value::Int(n) => Ok(*n),
            other => Err(Args::wrong(name, "a number", other)),
        }
    }

    pub fn index(&self, name: &str) -> Result<usize, String> {
        let n = self.int(name)?;
        usize::try_from(n).map_err(|_| format!("`{name}` is {n}, a position is needed"))
    }

    pub fn ints(&self, name: &str) -> Result<Vec<i64>, String> {
        let of = |value: &Value| match value {
            Value::Int(n) => Ok(*n),
            other => Err(Args::wrong(name, "numbers", other)),
        };
        self.list(name)?.iter().map(of).collect()
    }

    pub fn numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let of = |value: &Value| match value {
            Value::Int(n) => Ok(*n as f64),
            Value::Float(n) => Ok(*n),
            other => Err(Args::wrong(name, "numbers", other)),
        };
        self.list(name)?.iter().map(of).collect()
    }

    pub fn text(&self, name: &str) -> Result<&str, String> {
        match self.get(name)? {
            Value::Str(text) => Ok(text),
            other => Err(Args::wrong(name, "a text", other)),
        }
    }

    /// A memory by TVM's name.
    pub fn scope(&self, name: &str) -> Result<Scope, String> {
        match self.text(name)? {
            "global" => Ok(Scope::Global),
            "shared" => Ok(Scope::Shared),
            "local" => Ok(Scope::Local),
            "tile" => Ok(Scope::Tile),
            other => Err(format!(
                "no memory {other:?}; there are \"global\", \"shared\", \"local\" and \"tile\""
            )),
        }
    }

    /// A buffer that a block reads or writes: by its place among them, or by its name.
    pub fn buffer(
        &self,
        name: &str,
        schedule: &Schedule,
        among: &[Buffer],
    ) -> Result<Buffer, String> {
        let names = || -> Vec<&str> {
            among.iter().map(|b| schedule.func().buffers[*b].name.as_str()).collect()
        };
        let found = match self.get(name)? {
            Value::Int(n) => usize::try_from(*n).ok().and_then(|n| among.get(n)),
            Value::Str(text) => among.iter().find(|b| schedule.func().buffers[**b].name == *text),
            other => return Err(Args::wrong(name, "a number or a name", other)),
        };
        let missing = || format!("`{name}`: no such buffer; there are {}", names().join(", "));
        found.copied().ok_or_else(missing)
    }
}

/// The error of a primitive as text.
pub fn refused(error: ScheduleError) -> String {
    error.to_string()
}

//! Schedule traces: the primitives that schedule a kernel, as text that is read, replayed and printed.
//!
//! The text is TVM's (`tvm.tir.schedule.Trace`): a Python function over a schedule, whose statements
//! call one primitive each, by TVM's names and argument names where TVM has the primitive. Names on the
//! left stand for what it returns. [`PRIMITIVES`] lists all. A sampling instruction is replayed with
//! the `decision` that it records; without one it draws one, which it records, where `sch.seed(...)` came before.
//!
//! ```
//! use reflex_tir::{schedule_trace::{Replay, Trace}, script};
//! let kernel = script::parse(r#"
//! @T.prim_func(s_tir=True)
//! def twice(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
//!     for i in range(1000):
//!         with T.sblock("compute"):
//!             v = T.axis.spatial(1000, i)
//!             B[v] = A[v] + A[v]
//! "#)?;
//! let trace: Trace = r#"
//! def twice(sch):
//!     b0 = sch.get_block(name="compute")
//!     l1, = sch.get_loops(block=b0)
//!     l2, l3 = sch.split(loop=l1, factors=[None, 8])
//!     sch.vectorize(loop=l3)
//! "#.parse()?;
//! let mut replay = Replay::new(kernel);
//! replay.apply_all(&trace)?;
//! assert!(script::print(replay.func()).contains("T.vectorized(T.int64(8))"));
//! assert_eq!(replay.trace("twice").to_string(), trace.to_string());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Decision: docs/decisions/0080-schedule-traces.md

mod arguments;
mod parse;
mod primitives;
mod random;
mod replay;
mod sampling;

use std::fmt;

pub use parse::parse_traces;
pub use primitives::{PRIMITIVES, Primitive};
pub use replay::Replay;

use crate::script::string;

/// The schedule of a kernel, instruction by instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The kernel's name.
    pub kernel: String,
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
}

/// A call of a primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The line that it was read from, from 1; 0 where there was none.
    pub line: usize,
    /// The names given to its results; none where they are dropped.
    pub results: Vec<String>,
    /// The primitive's name.
    pub primitive: String,
    /// The arguments, with their names where they have some.
    pub args: Vec<(Option<String>, Argument)>,
}

/// An argument of a primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction, as it was written.
    Float(String),
    /// A text.
    Str(String),
    /// The result of an instruction before.
    Name(String),
    /// A list or tuple.
    List(Vec<Argument>),
    /// An index map: its parameters, and each new index as it was written.
    Lambda {
        /// Names of the old indices.
        params: Vec<String>,
        /// New indices.
        body: Vec<String>,
    },
}

/// A refusal of a trace: the line and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TraceError {
    /// The line, from 1; 0 for an instruction that no text has.
    pub line: usize,
    /// The primitive and the reason.
    pub message: String,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::None => f.write_str("None"),
            Argument::Bool(true) => f.write_str("True"),
            Argument::Bool(false) => f.write_str("False"),
            Argument::Int(n) => n.fmt(f),
            Argument::Float(text) | Argument::Name(text) => f.write_str(text),
            Argument::Str(text) => f.write_str(&string(text)),
            Argument::List(items) => {
                let items: Vec<String> = items.iter().map(Argument::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Argument::Lambda { params, body } => {
                let comma = if body.len() == 1 { "," } else { "" };
                write!(f, "lambda {}: ({}{comma})", params.join(", "), body.join(", "))
            }
        }
    }
}

/// The statement, without a line break.
impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.results.is_empty() {
            let many = PRIMITIVES.iter().any(|p| p.name == self.primitive && p.many);
            let comma = if many && self.results.len() == 1 { "," } else { "" };
            write!(f, "{}{comma} = ", self.results.join(", "))?;
        }
        let args = self.args.iter().map(|(name, value)| match name {
            Some(name) => format!("{name}={value}"),
            None => value.to_string(),
        });
        write!(f, "sch.{}({})", self.primitive, args.collect::<Vec<_>>().join(", "))
    }
}

/// A function of Python, which reads as the same trace.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "def {}(sch):", self.kernel)?;
        if self.instructions.is_empty() {
            return writeln!(f, "    pass");
        }
        self.instructions.iter().try_for_each(|i| writeln!(f, "    {i}"))
    }
}

impl std::str::FromStr for Trace {
    type Err = TraceError;

    /// The trace of a text that has one.
    fn from_str(text: &str) -> Result<Trace, TraceError> {
        let mut traces = parse_traces(text)?;
        match traces.len() {
            1 => Ok(traces.remove(0)),
            n => {
                let message = format!("one function over a schedule is expected, found {n}");
                Err(TraceError { line: 1, message })
            }
        }
    }
}

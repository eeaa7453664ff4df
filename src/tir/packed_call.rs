//! Calls of packed functions in kernels: `T.call_packed("f", tensor, 3, "text")`.
//!
//! The function is looked up by name when the call is first reached, and its handle kept. It gets tensors
//! as views (`DLTensor`) of main memory, and writes its results into them. What it does to memory is not known, so a kernel
//! with such a call runs as it is written: no rule and no primitive schedules it.
//!
//! Decision: docs/decisions/0089-packed-calls-in-kernels.md

use serde::{Deserialize, Serialize};

use crate::{Buffer, Expr, PrimFunc, Stmt};

/// A call of a packed function, for its effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PackedCall {
    /// The function: one of a library's imported modules, or a global one.
    pub name: String,
    /// Its arguments.
    pub args: Vec<CallArg>,
}

/// An argument of a packed function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CallArg {
    /// A whole tensor in main memory.
    Tensor(Buffer),
    /// An integer, a truth value or a float32 or float64.
    Scalar(Expr),
    /// A text, without NUL.
    Text(String),
}

impl PackedCall {
    /// The message of an error: a kernel has no use for an object.
    pub fn returned_object(name: &str) -> String {
        format!("packed function `{name}` returned an object to a kernel")
    }

    /// The tensors, in order.
    pub fn tensors(&self) -> impl DoubleEndedIterator<Item = Buffer> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            CallArg::Tensor(buffer) => Some(*buffer),
            CallArg::Scalar(_) | CallArg::Text(_) => None,
        })
    }

    /// The tensor that the function writes by convention, which is the last one.
    pub fn written(&self) -> Option<Buffer> {
        self.tensors().next_back()
    }

    /// The scalars, in order.
    pub fn exprs(&self) -> Vec<&Expr> {
        let scalars = self.args.iter().filter_map(|arg| match arg {
            CallArg::Scalar(value) => Some(value),
            CallArg::Tensor(_) | CallArg::Text(_) => None,
        });
        scalars.collect()
    }

    /// The call with other tensors and scalars.
    pub fn map(
        &self,
        buffer: &mut dyn FnMut(Buffer) -> Buffer,
        expr: &mut dyn FnMut(&Expr) -> Expr,
    ) -> PackedCall {
        let arg = |arg: &CallArg| match arg {
            CallArg::Tensor(of) => CallArg::Tensor(buffer(*of)),
            CallArg::Scalar(value) => CallArg::Scalar(expr(value)),
            CallArg::Text(text) => CallArg::Text(text.clone()),
        };
        PackedCall { name: self.name.clone(), args: self.args.iter().map(arg).collect() }
    }
}

impl PrimFunc {
    /// Whether the kernel calls packed functions.
    pub fn calls_packed(&self) -> bool {
        let mut found = false;
        self.body.visit(&mut |s| found |= matches!(s, Stmt::CallPacked(_)));
        found
    }
}

//! Calls of packed functions.

use super::Verifier;
use crate::{CallArg, DType, Expr, ForKind, PackedCall, Scope, Stmt};

impl Verifier<'_> {
    pub(super) fn call_packed(&mut self, call: &PackedCall) {
        let name = &call.name;
        self.require(!name.is_empty() && !name.contains('\0'), || {
            format!("{name:?} is no name of a packed function")
        });
        for arg in &call.args {
            match arg {
                CallArg::Tensor(buffer) => {
                    let (known, of) = (self.buffers.contains(buffer), self.buffer_name(*buffer));
                    self.require(known, || format!("buffer `{of}` is not in scope"));
                    let scope = self.func.buffers.get(*buffer).map(|data| data.scope);
                    let in_memory = scope.is_none_or(|s| matches!(s, Scope::Global | Scope::Local));
                    self.require(in_memory, || {
                        format!("`{of}` for `{name}` is not in main memory")
                    });
                }
                CallArg::Scalar(value) => self.packed_scalar(name, value),
                CallArg::Text(text) => {
                    self.require(!text.contains('\0'), || format!("a text for `{name}` has a NUL"));
                }
            }
        }
    }

    fn packed_scalar(&mut self, name: &str, value: &Expr) {
        self.expr(value);
        let dtype = value.dtype();
        let word = dtype.is_int() || dtype.is_uint() || dtype == DType::BOOL;
        self.require(word || matches!(dtype, DType::F32 | DType::F64), || {
            format!("a {dtype} for the packed function `{name}`")
        });
    }

    /// Packed functions are called by one thread, one call after the other.
    pub(super) fn calls_in_order(&mut self) {
        let mut found = None;
        self.func.body.visit(&mut |s| {
            if let Stmt::For(l) = s
                && !matches!(l.kind, ForKind::Serial | ForKind::Unrolled)
            {
                l.body.visit(&mut |s| {
                    if let Stmt::CallPacked(call) = s {
                        found = found.take().or(Some((l, call)));
                    }
                });
            }
        });
        if let Some((l, call)) = found {
            let (name, at) = (&call.name, self.var_name(l.var));
            self.fault(format!("`{name}` is called in the {:?} loop `{at}`", l.kind));
        }
    }
}

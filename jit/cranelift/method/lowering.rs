//! The lowering of the builtins of a method.

use std::fmt;

use reflex_vm::builtins::Builtin;

/// A builtin of a method and its lowering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The index of the operation.
    pub pc: u32,
    /// The builtin that the operation runs.
    pub builtin: Builtin,
    /// Its lowering.
    pub how: InlineDecision,
}

/// Whether machine code has a builtin inline, or calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineDecision {
    /// Inline; the VM is called if the fast path does not apply.
    Inline,
    /// The object is popped from the free list; the VM is called if there is none.
    Recycled,
    /// The object, a storage, is made together with the tensor on it.
    Fused,
    /// Always by the VM.
    Called,
}

impl fmt::Display for InlineDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InlineDecision::Inline => "inline",
            InlineDecision::Recycled => "recycled",
            InlineDecision::Fused => "fused",
            InlineDecision::Called => "called",
        })
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.builtin.name(), self.pc, self.how)
    }
}

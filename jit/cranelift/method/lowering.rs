//! How the builtins of a function that was compiled whole became machine code.

use std::fmt;

use reflex_vm::builtins::Builtin;

/// A builtin and what was made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// The operation.
    pub pc: u32,
    /// What it runs.
    pub builtin: Builtin,
    /// How.
    pub how: Lowering,
}

/// How machine code runs a builtin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// Written out; the VM is called where the usual case does not hold.
    Inline,
    /// The object of an earlier run is taken back; the VM is called where there is none.
    Recycled,
    /// By the VM, always.
    Called,
}

impl fmt::Display for Lowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lowering::Inline => "inline",
            Lowering::Recycled => "recycled",
            Lowering::Called => "called",
        })
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.builtin.name(), self.pc, self.how)
    }
}

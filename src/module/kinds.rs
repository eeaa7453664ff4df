//! The kinds of modules that are made here.

/// A program: makes sessions.
pub(super) const EXECUTABLE: &str = "relax.VMExecutable";
/// A session with the functions of TVM's virtual machine.
pub(super) const VIRTUAL_MACHINE: &str = "relax.VirtualMachine";
/// A function with inputs and outputs in place.
pub(super) const STATEFUL: &str = "reflex.StatefulModule";

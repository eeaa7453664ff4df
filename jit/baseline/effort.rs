//! The care that Cranelift takes of a kernel, by what that is for.

/// The use of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// They stay.
    #[default]
    Full,
    /// LLVM's replace them soon. Instructions stay as they are emitted, and registers are allocated in a single pass,
    /// instruction by instruction, with values in memory between blocks: less time to compile, and more to run outside
    /// of micro-kernels.
    Quick,
}

//! The execution modes of a session.

/// Which tiers a session executes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The interpreter alone.
    #[default]
    Bytecode,
    /// Native code for functions that the program's tier compiled ahead of time; the interpreter
    /// for the rest.
    Compiled,
    /// The interpreter with hot counters; the program's tier compiles hot sites while it runs.
    Tiered,
}

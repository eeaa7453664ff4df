//! The stand-in for [`crate::compiler`] in builds without the feature `compiler`: the options of programs that
//! are opened.

use crate::options::{ExecutionOptions, TargetSelection};

/// Options of programs; nothing is compiled.
#[derive(Clone, Default)]
pub(crate) struct Compiler {
    pub(crate) target: TargetSelection,
    pub(crate) execution: ExecutionOptions,
}

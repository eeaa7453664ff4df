//! Settings from the environment.

use std::sync::LazyLock;

/// The variable that makes each launch wait for its end, so that an error names its kernel.
pub const SYNC_VARIABLE: &str = "REFLEX_CUDA_SYNC";

/// The variable that makes the driver compile texts of kernels where there is machine code for the
/// device too.
pub const JIT_VARIABLE: &str = "REFLEX_CUDA_JIT";

/// Whether the driver compiles texts where there is machine code.
pub(crate) fn compiles_texts() -> bool {
    static COMPILES: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os(JIT_VARIABLE).is_some_and(|value| value == "1"));
    *COMPILES
}

/// Whether each launch waits for its end.
pub(crate) fn synchronous() -> bool {
    static SYNCHRONOUS: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os(SYNC_VARIABLE).is_some_and(|value| value == "1"));
    *SYNCHRONOUS
}

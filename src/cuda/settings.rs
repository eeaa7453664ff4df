//! Settings from the environment.

use std::sync::LazyLock;

/// The variable that makes each launch wait for its end, so that an error names its kernel.
pub const SYNC_VARIABLE: &str = "REFLEX_CUDA_SYNC";

/// Whether each launch waits for its end.
pub(crate) fn synchronous() -> bool {
    static SYNCHRONOUS: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os(SYNC_VARIABLE).is_some_and(|value| value == "1"));
    *SYNCHRONOUS
}

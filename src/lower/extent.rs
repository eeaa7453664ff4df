//! Extents that are known only when a kernel runs: the value that cost models assume for them.

use reflex_tir::Expr;

/// What an extent that is known only when the kernel runs counts as where code is chosen. Whether
/// threads are woken is decided when it runs.
pub const UNKNOWN_EXTENT: i64 = 64;

/// `extent`, or what an unknown one counts as.
pub fn likely(extent: &Expr) -> i64 {
    extent.as_int().unwrap_or(UNKNOWN_EXTENT)
}

//! Extents that are known only when a kernel runs: the value that cost models assume for them.

use reflex_tir::Expr;

/// The value that schedules assume for an extent that is known only when the kernel runs. Whether
/// threads are woken is decided when it runs.
pub const UNKNOWN_EXTENT: i64 = 64;

/// `extent`, or [`UNKNOWN_EXTENT`] where it is symbolic.
pub fn assumed_extent(extent: &Expr) -> i64 {
    extent.as_int().unwrap_or(UNKNOWN_EXTENT)
}

//! Policy: which schedule a kernel gets.

use reflex_tir::codegen::Target;

/// Columns per panel for a matrix of `n` columns on vectors of `lanes` elements.
pub fn panel_width(n: i64, lanes: i64) -> i64 {
    let most = if lanes >= 16 { 4 } else { 2 };
    let vectors = (n + lanes - 1) / lanes;
    vectors.clamp(1, most) * lanes
}

/// Rows per panel for the weights of a convolution with `n` output channels.
pub fn conv_rows(n: i64, target: &Target) -> i64 {
    let most = if target.vector_bytes >= 64 { 12 } else { 6 };
    n.clamp(1, most)
}

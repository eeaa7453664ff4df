//! Facts of memory layouts on which fusion, weight packing and schedules agree: lanes of a block of
//! channels (NCHWc), widths of packed panels, rows of a register tile.

use reflex_tir::Expr;

/// Lanes of blocked layouts (the 16 of nChw16c) and of packed panels: the widest vectors. Kernels
/// for narrower ones take a block or a panel in parts, so one layout serves every CPU.
pub const LAYOUT_LANES: i64 = 16;

/// Columns per panel for a matrix of `n` columns that is packed when it is compiled.
pub fn panel_width(n: i64) -> i64 {
    panel_width_for(n, LAYOUT_LANES, 4)
}

/// Columns per panel of at most so many vectors: the width with the least padding, the larger one
/// of equals.
pub fn panel_width_for(n: i64, lanes: i64, most: i64) -> i64 {
    let filled = |width: i64| (n + width - 1) / width * width;
    let best = (1..=most).rev().min_by_key(|v| {
        // Narrower panels load more per multiply-add: worth it from 1/16 less padding on.
        filled(v * lanes) + (most - v) * (n / 16)
    });
    best.unwrap_or(1) * lanes
}

/// Rows per panel for the weights of a convolution with `n` output channels and so many `positions`
/// per feature map. Where four vectors hold all positions, fewer rows, so that one pass over the
/// weights does.
pub fn conv_panel_rows(n: i64, positions: Option<i64>) -> i64 {
    match positions {
        Some(49..=64) => even_height(n, 6),
        _ => even_height(n, 12),
    }
}

/// The largest divisor of `n` above half of `most`, so that one tile height serves all rows; where
/// there is none, the height that makes the tiles most alike, because a tile of one or two rows
/// waits for its sums.
pub fn even_height(n: i64, most: i64) -> i64 {
    let divides = |d: &i64| n % d == 0 && d * 2 > most;
    let parts = |n: i64, each: i64| (n + each - 1) / each;
    let alike = || parts(n, parts(n, most).max(1));
    (1..=most).rev().find(divides).unwrap_or_else(alike).clamp(1, n.max(1))
}

/// Row-major position of an index.
pub fn flatten(shape: &[Expr], index: &[Expr]) -> Expr {
    let pairs = shape.iter().zip(index);
    pairs.fold(Expr::i64(0), |flat, (n, i)| flat * n.clone() + i.clone())
}

/// The shape `[n, c, h, w]` in a blocked layout: `[n, c / block, h, w, block]`.
pub fn blocked_shape(shape: &[Expr], block: i64) -> Vec<Expr> {
    let blocks = shape[1].clone().floordiv(block);
    let blocks = blocks.as_int().map_or(blocks, Expr::i64);
    let mut blocked = vec![shape[0].clone(), blocks];
    blocked.extend_from_slice(&shape[2..]);
    blocked.push(block.into());
    blocked
}

/// The index in a blocked layout of an element of a tensor.
pub fn blocked_index(index: &[Expr], block: i64) -> Vec<Expr> {
    let mut at = vec![index[0].clone(), index[1].clone().floordiv(block)];
    at.extend_from_slice(&index[2..]);
    at.push(index[1].clone().floormod(block));
    at
}

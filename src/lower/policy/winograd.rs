//! Whether minimal filtering pays for a convolution, and with which tiles.

use reflex_graph::ConvAttrs;
use reflex_tir::Expr;

use super::nest::UNKNOWN_EXTENT;

/// Multiply-adds in the time in which a word comes from memory, where nothing hides it.
const PER_WORD: i64 = 8;
/// Multiply-adds in the time of one element more or less in a stage between the tiles: written by
/// one, read by the next.
const PER_ELEMENT: i64 = 2;

/// Results on each side of a tile, where a convolution of 3x3 windows is worth computing by tiles.
/// `x` and `w` are the extents of its operands.
pub fn winograd_tile(attrs: &ConvAttrs, x: &[Expr], w: &[Expr]) -> Option<i64> {
    let three = |d: &Expr| d.as_int() == Some(3);
    let plain = attrs.groups == 1
        && attrs.strides.iter().chain(&attrs.dilations).all(|n| *n == 1)
        && w.len() == 4
        && w[2..].iter().all(three);
    if !plain {
        return None;
    }
    let (co, ci) = (w[0].as_int()?, w[1].as_int()?);
    let extent = |d: usize| {
        let known = x[d + 2].as_int().unwrap_or(UNKNOWN_EXTENT);
        (known + attrs.pads_begin[d] + attrs.pads_end[d] - 2).max(0)
    };
    let (h, w) = (extent(0), extent(1));
    let direct = ci * co * 9 * (h * w + PER_WORD);
    let by_tiles = |m: i64| {
        let (side, tiles) = (m + 2, ((h + m - 1) / m) * ((w + m - 1) / m));
        let products = side * side * ci * co * (tiles + PER_WORD);
        // A transform takes about as many operations per element as its side is long.
        products + side * side * (ci + co) * tiles * (side + 2 * PER_ELEMENT)
    };
    let best = [2, 4].into_iter().min_by_key(|m| by_tiles(*m))?;
    (h >= best && w >= best && by_tiles(best) * 5 < direct * 4).then_some(best)
}

//! Whether minimal filtering pays for a convolution, and with which tiles.

use reflex_graph::ConvAttrs;
use reflex_tir::Expr;

use super::nest::likely;
use crate::pipeline::Precision;

/// Multiply-adds in the time in which a word comes from memory, where nothing hides it.
const PER_WORD: i64 = 8;
/// Multiply-adds in the time of one element more or less in a stage between the tiles: written by
/// one, read by the next.
const PER_ELEMENT: i64 = 2;

/// Longest sides of tiles: of one direction, and of two. What is longer has larger errors.
const LONGEST: [i64; 2] = [8, 6];

/// Results on each side of a tile, where a convolution of windows of 3 or 5 in one direction or
/// both is worth computing by tiles; a side without a window has one. `x` and `w` are the extents
/// of its operands. In precision `bf16` tiles are still multiplied in float32, at half the rate of
/// direct products.
pub fn winograd_tile(
    attrs: &ConvAttrs,
    x: &[Expr],
    w: &[Expr],
    precision: Precision,
) -> Option<[i64; 2]> {
    let step = attrs.strides.iter().chain(&attrs.dilations).all(|n| *n == 1);
    let [co, ci, taps @ ..] = &w.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?[..] else {
        return None;
    };
    let (true, 1, &[high, wide]) = (step, attrs.groups, taps) else { return None };
    let extent = |d: usize| {
        (likely(&x[d + 2]) + attrs.pads_begin[d] + attrs.pads_end[d] - (taps[d] - 1)).max(0)
    };
    let (h, w) = (extent(0), extent(1));
    let rate = match precision {
        Precision::F32 | Precision::F32Fast => 1,
        Precision::Bf16 => 2,
    };
    let direct = ci * co * high * wide * (h * w + PER_WORD) / rate;
    let by_tiles = |[m, n]: [i64; 2]| {
        let (rows, columns) = (m + high - 1, n + wide - 1);
        let tiles = ((h + m - 1) / m) * ((w + n - 1) / n);
        let products = rows * columns * ci * co * (tiles + PER_WORD);
        // A transform takes about as many operations per element as its sides are long, halved.
        let transforms = (rows + columns) / 2 + 2 * PER_ELEMENT;
        products + rows * columns * (ci + co) * tiles * transforms
    };
    let results = |taps| match taps {
        1 => &[1][..],
        3 | 5 => &[2, 4][..],
        _ => &[],
    };
    let both = results(high).iter().flat_map(|m| results(wide).iter().map(|n| [*m, *n]));
    let sides = |[m, n]: [i64; 2]| [m + high - 1, n + wide - 1];
    let fits = |tile: &[i64; 2]| {
        let tiled = sides(*tile).into_iter().filter(|side| *side > 1);
        let longest = tiled.clone().count().checked_sub(1).map(|n| LONGEST[n]);
        longest.is_some_and(|longest| tiled.clone().all(|side| side <= longest))
            && h >= tile[0]
            && w >= tile[1]
    };
    let best = both.filter(fits).min_by_key(|tile| by_tiles(*tile))?;
    (by_tiles(best) * 5 < direct * 4).then_some(best)
}

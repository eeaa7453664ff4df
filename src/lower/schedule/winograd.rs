//! Whether minimal filtering pays for a convolution, and with which tiles.

use reflex_graph::ConvAttrs;
use reflex_tir::Expr;

use super::LAYOUT_LANES;
use super::nest::likely;
use crate::legalize::{STEP, phase_taps};
use crate::precision::Precision;

/// Multiply-adds in the time in which a word comes from memory, where nothing hides it.
const PER_WORD: i64 = 8;
/// Multiply-adds in the time of one element more or less in a stage between the tiles: written by
/// one, read by the next.
const PER_ELEMENT: i64 = 2;

/// Longest sides of tiles: of one direction, and of two. What is longer has larger errors.
const LONGEST: [i64; 2] = [8, 6];

/// Most channels of an image by phases: one vector holds all four of each.
const MOST_CHANNELS: i64 = LAYOUT_LANES / (STEP * STEP);

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
    let sizes = Sizes::of(attrs, x, w, 1)?;
    // Those of 4 come from phases: none of stride 1 was measured.
    if sizes.weights[2..].contains(&4) {
        return None;
    }
    let best = sizes.best()?;
    (sizes.by_tiles(best) * 5 < sizes.direct(precision) * 4).then_some(best)
}

/// [`winograd_tile`] for windows of stride 2 over few channels, whose image is taken by phases.
pub fn phases_tile(
    attrs: &ConvAttrs,
    x: &[Expr],
    w: &[Expr],
    precision: Precision,
) -> Option<[i64; 2]> {
    let whole = Sizes::of(attrs, x, w, STEP)?;
    let [co, ci, high, wide] = whole.weights;
    if high == 1 || wide == 1 || !(1..=MOST_CHANNELS).contains(&ci) {
        return None;
    }
    let [high, wide] = [high, wide].map(|taps| phase_taps(taps, STEP));
    let phases = Sizes { weights: [co, ci * STEP * STEP, high, wide], ..whole };
    let best = phases.best()?;
    (phases.by_tiles(best) * 5 < whole.direct(precision) * 4).then_some(best)
}

/// Extents of a convolution.
#[derive(Clone, Copy)]
struct Sizes {
    /// Output channels, input channels, and the window's.
    weights: [i64; 4],
    /// Positions of results.
    positions: [i64; 2],
}

impl Sizes {
    /// Those of a convolution over all channels, of stride `step` in both directions.
    fn of(attrs: &ConvAttrs, x: &[Expr], w: &[Expr], step: i64) -> Option<Sizes> {
        let near = attrs.strides.iter().all(|n| *n == step);
        let near = near && attrs.dilations.iter().all(|n| *n == 1) && attrs.groups == 1;
        let weights: [i64; 4] =
            w.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?.try_into().ok()?;
        let positions = |d: usize| {
            let padded = likely(&x[d + 2]) + attrs.pads_begin[d] + attrs.pads_end[d];
            ((padded - weights[d + 2]).div_euclid(step) + 1).max(0)
        };
        near.then(|| Sizes { weights, positions: [0, 1].map(positions) })
    }

    /// Multiply-adds without tiles, and the time for weights in such.
    fn direct(&self, precision: Precision) -> i64 {
        let rate = match precision {
            Precision::F32 | Precision::F32Fast => 1,
            Precision::Bf16 => 2,
        };
        let [h, w] = self.positions;
        self.weights.iter().product::<i64>() * (h * w + PER_WORD) / rate
    }

    fn by_tiles(&self, [m, n]: [i64; 2]) -> i64 {
        let ([co, ci, high, wide], [h, w]) = (self.weights, self.positions);
        let (rows, columns) = (m + high - 1, n + wide - 1);
        let tiles = ((h + m - 1) / m) * ((w + n - 1) / n);
        let products = rows * columns * ci * co * (tiles + PER_WORD);
        // A transform takes about as many operations per element as its sides are long, halved.
        let transforms = (rows + columns) / 2 + 2 * PER_ELEMENT;
        products + rows * columns * (ci + co) * tiles * transforms
    }

    /// The tile of the least time.
    fn best(&self) -> Option<[i64; 2]> {
        let ([_, _, high, wide], [h, w]) = (self.weights, self.positions);
        let results = |taps| match taps {
            1 => &[1][..],
            3 | 5 => &[2, 4][..],
            4 => &[3][..],
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
        both.filter(fits).min_by_key(|tile| self.by_tiles(*tile))
    }
}

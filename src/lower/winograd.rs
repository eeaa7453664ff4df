//! Winograd's minimal filtering: which convolutions it pays for, with which tiles, and the matrices
//! of its transforms.
//!
//! An output tile of `m` by `m` positions takes a `t` by `t` tile of the input, `t = m + r - 1` for
//! kernels of `r` by `r`. Kernels of stride 2 become kernels of stride 1 over the four phases of the
//! feature map, its rows and columns of even and of odd number.
//!
//! Decision: docs/decisions/0036-winograd.md
//! Decision: docs/decisions/0037-winograd-stride-2.md

use reflex_graph::ConvAttrs;
use reflex_tir::Expr;

use crate::extent::assumed_extent;
use crate::layout::LAYOUT_LANES;
use crate::precision::Precision;

/// Multiply-adds in the time of loading one element from memory, where nothing hides it.
const PER_WORD: i64 = 8;

/// Multiply-adds in the time of one element more or less in a stage between the tiles: written by
/// one, read by the next.
const PER_ELEMENT: i64 = 2;

/// Longest sides of tiles: in one direction, and in two. Longer ones have larger errors.
const LONGEST: [i64; 2] = [8, 6];

/// Most channels of a feature map by phases: one vector holds all four of each.
const MOST_CHANNELS: i64 = LAYOUT_LANES / (PHASE_STEP * PHASE_STEP);

/// A tile of a Winograd convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WinogradTile {
    /// Output positions on each side; 1 in a direction in which the kernel has one element.
    pub outputs: [i64; 2],
    /// Phases of the feature map on each side: the stride of the convolution.
    pub step: i64,
}

/// The tile that makes a convolution of stride 1 faster than its direct sum; kernels have 3 or 5
/// elements in one direction or both. `x` and `w` are the shapes of its operands. In precision
/// `bf16` tiles are still multiplied in float32, at half the rate of the direct sum.
pub fn winograd_tile(
    attrs: &ConvAttrs,
    x: &[Expr],
    w: &[Expr],
    precision: Precision,
) -> Option<WinogradTile> {
    let sizes = ConvSizes::of(attrs, x, w, 1)?;
    // Those of 4 come from phases: none of stride 1 was measured.
    if sizes.weights[2..].contains(&4) {
        return None;
    }
    let outputs = sizes.best()?;
    let faster = sizes.tiled(outputs) * 5 < sizes.direct(precision) * 4;
    faster.then_some(WinogradTile { outputs, step: 1 })
}

/// [`winograd_tile`] for kernels of stride 2 over few channels, over the phases of the feature map.
pub fn winograd_phases_tile(
    attrs: &ConvAttrs,
    x: &[Expr],
    w: &[Expr],
    precision: Precision,
) -> Option<WinogradTile> {
    let whole = ConvSizes::of(attrs, x, w, PHASE_STEP)?;
    let [co, ci, high, wide] = whole.weights;
    if high == 1 || wide == 1 || !(1..=MOST_CHANNELS).contains(&ci) {
        return None;
    }
    let [high, wide] = [high, wide].map(|taps| phase_taps(taps, PHASE_STEP));
    let phases = ConvSizes { weights: [co, ci * PHASE_STEP * PHASE_STEP, high, wide], ..whole };
    let outputs = phases.best()?;
    let faster = phases.tiled(outputs) * 5 < whole.direct(precision) * 4;
    faster.then_some(WinogradTile { outputs, step: PHASE_STEP })
}

/// Sizes of a convolution.
#[derive(Clone, Copy)]
pub struct ConvSizes {
    /// Output channels, input channels, kernel height and width.
    weights: [i64; 4],
    /// Positions of results.
    positions: [i64; 2],
}

impl ConvSizes {
    /// Those of a dense convolution of stride `step` in both directions.
    fn of(attrs: &ConvAttrs, x: &[Expr], w: &[Expr], step: i64) -> Option<ConvSizes> {
        let near = attrs.strides.iter().all(|n| *n == step);
        let near = near && attrs.dilations.iter().all(|n| *n == 1) && attrs.groups == 1;
        let weights: [i64; 4] =
            w.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?.try_into().ok()?;
        let positions = |d: usize| {
            let padded = assumed_extent(&x[d + 2]) + attrs.pads_begin[d] + attrs.pads_end[d];
            ((padded - weights[d + 2]).div_euclid(step) + 1).max(0)
        };
        near.then(|| ConvSizes { weights, positions: [0, 1].map(positions) })
    }

    /// Multiply-adds of the direct sum, and the time for loading weights in such.
    fn direct(&self, precision: Precision) -> i64 {
        let rate = match precision {
            Precision::F32 | Precision::F32Fast | Precision::Int8 => 1,
            Precision::Bf16 => 2,
        };
        let [h, w] = self.positions;
        self.weights.iter().product::<i64>() * (h * w + PER_WORD) / rate
    }

    fn tiled(&self, [m, n]: [i64; 2]) -> i64 {
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
        both.filter(fits).min_by_key(|tile| self.tiled(*tile))
    }
}

/// Phases of a feature map in each direction, for kernels of stride 2.
pub const PHASE_STEP: i64 = 2;

/// Phases of a feature map.
pub const PHASES: i64 = PHASE_STEP * PHASE_STEP;

/// A matrix by rows.
pub type Matrix = Vec<Vec<f64>>;

/// Tiles in one direction: `m` results of kernels of `taps` elements.
#[derive(Clone, Copy)]
pub struct TileSide {
    pub m: i64,
    pub taps: i64,
}

/// The matrices of one direction, each by rows.
pub struct TransformMatrices {
    /// `Bᵀ`: `[t, t]`
    pub input: Matrix,
    /// `G`: `[t, r]`
    pub weights: Matrix,
    /// `A`: `[m, t]`
    pub output: Matrix,
}

impl TileSide {
    /// Elements of a tile of the input.
    pub fn len(self) -> i64 {
        self.m + self.taps - 1
    }

    /// Interpolation points besides infinity: of the points that need no more digits than these,
    /// those with the least error.
    fn points(self) -> &'static [f64] {
        match self.len() {
            1 => &[],
            4 => &[0.0, 1.0, -1.0],
            6 => &[0.0, 0.75, -0.75, 1.5, -1.5],
            _ => &[0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0],
        }
    }

    /// The matrices by the interpolation of Toom and Cook (Blahut, *Fast Algorithms for Signal
    /// Processing*, chapter 5), transposed. All of `Bᵀ` and `A` is exact.
    pub fn matrices(self) -> TransformMatrices {
        let (points, length) = (self.points(), self.len() as usize);
        let powers = |p: f64, n: i64| (0..n).map(|e| p.powi(e as i32)).collect::<Vec<f64>>();
        let unit = |n: i64| (0..n).map(|e| f64::from(e + 1 == n)).collect::<Vec<f64>>();
        // The coefficients of the product of `x - q`, the constant first.
        let monic = |roots: &mut dyn Iterator<Item = f64>| {
            let mut of = vec![1.0];
            for q in roots {
                of.insert(0, 0.0);
                (0..of.len() - 1).for_each(|n| of[n] -= q * of[n + 1]);
            }
            of.resize(length, 0.0);
            of
        };
        let others = |p: f64| points.iter().copied().filter(move |q| *q != p);
        let (mut input, mut weights) = (vec![], vec![]);
        for p in points {
            let scale: f64 = others(*p).map(|q| p - q).product();
            input.push(monic(&mut others(*p)));
            weights.push(powers(*p, self.taps).iter().map(|v| v / scale).collect());
        }
        input.push(monic(&mut points.iter().copied()));
        weights.push(unit(self.taps));
        let columns: Matrix = points.iter().map(|p| powers(*p, self.m)).collect();
        let output = (0..self.m as usize).map(|row| {
            let last = f64::from(row as i64 + 1 == self.m);
            columns.iter().map(|column| column[row]).chain([last]).collect()
        });
        TransformMatrices { input, weights, output: output.collect() }
    }
}

/// Both directions of a tile for a kernel of so many elements.
pub fn sides(tile: WinogradTile, kernel: [i64; 2]) -> [TileSide; 2] {
    let taps = kernel.map(|taps| phase_taps(taps, tile.step));
    std::array::from_fn(|d| TileSide { m: tile.outputs[d], taps: taps[d] })
}

/// Elements of a kernel of `taps` that are in one of `step` phases; a phase may lack the last one.
pub fn phase_taps(taps: i64, step: i64) -> i64 {
    (taps + step - 1) / step
}

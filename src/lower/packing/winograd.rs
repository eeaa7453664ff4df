//! Weights transformed for Winograd while they are packed.

use reflex_graph::Literal;
use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_runtime::simd::{Loops, dispatch};

use crate::packing::panels::Packing;
use crate::packing::share::for_each_part;
use crate::winograd::{WinogradTile, sides};

/// Rows that are transformed at once.
const LANES: usize = 8;

/// `G w Gᵀ` of every kernel of `[n, k, h, w]`, as `[positions in a tile, ceil(n / width), k,
/// width]`; with phases, `k` counts them with the channels.
pub fn pack(packing: &Packing, tile: WinogradTile, value: &Literal) -> Option<AlignedBytes> {
    let [n, k, h, w] = packing.shape[..] else { return None };
    let [high, wide] = sides(tile, [h, w]).map(|side| side.matrices().weights);
    let step = tile.step;
    let [n, k, h, w, step] = [n, k * step * step, h, w, step].map(|v| v as usize);
    let width = packing.width as usize;
    let (rows, columns) = (high[0].len(), wide[0].len());
    let panels = n.div_ceil(width);
    let mut packed = AlignedBytes::zeroed(high.len() * wide.len() * panels * k * width * 4);
    let plane = wide.len() * panels * k * width * 4;
    let place = |phase: usize, tap: usize| {
        let (i, j) = (tap / columns * step + phase / step, tap % columns * step + phase % step);
        if i < h && j < w { i * w + j } else { OUTSIDE }
    };
    let places: Vec<Vec<usize>> = (0..step * step)
        .map(|phase| (0..rows * columns).map(|tap| place(phase, tap)).collect())
        .collect();
    // Planes that are written together share the reading of weights; there are two such groups at least, for threads.
    let together = (1..=high.len() / 2).rev().find(|n| high.len().is_multiple_of(*n)).unwrap_or(1);
    let words = value.bytes().as_chunks::<4>().0;
    let kernels = Kernels { words, size: h * w, places: &places, n, k, width };
    for_each_part(packed.as_mut(), plane * together, |part, out| {
        let high = &high[part * together..][..together];
        dispatch(Planes { kernels, high, wide: &wide, out });
    });
    Some(packed)
}

/// The place of a tap of a phase that is outside of its window.
const OUTSIDE: usize = usize::MAX;

/// The kernels of a convolution, as they are stored.
#[derive(Clone, Copy)]
struct Kernels<'a> {
    words: &'a [[u8; 4]],
    /// Weights of a window: those of a channel, whatever the phase.
    size: usize,
    /// By phase, where each tap is in its window.
    places: &'a [Vec<usize>],
    n: usize,
    /// Channels, by their phases.
    k: usize,
    width: usize,
}

/// The planes that some rows of `G` make.
struct Planes<'a> {
    kernels: Kernels<'a>,
    high: &'a [Vec<f64>],
    wide: &'a [Vec<f64>],
    out: &'a mut [u8],
}

impl Loops for Planes<'_> {
    type Output = ();

    /// Writes them panel by panel, so that what is written is written in order.
    #[inline(always)]
    fn run(self) {
        let Planes { kernels: Kernels { words, size, places, n, k, width }, high, wide, out } =
            self;
        let (rows, columns, panels) = (high[0].len(), wide[0].len(), n.div_ceil(width));
        let plane = out.len() / high.len();
        let (mut sums, mut taps) =
            (vec![[0.0; LANES]; columns], vec![[0.0; LANES]; rows * columns]);
        for (panel, depth) in (0..panels).flat_map(|p| (0..k).map(move |d| (p, d))) {
            let end = ((panel + 1) * width).min(n);
            for first in (panel * width..end).step_by(LANES) {
                let lanes = LANES.min(end - first);
                for lane in 0..lanes {
                    let at = (first + lane) * k + depth;
                    let window = &words[at / places.len() * size..][..size];
                    for (tap, place) in taps.iter_mut().zip(&places[at % places.len()]) {
                        let word = window.get(*place).copied().unwrap_or_default();
                        tap[lane] = f64::from(f32::from_le_bytes(word));
                    }
                }
                for (left, out) in high.iter().zip(out.chunks_exact_mut(plane)) {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = weighted(left, &taps[j..], columns);
                    }
                    for (b, right) in wide.iter().enumerate() {
                        let sum = weighted(right, &sums, 1).map(|sum| (sum as f32).to_le_bytes());
                        let to = (((b * panels + panel) * k + depth) * width + first % width) * 4;
                        let out = out[to..to + lanes * 4].as_chunks_mut::<4>().0;
                        match <&mut [[u8; 4]; LANES]>::try_from(&mut *out) {
                            Ok(all) => *all = sum,
                            Err(_) => out.copy_from_slice(&sum[..lanes]),
                        }
                    }
                }
            }
        }
    }
}

/// The sum of weighted terms, in their order, of which each is `stride` behind the one before.
#[inline(always)]
fn weighted(weights: &[f64], terms: &[[f64; LANES]], stride: usize) -> [f64; LANES] {
    // Most kernels have three rows and columns.
    if let ([a, b, c], Some([x, .., z])) = (weights, terms.get(..=2 * stride)) {
        let y = &terms[stride];
        return std::array::from_fn(|lane| a * x[lane] + b * y[lane] + c * z[lane]);
    }
    let mut sum = [-0.0; LANES];
    for (weight, term) in weights.iter().zip(terms.iter().step_by(stride)) {
        sum.iter_mut().zip(term).for_each(|(sum, term)| *sum += weight * term);
    }
    sum
}

#[cfg(test)]
mod tests {
    use reflex_graph::Literal;

    use super::pack;
    use crate::packing::panels::{MatrixView, PackedElements, Packing, PanelRole};
    use crate::winograd::{WinogradTile, sides};

    /// Element `[position, row, channel]` of packed weights by its definition: rows first, then columns.
    fn element(packing: &Packing, weights: &[f32], [at, row, depth]: [usize; 3]) -> f32 {
        let MatrixView::Winograd(tile) = packing.matrix else { unreachable!() };
        let [_, k, h, w] = packing.shape[..] else { unreachable!() };
        let [high, wide] = sides(tile, [h, w]).map(|side| side.matrices().weights);
        let [k, h, w, step] = [k, h, w, tile.step].map(|v| v as usize);
        let (left, right) = (&high[at / wide.len()], &wide[at % wide.len()]);
        let (channel, phase) = (depth / (step * step), depth % (step * step));
        let weight = |i: usize, j: usize| {
            let (i, j) = (i * step + phase / step, j * step + phase % step);
            let inside = i < h && j < w;
            if inside { f64::from(weights[((row * k + channel) * h + i) * w + j]) } else { 0.0 }
        };
        let mut sum = -0.0;
        for (j, by_column) in right.iter().enumerate() {
            let column = left.iter().enumerate().fold(-0.0, |sum, (i, by)| sum + by * weight(i, j));
            sum += by_column * column;
        }
        sum as f32
    }

    #[test]
    fn packed_kernels_are_transformed_one_side_after_the_other() {
        let tile = |outputs, step| WinogradTile { outputs, step };
        for (shape, width, tile) in [
            ([19, 3, 3, 3], 16, tile([4, 4], 1)),
            ([8, 2, 3, 3], 8, tile([2, 2], 1)),
            ([5, 2, 5, 5], 4, tile([2, 2], 1)),
            ([9, 3, 1, 5], 8, tile([1, 4], 1)),
            ([7, 2, 3, 1], 16, tile([4, 1], 1)),
            ([10, 3, 7, 7], 16, tile([2, 2], 2)),
            ([3, 1, 5, 5], 2, tile([2, 2], 2)),
        ] {
            let count = shape.iter().product::<i64>();
            let weights: Vec<f32> =
                (0..count).map(|n| ((n * 37 % 101) as f32 - 50.0) / 7.0).collect();
            let packing = Packing {
                operand: 1,
                width,
                shape: shape.to_vec(),
                matrix: MatrixView::Winograd(tile),
                role: PanelRole::Columns,
                elements: PackedElements::AsStored,
                holds: vec![],
            };
            let packed =
                pack(&packing, tile, &Literal::from_f32(shape.to_vec(), &weights)).unwrap();
            let words = packed.as_ref().as_chunks::<4>().0;
            let [n, k, width] =
                [shape[0], shape[1] * tile.step * tile.step, width].map(|v| v as usize);
            let panels = n.div_ceil(width);
            let positions = words.len() / (panels * k * width);
            for at in 0..positions {
                for (row, depth) in (0..n).flat_map(|row| (0..k).map(move |depth| (row, depth))) {
                    let (panel, lane) = (row / width, row % width);
                    let word = words[((at * panels + panel) * k + depth) * width + lane];
                    let expected = element(&packing, &weights, [at, row, depth]);
                    assert_eq!(word, expected.to_le_bytes(), "{shape:?}: {at}, {row}, {depth}");
                }
            }
        }
    }
}

//! Weights transformed for Winograd while they are packed.

use reflex_graph::Literal;
use reflex_runtime::aligned_bytes::AlignedBytes;

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
    let words = value.bytes().as_chunks::<4>().0;
    let mut packed = AlignedBytes::zeroed(high.len() * wide.len() * panels * k * width * 4);
    let plane = wide.len() * panels * k * width * 4;
    // Where a tap of a phase is in its window, if it is inside.
    let place = |phase: usize, tap: usize| {
        let (i, j) = (tap / columns * step + phase / step, tap % columns * step + phase % step);
        (i < h && j < w).then_some(i * w + j)
    };
    let places: Vec<Vec<Option<usize>>> = (0..step * step)
        .map(|phase| (0..rows * columns).map(|tap| place(phase, tap)).collect())
        .collect();
    // Planes that are written together share the reading of weights; there are two such groups at least, for threads.
    let together = (1..=high.len() / 2).rev().find(|n| high.len().is_multiple_of(*n)).unwrap_or(1);
    for_each_part(packed.as_mut(), plane * together, |part, out| {
        let (mut sums, mut taps) =
            (vec![[0.0; LANES]; columns], vec![[0.0; LANES]; rows * columns]);
        // Panel by panel, so that what is written is written in order.
        for (panel, depth) in (0..panels).flat_map(|p| (0..k).map(move |d| (p, d))) {
            let end = ((panel + 1) * width).min(n);
            for first in (panel * width..end).step_by(LANES) {
                let lanes = LANES.min(end - first);
                for lane in 0..lanes {
                    let at = (first + lane) * k + depth;
                    let (window, phase) = (at / (step * step), at % (step * step));
                    let source = &words[window * h * w..(window + 1) * h * w];
                    for (tap, place) in taps.iter_mut().zip(&places[phase]) {
                        tap[lane] =
                            place.map_or(0.0, |at| f64::from(f32::from_le_bytes(source[at])));
                    }
                }
                let planes = out.chunks_exact_mut(plane);
                for (left, out) in high[part * together..].iter().zip(planes) {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = weighted(left.iter().zip(taps[j..].iter().step_by(columns)));
                    }
                    for (b, right) in wide.iter().enumerate() {
                        let sum = weighted(right.iter().zip(&sums));
                        let to = (((b * panels + panel) * k + depth) * width + first % width) * 4;
                        let out = out[to..to + lanes * 4].as_chunks_mut::<4>().0;
                        out.iter_mut()
                            .zip(sum)
                            .for_each(|(out, sum)| *out = (sum as f32).to_le_bytes());
                    }
                }
            }
        }
    });
    Some(packed)
}

/// The sum of weighted terms, in their order.
fn weighted<'t>(terms: impl Iterator<Item = (&'t f64, &'t [f64; LANES])>) -> [f64; LANES] {
    terms.fold([-0.0; LANES], |mut sum, (weight, term)| {
        sum.iter_mut().zip(term).for_each(|(sum, term)| *sum += weight * term);
        sum
    })
}

//! Weights transformed for Winograd while they are packed.

use reflex_graph::Literal;
use reflex_vm::executable::AlignedBytes;

use crate::packing::panels::Packing;
use crate::packing::share::for_each_part;
use crate::winograd::{WinogradTile, sides};

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
    for_each_part(packed.as_mut(), plane, |a, out| {
        let left = &high[a];
        let (mut sums, mut taps) = (vec![0.0; columns], vec![0.0; rows * columns]);
        // Panel by panel, so that what is written is written in order.
        for (panel, depth) in (0..panels).flat_map(|p| (0..k).map(move |d| (p, d))) {
            for row in panel * width..((panel + 1) * width).min(n) {
                let at = row * k + depth;
                let (window, phase) = (at / (step * step), at % (step * step));
                let source = &words[window * h * w..(window + 1) * h * w];
                for (i, taps) in taps.chunks_exact_mut(columns).enumerate() {
                    let i = i * step + phase / step;
                    for (j, tap) in taps.iter_mut().enumerate() {
                        let j = j * step + phase % step;
                        let inside = i < h && j < w;
                        *tap = match inside {
                            true => f64::from(f32::from_le_bytes(source[i * w + j])),
                            false => 0.0,
                        };
                    }
                }
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = left
                        .iter()
                        .zip(taps[j..].iter().step_by(columns))
                        .map(|(l, t)| l * t)
                        .sum();
                }
                for (b, right) in wide.iter().enumerate() {
                    let sum: f64 = sums.iter().zip(right).map(|(l, g)| l * g).sum();
                    let to = (((b * panels + panel) * k + depth) * width + row % width) * 4;
                    out[to..to + 4].copy_from_slice(&(sum as f32).to_le_bytes());
                }
            }
        }
    });
    Some(packed)
}

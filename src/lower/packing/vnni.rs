//! Constants packed in VNNI layout: two bfloat16, or four 8-bit integers, along the reduced axis in
//! one uint32.

use half::bf16;
use reflex_graph::Literal;
use reflex_runtime::aligned_bytes::AlignedBytes;

use crate::packing::panels::{MatrixView, Packing};

/// The bytes of a constant's packed form.
pub fn packed(packing: &Packing, value: &Literal) -> Option<AlignedBytes> {
    let (batch, k, n) = packing.matrix.extents(&packing.shape)?;
    let [batch, k, n, taps, width] =
        [batch, k, n, packing.taps(), packing.width].map(|extent| extent as usize);
    let (row_stride, col_stride) = match packing.matrix {
        MatrixView::KByN => (n, 1),
        MatrixView::NByK | MatrixView::NByRest | MatrixView::Winograd(_) => (1, k),
    };
    let words = value.bytes().as_chunks::<4>().0;
    let (channels, panels) = (k / taps, n.div_ceil(width));
    let rows = channels.div_ceil(2) * taps;
    let mut out = AlignedBytes::zeroed(batch * panels * rows * width * 4);
    for (at, word) in out.as_mut().as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (line, lane) = (at / width, at % width);
        let (outer, row) = (line / rows, line % rows);
        let (matrix, column) = (outer / panels, outer % panels * width + lane);
        let (channel, tap) = (row / taps * 2, row % taps);
        let half = |channel: usize| {
            if channel >= channels || column >= n {
                return 0;
            }
            let from = (channel * taps + tap) * row_stride + column * col_stride;
            let x = f32::from_le_bytes(words[matrix * k * n + from]);
            let normal = if x.is_subnormal() { 0_f32.copysign(x) } else { x };
            bf16::from_f32(normal).to_bits()
        };
        let (low, high) = (half(channel).to_le_bytes(), half(channel + 1).to_le_bytes());
        *word = [low[0], low[1], high[0], high[1]];
    }
    Some(out)
}

/// The bytes of the packed form of 8-bit integers.
pub fn packed_bytes(packing: &Packing, value: &Literal) -> Option<AlignedBytes> {
    let (batch, k, n) = packing.matrix.extents(&packing.shape)?;
    let [batch, k, n, taps, width] =
        [batch, k, n, packing.taps(), packing.width].map(|extent| extent as usize);
    let (row_stride, col_stride) = match packing.matrix {
        MatrixView::KByN => (n, 1),
        MatrixView::NByK | MatrixView::NByRest | MatrixView::Winograd(_) => (1, k),
    };
    let bytes = value.bytes();
    let (channels, panels) = (k / taps, n.div_ceil(width));
    let rows = channels.div_ceil(4) * taps;
    let mut out = AlignedBytes::zeroed(batch * panels * rows * width * 4);
    for (line, words) in out.as_mut().chunks_exact_mut(width * 4).enumerate() {
        let (outer, row) = (line / rows, line % rows);
        let (matrix, first) = (outer / panels * k * n, outer % panels * width);
        let (channel, tap) = (row / taps * 4, row % taps);
        for byte in 0..4.min(channels - channel) {
            let from = matrix + ((channel + byte) * taps + tap) * row_stride;
            for lane in 0..width.min(n - first) {
                words[lane * 4 + byte] = bytes[from + (first + lane) * col_stride];
            }
        }
    }
    Some(out)
}

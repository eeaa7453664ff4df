//! Weights as integers: symmetric codes with a scale for each channel or block.

/// Integers for float weights, and what the rounding costs.
pub(super) struct Codes {
    /// In the order of the weights.
    pub codes: Vec<i8>,
    /// One for each channel, or for each block.
    pub scales: Vec<f32>,
    /// Signal to quantization noise in decibels: infinite if nothing was rounded.
    pub sqnr_db: f64,
}

/// Rounds `weights`, seen as `outer x channels x inner`, to integers of at most `limit` in magnitude, with
/// a scale for each channel.
pub(super) fn per_channel(weights: &[f32], channels: usize, inner: usize, limit: f32) -> Codes {
    let channel = |index: usize| index / inner % channels;
    let mut scales = vec![0f32; channels];
    for (index, weight) in weights.iter().enumerate() {
        let largest = &mut scales[channel(index)];
        *largest = largest.max(weight.abs());
    }
    for scale in &mut scales {
        *scale = nonzero(*scale / limit);
    }
    let codes = weights.iter().enumerate().map(|(index, weight)| {
        (weight / scales[channel(index)]).round_ties_even().clamp(-limit, limit) as i8
    });
    let codes: Vec<i8> = codes.collect();
    let sqnr_db = sqnr(weights, |index| f32::from(codes[index]) * scales[channel(index)]);
    Codes { codes, scales, sqnr_db }
}

/// The place of a weight's scale among those of blocks along one axis.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Extent of the axis.
    pub depth: usize,
    /// Elements between neighbours along the axis.
    pub inner: usize,
    /// Elements of a block along the axis.
    pub block: usize,
}

impl Blocks {
    /// Blocks along the axis; the last may be short.
    pub fn count(self) -> usize {
        self.depth.div_ceil(self.block)
    }

    fn scale_of(self, index: usize) -> usize {
        let (row, column) = (index / self.inner, index % self.inner);
        let (outer, depth) = (row / self.depth, row % self.depth);
        (outer * self.count() + depth / self.block) * self.inner + column
    }
}

/// Rounds `weights` to integers in -8..=7, with a scale for each block: the weight that is farthest from
/// zero becomes -8, whatever its sign.
pub(super) fn four_bits(weights: &[f32], blocks: Blocks) -> Codes {
    let rows = weights.len() / (blocks.depth * blocks.inner).max(1);
    let mut scales = vec![0f32; rows * blocks.count() * blocks.inner];
    for (index, weight) in weights.iter().enumerate() {
        let farthest = &mut scales[blocks.scale_of(index)];
        if weight.abs() > farthest.abs() {
            *farthest = *weight;
        }
    }
    for scale in &mut scales {
        *scale = nonzero(*scale / -8.0);
    }
    let codes = weights.iter().enumerate().map(|(index, weight)| {
        (weight / scales[blocks.scale_of(index)]).round_ties_even().clamp(-8.0, 7.0) as i8
    });
    let codes: Vec<i8> = codes.collect();
    let sqnr_db = sqnr(weights, |index| f32::from(codes[index]) * scales[blocks.scale_of(index)]);
    Codes { codes, scales, sqnr_db }
}

/// A scale to divide by: weights that are all zero, or nearly, have 1.
fn nonzero(scale: f32) -> f32 {
    if scale.is_normal() { scale } else { 1.0 }
}

fn sqnr(weights: &[f32], rounded: impl Fn(usize) -> f32) -> f64 {
    let (mut signal, mut noise) = (0f64, 0f64);
    for (index, weight) in weights.iter().enumerate() {
        signal += f64::from(*weight).powi(2);
        noise += (f64::from(*weight) - f64::from(rounded(index))).powi(2);
    }
    decibels(signal, noise)
}

/// Signal to noise in decibels, of sums of squares: infinite without noise.
pub fn decibels(signal: f64, noise: f64) -> f64 {
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_their_own_scales_and_ties_go_to_even() {
        // Two rows, channels are columns: scales 127/127 and 2.54/127.
        let codes = per_channel(&[127.0, 2.54, 0.5, -0.03], 2, 1, 127.0);
        assert_eq!(codes.codes, [127, 127, 0, -2]);
        assert_eq!(codes.scales, [1.0, 2.54 / 127.0]);
        assert!(codes.sqnr_db > 30.0 && codes.sqnr_db.is_finite());
    }

    #[test]
    fn the_farthest_weight_of_a_block_is_minus_eight() {
        // One column of depth 3 in blocks of two.
        let blocks = Blocks { depth: 3, inner: 1, block: 2 };
        let codes = four_bits(&[0.5, 8.0, 0.0], blocks);
        assert_eq!((codes.codes, codes.scales), (vec![0, -8, 0], vec![-1.0, 1.0]));
        let exact = four_bits(&[-8.0, 7.0, 1.0], Blocks { depth: 3, inner: 1, block: 4 });
        assert_eq!(exact.sqnr_db, f64::INFINITY);
    }

    #[test]
    fn weights_of_zero_and_subnormal_ones_are_zero() {
        let codes = per_channel(&[0.0, 1e-44], 2, 1, 127.0);
        assert_eq!((codes.codes, codes.scales), (vec![0, 0], vec![1.0, 1.0]));
    }
}

//! The generator that decisions are drawn from.

use reflex_runtime::split_mix::split_mix;

/// A generator of random numbers, SplitMix64: the same numbers for the same seed, everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: i64) -> Random {
        Random(seed.cast_unsigned())
    }

    /// A number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (split_mix(&mut self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A place among weights, as often as each weighs.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
        for (place, weight) in weights.iter().enumerate().take(last) {
            if left < *weight {
                return place;
            }
            left -= weight;
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_nothing_are_never_drawn() {
        let mut random = Random::new(-1);
        let drawn: Vec<usize> =
            (0..1_000).map(|_| random.weighted(&[0.0, 1.0, 0.0, 3.0, 0.0])).collect();
        assert!(drawn.iter().all(|place| [1, 3].contains(place)));
        let often = drawn.iter().filter(|place| **place == 3).count();
        assert!((680..820).contains(&often), "{often}");
    }
}

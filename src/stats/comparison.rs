//! Two samples taken in turns: how much slower one is, and how sure that is.

use serde::Serialize;

/// Resamples for the interval.
const RESAMPLES: usize = 1000;
/// Share of intervals that hold the true ratio.
const CONFIDENCE: f64 = 0.95;

/// Percentiles up to the far tail, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Sample size.
    pub n: usize,
}

impl Tail {
    /// Percentiles by rank `floor(q * n)`; `None` when the sample is empty.
    pub fn of(sample: &[f64]) -> Option<Tail> {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |q: f64| sorted[((q * n as f64) as usize).min(n - 1)];
        (n > 0).then(|| Tail {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            n,
        })
    }
}

/// The ratio of two medians, and an interval for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Median of the second sample over that of the first: below 1, the second is faster.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Share of such intervals that hold the true ratio.
    pub confidence: f64,
}

impl Comparison {
    /// Compares samples whose elements of equal number were taken side by side; `None` when
    /// there is none. Equal seeds give equal intervals.
    ///
    /// The interval is the percentile bootstrap over circular blocks of neighbouring pairs
    /// (Politis and Romano 1992) of length `cbrt(n)`: latencies drift together, so neighbours are
    /// not independent, and a bootstrap of single calls would give intervals too narrow.
    pub fn of(a: &[f64], b: &[f64], seed: u64) -> Option<Comparison> {
        let n = a.len().min(b.len());
        if n == 0 {
            return None;
        }
        let ratio = |a: &mut [f64], b: &mut [f64]| median(b) / median(a);
        let block = (n as f64).cbrt().ceil() as usize;
        let mut state = seed;
        let (mut x, mut y) = (Vec::with_capacity(n + block), Vec::with_capacity(n + block));
        let mut ratios: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                x.clear();
                y.clear();
                while x.len() < n {
                    let start = (split_mix(&mut state) % n as u64) as usize;
                    let pairs = (start..start + block).map(|i| i % n);
                    pairs.take(n - x.len()).for_each(|i| {
                        x.push(a[i]);
                        y.push(b[i]);
                    });
                }
                ratio(&mut x, &mut y)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let at = |q: f64| ratios[((q * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
        Some(Comparison {
            ratio: ratio(&mut a[..n].to_vec(), &mut b[..n].to_vec()),
            low: at(tail),
            high: at(1.0 - tail),
            confidence: CONFIDENCE,
        })
    }
}

fn median(sample: &mut [f64]) -> f64 {
    let middle = sample.len() / 2;
    *sample.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform in [0, 1).
    fn uniform(state: &mut u64) -> f64 {
        (split_mix(state) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Latencies around `level`, with a long tail, and a drift that both samples share.
    fn pair(seed: u64, n: usize, level: [f64; 2], drift: f64) -> [Vec<f64>; 2] {
        let mut state = seed;
        let mut common = 1.0;
        let mut samples = [vec![], vec![]];
        for _ in 0..n {
            common += drift * (uniform(&mut state) - 0.5) - 0.05 * (common - 1.0);
            for (sample, level) in samples.iter_mut().zip(level) {
                let noise = 1.0 - 0.05 * uniform(&mut state).max(1e-9).ln();
                sample.push(level * common * noise);
            }
        }
        samples
    }

    const TRIALS: u64 = 60;

    /// How many intervals hold `truth`.
    fn held(truth: f64, drift: f64) -> usize {
        let trials = (0..TRIALS).map(|trial| {
            let [a, b] = pair(trial * 7919 + 1, 200, [10.0, 10.0 * truth], drift);
            Comparison::of(&a, &b, trial).expect("samples")
        });
        trials.filter(|c| c.low <= truth && truth <= c.high).count()
    }

    #[test]
    fn intervals_hold_the_true_ratio() {
        for (truth, drift) in [(1.0, 0.05), (1.02, 0.0), (0.5, 0.05)] {
            let held = held(truth, drift);
            assert!(held >= 53, "{held} of {TRIALS} hold {truth} at drift {drift}");
        }
    }

    #[test]
    fn a_difference_beyond_the_noise_is_seen() {
        let [a, b] = pair(3, 1000, [10.0, 10.5], 0.02);
        let c = Comparison::of(&a, &b, 1).expect("samples");
        assert!(c.low > 1.0 && c.high < 1.1 && (c.low..=c.high).contains(&c.ratio), "{c:?}");
        assert_eq!(Comparison::of(&a, &b, 1), Some(c));
        assert_eq!(Comparison::of(&a, &[], 1), None);
    }

    #[test]
    fn the_tail_is_that_of_the_sample() {
        let sample: Vec<f64> = (0..10_000).rev().map(f64::from).collect();
        let tail = Tail::of(&sample).expect("a sample");
        assert_eq!((tail.p50_us, tail.p99_us, tail.p999_us), (5000.0, 9900.0, 9990.0));
        assert_eq!(Tail::of(&[]), None);
    }
}

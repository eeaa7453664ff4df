//! Two interleaved samples: the ratio of their medians with a confidence interval.

use reflex_runtime::split_mix::split_mix;
use serde::Serialize;

/// Resamples for the interval.
const RESAMPLES: usize = 1000;
/// Share of intervals that hold the true ratio.
const CONFIDENCE: f64 = 0.95;

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
    /// Compares samples whose elements of equal index were taken in pairs; `None` when
    /// there is none. Equal seeds give equal intervals.
    ///
    /// The interval is the percentile bootstrap over circular blocks of neighbouring pairs
    /// (Politis and Romano 1992) of length `cbrt(n)`: latencies drift together, so neighbours are
    /// not independent, and a bootstrap of single calls would give intervals too narrow.
    ///
    /// ```
    /// use reflex::stats::Comparison;
    ///
    /// let (a, b) = ([10.0, 11.0, 10.0, 11.0], [20.0, 22.0, 20.0, 22.0]);
    /// assert_eq!(Comparison::of(&a, &b, 0).unwrap().ratio, 2.0);
    /// assert!(Comparison::of(&a, &[], 0).is_none());
    /// ```
    pub fn of(a: &[f64], b: &[f64], seed: u64) -> Option<Comparison> {
        Comparison::of_rounds(&[[a, b]], seed)
    }

    /// Compares samples that were taken in rounds, each with both sides set up anew: where code and
    /// data lie differs from one set-up to the next, and so do medians, by more than the calls of
    /// one show. The ratio is the geometric mean of the rounds' ratios; rounds without a pair do not
    /// count, and `None` is returned when there is no other.
    ///
    /// Of several rounds the bootstrap draws one fewer than there are, with replacement, which
    /// makes up for how few they are (Rao and Wu 1988), then blocks within each, as [`of`](Self::of)
    /// does.
    ///
    /// ```
    /// use reflex::stats::Comparison;
    ///
    /// let rounds: [[&[f64]; 2]; 2] = [[&[10.0], &[5.0]], [&[12.0], &[6.0]]];
    /// let comparison = Comparison::of_rounds(&rounds, 0).unwrap();
    /// assert!((comparison.ratio - 0.5).abs() < 1e-12);
    /// ```
    pub fn of_rounds(rounds: &[[&[f64]; 2]], seed: u64) -> Option<Comparison> {
        let pairs = |[a, b]: &[&[f64]; 2]| a.len().min(b.len());
        let rounds: Vec<[&[f64]; 2]> = rounds.iter().filter(|r| pairs(r) > 0).copied().collect();
        let whole = |[a, b]: &[&[f64]; 2]| {
            let n = a.len().min(b.len());
            (median(&mut b[..n].to_vec()) / median(&mut a[..n].to_vec())).ln()
        };
        let ratio = rounds.iter().map(whole).sum::<f64>() / rounds.len() as f64;
        let mut state = seed;
        let mut drawn_pairs = [vec![], vec![]];
        let drawn = (rounds.len().checked_sub(1)?).max(1);
        let mut ratios: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let one = (0..drawn).map(|_| {
                    let k = (split_mix(&mut state) % rounds.len() as u64) as usize;
                    resample(rounds[k], &mut state, &mut drawn_pairs);
                    let [a, b] = &mut drawn_pairs;
                    (median(b) / median(a)).ln()
                });
                one.sum::<f64>() / drawn as f64
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let at = |q: f64| ratios[((q * RESAMPLES as f64) as usize).min(RESAMPLES - 1)].exp();
        let (low, high) = (at(tail), at(1.0 - tail));
        Some(Comparison { ratio: ratio.exp(), low, high, confidence: CONFIDENCE })
    }
}

/// As many pairs as there are, in blocks of neighbours drawn with replacement.
fn resample([a, b]: [&[f64]; 2], state: &mut u64, drawn: &mut [Vec<f64>; 2]) {
    let [x, y] = drawn;
    let n = a.len().min(b.len());
    let block = (n as f64).cbrt().ceil() as usize;
    x.clear();
    y.clear();
    while x.len() < n {
        let start = (split_mix(state) % n as u64) as usize;
        let pairs = (start..start + block).map(|i| i % n);
        pairs.take(n - x.len()).for_each(|i| {
            x.push(a[i]);
            y.push(b[i]);
        });
    }
}

fn median(sample: &mut [f64]) -> f64 {
    let middle = sample.len() / 2;
    *sample.select_nth_unstable_by(middle, f64::total_cmp).1
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

    /// Counts the intervals that hold `truth`.
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
    fn intervals_of_rounds_hold_the_ratio_between_set_ups() {
        // Each set-up shifts each side by up to 6% either way: far more than the medians of its calls
        // are uncertain.
        let truth = 1.01;
        let hold = |trial: u64| {
            let mut state = trial * 104_729 + 5;
            let rounds: Vec<[Vec<f64>; 2]> = (0..10)
                .map(|round| {
                    let mut shift = || 0.94 + 0.12 * uniform(&mut state);
                    let level = [10.0 * shift(), 10.0 * truth * shift()];
                    pair(trial * 7919 + round, 40, level, 0.02)
                })
                .collect();
            let views: Vec<[&[f64]; 2]> = rounds.iter().map(|[a, b]| [&a[..], &b[..]]).collect();
            let all = Comparison::of_rounds(&views, trial).expect("samples");
            let one = Comparison::of(views[0][0], views[0][1], trial).expect("samples");
            [all, one].map(|c| c.low <= truth && truth <= c.high)
        };
        let held: Vec<[bool; 2]> = (0..TRIALS).map(hold).collect();
        let [all, one] = [0, 1].map(|n| held.iter().filter(|h| h[n]).count());
        assert!(all >= 53, "{all} of {TRIALS} hold");
        assert!(one < 40, "{one} of {TRIALS} of a single set-up hold: shifts too small to tell");
        assert_eq!(Comparison::of_rounds(&[[&[], &[]]], 1), None);
    }

    #[test]
    fn a_difference_beyond_the_noise_is_seen() {
        let [a, b] = pair(3, 1000, [10.0, 10.5], 0.02);
        let c = Comparison::of(&a, &b, 1).expect("samples");
        assert!(c.low > 1.0 && c.high < 1.1 && (c.low..=c.high).contains(&c.ratio), "{c:?}");
        assert_eq!(Comparison::of(&a, &b, 1), Some(c));
        assert_eq!(Comparison::of(&a, &[], 1), None);
    }
}

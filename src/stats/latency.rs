//! Percentiles of a sample of latencies.

use serde::Serialize;

/// Percentiles of a latency sample, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Smallest.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Sample size.
    pub n: usize,
}

impl Latency {
    /// Returns the statistics of a sample in microseconds; `None` when it is empty.
    ///
    /// A percentile is the element at rank `floor(q * n)` of the sorted sample.
    ///
    /// ```
    /// use reflex::stats::Latency;
    ///
    /// let latency = Latency::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
    /// assert_eq!((latency.p50_us, latency.min_us, latency.mean_us), (3.0, 1.0, 2.5));
    /// assert_eq!(Latency::of(&[]), None);
    /// ```
    pub fn of(sample: &[f64]) -> Option<Latency> {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |q: f64| sorted[((q * n as f64) as usize).min(n - 1)];
        (n > 0).then(|| Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            min_us: sorted[0],
            mean_us: sorted.iter().sum::<f64>() / n as f64,
            n,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let sample: Vec<f64> = (0..10_000).rev().map(f64::from).collect();
        let latency = Latency::of(&sample).expect("a sample");
        assert_eq!((latency.p50_us, latency.p90_us), (5000.0, 9000.0));
        assert_eq!((latency.p99_us, latency.p999_us), (9900.0, 9990.0));
        assert_eq!((latency.min_us, latency.mean_us, latency.n), (0.0, 4999.5, 10_000));
        assert_eq!(Latency::of(&[]), None);
    }
}

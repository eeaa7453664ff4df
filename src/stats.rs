//! Latency statistics: percentiles of a sample, two samples beside each other; and how far two
//! tensors are apart.

use serde::Serialize;

use crate::npz::Array;

mod comparison;
mod histogram;

pub use comparison::{Comparison, Tail, split_mix};
pub use histogram::Histogram;

/// Percentiles of a latency sample, microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Smallest.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Sample size.
    pub n: usize,
}

impl Latency {
    /// Statistics of a sample in microseconds; `None` when it is empty.
    ///
    /// A percentile is the sample at rank `floor(q * n)`, so p50 of `[1, 2, 3, 4]` is 3.
    pub fn of(mut sample: Vec<f64>) -> Option<Latency> {
        sample.sort_by(f64::total_cmp);
        let n = sample.len();
        let at = |q: f64| sample[((q * n as f64) as usize).min(n - 1)];
        (n > 0).then(|| Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            min_us: sample[0],
            mean_us: sample.iter().sum::<f64>() / n as f64,
            n,
        })
    }
}

/// Distance of an output from its reference.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Largest absolute error.
    pub max_abs: f64,
    /// Largest `|error| / (atol + rtol * |expected|)`; the output matches when it is at most 1.
    pub worst: f64,
    /// Flat index of the worst element.
    pub at: usize,
    /// Value there, as a string so that NaN and infinities survive JSON.
    pub actual: String,
    /// Expected value there.
    pub expected: String,
}

impl Difference {
    /// Compares as `numpy.allclose(equal_nan=True)` does, element by element; `Err` says how
    /// type or shape differ.
    pub fn of(actual: &Array, expected: &Array, rtol: f64, atol: f64) -> Result<Self, String> {
        if actual.dtype != expected.dtype || actual.shape != expected.shape {
            return Err(format!(
                "expected {} {:?}, got {} {:?}",
                expected.dtype, expected.shape, actual.dtype, actual.shape
            ));
        }
        let mut worst = Difference {
            max_abs: 0.0,
            worst: 0.0,
            at: 0,
            actual: String::new(),
            expected: String::new(),
        };
        for (i, (a, e)) in actual.to_f64().into_iter().zip(expected.to_f64()).enumerate() {
            let (error, ratio) = distance(a, e, rtol, atol);
            worst.max_abs = worst.max_abs.max(error);
            if ratio > worst.worst {
                worst.worst = ratio;
                worst.at = i;
                worst.actual = a.to_string();
                worst.expected = e.to_string();
            }
        }
        Ok(worst)
    }

    /// Whether every element is within tolerance.
    pub fn matches(&self) -> bool {
        self.worst <= 1.0
    }
}

/// Absolute error, and error over tolerance.
fn distance(a: f64, e: f64, rtol: f64, atol: f64) -> (f64, f64) {
    if a == e || (a.is_nan() && e.is_nan()) {
        return (0.0, 0.0);
    }
    let error = (a - e).abs();
    if !error.is_finite() || !e.is_finite() {
        return (f64::INFINITY, f64::INFINITY);
    }
    let tolerance = atol + rtol * e.abs();
    (error, if tolerance > 0.0 { error / tolerance } else { f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use reflex_runtime::dtype::DType;

    use super::*;

    fn floats(values: &[f32]) -> Array {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array { dtype: DType::F32, shape: vec![values.len() as i64], data }
    }

    #[test]
    fn percentiles_are_ranks() {
        let latency = Latency::of((0..100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((latency.p50_us, latency.p90_us, latency.p99_us), (50.0, 90.0, 99.0));
        assert_eq!((latency.min_us, latency.mean_us, latency.n), (0.0, 49.5, 100));
        assert!(Latency::of(vec![]).is_none());
    }

    #[test]
    fn nan_matches_only_nan_and_infinity_only_itself() {
        let expected = floats(&[f32::NAN, f32::INFINITY, 1.0]);
        let same = Difference::of(&expected, &expected, 0.0, 0.0).unwrap();
        assert!(same.matches());
        for wrong in [[0.0, f32::INFINITY, 1.0], [f32::NAN, f32::NEG_INFINITY, 1.0]] {
            assert!(!Difference::of(&floats(&wrong), &expected, 1.0, 1.0).unwrap().matches());
        }
        let nan = floats(&[f32::NAN, f32::INFINITY, f32::NAN]);
        assert!(!Difference::of(&nan, &expected, 1.0, 1.0).unwrap().matches());
    }

    #[test]
    fn tolerance_is_absolute_plus_relative() {
        let difference = Difference::of(&floats(&[101.0]), &floats(&[100.0]), 0.01, 0.5).unwrap();
        assert!((difference.worst - 1.0 / 1.5).abs() < 1e-12 && difference.matches());
        assert!(Difference::of(&floats(&[1.0]), &floats(&[1.0, 2.0]), 0.0, 0.0).is_err());
    }
}

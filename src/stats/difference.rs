//! The distance of a tensor from its reference.

use serde::Serialize;

use crate::array::Array;

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
    ///
    /// ```
    /// use reflex::Array;
    /// use reflex::stats::Difference;
    ///
    /// let expected = Array::of(&[2], &[1.0_f32, 100.0])?;
    /// let actual = Array::of(&[2], &[1.0_f32, 101.0])?;
    /// let difference = Difference::of(&actual, &expected, 1e-3, 0.0).unwrap();
    /// assert_eq!((difference.max_abs, difference.at), (1.0, 1));
    /// assert!(Difference::of(&Array::of(&[1], &[1.0_f32])?, &expected, 0.0, 0.0).is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
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

    /// Returns true if every element is within tolerance.
    ///
    /// ```
    /// use reflex::Array;
    /// use reflex::stats::Difference;
    ///
    /// let x = Array::of(&[1], &[f32::NAN])?;
    /// assert!(Difference::of(&x, &x, 0.0, 0.0).unwrap().matches());
    /// # Ok::<(), reflex::Error>(())
    /// ```
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

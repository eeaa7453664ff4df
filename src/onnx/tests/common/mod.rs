//! Comparison of tensors, shared by the test programs.

use reflex_graph::Literal;
use reflex_runtime::dtype::DType;

/// Elements widened to f64.
pub fn numbers(x: &Literal) -> Option<Vec<f64>> {
    macro_rules! read {
        ($t:ty, $to:expr) => {
            x.bytes()
                .chunks_exact(size_of::<$t>())
                .map(|c| $to(<$t>::from_le_bytes(c.try_into().unwrap())))
                .collect()
        };
    }
    Some(match x.dtype() {
        DType::F32 => read!(f32, f64::from),
        DType::F64 => read!(f64, |v| v),
        DType::F16 => read!(half::f16, half::f16::to_f64),
        DType::BF16 => read!(half::bf16, half::bf16::to_f64),
        _ => x.to_i64()?.into_iter().map(|v| v as f64).collect(),
    })
}

/// The `rtol` and `atol` of a node test, as ONNX's own runner compares.
#[allow(dead_code, reason = "tests of models have others")]
pub fn tolerance(case: &std::path::Path, found: &Literal) -> (f64, f64) {
    let rtol = if found.dtype() == DType::BF16 { 1.0 / 64.0 } else { 1e-3 };
    (rtol, reflex_onnx::case_atol(case))
}

/// Whether `found` is `wanted` within `|difference| <= atol + rtol * |wanted|`; NaN is NaN.
pub fn compare(found: &Literal, wanted: &Literal, rtol: f64, atol: f64) -> Result<(), String> {
    if found.dtype() != wanted.dtype() || found.shape() != wanted.shape() {
        return Err(format!("{found:?} instead of {wanted:?}"));
    }
    if found.bytes() == wanted.bytes() {
        return Ok(());
    }
    let (a, b) = (numbers(found).unwrap(), numbers(wanted).unwrap());
    let close = |(x, y): (&f64, &f64)| {
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= atol + rtol * y.abs()
    };
    match a.iter().zip(&b).position(|pair| !close(pair)) {
        None => Ok(()),
        Some(at) => Err(format!("element {at} of {wanted:?} is {}, not {}", a[at], b[at])),
    }
}

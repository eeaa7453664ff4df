//! Constants as text: in place when small, else as an entry of the module's metadata.

use half::{bf16, f16};
use reflex_tir::DType;
use reflex_tir::script::float;

use crate::Literal;

/// Most elements of a constant that is written in place.
const INLINE_ELEMENTS: usize = 16;

/// `R.const(...)`, when the constant is small and the text keeps every bit of it.
pub(super) fn inline(literal: &Literal) -> Option<String> {
    let rank = literal.shape().len();
    let readable = rank == 0 || literal.count() > 0 || literal.shape() == [0];
    if literal.count() > INLINE_ELEMENTS || !readable {
        return None;
    }
    // `numpy.array` reads a list of numbers, but not of the names of numbers.
    let non_finite = if rank == 0 { NonFinite::Named } else { NonFinite::Refused };
    let elements = elements(literal, non_finite)?;
    let value = if rank == 0 { elements[0].clone() } else { nested(literal.shape(), &elements) };
    Some(format!("R.const({value}, \"{}\")", literal.dtype()))
}

/// The finite number that a scalar is, and not a negative zero.
pub(super) fn number(literal: &Literal) -> Option<String> {
    let rank = literal.shape().len();
    let text = elements(literal, NonFinite::Refused).filter(|_| rank == 0)?.pop()?;
    match text.as_str() {
        "-0.0" => None,
        "0" | "False" => Some("0.0".into()),
        "True" => Some("1".into()),
        _ => Some(text),
    }
}

fn nested(shape: &[i64], elements: &[String]) -> String {
    let [_, inner @ ..] = shape else { return elements[0].clone() };
    let step = inner.iter().product::<i64>().max(1) as usize;
    let rows: Vec<String> = elements.chunks(step).map(|row| nested(inner, row)).collect();
    format!("[{}]", rows.join(", "))
}

/// The text of infinities and the canonical NaN.
#[derive(Clone, Copy, PartialEq)]
enum NonFinite {
    /// `inf`, `nan`: read back as scalars only.
    Named,
    Refused,
}

fn elements(literal: &Literal, non_finite: NonFinite) -> Option<Vec<String>> {
    let bytes = literal.bytes();
    macro_rules! floats {
        ($t:ty, $bits:ty, $wide:expr) => {
            bytes
                .chunks_exact(size_of::<$t>())
                .map(|c| {
                    let bits = <$bits>::from_le_bytes(c.try_into().expect("exact chunk"));
                    let x = <$t>::from_bits(bits);
                    let kept = x.is_finite()
                        || non_finite == NonFinite::Named && (!x.is_nan() || bits == NAN as $bits);
                    const NAN: u64 = <$t>::NAN.to_bits() as u64;
                    kept.then(|| float($wide(x)))
                })
                .collect()
        };
    }
    match literal.dtype() {
        DType::F32 => floats!(f32, u32, f64::from),
        DType::F64 => floats!(f64, u64, std::convert::identity),
        DType::F16 => floats!(f16, u16, f16::to_f64),
        DType::BF16 => floats!(bf16, u16, bf16::to_f64),
        DType::BOOL if bytes.iter().all(|b| *b <= 1) => {
            Some(bytes.iter().map(|b| boolean(*b != 0).to_string()).collect())
        }
        DType::BOOL => None,
        DType::U64 => Some(literal.to_i64()?.iter().map(|v| (*v as u64).to_string()).collect()),
        _ => Some(literal.to_i64()?.iter().map(i64::to_string).collect()),
    }
}

pub(super) fn boolean(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

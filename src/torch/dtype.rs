//! Element types of PyTorch, and the type that operands of several have in common.

use reflex_graph::Literal;
use reflex_tir::{DType, half_float};
use std::sync::Arc;

use crate::error::{Result, malformed, unsupported};

/// The element type of a number of PyTorch's serialized `ScalarType`.
pub(crate) fn dtype(code: i64) -> Result<DType> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::BOOL,
        13 => DType::BF16,
        28 => DType::U16,
        9..=11 => return Err(unsupported("complex numbers")),
        29..=32 => return Err(unsupported("8-bit floats")),
        other => return Err(malformed(format!("unknown element type {other}"))),
    })
}

/// Classes of types: an operand of a lower class does not widen those of a higher one.
fn class(dtype: DType) -> u8 {
    match dtype {
        DType::BOOL => 0,
        _ if dtype.is_float() => 2,
        _ => 1,
    }
}

/// The type that elements of two types are converted to (`torch.promote_types`).
pub(crate) fn promoted(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    let (low, high) = if class(a) < class(b) { (a, b) } else { (b, a) };
    if class(low) != class(high) {
        return high;
    }
    if class(high) == 2 {
        return match (a.bits, b.bits) {
            // Two formats of 16 bits.
            (16, 16) => DType::F32,
            (x, y) if x >= y => a,
            _ => b,
        };
    }
    match (a.is_uint(), b.is_uint()) {
        (false, false) | (true, true) => {
            if a.bits >= b.bits {
                a
            } else {
                b
            }
        }
        (a_unsigned, _) => {
            let (unsigned, signed) = if a_unsigned { (a, b) } else { (b, a) };
            match signed.bits > unsigned.bits {
                true => signed,
                false if unsigned.bits < 16 => DType::I16,
                false => DType::I32,
            }
        }
    }
}

/// The type of a result whose operands are, in turn, tensors with axes, tensors without, and numbers
/// (`torch.result_type`): those of a later list count only where they are of a higher class.
pub(crate) fn result_type(lists: [&[DType]; 3]) -> Option<DType> {
    let of = |list: &[DType]| list.iter().copied().reduce(promoted);
    let [tensors, scalars, numbers] = lists.map(of);
    combined(tensors, combined(scalars, numbers))
}

fn combined(first: Option<DType>, second: Option<DType>) -> Option<DType> {
    match (first, second) {
        (Some(first), Some(second)) if class(first) >= class(second) => Some(first),
        (Some(first), Some(second)) => Some(promoted(first, second)),
        (first, second) => first.or(second),
    }
}

/// A scalar constant. Numbers are converted as PyTorch converts them: to bool by `!= 0`, to integers by truncation.
pub(crate) fn scalar(value: f64, dtype: DType) -> Result<Literal> {
    let bytes = match dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => half_float::f64_to_f16(value).to_le_bytes().to_vec(),
        DType::BF16 => half_float::f64_to_bf16(value).to_le_bytes().to_vec(),
        _ => return integer(value as i64, dtype),
    };
    literal(dtype, vec![], bytes)
}

/// A scalar constant of a whole number.
pub(crate) fn integer(value: i64, dtype: DType) -> Result<Literal> {
    if dtype.is_float() {
        return scalar(value as f64, dtype);
    }
    let value = if dtype == DType::BOOL { i64::from(value != 0) } else { value };
    let size = dtype.itemsize().min(8);
    literal(dtype, vec![], value.to_le_bytes()[..size].to_vec())
}

/// A constant of bytes that fit its shape.
pub(crate) fn literal(dtype: DType, shape: Vec<i64>, bytes: Vec<u8>) -> Result<Literal> {
    let literal = Literal::new(dtype, shape, Arc::new(bytes));
    literal.ok_or_else(|| unsupported(format!("constants of type {dtype}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_promoted_as_pytorch_promotes_them() {
        // As torch.promote_types answers.
        let cases = [
            (DType::F32, DType::I64, DType::F32),
            (DType::F16, DType::BF16, DType::F32),
            (DType::U8, DType::I8, DType::I16),
            (DType::U8, DType::I32, DType::I32),
            (DType::BOOL, DType::U8, DType::U8),
            (DType::I32, DType::I64, DType::I64),
            (DType::F64, DType::F16, DType::F64),
        ];
        for (a, b, both) in cases {
            assert_eq!((promoted(a, b), promoted(b, a)), (both, both), "{a} and {b}");
        }
    }

    #[test]
    fn numbers_widen_only_across_classes() {
        let of = |tensors: &[DType], scalars: &[DType], numbers: &[DType]| {
            result_type([tensors, scalars, numbers]).unwrap()
        };
        assert_eq!(of(&[DType::F16], &[DType::F64], &[]), DType::F16);
        assert_eq!(of(&[DType::I32], &[], &[DType::I64]), DType::I32);
        assert_eq!(of(&[DType::I32], &[], &[DType::F32]), DType::F32);
        assert_eq!(of(&[DType::BOOL], &[DType::I64], &[DType::BOOL]), DType::I64);
        assert_eq!(of(&[], &[DType::I32], &[DType::F32]), DType::F32);
    }
}

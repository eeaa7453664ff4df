//! Integers in constants.

use reflex_runtime::dtype::code;
use reflex_vm::executable::TensorConst;

/// The element of an integer or boolean tensor that has one.
pub fn scalar(tensor: &TensorConst) -> Option<i64> {
    let integral = matches!(tensor.dtype.code, code::INT | code::UINT | code::BOOL);
    if !integral || tensor.dtype.lanes != 1 || tensor.shape.iter().any(|&dim| dim != 1) {
        return None;
    }
    let bytes = tensor.data.bytes();
    Some(match tensor.dtype.bits {
        1 | 8 => i64::from(*bytes.first()? as i8),
        16 => i16::from_le_bytes(*bytes.first_chunk()?).into(),
        32 => i32::from_le_bytes(*bytes.first_chunk()?).into(),
        64 => i64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

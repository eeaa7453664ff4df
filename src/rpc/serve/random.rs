//! `tvm.contrib.random.random_fill_for_measure`: values to measure with, by which no element is
//! denormal, infinite or NaN.

use std::sync::atomic::{AtomicU64, Ordering};

use reflex_runtime::dtype::{DType, code};
use reflex_runtime::error::Error;
use reflex_runtime::function;
use reflex_runtime::split_mix::split_mix;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use crate::content::with_bytes_mut;

/// Calls so far, so that two tensors get different values.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Fills its argument: floats of 1 to 2, integers of 0 to 7, which are indices of most tensors.
pub fn fill(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let tensor: Tensor = function::arg(args, 0)?;
    let dtype = tensor.dtype();
    let word = word_of(dtype).ok_or_else(|| {
        Error::value_error(format!("tensors of {dtype} are not filled with random values"))
    })?;
    let size = dtype.itemsize();
    let mut state = CALLS.fetch_add(1, Ordering::Relaxed);
    with_bytes_mut(&tensor, |bytes| {
        for element in bytes.chunks_exact_mut(size) {
            element.copy_from_slice(&word(split_mix(&mut state)).to_le_bytes()[..size]);
        }
    })?;
    Ok(Any::NONE)
}

/// The bits of an element, from random ones.
fn word_of(dtype: DType) -> Option<fn(u64) -> u64> {
    Some(match (dtype.code, dtype.bits, dtype.lanes) {
        (code::FLOAT, 16, 1) => |r| 0x3c00 | (r >> 54),
        (code::FLOAT, 32, 1) => |r| 0x3f80_0000 | (r >> 41),
        (code::FLOAT, 64, 1) => |r| 0x3ff0_0000_0000_0000 | (r >> 12),
        (code::BFLOAT, 16, 1) => |r| 0x3f80 | (r >> 57),
        (code::INT | code::UINT, 8 | 16 | 32 | 64, 1) => |r| r >> 61,
        (code::BOOL, 8, 1) => |r| r >> 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_in_their_range_and_differ() {
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U8, DType::BOOL] {
            let tensor = Tensor::from_bytes(&[64], dtype, &vec![0; 64 * dtype.itemsize()]).unwrap();
            let any = Any::from(tensor.clone());
            fill(&[any.view()]).unwrap();
            let bytes = tensor.to_bytes().unwrap();
            let different = bytes.chunks(dtype.itemsize()).any(|e| e != &bytes[..dtype.itemsize()]);
            assert!(different, "{dtype}");
            if dtype == DType::F32 {
                let floats = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                assert!(floats.into_iter().all(|x| (1.0..2.0).contains(&x)));
            }
            if dtype == DType::U8 {
                assert!(bytes.iter().all(|x| *x < 8));
            }
        }
    }

    #[test]
    fn other_types_are_refused() {
        let complex = DType::new(code::COMPLEX, 64);
        let any = Any::from(Tensor::from_bytes(&[1], complex, &[0; 8]).unwrap());
        assert!(fill(&[any.view()]).unwrap_err().message().contains("complex"));
        assert!(fill(&[]).is_err());
    }
}

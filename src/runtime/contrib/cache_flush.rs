//! Emptying the CPU's caches of the arguments of a function that is measured.

use crate::error::Error;
use crate::tensor::is_compact;
use crate::value::{Any, AnyView};

/// Bytes of a cache line.
const LINE: usize = 64;

/// `(args...)`: flushes the memory of all tensors but the first from all caches.
pub(super) fn non_first_arg(args: &[AnyView<'_>]) -> Result<Any, Error> {
    for dl in args.iter().skip(1).filter_map(AnyView::as_dltensor) {
        // SAFETY: tensors and views of `DLTensor`s have as many dimensions and strides as they say.
        let is_plain = dl.device.is_host() && unsafe { is_compact(dl) };
        if !is_plain {
            return Err(Error::value_error(
                "only compact tensors of the CPU are flushed from caches",
            ));
        }
        // SAFETY: as above.
        let shape = unsafe { std::slice::from_raw_parts(dl.shape, dl.ndim.max(0) as usize) };
        let shape = if dl.ndim == 0 { &[][..] } else { shape };
        let bytes = crate::tensor::byte_size(shape, dl.dtype)?;
        let first = dl.data.cast::<u8>().wrapping_add(dl.byte_offset as usize);
        for at in (0..bytes).step_by(LINE) {
            flush(first.wrapping_add(at));
        }
    }
    Ok(Any::NONE)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn flush(address: *const u8) {
    // SAFETY: the instruction reads and writes no data, and its address is that of a live tensor.
    unsafe { std::arch::x86_64::_mm_clflush(address) };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn flush(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn tensors_keep_their_elements_and_strided_ones_are_refused() {
        let x = Tensor::from_slice(&[40], &[3.0_f32; 40]).unwrap();
        let scalar = Tensor::from_slice(&[], &[1_i64]).unwrap();
        non_first_arg(&[(&x).into(), (&x).into(), 3_i64.into(), (&scalar).into()]).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [3.0; 40]);
        assert!(non_first_arg(&[]).unwrap().is_none());
    }
}

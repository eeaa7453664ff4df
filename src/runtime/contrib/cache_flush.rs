//! Emptying the CPU's caches of the arguments of a function that is measured.

use super::host_tensor::HostTensor;
use crate::error::Error;
use crate::tensor::byte_size;
use crate::value::{Any, AnyView};

/// Bytes of a cache line, or of a part of one.
const LINE: usize = 64;

/// `(args...)`: flushes the memory of all tensors but the first from all caches.
pub(super) fn non_first_arg(args: &[AnyView<'_>]) -> Result<Any, Error> {
    for dl in args.iter().skip(1).filter_map(AnyView::as_dltensor) {
        let tensor = HostTensor::new(dl)
            .map_err(|what| Error::value_error(format!("an argument to flush {what}")))?;
        let bytes = byte_size(&tensor.shape, tensor.dtype)?;
        for at in (0..bytes).step_by(LINE) {
            flush(tensor.data.wrapping_add(at));
        }
    }
    Ok(Any::NONE)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn flush(address: *const u8) {
    // SAFETY: the instruction reads and writes no data, and its address is that of a live tensor.
    unsafe { std::arch::x86_64::_mm_clflush(address) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn flush(address: *const u8) {
    // SAFETY: the instruction (clean and invalidate by address, which Linux lets processes use) changes no
    // data, and its address is that of a live tensor.
    unsafe {
        std::arch::asm!("dc civac, {}", in(reg) address, options(nostack, preserves_flags));
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn flush(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{DLDevice, DLTensor};
    use crate::dtype::DType;
    use crate::tensor::Tensor;

    #[test]
    fn tensors_keep_their_elements_and_strided_ones_are_refused() {
        let x = Tensor::from_slice(&[40], &[3.0_f32; 40]).unwrap();
        let scalar = Tensor::from_slice(&[], &[1_i64]).unwrap();
        non_first_arg(&[(&x).into(), (&x).into(), 3_i64.into(), (&scalar).into()]).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [3.0; 40]);
        assert!(non_first_arg(&[]).unwrap().is_none());
        let (mut shape, mut strides, mut data) = ([2_i64], [2_i64], [1_i64; 3]);
        let strided = DLTensor {
            data: data.as_mut_ptr().cast(),
            device: DLDevice::CPU,
            ndim: 1,
            dtype: DType::I64,
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let refused = non_first_arg(&[(&x).into(), AnyView::from(&strided)]).unwrap_err();
        assert!(refused.message().contains("not compact"), "{}", refused.message());
    }
}

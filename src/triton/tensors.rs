//! Tensors from the parts of requests, and the rows of results.

use std::ptr::NonNull;
use std::sync::Arc;

use reflex::{Any, DType, Tensor, Tuple};

use crate::server::{Failure, Outcome};

/// Makes one tensor of the elements of several requests, one after another. The elements of one part
/// are used where they are, if they are aligned; others are copied.
///
/// # Safety
/// The parts live, and stay as they are, until the tensor and what shares its memory are dropped.
pub(crate) unsafe fn gather(dtype: DType, shape: &[i64], parts: &[&[u8]]) -> Outcome<Tensor> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if size(dtype, shape) != Some(bytes) {
        let text = format!("a {dtype} tensor of shape {shape:?} does not have {bytes} bytes");
        return Err(Failure::invalid(text));
    }
    if let [part] = parts
        && !part.is_empty()
        && part.as_ptr().addr().is_multiple_of(dtype.itemsize().max(1))
    {
        let data = NonNull::from(*part).cast::<u8>();
        // SAFETY: the bytes are as many as the shape has, and the caller keeps them.
        return Ok(unsafe { Tensor::borrowing(data, shape, dtype, Arc::new(())) }?);
    }
    let tensor = Tensor::empty(shape, dtype)?;
    let mut at = 0;
    for part in parts {
        // SAFETY: the tensor is new and has the bytes of all parts together, checked above.
        unsafe { tensor.data_ptr().add(at).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        at += part.len();
    }
    Ok(tensor)
}

/// Returns the bytes of a tensor; `None` if no memory has as many.
pub(crate) fn size(dtype: DType, shape: &[i64]) -> Option<usize> {
    let count =
        shape.iter().try_fold(1_usize, |n, size| n.checked_mul(usize::try_from(*size).ok()?));
    dtype.bytes_for(count?)
}

/// Makes a tensor whose elements are a buffer's.
///
/// # Safety
/// The buffer has the bytes of the shape, which nothing else accesses until the tensor and what shares
/// its memory are dropped; one without bytes may be null.
pub(crate) unsafe fn of_buffer(buffer: *mut u8, dtype: DType, shape: &[i64]) -> Outcome<Tensor> {
    let data = NonNull::new(buffer).unwrap_or(NonNull::dangling());
    // SAFETY: the caller lends the bytes.
    Ok(unsafe { Tensor::borrowing(data, shape, dtype, Arc::new(())) }?)
}

/// Returns the tensors of a result in order, compact and in host memory.
pub(crate) fn results(value: &Any) -> Outcome<Vec<Tensor>> {
    let (mut tensors, mut rest) = (vec![], vec![value]);
    while let Some(value) = rest.pop() {
        if let Some(items) = value.downcast_ref::<Tuple>() {
            rest.extend(items.iter().rev());
            continue;
        }
        let tensor = value.downcast_ref::<Tensor>();
        let tensor = tensor.ok_or_else(|| Failure::internal("a result is no tensor"))?.to_host()?;
        tensors.push(if tensor.is_compact() { tensor } else { tensor.to_compact()? });
    }
    Ok(tensors)
}

/// Returns the elements of a compact tensor in host memory.
pub(crate) fn bytes(tensor: &Tensor) -> &[u8] {
    match tensor.nbytes() {
        0 => &[],
        // SAFETY: the tensor, which the slice borrows, is compact and has these bytes; nothing
        // writes results after their call.
        size => unsafe { std::slice::from_raw_parts(tensor.data_ptr(), size) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_after_another() {
        let (a, b) = ([1_u8, 2], [3_u8, 4, 5, 6]);
        // SAFETY: the arrays live longer than the tensor.
        let tensor = unsafe { gather(DType::U8, &[3, 2], &[&a, &b]) }.unwrap();
        assert_eq!(bytes(&tensor), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn one_part_is_not_copied_if_it_is_aligned() {
        let words = [0_u32; 4];
        // SAFETY: the words' bytes, which are readable.
        let (_, raw, _) = unsafe { words.align_to::<u8>() };
        // SAFETY: the words live longer than the tensors.
        let of = |part: &[u8]| unsafe { gather(DType::F32, &[3], &[part]) }.unwrap();
        assert_eq!(of(&raw[..12]).data_ptr().cast_const(), raw.as_ptr());
        assert_ne!(of(&raw[1..13]).data_ptr().cast_const(), raw[1..].as_ptr());
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for shape in [&[2_i64][..], &[-1], &[i64::MAX, i64::MAX]] {
            // SAFETY: the part is static.
            assert!(unsafe { gather(DType::F32, shape, &[&[0; 4]]) }.is_err(), "{shape:?}");
        }
    }

    #[test]
    fn tuples_of_results_are_flattened() {
        let tensor = |value: f32| Any::from(Tensor::from_slice(&[1], &[value]).unwrap());
        let nested = Any::from(Tuple::new(vec![tensor(2.0), tensor(3.0)]));
        let value = Any::from(Tuple::new(vec![tensor(1.0), nested]));
        let found = results(&value).unwrap();
        let found: Vec<f32> = found.iter().flat_map(|t| t.to_vec::<f32>().unwrap()).collect();
        assert_eq!(found, [1.0, 2.0, 3.0]);
        assert!(results(&Any::NONE).is_err());
    }
}

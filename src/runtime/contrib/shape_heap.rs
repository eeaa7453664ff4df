//! The builtins on shape heaps of the first Relax virtual machine, which `vm.builtin.match_shape` and
//! `vm.builtin.make_shape` replaced.

use super::host_tensor::HostTensor;
use crate::dtype::DType;
use crate::error::Error;
use crate::function;
use crate::shape::Shape;
use crate::value::{Any, AnyView};

/// The address of element `at` of a heap, a vector of int64 in main memory.
fn element(heap: &HostTensor, at: i64) -> Result<*mut i64, Error> {
    let [length] = heap.shape[..] else {
        return Err(Error::value_error(format!("a shape heap is a vector, not {:?}", heap.shape)));
    };
    if heap.dtype != DType::I64 {
        return Err(Error::type_error(format!("a shape heap is of int64, not {}", heap.dtype)));
    }
    let place = usize::try_from(at).ok().filter(|_| at < length);
    let place = place.ok_or_else(|| {
        Error::new("IndexError", format!("a shape heap of {length} has no element {at}"))
    })?;
    Ok(heap.data.cast::<i64>().wrapping_add(place))
}

/// `(shape, heap, index...)`: stores each dimension at its index.
pub(super) fn store_shape(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (shape, heap) = (function::arg::<Shape>(args, 0)?, HostTensor::of(args, 1)?);
    if shape.len() + 2 != args.len() {
        let text = format!("a shape of {} dimensions and {} places", shape.len(), args.len() - 2);
        return Err(Error::value_error(text));
    }
    for (at, dim) in shape.iter().enumerate() {
        let place = element(&heap, function::arg(args, at + 2)?)?;
        // SAFETY: the place is inside of the heap, which nothing else uses during the call by the promise of
        // those who call packed functions on tensors that they write to.
        unsafe { place.write_unaligned(*dim) };
    }
    Ok(Any::NONE)
}

/// `(heap, index...)`: the shape of the elements at these indices.
pub(super) fn load_shape(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let heap = HostTensor::of(args, 0)?;
    let dims = (1..args.len()).map(|at| {
        let place = element(&heap, function::arg(args, at)?)?;
        // SAFETY: the place is inside of the heap, which nothing writes to during the call.
        Ok(unsafe { place.read_unaligned() })
    });
    Ok(Shape::new(&dims.collect::<Result<Vec<_>, Error>>()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn shapes_are_stored_and_loaded_by_index() {
        let heap = Tensor::zeros(&[3], DType::I64).unwrap();
        let shape = Shape::new(&[32, 16]);
        store_shape(&[(&shape).into(), (&heap).into(), 2_i64.into(), 0_i64.into()]).unwrap();
        assert_eq!(heap.to_vec::<i64>().unwrap(), [16, 0, 32]);
        let loaded = load_shape(&[(&heap).into(), 0_i64.into(), 2_i64.into()]).unwrap();
        assert_eq!(&*Shape::try_from(loaded).unwrap(), [16, 32]);
        for bad in [-1_i64, 3] {
            assert_eq!(load_shape(&[(&heap).into(), bad.into()]).unwrap_err().kind(), "IndexError");
        }
        assert!(store_shape(&[(&shape).into(), (&heap).into(), 2_i64.into()]).is_err());
        let floats = Tensor::zeros(&[3], DType::F32).unwrap();
        assert!(load_shape(&[(&floats).into(), 0_i64.into()]).is_err());
    }
}

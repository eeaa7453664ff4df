//! Reading and writing the elements of CPU tensors.

use half::{bf16, f16};

use super::Tensor;
use crate::abi::DLDevice;
use crate::dtype::DType;
use crate::error::Error;

/// A number type that tensors store.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value.
pub unsafe trait Element: Copy + 'static {
    /// The element type that stores it.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),*) => { $(
        // SAFETY: a number, of which every bit pattern is valid, without padding.
        unsafe impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }
    )* };
}

elements!(f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, i8 => I8, i16 => I16, i32 => I32,
    i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);

/// Whether elements of type `dtype` can be looked at as `T`: the same type, or
/// booleans as bytes.
fn stores<T: Element>(dtype: DType) -> bool {
    dtype == T::DTYPE || (dtype.is_bool() && dtype.bits == 8 && T::DTYPE == DType::U8)
}

impl Tensor {
    /// A copy of the elements in row-major order.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.require_element::<T>()?;
        let bytes = self.packed_bytes()?;
        let count = self.element_count();
        let mut values: Vec<T> = Vec::with_capacity(count);
        // SAFETY: the bytes are `count` elements, any bit pattern is a `T`, and the
        // vector has the room. The source need not be aligned.
        unsafe {
            values
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes, count * size_of::<T>());
            values.set_len(count);
        }
        Ok(values)
    }

    /// A copy of the elements in row-major order, whatever their type, as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let (bytes, count) = (self.packed_bytes()?, self.nbytes());
        let mut copy: Vec<u8> = Vec::with_capacity(count);
        // SAFETY: a compact tensor's data is `nbytes` long, and the vector has the room.
        unsafe {
            copy.as_mut_ptr().copy_from_nonoverlapping(bytes, count);
            copy.set_len(count);
        }
        Ok(copy)
    }

    /// The elements in place.
    ///
    /// # Safety
    /// No thread writes the data while the slice is borrowed.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        let (data, count) = self.elements::<T>()?;
        // SAFETY: aligned, `count` elements long, and unchanged by the caller's contract.
        Ok(unsafe { std::slice::from_raw_parts(data, count) })
    }

    /// The elements in place, for writing, of a tensor that others may refer to.
    ///
    /// # Safety
    /// No other reader or writer accesses the data while the slice is borrowed, and the data may be
    /// written (see [`Tensor::is_read_only`]).
    #[allow(clippy::mut_from_ref)] // the contract is what makes it exclusive
    pub unsafe fn as_mut_slice<T: Element>(&self) -> Result<&mut [T], Error> {
        let (data, count) = self.elements::<T>()?;
        // SAFETY: aligned, `count` elements long, and exclusive by the caller's contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(data, count) })
    }

    /// Address and number of the elements of a compact CPU tensor: aligned, never null.
    fn elements<T: Element>(&self) -> Result<(*mut T, usize), Error> {
        self.require_element::<T>()?;
        let data = self.packed_bytes()?.cast_mut().cast::<T>();
        let count = self.element_count();
        if count == 0 {
            return Ok((std::ptr::NonNull::dangling().as_ptr(), 0));
        }
        if !data.is_aligned() {
            return Err(Error::value_error(format!("the data is not aligned for {}", T::DTYPE)));
        }
        Ok((data, count))
    }

    /// The elements in place, for writing. Refused for a tensor that anything else
    /// refers to or whose data it does not own.
    pub fn get_mut<T: Element>(&mut self) -> Result<&mut [T], Error> {
        self.require_element::<T>()?;
        let data = self.packed_bytes()?.cast_mut().cast::<T>();
        if self.is_shared() || !self.owns_data() {
            return Err(Error::value_error("the tensor's data is shared"));
        }
        let count = self.element_count();
        // SAFETY: owned blocks are aligned and have the elements; `self` is the only
        // reference, and is borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(data, count) })
    }

    fn require_element<T: Element>(&self) -> Result<(), Error> {
        if stores::<T>(self.dtype()) {
            return Ok(());
        }
        let (dtype, asked) = (self.dtype(), T::DTYPE);
        Err(Error::type_error(format!("a tensor of {dtype} does not hold {asked} values")))
    }

    /// Address of the data of a compact CPU tensor.
    fn packed_bytes(&self) -> Result<*const u8, Error> {
        if self.device().device_type != DLDevice::KIND_CPU {
            return Err(Error::value_error(format!(
                "a tensor on {:?}; only those on the CPU are read",
                self.device()
            )));
        }
        self.require_compact("read")?;
        Ok(self.data_ptr())
    }
}

//! DLPack in and out, without copies.
//!
//! An imported tensor keeps the producer's deleter and runs it when the last
//! reference goes; an exported one holds a reference that its consumer releases
//! through our deleter. The versioned form flags read-only data.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_SUBBYTE_PADDED, DLPACK_VERSION, DLTensor,
    TVMFFIObject, type_index,
};
use crate::device;
use crate::error::Error;
use crate::object::{ObjectRef, ObjectType};
use crate::tensor::{self, DataLocation, Foreign, Managed, Owner, Tensor};
use crate::value::{Any, AnyView};

/// Ranks beyond this are taken for garbage.
const MAX_RANK: i32 = 64;

impl Managed for DLManagedTensor {
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the tensor is live, and this is its last use.
        unsafe {
            if let Some(deleter) = this.as_ref().deleter {
                deleter(this.as_ptr());
            }
        }
    }
}

impl Managed for DLManagedTensorVersioned {
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the tensor is live, and this is its last use.
        unsafe {
            if let Some(deleter) = this.as_ref().deleter {
                deleter(this.as_ptr());
            }
        }
    }
}

impl Tensor {
    /// Takes over a tensor of another framework. On error the producer's deleter has
    /// not run and the caller still owns it.
    ///
    /// # Safety
    /// `managed` is a live DLPack tensor whose description is true; its deleter may
    /// run on any thread.
    pub unsafe fn from_dlpack(managed: NonNull<DLManagedTensor>) -> Result<Tensor, Error> {
        // SAFETY: the caller passes a live managed tensor.
        let dl = unsafe { &managed.as_ref().dl_tensor };
        // SAFETY: as above; the owner keeps the data until the tensor is gone.
        unsafe { import(dl, || Owner::DlPack(Foreign(managed))) }
    }

    /// Takes over a tensor of another framework. On error the producer's deleter has
    /// not run and the caller still owns it.
    ///
    /// # Safety
    /// As for [`Tensor::from_dlpack`].
    pub unsafe fn from_dlpack_versioned(
        managed: NonNull<DLManagedTensorVersioned>,
    ) -> Result<Tensor, Error> {
        // SAFETY: the caller passes a live managed tensor; this much is the same in every
        // version of the struct.
        let (version, flags) = unsafe { (managed.as_ref().version, managed.as_ref().flags) };
        if version.major != DLPACK_VERSION.major {
            return Err(Error::value_error(format!(
                "DLPack version {}.{} is not supported; export with version {}.x",
                version.major, version.minor, DLPACK_VERSION.major
            )));
        }
        if flags & DLPACK_SUBBYTE_PADDED != 0 {
            return Err(Error::value_error("padded sub-byte DLPack tensors are not supported"));
        }
        // SAFETY: the caller passes a live managed tensor, whose version was checked above.
        let dl = unsafe { &managed.as_ref().dl_tensor };
        // SAFETY: as above; the owner keeps the data until the tensor is gone.
        unsafe { import(dl, || Owner::DlPackVersioned(Foreign(managed))) }
    }

    /// A compact CPU tensor with a copy of what `dl` describes.
    ///
    /// # Safety
    /// The description is true during the call, and no thread writes the data meanwhile.
    pub unsafe fn copy_of(dl: &DLTensor) -> Result<Tensor, Error> {
        // SAFETY: the caller vouches for the description during the call, which the view does not
        // outlive.
        let view = unsafe { import(dl, || Owner::Host(Arc::new(()))) }?;
        let compact = view.to_compact()?;
        Tensor::from_bytes(compact.shape(), compact.dtype(), &compact.to_bytes()?)
    }

    /// Hands the tensor to another framework, which releases it by its deleter.
    pub fn to_dlpack(&self) -> NonNull<DLManagedTensor> {
        let managed = DLManagedTensor {
            dl_tensor: *self.dl(),
            manager_ctx: self.object().clone().into_raw().as_ptr().cast(),
            deleter: Some(delete_exported),
        };
        NonNull::from(Box::leak(Box::new(managed)))
    }

    /// Hands the tensor to another framework, which releases it by its deleter.
    pub fn to_dlpack_versioned(&self) -> NonNull<DLManagedTensorVersioned> {
        let managed = DLManagedTensorVersioned {
            version: DLPACK_VERSION,
            manager_ctx: self.object().clone().into_raw().as_ptr().cast(),
            deleter: Some(delete_exported_versioned),
            flags: if self.is_read_only() { crate::abi::DLPACK_READ_ONLY } else { 0 },
            dl_tensor: *self.dl(),
        };
        NonNull::from(Box::leak(Box::new(managed)))
    }

    /// A copy of this CPU tensor in row-major order, or the tensor itself if it is
    /// that already.
    pub fn to_compact(&self) -> Result<Tensor, Error> {
        if self.is_compact() {
            return Ok(self.clone());
        }
        device::require_host(self.device(), "the data")?;
        if !self.dtype().bits.is_multiple_of(8) {
            return Err(Error::value_error(format!("strided {} is not supported", self.dtype())));
        }
        let compact = Tensor::empty(self.shape(), self.dtype())?;
        let (shape, strides) = (self.shape(), self.strides().unwrap_or_default());
        let (item, mut to) = (self.dtype().itemsize(), compact.data_ptr());
        // A tensor without dimensions or elements is compact.
        let (Some((row, outer)), Some((step, strides))) =
            (shape.split_last(), strides.split_last())
        else {
            return Ok(compact);
        };
        let (row, step) = (*row as usize, *step as isize * item as isize);
        let mut position = vec![0_i64; outer.len()];
        for _ in 0..self.element_count() / row {
            let offset: i64 = position.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            // SAFETY: the position is inside the shape, so the strided offsets of its row are inside
            // the source's data; the target is as large as all rows.
            unsafe {
                let from = self.data_ptr().wrapping_offset(offset as isize * item as isize);
                copy_row(from, step, to, row, item);
                to = to.add(row * item);
            }
            advance(&mut position, outer);
        }
        Ok(compact)
    }
}

/// Copies `count` items of `item` bytes, which lie `step` bytes apart, to where they are packed.
///
/// # Safety
/// The items at `from` may be read, those at `to` written; they do not overlap.
unsafe fn copy_row(from: *const u8, step: isize, to: *mut u8, count: usize, item: usize) {
    /// # Safety
    /// As for `copy_row`, for items of the size of `T`.
    unsafe fn copy<T>(from: *const u8, step: isize, to: *mut u8, count: usize) {
        for at in 0..count {
            let source = from.wrapping_offset(at as isize * step).cast::<T>();
            // SAFETY: the caller vouches for every item of both rows.
            unsafe { to.cast::<T>().add(at).write_unaligned(source.read_unaligned()) };
        }
    }
    // SAFETY: the caller vouches for every item of both rows; each branch copies items of its size.
    unsafe {
        match item {
            _ if step == item as isize => to.copy_from_nonoverlapping(from, count * item),
            1 => copy::<u8>(from, step, to, count),
            2 => copy::<u16>(from, step, to, count),
            4 => copy::<u32>(from, step, to, count),
            8 => copy::<u64>(from, step, to, count),
            _ => {
                for at in 0..count {
                    let source = from.wrapping_offset(at as isize * step);
                    to.add(at * item).copy_from_nonoverlapping(source, item);
                }
            }
        }
    }
}

impl AnyView<'_> {
    /// Whether it is a tensor whose elements are not packed in row-major order.
    #[inline]
    pub fn is_strided(&self) -> bool {
        // SAFETY: tensors and views of `DLTensor`s have as many dimensions and strides as they say.
        self.as_dltensor().is_some_and(|dl| unsafe { !tensor::is_compact(dl) })
    }

    /// An owned value like this one; a tensor that is strided is copied into one that is not.
    pub fn to_compact(&self) -> Result<Any, Error> {
        match self.downcast_ref::<Tensor>() {
            Some(tensor) => Ok(tensor.to_compact()?.into()),
            None if self.is_strided() => self.to_owned_copy(),
            None => Ok(self.to_owned()),
        }
    }

    /// An owned value that borrows from no memory of the view: as
    /// [`to_owned`](AnyView::to_owned), and a borrowed `DLTensor*` is copied into a tensor.
    pub fn to_owned_copy(&self) -> Result<Any, Error> {
        if self.type_index() != type_index::DL_TENSOR_PTR {
            return Ok(self.to_owned());
        }
        let dl = self.as_dltensor().ok_or_else(|| self.mismatch("DLTensor*"))?;
        // SAFETY: the pointer is to a live DLTensor by the view's contract.
        Ok(unsafe { Tensor::copy_of(dl) }?.into())
    }
}

/// The next position in row-major order.
fn advance(position: &mut [i64], shape: &[i64]) {
    for (at, dim) in position.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *dim {
            return;
        }
        *at = 0;
    }
}

/// # Safety
/// `dl` is true, and `owner` keeps its data.
unsafe fn import(dl: &DLTensor, owner: impl FnOnce() -> Owner) -> Result<Tensor, Error> {
    if !(0..=MAX_RANK).contains(&dl.ndim) || (dl.ndim > 0 && dl.shape.is_null()) {
        let rank = dl.ndim;
        let text = format!("a DLPack tensor of rank {rank}; ranks 0 to {MAX_RANK} are taken");
        return Err(Error::value_error(text));
    }
    let rank = dl.ndim as usize;
    // SAFETY: shape, and strides if given, have `ndim` items.
    let (shape, strides): (&[i64], Option<&[i64]>) = unsafe {
        match rank {
            0 => (&[], None),
            _ => (
                std::slice::from_raw_parts(dl.shape, rank),
                (!dl.strides.is_null()).then(|| std::slice::from_raw_parts(dl.strides, rank)),
            ),
        }
    };
    let size = tensor::byte_size(shape, dl.dtype)?;
    if size > 0 && dl.data.is_null() {
        return Err(Error::value_error("a DLPack tensor without data"));
    }
    // Empty tensors may come with null; a dangling address keeps slices of them valid.
    let data = if dl.data.is_null() { NonNull::<u64>::dangling().as_ptr().cast() } else { dl.data };
    let location = DataLocation { data, device: dl.device, byte_offset: dl.byte_offset };
    // SAFETY: the caller vouches for the description, and that the owner keeps the data alive.
    Ok(unsafe {
        match strides {
            Some(strides) => tensor::strided(location, shape, strides, dl.dtype, owner()),
            None => tensor::compact(location, shape, dl.dtype, owner),
        }
    })
}

/// # Safety
/// `context` is a reference that an export leaked.
unsafe fn drop_context(context: *mut c_void) {
    if let Some(object) = NonNull::new(context.cast::<TVMFFIObject>()) {
        // SAFETY: the export leaked this reference, and its consumer calls the deleter once.
        drop(unsafe { ObjectRef::from_raw(object) });
    }
}

unsafe extern "C" fn delete_exported(this: *mut DLManagedTensor) {
    // SAFETY: `to_dlpack` leaked both, and consumers call this once.
    unsafe {
        drop_context((*this).manager_ctx);
        drop(Box::from_raw(this));
    }
}

unsafe extern "C" fn delete_exported_versioned(this: *mut DLManagedTensorVersioned) {
    // SAFETY: `to_dlpack_versioned` leaked both, and consumers call this once.
    unsafe {
        drop_context((*this).manager_ctx);
        drop(Box::from_raw(this));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::DLDevice;
    use crate::dtype::DType;
    use crate::tensor::data::Element;

    #[test]
    fn exports_come_back_without_a_copy() {
        let tensor = Tensor::from_slice(&[2, 3], &[1_i32, 2, 3, 4, 5, 6]).unwrap();
        // SAFETY: both exports are live and imported once.
        let (plain, versioned) = unsafe {
            (
                Tensor::from_dlpack(tensor.to_dlpack()).unwrap(),
                Tensor::from_dlpack_versioned(tensor.to_dlpack_versioned()).unwrap(),
            )
        };
        assert_eq!(plain.data_ptr(), tensor.data_ptr());
        assert_eq!(versioned.to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tensor.object().strong_count(), 3);
        drop((plain, versioned));
        assert!(!tensor.is_shared());
    }

    #[test]
    fn strided_tensors_are_gathered() {
        let tensor = Tensor::from_slice(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let mut export = tensor.to_dlpack();
        let (mut shape, mut strides) = ([3_i64, 2], [1_i64, 3]);
        // SAFETY: the export is ours until imported; the arrays outlive the import,
        // which copies them.
        let transposed = unsafe {
            export.as_mut().dl_tensor.shape = shape.as_mut_ptr();
            export.as_mut().dl_tensor.strides = strides.as_mut_ptr();
            Tensor::from_dlpack(export).unwrap()
        };
        assert!(!transposed.is_compact());
        assert!(transposed.to_vec::<f32>().is_err() && transposed.reshape(&[6]).is_err());
        let compact = transposed.to_compact().unwrap();
        assert_eq!(compact.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(compact.shape(), [3, 2]);
    }

    #[test]
    fn every_size_of_element_is_gathered_from_any_stride() {
        fn check<T: Element + PartialEq + std::fmt::Debug>(of: impl Fn(u8) -> T) {
            let tensor = Tensor::from_slice(&[12], &(0..12).map(&of).collect::<Vec<T>>()).unwrap();
            let location = |offset: usize| DataLocation {
                data: tensor.data_ptr().cast(),
                device: DLDevice::CPU,
                byte_offset: (offset * size_of::<T>()) as u64,
            };
            // Where the first element lies, the strides, and the elements in order.
            let layouts: [(usize, [i64; 2], [u8; 6]); 4] = [
                (0, [1, 4], [0, 4, 8, 1, 5, 9]),
                (11, [-6, -2], [11, 9, 7, 5, 3, 1]),
                (2, [0, 1], [2, 3, 4, 2, 3, 4]),
                (0, [6, 1], [0, 1, 2, 6, 7, 8]),
            ];
            for (first, strides, expected) in layouts {
                let owner = Owner::Object(tensor.object().clone());
                // SAFETY: every position is among the twelve elements, which the owner keeps.
                let view = unsafe {
                    tensor::strided(location(first), &[2, 3], &strides, tensor.dtype(), owner)
                };
                let value = Any::from(view);
                assert!(value.view().is_strided());
                let compact = Tensor::try_from(value.view().to_compact().unwrap()).unwrap();
                assert_eq!(compact.to_vec::<T>().unwrap(), expected.map(&of));
            }
            assert!(!Any::from(tensor.clone()).view().is_strided());
        }
        check(|n| n);
        check(i16::from);
        check(f32::from);
        check(f64::from);
    }

    #[test]
    fn nonsense_is_refused_and_stays_the_callers() {
        let tensor = Tensor::zeros(&[2], DType::F32).unwrap();
        let mut export = tensor.to_dlpack_versioned();
        // SAFETY: the export is ours; failed imports leave it so.
        unsafe {
            export.as_mut().version.major = 2;
            assert!(Tensor::from_dlpack_versioned(export).is_err());
            export.as_mut().version = DLPACK_VERSION;
            export.as_mut().dl_tensor.ndim = -1;
            assert!(Tensor::from_dlpack_versioned(export).is_err());
            export.as_mut().dl_tensor.ndim = 1;
            export.as_mut().dl_tensor.data = std::ptr::null_mut();
            let error = Tensor::from_dlpack_versioned(export).unwrap_err();
            assert_eq!(error.message(), "a DLPack tensor without data");
            delete_exported_versioned(export.as_ptr());
        }
        assert!(!tensor.is_shared());
    }
}

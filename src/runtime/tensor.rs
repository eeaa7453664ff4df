//! Tensors: a `DLTensor` behind an object header, and whatever owns its data.
//!
//! Data is owned by the tensor, lies on a [`Storage`], is shared with another
//! tensor, is borrowed from memory that something keeps alive (a mapped file), or
//! belongs to another framework (DLPack). Shape and strides live in the object.
//!
//! Tensor data is shared, mutable memory. Reading it is safe here; a writer
//! (kernels, [`Tensor::data_ptr`] users) promises that no other thread reads or writes the
//! same bytes meanwhile.

use std::any::Any as StdAny;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::abi::{
    BOTH_ONE, DELETE_STRONG, DELETE_WEAK, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPACK_READ_ONLY, DLTensor, Deleter, OBJECT_HEADER_SIZE, TENSOR_DIMS, TENSOR_OWNER,
    TENSOR_OWNER_BLOCK, TVMFFIObject, type_index,
};
use crate::alloc::device::{CPU, DeviceAllocator, OwnedBlock, is_pooled};
use crate::alloc::free_tensors;
use crate::device;
use crate::dtype::DType;
use crate::error::Error;
use crate::object::{self, Body, ObjectRef, ObjectType};
use crate::shape::Shape;
use crate::storage::Storage;
use crate::value::impl_object_conversions;

use data::Element;

pub mod data;
pub mod transfer;

/// A reference to a tensor.
///
/// ```
/// use reflex_runtime::{dtype::DType, tensor::Tensor};
/// let tensor = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
/// assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 2][..], DType::F32));
/// assert_eq!(tensor.reshape(&[4]).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Tensor(ObjectRef);

// SAFETY: transparent; reads the DLTensor that every `ffi.Tensor` has.
unsafe impl ObjectType for Tensor {
    const KEY: &'static str = "ffi.Tensor";
    #[inline]
    fn type_index() -> i32 {
        type_index::TENSOR
    }
}

impl_object_conversions!(Tensor);

/// The cell of a tensor made here; shape, then strides, follow it.
#[repr(C)]
struct Cell {
    dl: DLTensor,
    owner: Owner,
}

const _: () = if cfg!(target_pointer_width = "64") {
    assert!(std::mem::offset_of!(Cell, dl) == 0);
    assert!(TENSOR_OWNER == OBJECT_HEADER_SIZE + std::mem::offset_of!(Cell, owner));
    assert!(TENSOR_DIMS == size_of::<Body<Cell>>());
};

/// The owner that keeps the data alive. An object owner has the layout of an object value, and no
/// owner that of None: machine code replaces the owner of tensors that it recycles.
#[expect(dead_code, reason = "owners are held for their destructors")]
#[repr(C, i64)]
pub(crate) enum Owner {
    /// No owner: of a free tensor that only the recycle slot with its storage refers to.
    Nothing = type_index::NONE as i64,
    Object(ObjectRef) = type_index::OBJECT as i64,
    Block(OwnedBlock) = TENSOR_OWNER_BLOCK,
    Host(Arc<dyn StdAny + Send + Sync>),
    DlPack(Foreign<DLManagedTensor>),
    DlPackVersioned(Foreign<DLManagedTensorVersioned>),
}

/// Another framework's tensor, released when dropped.
pub(crate) struct Foreign<T: Managed>(pub(crate) NonNull<T>);

/// The two forms of DLPack's owner.
pub(crate) trait Managed {
    /// # Safety
    /// `this` is a live managed tensor that is used no more.
    unsafe fn release(this: NonNull<Self>);
}

impl<T: Managed> Drop for Foreign<T> {
    fn drop(&mut self) {
        // SAFETY: the tensor that held it was the last user.
        unsafe { T::release(self.0) };
    }
}

/// Bytes of a compact tensor, or an error for dimensions that no tensor can have.
pub fn byte_size(shape: &[i64], dtype: DType) -> Result<usize, Error> {
    let count =
        shape.iter().try_fold(1_usize, |count, dim| count.checked_mul(usize::try_from(*dim).ok()?));
    count
        .and_then(|count| dtype.bytes_for(count))
        .filter(|bytes| *bytes <= isize::MAX as usize)
        .ok_or_else(|| bad_shape(shape, dtype))
}

/// Refuses a compact tensor that does not fit a storage of `bytes` at `offset`.
#[inline]
fn require_room(shape: &[i64], dtype: DType, offset: usize, bytes: usize) -> Result<(), Error> {
    let size = byte_size(shape, dtype)?;
    if offset.checked_add(size).is_none_or(|end| end > bytes) {
        return Err(Error::value_error(format!(
            "{size} bytes at offset {offset} do not fit a storage of {bytes} bytes"
        )));
    }
    Ok(())
}

#[cold]
fn bad_shape(shape: &[i64], dtype: DType) -> Error {
    Error::value_error(format!("no {dtype} tensor can have the shape {shape:?}"))
}

impl Drop for Cell {
    /// Releases the owner, and the owners of tensors that only views held, by a loop: a view may be of
    /// a view, and so on.
    fn drop(&mut self) {
        if !matches!(self.owner, Owner::Object(_)) {
            return;
        }
        let mut owner = std::mem::replace(&mut self.owner, Owner::Nothing);
        while let Owner::Object(object) = &mut owner {
            if !object::has_mark(object, DELETER) || !object.is_unique() {
                return;
            }
            // SAFETY: the mark says that the object has a `Cell`, and there is no other reference to it.
            let inner = unsafe { &mut (*object.cell::<Cell>()).owner };
            owner = std::mem::replace(inner, Owner::Nothing);
        }
    }
}

/// Marks tensors that have a [`Cell`].
static DELETER: Deleter = delete;

/// The deleter of tensors made here: small ones with memory of their own become free tensors.
///
/// # Safety
/// As for every deleter: `this` is a tensor made here, and `flags` tells which kinds of references are all
/// released.
unsafe extern "C" fn delete(this: *mut c_void, flags: c_int) {
    // SAFETY: the object is a tensor with a cell; if no reference is left, it is this function's.
    unsafe {
        if flags != DELETE_STRONG | DELETE_WEAK || !put_on_free_list(this.cast()) {
            object::delete::<Cell>(this, flags);
        }
    }
}

/// Keeps a tensor for the next one of its kind; returns false if it is not of a kind that is kept.
///
/// # Safety
/// The tensor was made here, and there is no reference to it.
#[inline]
unsafe fn put_on_free_list(tensor: *mut TVMFFIObject) -> bool {
    // SAFETY: the caller passes a tensor with a cell, to which nothing else refers.
    unsafe {
        let Cell { dl, owner } = &*tensor.add(1).cast::<Cell>();
        let Owner::Block(block) = owner else { return false };
        let Some(bytes) = block.pooled_bytes() else { return false };
        // What C++ may have changed.
        let (rank, dims) = (dl.ndim as usize, (&raw const *tensor.cast::<Body<Cell>>()).add(1));
        let is_as_made = dl.data.cast() == block.data().as_ptr()
            && dl.shape.cast_const() == dims.cast()
            && dl.strides == dl.shape.wrapping_add(rank);
        is_as_made && free_tensors::put(NonNull::new_unchecked(tensor), rank, bytes)
    }
}

/// A compact tensor on `bytes` of its own in the CPU's pooled memory, if there is a free tensor of that
/// kind.
#[inline]
fn take_from_free_list(
    (device, offset): (DLDevice, usize),
    bytes: usize,
    shape: &[i64],
    dtype: DType,
) -> Option<Tensor> {
    let tensor = free_tensors::take(shape.len(), bytes)?;
    // SAFETY: a free tensor was made here and has a cell, and a tail for as many dimensions and strides.
    // Nothing refers to it but what is returned.
    unsafe {
        let (header, dl) = (tensor.as_ptr(), tensor.as_ptr().add(1).cast::<DLTensor>());
        (*header).combined_ref_count = AtomicU64::new(BOTH_ONE);
        (*dl).device = device;
        (*dl).dtype = dtype;
        (*dl).byte_offset = offset as u64;
        write_dims((*dl).shape, (*dl).strides, shape);
        Some(Tensor(ObjectRef::from_raw(tensor)))
    }
}

/// Writes dimensions, and the strides of a compact tensor.
///
/// # Safety
/// `dims` and `strides` have room for as many as `shape` has.
#[inline(always)]
unsafe fn write_dims(dims: *mut i64, strides: *mut i64, shape: &[i64]) {
    let mut stride = 1_i64;
    // No copy by a call: dimensions are few.
    for (dim, &extent) in shape.iter().enumerate().rev() {
        // SAFETY: as the caller promises.
        unsafe {
            dims.add(dim).write(extent);
            strides.add(dim).write(stride);
        }
        // Overflow needs a dimension of 0 elsewhere; then no element is addressed.
        stride = stride.wrapping_mul(extent);
    }
}

/// A tensor object with a tail for shape and strides.
#[inline(always)]
fn make(rank: usize, fill: impl FnOnce(NonNull<u8>) -> Cell) -> ObjectRef {
    // SAFETY: the deleter is that of the cell.
    unsafe { object::create_marked(type_index::TENSOR, DELETER, 2 * rank * size_of::<i64>(), fill) }
}

/// The location of a tensor's data.
pub(crate) struct DataLocation {
    pub(crate) data: *mut c_void,
    pub(crate) device: DLDevice,
    pub(crate) byte_offset: u64,
}

/// A compact tensor over the data at `location`, kept alive by what `owner` gives. It is asked when
/// there is an object, so that no owner has to be dropped if there is none: one that lay on the stack for
/// that would be written in words and copied in vectors, for which the processor waits.
///
/// # Safety
/// The owner keeps [`byte_size`] bytes at `location` alive.
#[inline(always)]
pub(crate) unsafe fn compact(
    location: DataLocation,
    shape: &[i64],
    dtype: DType,
    owner: impl FnOnce() -> Owner,
) -> Tensor {
    let rank = shape.len();
    Tensor(make(rank, |tail| {
        let dims = tail.cast::<i64>();
        // SAFETY: the tail is as long as `rank` dimensions and as many strides.
        let strides = unsafe {
            let strides = dims.add(rank);
            write_dims(dims.as_ptr(), strides.as_ptr(), shape);
            strides
        };
        let dl = describe(location, rank, dtype, dims.as_ptr(), strides.as_ptr());
        Cell { dl, owner: owner() }
    }))
}

/// A block as an owner. One for which no object can be made stays allocated.
#[inline(always)]
fn owned(block: OwnedBlock) -> impl FnOnce() -> Owner {
    let block = ManuallyDrop::new(block);
    || Owner::Block(ManuallyDrop::into_inner(block))
}

/// A tensor over the data at `location` with any strides.
///
/// # Safety
/// `owner` keeps alive all bytes that `shape` and `strides` (of equal length) reach
/// from `location`.
pub(crate) unsafe fn strided(
    location: DataLocation,
    shape: &[i64],
    strides: &[i64],
    dtype: DType,
    owner: Owner,
) -> Tensor {
    let rank = shape.len();
    Tensor(make(rank, |tail| {
        let dims = tail.cast::<i64>().as_ptr();
        // SAFETY: the tail is as long as `rank` dimensions and as many strides.
        let steps = unsafe {
            dims.copy_from_nonoverlapping(shape.as_ptr(), rank);
            dims.add(rank).copy_from_nonoverlapping(strides.as_ptr(), rank);
            dims.add(rank)
        };
        Cell { dl: describe(location, rank, dtype, dims, steps), owner }
    }))
}

/// Whether elements are packed in row-major order.
///
/// # Safety
/// Shape, and strides if given, are `ndim` long.
pub(crate) unsafe fn is_compact(dl: &DLTensor) -> bool {
    if dl.strides.is_null() || dl.ndim <= 0 {
        return true;
    }
    let rank = dl.ndim as usize;
    // SAFETY: the caller passes a shape and strides of `ndim` elements.
    let (shape, strides) = unsafe {
        (std::slice::from_raw_parts(dl.shape, rank), std::slice::from_raw_parts(dl.strides, rank))
    };
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1_i64;
    for (dim, stride) in shape.iter().zip(strides).rev() {
        if *dim != 1 && *stride != expected {
            return false;
        }
        expected = expected.wrapping_mul(*dim);
    }
    true
}

fn describe(
    location: DataLocation,
    rank: usize,
    dtype: DType,
    shape: *mut i64,
    strides: *mut i64,
) -> DLTensor {
    let DataLocation { data, device, byte_offset } = location;
    DLTensor { data, device, ndim: rank as i32, dtype, shape, strides, byte_offset }
}

impl Tensor {
    /// A tensor with data of its own, whose values are unspecified.
    #[inline]
    pub fn empty(shape: &[i64], dtype: DType) -> Result<Tensor, Error> {
        Tensor::empty_in(&CPU, shape, dtype)
    }

    /// A tensor with data of its own from `allocator`, whose values are unspecified.
    pub fn empty_in(
        allocator: &'static dyn DeviceAllocator,
        shape: &[i64],
        dtype: DType,
    ) -> Result<Tensor, Error> {
        let bytes = byte_size(shape, dtype)?;
        if is_pooled(allocator)
            && let Some(tensor) = take_from_free_list((DLDevice::CPU, 0), bytes, shape, dtype)
        {
            return Ok(tensor);
        }
        let block = OwnedBlock::new(allocator, bytes)?;
        let device = block.device();
        Ok(Tensor::on_block(block, device, shape, dtype))
    }

    /// A tensor with data of its own on `device`, an open one or a CPU of any number.
    pub fn empty_on(device: DLDevice, shape: &[i64], dtype: DType) -> Result<Tensor, Error> {
        let allocator = match device.is_cpu() {
            true => &CPU,
            false => device::get(device)?.allocator(),
        };
        let block = OwnedBlock::new(allocator, byte_size(shape, dtype)?)?;
        Ok(Tensor::on_block(block, device, shape, dtype))
    }

    /// A tensor over a block of at least its [`byte_size`].
    fn on_block(block: OwnedBlock, device: DLDevice, shape: &[i64], dtype: DType) -> Tensor {
        let location = DataLocation { data: block.data().as_ptr().cast(), device, byte_offset: 0 };
        // SAFETY: the caller passes a block with at least the tensor's bytes, and the owner keeps it.
        unsafe { compact(location, shape, dtype, owned(block)) }
    }

    /// A CPU tensor of zeros.
    pub fn zeros(shape: &[i64], dtype: DType) -> Result<Tensor, Error> {
        let tensor = Tensor::empty(shape, dtype)?;
        // SAFETY: the tensor is unshared and has this many bytes.
        unsafe { tensor.data_ptr().write_bytes(0, tensor.nbytes()) };
        Ok(tensor)
    }

    /// A CPU tensor with a copy of `values`, in row-major order.
    pub fn from_slice<T: Element>(shape: &[i64], values: &[T]) -> Result<Tensor, Error> {
        // SAFETY: `Element` types have no padding, so all bytes of the slice are initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
        };
        Tensor::from_bytes(shape, T::DTYPE, bytes)
    }

    /// A CPU tensor with a copy of `bytes`: packed elements in row-major order.
    pub fn from_bytes(shape: &[i64], dtype: DType, bytes: &[u8]) -> Result<Tensor, Error> {
        let size = byte_size(shape, dtype)?;
        if bytes.len() != size {
            return Err(Error::value_error(format!(
                "a {dtype} tensor of shape {shape:?} has {size} bytes, not {}",
                bytes.len()
            )));
        }
        let tensor = Tensor::empty(shape, dtype)?;
        // SAFETY: the tensor is unshared and has this many bytes.
        unsafe { tensor.data_ptr().copy_from_nonoverlapping(bytes.as_ptr(), size) };
        Ok(tensor)
    }

    /// A compact tensor at `offset` bytes into `storage`.
    #[inline]
    pub fn on_storage(
        storage: &Storage,
        offset: usize,
        shape: &[i64],
        dtype: DType,
    ) -> Result<Tensor, Error> {
        require_room(shape, dtype, offset, storage.size())?;
        let data = storage.data().as_ptr().cast();
        let location = DataLocation { data, device: storage.device(), byte_offset: offset as u64 };
        let owner = || Owner::Object(storage.object().clone());
        // SAFETY: the bytes are inside the storage, checked above.
        Ok(unsafe { compact(location, shape, dtype, owner) })
    }

    /// A compact tensor at `offset` bytes into `bytes` of its own from `allocator`, whose values are
    /// unspecified: one on a storage to which nothing else refers. The memory counts as that of `device`.
    #[inline]
    pub fn on_own_storage(
        (allocator, device): (&'static dyn DeviceAllocator, DLDevice),
        bytes: usize,
        offset: usize,
        shape: &[i64],
        dtype: DType,
    ) -> Result<Tensor, Error> {
        require_room(shape, dtype, offset, bytes)?;
        if is_pooled(allocator)
            && let Some(tensor) = take_from_free_list((device, offset), bytes, shape, dtype)
        {
            return Ok(tensor);
        }
        let block = OwnedBlock::new(allocator, bytes)?;
        let data = block.data().as_ptr().cast();
        let location = DataLocation { data, device, byte_offset: offset as u64 };
        // SAFETY: the bytes are inside the block, checked above.
        Ok(unsafe { compact(location, shape, dtype, owned(block)) })
    }

    /// A compact CPU tensor over memory that `keeper` keeps alive, such as a mapped
    /// file.
    ///
    /// # Safety
    /// Until `keeper` is dropped, the tensor's bytes at `data` are readable and do
    /// not change, unless the maker of the tensor changes them.
    pub unsafe fn borrowing(
        data: NonNull<u8>,
        shape: &[i64],
        dtype: DType,
        keeper: Arc<dyn StdAny + Send + Sync>,
    ) -> Result<Tensor, Error> {
        byte_size(shape, dtype)?;
        let location =
            DataLocation { data: data.as_ptr().cast(), device: DLDevice::CPU, byte_offset: 0 };
        // SAFETY: the caller vouches that `keeper` keeps the tensor's bytes at `data` alive.
        Ok(unsafe { compact(location, shape, dtype, || Owner::Host(keeper)) })
    }

    /// The same data with another shape of as many elements.
    pub fn reshape(&self, shape: &[i64]) -> Result<Tensor, Error> {
        self.require_compact("reshaped")?;
        if byte_size(shape, self.dtype())? != self.nbytes() {
            return Err(Error::value_error(format!(
                "a tensor of shape {:?} cannot be reshaped to {shape:?}",
                self.shape()
            )));
        }
        Ok(self.view_unchecked(0, shape, self.dtype()))
    }

    /// A compact view of some of this tensor's bytes, from `offset` on.
    pub fn view(&self, offset: usize, shape: &[i64], dtype: DType) -> Result<Tensor, Error> {
        self.require_compact("viewed")?;
        let size = byte_size(shape, dtype)?;
        if offset.checked_add(size).is_none_or(|end| end > self.nbytes()) {
            return Err(Error::value_error(format!(
                "{size} bytes at offset {offset} do not fit a tensor of {} bytes",
                self.nbytes()
            )));
        }
        Ok(self.view_unchecked(offset, shape, dtype))
    }

    fn view_unchecked(&self, offset: usize, shape: &[i64], dtype: DType) -> Tensor {
        let DLTensor { data, device, byte_offset, .. } = *self.dl();
        let location = DataLocation { data, device, byte_offset: byte_offset + offset as u64 };
        // SAFETY: callers check that the view is inside this tensor.
        unsafe { compact(location, shape, dtype, || Owner::Object(self.0.clone())) }
    }

    fn require_compact(&self, verb: &str) -> Result<(), Error> {
        if self.is_compact() {
            return Ok(());
        }
        Err(Error::value_error(format!(
            "a tensor with strides {:?} cannot be {verb}; make it compact first",
            self.strides().unwrap_or_default()
        )))
    }

    /// The C description.
    #[inline]
    pub fn dl(&self) -> &DLTensor {
        // SAFETY: every `ffi.Tensor` has a DLTensor after its header.
        unsafe { &*self.0.cell::<DLTensor>() }
    }

    /// The dimensions.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        let dl = self.dl();
        if dl.ndim <= 0 {
            return &[];
        }
        // SAFETY: the shape of a live tensor points to `ndim` dimensions.
        unsafe { std::slice::from_raw_parts(dl.shape, dl.ndim as usize) }
    }

    /// The dimensions as a value.
    pub fn shape_object(&self) -> Shape {
        Shape::new(self.shape())
    }

    /// Strides in elements; None for a foreign tensor that left them out, which
    /// means compact.
    #[inline]
    pub fn strides(&self) -> Option<&[i64]> {
        let dl = self.dl();
        if dl.ndim <= 0 {
            return Some(&[]);
        }
        // SAFETY: strides that are there are `ndim` long.
        (!dl.strides.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(dl.strides, dl.ndim as usize) })
    }

    /// Element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dl().dtype
    }

    /// Where the data is.
    #[inline]
    pub fn device(&self) -> DLDevice {
        self.dl().device
    }

    /// Address of the first element, byte offset included. Not null for tensors of
    /// this crate; whether it may be written through is up to the data's owner.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        let dl = self.dl();
        dl.data.cast::<u8>().wrapping_add(dl.byte_offset as usize)
    }

    /// Number of elements.
    #[inline]
    pub fn element_count(&self) -> usize {
        // Checked when the tensor was made.
        self.shape().iter().product::<i64>() as usize
    }

    /// Bytes of the elements, packed.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.dtype().bytes_for(self.element_count()).unwrap_or(0)
    }

    /// Whether elements are packed in row-major order.
    pub fn is_compact(&self) -> bool {
        // SAFETY: the shape and strides of a live tensor have `ndim` elements.
        unsafe { is_compact(self.dl()) }
    }

    /// Whether other references to this tensor, or views of it, exist.
    pub fn is_shared(&self) -> bool {
        !self.0.is_unique()
    }

    /// Whether the tensor was made here with a block of its own.
    fn owns_data(&self) -> bool {
        matches!(self.owner(), Some(Owner::Block(_)))
    }

    /// Whether the data was borrowed, or comes from a producer that forbids writes.
    pub fn is_read_only(&self) -> bool {
        match self.owner() {
            Some(Owner::Host(_)) => true,
            // SAFETY: the foreign tensor is alive as long as this one.
            Some(Owner::DlPackVersioned(foreign)) => unsafe {
                foreign.0.as_ref().flags & DLPACK_READ_ONLY != 0
            },
            Some(Owner::Object(of)) => {
                of.downcast_ref::<Tensor>().is_some_and(Tensor::is_read_only)
            }
            Some(Owner::Block(_) | Owner::DlPack(_) | Owner::Nothing) | None => false,
        }
    }

    /// The data's owner, for a tensor made here.
    fn owner(&self) -> Option<&Owner> {
        // SAFETY: objects with this mark have this cell.
        object::has_mark(&self.0, DELETER).then(|| unsafe { &(*self.0.cell::<Cell>()).owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::pool;

    #[test]
    fn layouts_are_what_kernels_expect() {
        let tensor = Tensor::zeros(&[2, 3, 4], DType::F32).unwrap();
        assert_eq!(tensor.strides().unwrap(), [12, 4, 1]);
        assert_eq!(tensor.data_ptr().addr() % 64, 0);
        assert_eq!(tensor.dl().byte_offset, 0);
        assert_eq!(tensor.nbytes(), 96);
        let dl = std::ptr::from_ref(tensor.dl()).addr();
        assert_eq!(dl - tensor.object().as_ptr().addr(), crate::abi::TENSOR_DLTENSOR);
        let scalar = Tensor::from_slice(&[], &[7_i64]).unwrap();
        assert_eq!((scalar.shape(), scalar.element_count()), (&[][..], 1));
        assert_eq!(scalar.to_vec::<i64>().unwrap(), [7]);
        let empty = Tensor::zeros(&[0, 5], DType::F64).unwrap();
        assert!(empty.to_vec::<f64>().unwrap().is_empty() && !empty.data_ptr().is_null());
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for shape in [&[-1_i64][..], &[i64::MAX, 2], &[1 << 40, 1 << 40], &[i64::MAX]] {
            let error = Tensor::empty(shape, DType::F32).unwrap_err();
            assert!(["ValueError", "MemoryError"].contains(&&*error.kind()), "{error}");
        }
        assert!(Tensor::from_slice(&[3], &[1_u8, 2]).is_err());
    }

    #[test]
    fn tensors_on_a_storage_share_it() {
        let storage = Storage::new(&CPU, 100).unwrap();
        let all = Tensor::on_storage(&storage, 0, &[25], DType::F32).unwrap();
        let part = Tensor::on_storage(&storage, 60, &[2, 5], DType::F32).unwrap();
        assert_eq!(part.data_ptr().addr() - all.data_ptr().addr(), 60);
        assert!(Tensor::on_storage(&storage, 61, &[2, 5], DType::F32).is_err());
        assert!(Tensor::on_storage(&storage, usize::MAX, &[1], DType::F32).is_err());
        assert_eq!(storage.object().strong_count(), 3);
        // SAFETY: only this test refers to the storage, and the element is inside it.
        unsafe { part.data_ptr().cast::<f32>().write(2.5) };
        drop((part, storage));
        assert_eq!(all.to_vec::<f32>().unwrap()[15], 2.5);
    }

    #[test]
    fn steady_state_takes_nothing_from_the_heap() {
        let round = || {
            let storage = Storage::new(&CPU, 4096).unwrap();
            let tensor = Tensor::on_storage(&storage, 64, &[8, 16], DType::F32).unwrap();
            let view = tensor.reshape(&[16, 8]).unwrap();
            let owned = Tensor::empty(&[3, 5, 7], DType::F64).unwrap();
            (view.shape_object(), owned.shape_object())
        };
        round();
        let before = pool::heap_allocations();
        for _ in 0..100 {
            round();
        }
        assert_eq!(pool::heap_allocations(), before);
    }

    #[test]
    fn data_is_read_as_what_it_is() {
        let mut tensor = Tensor::from_slice(&[3], &[1.5_f32, -2.0, 0.0]).unwrap();
        assert!(tensor.to_vec::<i32>().is_err());
        let view = tensor.view(4, &[2], DType::F32).unwrap();
        assert_eq!(view.to_vec::<f32>().unwrap(), [-2.0, 0.0]);
        assert!(tensor.get_mut::<f32>().is_err());
        drop(view);
        tensor.get_mut::<f32>().unwrap()[0] = 9.0;
        // SAFETY: only this test refers to the tensor, and it does not write meanwhile.
        assert_eq!(unsafe { tensor.as_slice::<f32>() }.unwrap(), [9.0, -2.0, 0.0]);
        let flags = Tensor::from_bytes(&[2], DType::BOOL, &[1, 0]).unwrap();
        assert_eq!(flags.to_vec::<u8>().unwrap(), [1, 0]);
    }

    #[test]
    fn borrowed_memory_is_kept_and_read_only() {
        let keeper: Arc<Vec<u64>> = Arc::new(vec![5, 6]);
        let data = NonNull::from(keeper.as_slice()).cast();
        // SAFETY: the vector is kept by the tensor and not changed.
        let mut tensor =
            unsafe { Tensor::borrowing(data, &[2], DType::U64, keeper.clone()) }.unwrap();
        assert_eq!(tensor.to_vec::<u64>().unwrap(), [5, 6]);
        assert!(tensor.get_mut::<u64>().is_err() && tensor.is_read_only());
        drop(tensor);
        assert_eq!(Arc::strong_count(&keeper), 1);
    }
}

//! Free tensors: thread-local free lists of small tensors whose memory is their own.
//!
//! Programs over lists make and drop such a tensor for each element. A tensor that is dropped goes on a
//! list whole, with its block and all that its header says of it, by rank and size class. The next one of
//! that class writes a reference count, dimensions, strides and an element type, and neither of its two
//! allocations is made. Machine code does the same ([`lists`]).
//!
//! The bytes of free tensors are no longer in use: they are in a reserve of these lists' own
//! (see `live`), which the next tensor takes its bytes from. While there is a limit of memory, none can,
//! and tensors are made as if there were no lists.
//!
//! Decision: docs/decisions/0090-free-tensors.md

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use super::free_list::FreeLists;
use super::live::{self, Reserve};
use crate::abi::{
    DELETE_STRONG, DELETE_WEAK, FREE_TENSOR_RANKS, FREE_TENSOR_SIZES, FREE_TENSOR_STEP,
    FREE_TENSORS_LIMIT, FREE_TENSORS_RESERVE, TVMFFIObject, free_tensor_class,
};

const CLASSES: usize = FREE_TENSOR_RANKS * FREE_TENSOR_SIZES;
/// Bytes of a tensor's object, about.
const OBJECT: usize = 192;

/// The lists of a thread.
#[repr(C)]
struct FreeTensors {
    lists: FreeLists<CLASSES>,
    reserve: Reserve,
    limit: &'static AtomicUsize,
    /// Set while the lists are emptied: tensors are not put back.
    closed: bool,
}

const _: () = if cfg!(target_pointer_width = "64") {
    use std::mem::offset_of;
    assert!(offset_of!(FreeTensors, lists) == 0);
    assert!(offset_of!(FreeTensors, reserve) == FREE_TENSORS_RESERVE);
    assert!(offset_of!(FreeTensors, limit) == FREE_TENSORS_LIMIT);
    assert!(size_of::<Reserve>() == size_of::<*const AtomicUsize>());
    assert!(FREE_TENSOR_SIZES * FREE_TENSOR_STEP <= live::SMALL);
};

thread_local! {
    static TENSORS: RefCell<FreeTensors> = const { RefCell::new(FreeTensors::EMPTY) };
}

/// Lists without tensors. Nothing writes to them, since machine code leaves an empty list alone.
struct NoTensors(FreeTensors);

// SAFETY: links of empty lists and the reserve are none, so there is nothing to share.
unsafe impl Sync for NoTensors {}

static NO_TENSORS: NoTensors = NoTensors(FreeTensors::EMPTY);

/// The free tensors of this thread, for machine code that runs on it. It may take the first tensor of a
/// list that has one, while the limit is `usize::MAX` and if the reserve has as many bytes as the size
/// class, which it subtracts.
pub fn lists() -> *mut c_void {
    // The borrow of a call ends before machine code goes on.
    let lists = TENSORS.try_with(|tensors| tensors.as_ptr().cast::<c_void>());
    lists.unwrap_or_else(|_| no_lists())
}

/// Lists that stay empty, for machine code whose tensors are not in the CPU's pooled memory.
pub fn no_lists() -> *mut c_void {
    (&raw const NO_TENSORS.0).cast_mut().cast()
}

/// A free tensor of this rank whose block is of the size class of `bytes`. Its count, dimensions,
/// strides, device, element type and byte offset are to be written.
#[inline]
pub(crate) fn take(rank: usize, bytes: usize) -> Option<NonNull<TVMFFIObject>> {
    let class = free_tensor_class(rank, bytes)?;
    let tensor = TENSORS.try_with(|tensors| tensors.borrow_mut().take(class));
    tensor.ok().flatten().map(NonNull::cast)
}

/// Puts a tensor on the list of its class; returns false if there is no room.
///
/// # Safety
/// There is no reference to the tensor. It has this rank, its shape and strides are in the object, and its
/// data is at the start of a block of its own of `bytes` from the CPU's pooled allocator.
#[inline]
pub(crate) unsafe fn put(tensor: NonNull<TVMFFIObject>, rank: usize, bytes: usize) -> bool {
    let Some(class) = free_tensor_class(rank, bytes) else { return false };
    // SAFETY: as the caller promises.
    let put = |tensors: &RefCell<FreeTensors>| unsafe { tensors.borrow_mut().put(class, tensor) };
    // A thread that is shutting down has no lists any more.
    bytes == block_bytes(class) && TENSORS.try_with(put).unwrap_or(false)
}

/// Destroys the free tensors of this thread, so that their memory goes back to where it came from.
pub(super) fn clear() {
    let close = |closed| TENSORS.try_with(|tensors| tensors.borrow_mut().closed = closed);
    let _ = close(true);
    let next = || TENSORS.try_with(|tensors| tensors.borrow_mut().take_any()).ok().flatten();
    while let Some(tensor) = next() {
        // SAFETY: the tensor was on a list.
        unsafe { destroy(tensor) };
    }
    let _ = close(false);
}

/// Bytes of the blocks of a class.
fn block_bytes(class: usize) -> usize {
    (class % FREE_TENSOR_SIZES + 1) * FREE_TENSOR_STEP
}

fn entry_bytes(class: usize) -> usize {
    OBJECT + block_bytes(class)
}

/// # Safety
/// The tensor was taken from a list, and its bytes count as in use.
unsafe fn destroy(tensor: NonNull<u8>) {
    // SAFETY: a free tensor is whole but for its count, which deleters do not read; there is no
    // reference to it.
    unsafe {
        let deleter = (*tensor.cast::<TVMFFIObject>().as_ptr()).deleter;
        deleter.expect("tensors have one")(tensor.as_ptr().cast(), DELETE_STRONG | DELETE_WEAK);
    }
}

impl FreeTensors {
    const EMPTY: FreeTensors = FreeTensors {
        lists: FreeLists::EMPTY,
        reserve: Reserve::EMPTY,
        limit: &live::LIMIT,
        closed: false,
    };

    #[inline]
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        if !self.lists.is_empty(class) && !self.reserve.take(block_bytes(class)) {
            return None;
        }
        self.lists.pop(class, entry_bytes)
    }

    /// # Safety
    /// As for [`put`].
    #[inline]
    unsafe fn put(&mut self, class: usize, tensor: NonNull<TVMFFIObject>) -> bool {
        // SAFETY: the first word is the reference count, which says nothing any more.
        let listed = !self.closed && unsafe { self.lists.push(class, tensor.cast()) };
        if listed {
            self.reserve.put(block_bytes(class));
        }
        listed
    }

    /// A tensor of any class, whose bytes count as in use again.
    fn take_any(&mut self) -> Option<NonNull<u8>> {
        let class = (0..CLASSES).find(|class| !self.lists.is_empty(*class))?;
        if !self.reserve.take(block_bytes(class)) {
            live::count(block_bytes(class));
        }
        self.lists.pop(class, entry_bytes)
    }
}

impl Drop for FreeTensors {
    fn drop(&mut self) {
        // The deleter finds no lists any more, so each tensor ends as it would without them.
        while let Some(tensor) = self.take_any() {
            // SAFETY: the tensor was on a list.
            unsafe { destroy(tensor) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::device::{CPU, DeviceAllocator};
    use crate::dtype::DType;
    use crate::tensor::Tensor;

    /// Runs a test with lists of its own.
    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("it passes");
    }

    fn object(tensor: &Tensor) -> *mut TVMFFIObject {
        crate::object::ObjectType::object(tensor).as_ptr()
    }

    #[test]
    fn the_next_tensor_of_a_kind_is_the_last_one_dropped() {
        on_a_thread(|| {
            let first = Tensor::from_slice(&[2, 3], &[1.0_f32; 6]).unwrap();
            let (there, data) = (object(&first), first.data_ptr());
            drop(first);
            let other = Tensor::empty(&[6], DType::F32).unwrap();
            assert_ne!(object(&other), there, "of another rank");
            let larger = Tensor::empty(&[5, 5], DType::F32).unwrap();
            assert_ne!(object(&larger), there, "of another size class");
            let next = Tensor::empty(&[5, 1], DType::I64).unwrap();
            assert_eq!((object(&next), next.data_ptr()), (there, data));
            assert_eq!((next.shape(), next.strides()), (&[5, 1][..], Some(&[1, 1][..])));
            assert_eq!((next.dtype(), next.nbytes(), next.is_shared()), (DType::I64, 40, false));
        });
    }

    #[test]
    fn views_and_tensors_on_storages_are_not_kept() {
        on_a_thread(|| {
            let storage = crate::storage::Storage::new(&CPU, 64).unwrap();
            drop(Tensor::on_storage(&storage, 0, &[16], DType::F32).unwrap());
            let whole = Tensor::empty(&[8], DType::F32).unwrap();
            drop(whole.view(4, &[4], DType::F32).unwrap());
            assert_eq!(take(1, 64), None);
        });
    }

    #[test]
    fn what_others_changed_is_not_kept() {
        on_a_thread(|| {
            let tensor = Tensor::empty(&[4], DType::F32).unwrap();
            // SAFETY: only this test refers to the tensor; the address is inside its block.
            unsafe {
                let dl = object(&tensor).add(1).cast::<crate::abi::DLTensor>();
                (*dl).data = (*dl).data.byte_add(4);
            }
            drop(tensor);
            assert_eq!(take(1, 16), None);
        });
    }

    #[test]
    fn trimming_destroys_them() {
        on_a_thread(|| {
            let tensors: Vec<_> =
                (0..10).map(|_| Tensor::empty(&[1], DType::F32).unwrap()).collect();
            drop(tensors);
            let kept = TENSORS.with(|tensors| tensors.borrow().lists.len(FREE_TENSOR_SIZES));
            assert_eq!(kept, 10);
            CPU.trim();
            assert_eq!(TENSORS.with(|tensors| tensors.borrow().lists.len(FREE_TENSOR_SIZES)), 0);
            assert_eq!(take(1, 4), None);
        });
    }

    #[test]
    fn classes_are_those_of_the_allocator() {
        for bytes in 0..=FREE_TENSOR_SIZES * FREE_TENSOR_STEP {
            let class = free_tensor_class(3, bytes).unwrap();
            assert_eq!(block_bytes(class), crate::alloc::device::class_size(bytes), "{bytes}");
        }
        assert_eq!(free_tensor_class(0, FREE_TENSOR_SIZES * FREE_TENSOR_STEP + 1), None);
        assert_eq!(free_tensor_class(FREE_TENSOR_RANKS, 1), None);
    }
}

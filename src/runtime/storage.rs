//! Storages: blocks of device memory that tensors are laid out on.

use std::ptr::NonNull;
use std::sync::LazyLock;

use crate::abi::{DLDevice, OBJECT_HEADER_SIZE, STORAGE_DATA};
use crate::alloc::device::{DeviceAllocator, OwnedBlock};
use crate::error::Error;
use crate::object::{self, ObjectRef, ObjectType};
use crate::types;
use crate::value::impl_object_conversions;

/// A reference to a storage. Tensors on it keep it alive.
#[derive(Clone)]
#[repr(transparent)]
pub struct Storage(ObjectRef);

/// What a storage holds. Generated code reads `data`.
#[repr(C)]
struct StorageCell {
    data: NonNull<u8>,
    block: OwnedBlock,
    bytes: usize,
}

const _: () = assert!(OBJECT_HEADER_SIZE + std::mem::offset_of!(StorageCell, data) == STORAGE_DATA);

static INDEX: LazyLock<i32> = LazyLock::new(|| types::index_of(Storage::KEY));

// SAFETY: transparent; objects with this process-local index are made only here.
unsafe impl ObjectType for Storage {
    const KEY: &'static str = "vm.Storage";
    #[inline]
    fn type_index() -> i32 {
        *INDEX
    }
}

impl_object_conversions!(Storage);

impl Storage {
    /// A storage of `bytes` from `allocator`.
    pub fn new(allocator: &'static dyn DeviceAllocator, bytes: usize) -> Result<Storage, Error> {
        let block = OwnedBlock::new(allocator, bytes)?;
        let cell = StorageCell { data: block.data(), block, bytes };
        Ok(Storage(object::create(*INDEX, 0, |_| cell)))
    }

    fn cell(&self) -> &StorageCell {
        // SAFETY: storages have this cell.
        unsafe { &*self.0.cell::<StorageCell>() }
    }

    /// First byte, on [`device`](Storage::device).
    #[inline]
    pub fn data(&self) -> NonNull<u8> {
        self.cell().data
    }

    /// Bytes that were asked for; tensors must fit in these.
    #[inline]
    pub fn size(&self) -> usize {
        self.cell().bytes
    }

    /// Where the memory is.
    #[inline]
    pub fn device(&self) -> DLDevice {
        self.cell().block.device()
    }
}

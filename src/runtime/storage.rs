//! Storages: blocks of device memory that tensors are laid out on.

use std::ptr::NonNull;
use std::sync::LazyLock;

use crate::abi::{DLDevice, OBJECT_HEADER_SIZE, STORAGE_BYTES, STORAGE_DATA};
use crate::alloc::device::{DeviceAllocator, OwnedBlock};
use crate::error::Error;
use crate::object::{self, ObjectRef, ObjectType};
use crate::types;
use crate::value::impl_object_conversions;

/// A reference to a storage. Tensors on it keep it alive.
#[derive(Clone)]
#[repr(transparent)]
pub struct Storage(ObjectRef);

/// The cell of a storage. Generated code reads `data` and `bytes`.
#[repr(C)]
struct StorageCell {
    data: NonNull<u8>,
    bytes: usize,
    device: DLDevice,
    owner: Owner,
}

/// The owner of a storage's memory.
#[expect(dead_code, reason = "owners are held for their destructors")]
enum Owner {
    Block(OwnedBlock),
    /// The storage that this one is a slice of.
    Slice(Storage),
    Lent(Loan),
}

/// Memory that is lent to a storage.
pub struct Loan {
    /// The object that keeps the memory.
    pub keeper: ObjectRef,
    /// Told to `end`.
    pub number: u64,
    /// Called when the storage is released.
    pub end: fn(&ObjectRef, u64),
}

impl Drop for Loan {
    fn drop(&mut self) {
        (self.end)(&self.keeper, self.number);
    }
}

const _: () = if cfg!(target_pointer_width = "64") {
    use std::mem::offset_of;
    assert!(OBJECT_HEADER_SIZE + offset_of!(StorageCell, data) == STORAGE_DATA);
    assert!(OBJECT_HEADER_SIZE + offset_of!(StorageCell, bytes) == STORAGE_BYTES);
};

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
        Storage::on_device(allocator, bytes, allocator.device())
    }

    /// [`Storage::new`] whose memory counts as that of `device`: the allocator's, or a CPU of any number.
    pub fn on_device(
        allocator: &'static dyn DeviceAllocator,
        bytes: usize,
        device: DLDevice,
    ) -> Result<Storage, Error> {
        let block = OwnedBlock::new(allocator, bytes)?;
        let cell = StorageCell { data: block.data(), bytes, device, owner: Owner::Block(block) };
        Ok(Storage(object::create(*INDEX, 0, |_| cell)))
    }

    /// A storage in host memory that was lent.
    ///
    /// # Safety
    /// Until the loan ends the `bytes` at `data` can be read and written, and nothing else reads or
    /// writes them but what tensors on this storage do.
    pub unsafe fn in_lent_memory(data: NonNull<u8>, bytes: usize, loan: Loan) -> Storage {
        let cell = StorageCell { data, bytes, device: DLDevice::CPU, owner: Owner::Lent(loan) };
        Storage(object::create(*INDEX, 0, |_| cell))
    }

    /// The slice of `bytes` of this storage from `offset` on, which keeps this one alive; `None` when
    /// it has fewer.
    pub fn slice(&self, offset: usize, bytes: usize) -> Option<Storage> {
        let end = offset.checked_add(bytes)?;
        if end > self.size() {
            return None;
        }
        // Addresses of devices are no host memory, so this is arithmetic alone.
        let data = NonNull::new(self.data().as_ptr().wrapping_add(offset))?;
        let device = self.device();
        let cell = StorageCell { data, bytes, device, owner: Owner::Slice(self.clone()) };
        Some(Storage(object::create(*INDEX, 0, |_| cell)))
    }

    fn cell(&self) -> &StorageCell {
        // SAFETY: only this file makes objects of this type, all with this cell.
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
        self.cell().device
    }
}

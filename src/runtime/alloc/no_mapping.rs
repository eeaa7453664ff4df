//! The stand-in for `mapping` on systems without mappings: all blocks come from the heap.

use std::ptr::NonNull;

/// Blocks of at least this size are mapped: none is.
pub(super) const LEAST: usize = usize::MAX;

/// None: the system has no mappings.
pub(super) fn map(_size: usize) -> Option<NonNull<u8>> {
    None
}

/// Does nothing, as there is no mapping.
///
/// # Safety
/// There is nothing to call it with.
pub(super) unsafe fn unmap(_data: NonNull<u8>, _size: usize) {}

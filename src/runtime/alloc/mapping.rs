//! Large blocks of memory, which come from the kernel, zeroed lazily.

use std::ptr::NonNull;

/// Blocks of at least this size are mapped.
pub(super) const LEAST: usize = 64 << 10;
/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// Maps zeroed memory. A first call writes each page for the first time, so that faults are a large part of
/// it: the pages of a small mapping come with it, and those of a large one are huge where they are touched.
pub(super) fn map(size: usize) -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let is_small = size < HUGE;
    let populate = if is_small { libc::MAP_POPULATE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate;
    // SAFETY: a fresh anonymous mapping has no requirements.
    let data = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    if data == libc::MAP_FAILED {
        return None;
    }
    if !is_small {
        // SAFETY: the range is the mapping's own. It is a hint: without huge pages all works, slower.
        unsafe { libc::madvise(data, size, libc::MADV_HUGEPAGE) };
    }
    NonNull::new(data.cast())
}

/// Releases a mapping to the system.
///
/// # Safety
/// `data` came from `map(size)` and is used no more.
pub(super) unsafe fn unmap(data: NonNull<u8>, size: usize) {
    // SAFETY: as the caller vouches. On failure the memory stays mapped, which is only a leak.
    unsafe { libc::munmap(data.as_ptr().cast(), size) };
}

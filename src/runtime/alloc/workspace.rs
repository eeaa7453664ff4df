//! Scratch memory (workspaces) of kernels: a thread-local best-fit pool.
//!
//! As in TVM's `WorkspacePool`, a request gets the smallest free block that fits, and where
//! there is none the largest is replaced by a new one that does. A thread thus holds as many blocks
//! as its kernels used at once, whatever number of sizes they ask for, and no more than the cache's
//! limit.
//!
//! Decision: docs/decisions/0021-tensor-allocator.md

use std::cell::RefCell;
use std::ptr::NonNull;

use super::device::{
    ALIGNMENT, Reservation, allocate_from_system, cache_limit, release_to_system, trim_for,
};
use crate::error::Error;

/// The header of a block; the data begins [`ALIGNMENT`] bytes after it.
struct Header {
    /// The bytes of the block, with the header.
    size: usize,
    /// Counts the request as live.
    reservation: Reservation,
}

const _: () = assert!(size_of::<Header>() <= ALIGNMENT);

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool(vec![])) };
}

/// Free blocks with their sizes, the smallest first.
struct Pool(Vec<(usize, NonNull<u8>)>);

impl Pool {
    /// The best fit: the smallest free block of at least so many bytes.
    fn take(&mut self, bytes: usize) -> Option<(usize, NonNull<u8>)> {
        let at = self.0.partition_point(|(size, _)| *size < bytes);
        if at < self.0.len() {
            return Some(self.0.remove(at));
        }
        if let Some((size, largest)) = self.0.pop() {
            // SAFETY: free blocks came from `allocate_from_system` with their sizes, and are unused.
            unsafe { release_to_system(largest, size) };
        }
        None
    }

    /// Adds a free block, unless the pool would then exceed the limit.
    fn put(&mut self, size: usize, block: NonNull<u8>) -> bool {
        let held: usize = self.0.iter().map(|(size, _)| *size).sum();
        if held + size > cache_limit() {
            return false;
        }
        let at = self.0.partition_point(|(other, _)| *other < size);
        self.0.insert(at, (size, block));
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (size, block) in self.0.drain(..) {
            // SAFETY: free blocks came from `allocate_from_system` with their sizes, and are unused.
            unsafe { release_to_system(block, size) };
        }
    }
}

/// Memory for at least `bytes` bytes, aligned to [`ALIGNMENT`].
pub(crate) fn allocate(bytes: usize) -> Result<NonNull<u8>, Error> {
    let reservation = Reservation::of(bytes.saturating_add(ALIGNMENT))?;
    let needed = reservation.bytes();
    let cached = POOL.try_with(|pool| pool.borrow_mut().take(needed)).ok().flatten();
    let fresh = || {
        trim_for(needed);
        Some((needed, allocate_from_system(needed)?))
    };
    let Some((size, block)) = cached.or_else(fresh) else { return Err(reservation.exhausted()) };
    // SAFETY: the block is unused, aligned, and as large as its header and the data together.
    unsafe {
        block.cast::<Header>().write(Header { size, reservation });
        Ok(block.add(ALIGNMENT))
    }
}

/// Releases memory.
///
/// # Safety
/// `data` came from [`allocate`], on any thread, and is used no more.
pub(crate) unsafe fn release(data: NonNull<u8>) {
    // SAFETY: `allocate` wrote a header before the data.
    let (block, Header { size, reservation }) = unsafe {
        let block = data.sub(ALIGNMENT);
        (block, block.cast::<Header>().read())
    };
    reservation.end();
    if !POOL.try_with(|pool| pool.borrow_mut().put(size, block)).unwrap_or(false) {
        // SAFETY: the caller releases the block, which came from `allocate_from_system` with its
        // size.
        unsafe { release_to_system(block, size) };
    }
}

/// Releases this thread's free blocks to the system.
pub(super) fn trim() {
    // A thread that is shutting down has done so already.
    let _ = POOL.try_with(|pool| std::mem::replace(&mut *pool.borrow_mut(), Pool(vec![])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_serve_many_sizes() {
        let held = || POOL.with(|pool| pool.borrow().0.iter().map(|(size, _)| *size).collect());
        for bytes in [9000, 100, 70_000, 30_000, 5 << 20] {
            let outer = allocate(bytes).unwrap();
            let inner = allocate(1000).unwrap();
            assert!(outer.addr().get().is_multiple_of(ALIGNMENT) && outer != inner);
            // SAFETY: both are ours, of at least these bytes, and released once.
            unsafe {
                outer.write_bytes(1, bytes);
                inner.write_bytes(2, 1000);
                release(inner);
                release(outer);
            }
        }
        let sizes: Vec<usize> = held();
        assert_eq!(sizes.len(), 2);
        assert!(sizes[1] > 5 << 20);
        trim();
        let sizes: Vec<usize> = held();
        assert!(sizes.is_empty());
        assert_eq!(allocate(usize::MAX).unwrap_err().kind(), "MemoryError");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too much memory for Miri")]
    fn blocks_beyond_the_limit_are_not_cached() {
        let data = allocate(cache_limit() + 1).unwrap();
        // SAFETY: this test allocated the block, and releases it once.
        unsafe { release(data) };
        POOL.with(|pool| assert!(pool.borrow().0.is_empty()));
    }
}

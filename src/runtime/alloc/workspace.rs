//! Scratch memory of kernels: a thread keeps its blocks for the kernels it runs next.
//!
//! As in TVM's `WorkspacePool`, a request gets the smallest free block that it fits, and where
//! there is none the largest gives way to one that does. A thread so holds as many blocks as its
//! kernels had at once, whatever number of sizes they ask for, and no more than the cache's limit.

use std::cell::RefCell;
use std::ptr::NonNull;

use super::device::{ALIGNMENT, Use, cache_limit, give_back, make_room, obtain};
use crate::error::Error;

/// What is written before the data of a block, which is [`ALIGNMENT`] bytes further on.
struct Header {
    /// The bytes of the block, with the header.
    size: usize,
    /// What the request counts for.
    used: Use,
}

const _: () = assert!(size_of::<Header>() <= ALIGNMENT);

thread_local! {
    static FREE: RefCell<Free> = const { RefCell::new(Free(vec![])) };
}

/// Free blocks with their sizes, the smallest first.
struct Free(Vec<(usize, NonNull<u8>)>);

impl Free {
    /// A block of at least so many bytes.
    fn take(&mut self, bytes: usize) -> Option<(usize, NonNull<u8>)> {
        let at = self.0.partition_point(|(size, _)| *size < bytes);
        if at < self.0.len() {
            return Some(self.0.remove(at));
        }
        if let Some((size, largest)) = self.0.pop() {
            // SAFETY: free blocks came from `obtain` with their sizes, and nothing uses them.
            unsafe { give_back(largest, size) };
        }
        None
    }

    /// Keeps a block, unless all would then exceed the limit.
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

impl Drop for Free {
    fn drop(&mut self) {
        for (size, block) in self.0.drain(..) {
            // SAFETY: free blocks came from `obtain` with their sizes, and nothing uses them.
            unsafe { give_back(block, size) };
        }
    }
}

/// Memory for at least `bytes` bytes, aligned to [`ALIGNMENT`].
pub(crate) fn allocate(bytes: usize) -> Result<NonNull<u8>, Error> {
    let used = Use::of(bytes.saturating_add(ALIGNMENT))?;
    let cached = FREE.try_with(|free| free.borrow_mut().take(used.bytes())).ok().flatten();
    let fresh = || {
        make_room(used.bytes());
        Some((used.bytes(), obtain(used.bytes())?))
    };
    let Some((size, block)) = cached.or_else(fresh) else { return Err(used.exhausted()) };
    // SAFETY: the block is unused, aligned, and has room for its header and data after it.
    unsafe {
        block.cast::<Header>().write(Header { size, used });
        Ok(block.add(ALIGNMENT))
    }
}

/// Takes memory back.
///
/// # Safety
/// `data` came from [`allocate`], on any thread, and is used no more.
pub(crate) unsafe fn release(data: NonNull<u8>) {
    // SAFETY: `allocate` wrote a header before the data.
    let (block, Header { size, used }) = unsafe {
        let block = data.sub(ALIGNMENT);
        (block, block.cast::<Header>().read())
    };
    used.end();
    if !FREE.try_with(|free| free.borrow_mut().put(size, block)).unwrap_or(false) {
        // SAFETY: the block is unused, and came from `obtain` with its size.
        unsafe { give_back(block, size) };
    }
}

/// Gives this thread's free blocks back to the system.
pub(super) fn trim() {
    // A thread that is shutting down has done so already.
    let _ = FREE.try_with(|free| std::mem::replace(&mut *free.borrow_mut(), Free(vec![])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_serve_many_sizes() {
        let held = || FREE.with(|free| free.borrow().0.iter().map(|(size, _)| *size).collect());
        for bytes in [9000, 100, 70_000, 30_000, 5 << 20] {
            let outer = allocate(bytes).unwrap();
            let inner = allocate(1000).unwrap();
            assert!(outer.addr().get().is_multiple_of(ALIGNMENT) && outer != inner);
            // SAFETY: both are ours, of at least these bytes, and given back once.
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
    fn what_exceeds_the_limit_is_not_kept() {
        let data = allocate(cache_limit() + 1).unwrap();
        // SAFETY: it is ours, and given back once.
        unsafe { release(data) };
        FREE.with(|free| assert!(free.borrow().0.is_empty()));
    }
}

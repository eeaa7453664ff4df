//! Memory for objects: thread-local free lists by size class.
//!
//! Headers of tensors, shapes, storages and closures come and go with every call,
//! so a steady state must not reach the global allocator. A block freed on another
//! thread joins that thread's lists. Each list is bounded, and the rest goes back to the
//! global allocator. Blocks over [`MAX_POOLED`] bytes are not pooled.
//!
//! tvm-ffi wants a `TVMFFIObjectAllocHeader` right before each object; the block
//! prefix ends with one.
//!
//! Machine code takes blocks from the lists of its thread ([`lists`]).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::free_list::FreeLists;
use crate::abi::{BLOCK_GRANULE, BLOCK_PREFIX, MAX_FREE_BLOCK, TVMFFIObjectAllocHeader};

/// Largest block, prefix included, that is cached for reuse.
pub const MAX_POOLED: usize = MAX_FREE_BLOCK;
const GRANULE: usize = BLOCK_GRANULE;
const CLASSES: usize = MAX_POOLED / GRANULE;

/// The prefix of an object body.
#[repr(C)]
struct Prefix {
    /// Bytes of the block, prefix included.
    block_size: usize,
    /// The header ends where the body begins, which is aligned.
    padding: [usize; BLOCK_PREFIX / size_of::<usize>() - 2],
    header: TVMFFIObjectAllocHeader,
}

const PREFIX: usize = size_of::<Prefix>();
/// Alignment of object bodies.
pub(crate) const ALIGN: usize = 16;
const _: () = assert!(PREFIX == BLOCK_PREFIX && align_of::<Prefix>() <= ALIGN);

#[repr(transparent)]
struct Lists(FreeLists<CLASSES>);

impl Lists {
    const EMPTY: Lists = Lists(FreeLists::EMPTY);
}

thread_local! {
    static LISTS: RefCell<Lists> = const { RefCell::new(Lists::EMPTY) };
    static HEAP_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Object blocks that this thread allocated from the global allocator.
///
/// A steady state does not move it, which tests rely on.
pub fn heap_allocations() -> u64 {
    HEAP_ALLOCATIONS.with(Cell::get)
}

/// Lists without blocks, for a thread that is shutting down. Nothing writes to them, since machine
/// code leaves an empty list alone.
struct NoLists(Lists);

// SAFETY: links of empty lists are none, so there is nothing to share.
unsafe impl Sync for NoLists {}

static NO_LISTS: NoLists = NoLists(Lists::EMPTY);

/// The free lists of this thread, for machine code that runs on it: it may take the first block of a
/// list that has one, and writes the size of the block to its first word.
pub fn lists() -> *mut c_void {
    // The borrow of a call ends before machine code goes on.
    let lists = LISTS.try_with(|lists| lists.as_ptr().cast::<c_void>());
    lists.unwrap_or_else(|_| (&raw const NO_LISTS.0).cast_mut().cast())
}

/// Memory for an object body of `size` bytes, 16-byte aligned and uninitialised.
pub(crate) fn allocate(size: usize) -> NonNull<u8> {
    let block_size = (size + PREFIX).next_multiple_of(GRANULE);
    let reused = if block_size <= MAX_POOLED {
        // A thread that is shutting down has no lists any more.
        LISTS.try_with(|lists| lists.borrow_mut().pop(class_of(block_size))).ok().flatten()
    } else {
        None
    };
    let block = reused.unwrap_or_else(|| allocate_block(block_size));
    let prefix = Prefix {
        block_size,
        padding: [0; _],
        header: TVMFFIObjectAllocHeader { delete_space: Some(delete_space) },
    };
    // SAFETY: the block has at least PREFIX + size bytes and is aligned to 16.
    unsafe {
        block.cast::<Prefix>().write(prefix);
        block.add(PREFIX)
    }
}

/// Frees the memory of an object body.
///
/// # Safety
/// `body` came from [`allocate`] and is used no more.
pub(crate) unsafe fn free(body: NonNull<u8>) {
    // SAFETY: `allocate` put a prefix right before every body.
    let (block, block_size) = unsafe {
        let block = body.sub(PREFIX);
        (block, block.cast::<Prefix>().as_ref().block_size)
    };
    let cached = block_size <= MAX_POOLED
        && LISTS
            .try_with(|lists| lists.borrow_mut().push(class_of(block_size), block))
            .unwrap_or(false);
    if !cached {
        // SAFETY: the block was made by `allocate_block` with this size.
        unsafe { free_block(block, block_size) };
    }
}

/// Replaces the word right before an object body, that of its `TVMFFIObjectAllocHeader`, by a pointer.
///
/// # Safety
/// `body` came from [`allocate`], and its deleter puts the word back and frees it by [`free`].
pub(crate) unsafe fn set_word_before(body: NonNull<u8>, word: *const c_void) {
    // SAFETY: the prefix of a body ends with that header, which is one word.
    unsafe { body.cast::<*const c_void>().sub(1).write(word) };
}

/// Puts back the word that [`set_word_before`] replaced: blocks are reused with their prefix.
///
/// # Safety
/// `body` came from [`allocate`].
pub(crate) unsafe fn reset_word_before(body: NonNull<u8>) {
    let header = TVMFFIObjectAllocHeader { delete_space: Some(delete_space) };
    // SAFETY: as for `set_word_before`.
    unsafe { body.cast::<TVMFFIObjectAllocHeader>().sub(1).write(header) };
}

unsafe extern "C" fn delete_space(body: *mut c_void) {
    if let Some(body) = NonNull::new(body.cast()) {
        // SAFETY: the caller passes the body this header precedes, for the last time.
        unsafe { free(body) };
    }
}

fn class_of(block_size: usize) -> usize {
    block_size / GRANULE - 1
}

/// The inverse of [`class_of`].
fn block_size(class: usize) -> usize {
    (class + 1) * GRANULE
}

fn layout(block_size: usize) -> Layout {
    Layout::from_size_align(block_size, ALIGN).expect("object sizes fit an address space")
}

#[cold]
fn allocate_block(block_size: usize) -> NonNull<u8> {
    let _ = HEAP_ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let layout = layout(block_size);
    // SAFETY: the size is not zero, as it includes the prefix.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `block` came from `allocate_block(block_size)`.
unsafe fn free_block(block: NonNull<u8>, block_size: usize) {
    // SAFETY: the caller passes a block that was allocated with this layout.
    unsafe { dealloc(block.as_ptr(), layout(block_size)) };
}

impl Lists {
    #[inline]
    fn pop(&mut self, class: usize) -> Option<NonNull<u8>> {
        self.0.pop(class, block_size)
    }

    #[inline]
    fn push(&mut self, class: usize, block: NonNull<u8>) -> bool {
        // SAFETY: the block is free, aligned, and at least GRANULE bytes long.
        unsafe { self.0.push(class, block) }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            while let Some(block) = self.pop(class) {
                // SAFETY: every block of this class was allocated with this size.
                unsafe { free_block(block, block_size(class)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::free_list::{FIRST_BOUND, MAX_CACHED};
    use super::*;
    use crate::abi::{FREE_LIST_HEAD, FREE_LIST_LEN, FREE_LIST_SIZE};

    #[test]
    fn machine_code_can_take_a_block() {
        let body = allocate(100);
        // SAFETY: this test owns the body, fresh from `allocate`, and frees it once; then it takes the
        // block as machine code does, from the lists of this thread, and owns it again.
        unsafe {
            free(body);
            let class = class_of((100 + PREFIX).next_multiple_of(GRANULE));
            let list = lists().cast::<u8>().add(class * FREE_LIST_SIZE);
            let head = list.add(FREE_LIST_HEAD).cast::<*mut usize>();
            let block = head.read();
            assert_eq!(block.cast::<u8>(), body.sub(PREFIX).as_ptr());
            head.write(block.cast::<*mut usize>().read());
            *list.add(FREE_LIST_LEN).cast::<usize>() -= 1;
            block.write(block_size(class));
            assert_ne!(allocate(100), body);
            let header = body.cast::<TVMFFIObjectAllocHeader>().sub(1).read();
            header.delete_space.expect("freed blocks keep it")(body.as_ptr().cast());
            assert_eq!(allocate(100), body);
        }
    }

    #[test]
    fn blocks_are_reused() {
        let first = allocate(100);
        // SAFETY: this test owns the body, fresh from `allocate`, and frees it once.
        unsafe { free(first) };
        let before = heap_allocations();
        for _ in 0..1000 {
            let body = allocate(97);
            assert_eq!(body, first);
            // SAFETY: this test owns the body, fresh from `allocate`, and frees it once.
            unsafe { free(body) };
        }
        assert_eq!(heap_allocations(), before);
    }

    /// Allocates and frees so many bodies; the blocks that came from the global allocator.
    fn make_and_drop(count: usize) -> u64 {
        let before = heap_allocations();
        let bodies: Vec<_> = (0..count).map(|_| allocate(40)).collect();
        for body in bodies {
            // SAFETY: this function owns the bodies, fresh from `allocate`, and frees each once.
            unsafe { free(body) };
        }
        heap_allocations() - before
    }

    #[test]
    fn lists_grow_to_what_is_wanted_again() {
        let fresh: Vec<u64> = (0..5).map(|_| make_and_drop(1000)).collect();
        assert_eq!(fresh[1..], [1000 - 128, 1000 - 256, 1000 - 512, 0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many blocks for Miri")]
    fn lists_are_bounded_together() {
        let count = MAX_CACHED / 64;
        (0..20).for_each(|_| assert!(make_and_drop(count) > 0));
        let cached = LISTS.with(|lists| lists.borrow().0.len(class_of(64)));
        assert!(cached > count / 4 && cached < count, "{cached}");
    }

    #[test]
    fn blocks_may_cross_threads_and_outgrow_the_lists() {
        let blocks: Vec<usize> =
            (0..2 * FIRST_BOUND).map(|_| allocate(40).as_ptr().expose_provenance()).collect();
        std::thread::spawn(move || {
            for address in blocks {
                let body: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
                // SAFETY: `allocate` made the body above, and only this thread frees it.
                unsafe { free(NonNull::new_unchecked(body)) };
            }
        })
        .join()
        .unwrap();
        let large = allocate(10_000);
        // SAFETY: this test owns the body, fresh from `allocate`, and frees it once.
        unsafe { free(large) };
    }
}

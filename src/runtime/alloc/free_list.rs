//! Bounded free lists by class, of object blocks and of free tensors.
//!
//! A list holds at most its bound, and what is more goes back to where it came from. The bound doubles
//! where a list ran empty after it had given something back, as long as the bounds of all lists together
//! are at most [`MAX_CACHED`] bytes (the slow start of TCMalloc's thread caches). So a program that makes
//! and drops a thousand objects at a time soon finds them all cached.
//!
//! Machine code takes the first entry of a list.

use std::ptr::NonNull;

use crate::abi::{FREE_LIST_HEAD, FREE_LIST_LEN, FREE_LIST_SIZE};

/// Entries of a class that are cached at first.
pub(super) const FIRST_BOUND: usize = 128;
/// Most bytes that are cached over all classes.
pub(super) const MAX_CACHED: usize = 4 << 20;

/// A free entry: its first word links to the next one of its class.
type Link = Option<NonNull<u8>>;

/// The free entries of a class.
#[repr(C)]
struct FreeList {
    head: Link,
    len: usize,
    /// Most entries that it holds.
    bound: usize,
    /// Whether an entry was refused since the bound was set.
    overflowed: bool,
}

impl FreeList {
    const EMPTY: FreeList = FreeList { head: None, len: 0, bound: FIRST_BOUND, overflowed: false };
}

const _: () = if cfg!(target_pointer_width = "64") {
    use std::mem::offset_of;
    assert!(size_of::<FreeList>() == FREE_LIST_SIZE);
    assert!(offset_of!(FreeList, head) == FREE_LIST_HEAD);
    assert!(offset_of!(FreeList, len) == FREE_LIST_LEN);
};

/// A free list for each class, one behind the other.
#[repr(transparent)]
pub(super) struct FreeLists<const CLASSES: usize>([FreeList; CLASSES]);

impl<const CLASSES: usize> FreeLists<CLASSES> {
    pub(super) const EMPTY: FreeLists<CLASSES> = FreeLists([const { FreeList::EMPTY }; CLASSES]);

    /// Entries of a class.
    #[cfg(test)]
    pub(super) fn len(&self, class: usize) -> usize {
        self.0[class].len
    }

    /// Whether the class has no entry.
    #[inline]
    pub(super) fn is_empty(&self, class: usize) -> bool {
        self.0[class].head.is_none()
    }

    /// The entry that was pushed last. `bytes` are those of an entry of a class.
    #[inline]
    pub(super) fn pop(&mut self, class: usize, bytes: fn(usize) -> usize) -> Option<NonNull<u8>> {
        let list = &mut self.0[class];
        let Some(entry) = list.head else {
            if list.overflowed {
                self.raise_bound(class, bytes);
            }
            return None;
        };
        // SAFETY: `push` wrote a `Link` to the first word of every entry.
        list.head = unsafe { entry.cast::<Link>().read() };
        list.len -= 1;
        Some(entry)
    }

    /// Takes an entry; returns false if the class is full.
    ///
    /// # Safety
    /// The first word of the entry is unused memory, aligned to words, until it is popped.
    #[inline]
    pub(super) unsafe fn push(&mut self, class: usize, entry: NonNull<u8>) -> bool {
        let list = &mut self.0[class];
        if list.len >= list.bound {
            list.overflowed = true;
            return false;
        }
        // SAFETY: the caller passes memory for a link.
        unsafe { entry.cast::<Link>().write(list.head) };
        list.head = Some(entry);
        list.len += 1;
        true
    }

    /// Doubles the bound of a list whose entries were wanted again after it had refused some.
    #[cold]
    fn raise_bound(&mut self, class: usize, bytes: fn(usize) -> usize) {
        let bounds = self.0.iter().enumerate().map(|(class, list)| list.bound * bytes(class));
        let more = self.0[class].bound * bytes(class);
        let fits = bounds.sum::<usize>() + more <= MAX_CACHED;
        let list = &mut self.0[class];
        list.overflowed = false;
        if fits {
            list.bound *= 2;
        }
    }
}

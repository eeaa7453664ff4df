//! Memory for constants in huge pages.
//!
//! Kernels stream the weights of a model once a call. In pages of 4 KiB, a model of 20 MiB needs more
//! address translations than a CPU keeps, so weights are carved from mappings that the kernel backs with
//! huge pages (`MADV_HUGEPAGE`), one behind the other. A part is never carved twice: what is dropped goes
//! back to the system page by page, and a mapping with the last of its parts.

use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, UncheckedAdvice};
use parking_lot::Mutex;

use crate::page;

/// The size and alignment of a huge page.
const HUGE: usize = 2 << 20;
/// A mapping, for parts of at most half of it; larger parts have one of their own.
const CHUNK: usize = 4 * HUGE;
/// The alignment of parts: pages, so that a dropped part leaves whole ones.
const PAGE: usize = page::LARGEST;

/// From this size on a constant is carved.
pub const LEAST: usize = 64 << 10;

static CURRENT: Mutex<Option<Chunk>> = Mutex::new(None);

/// A mapping that parts are carved from, up to its end.
struct Chunk {
    map: Arc<MmapMut>,
    /// Where the next part begins, and what is left from there.
    next: NonNull<u8>,
    left: usize,
}

// SAFETY: the address is of the mapping, which any thread may use.
unsafe impl Send for Chunk {}

/// A part of a mapping, all zeros at first. Nothing else refers to its bytes.
pub struct Part {
    map: Arc<MmapMut>,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the part owns its bytes as a box does.
unsafe impl Send for Part {}
// SAFETY: as for Send; shared use only reads.
unsafe impl Sync for Part {}

impl Chunk {
    /// A mapping with `size` bytes from a boundary of huge pages on. What does not fill a huge page at
    /// their end stays in small ones.
    fn new(size: usize) -> Option<Chunk> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let map = MmapMut::map_anon(size.checked_add(HUGE)?).ok()?;
        let start = map.as_ptr().cast_mut();
        let offset = start.align_offset(HUGE);
        // A hint: without huge pages everything works, slower.
        let _ = map.advise_range(Advice::HugePage, offset, size / HUGE * HUGE);
        let next = NonNull::new(start.wrapping_add(offset))?;
        Some(Chunk { map: Arc::new(map), next, left: size })
    }

    fn carve(&mut self, len: usize) -> Option<Part> {
        let room = len.checked_next_multiple_of(PAGE).filter(|room| *room <= self.left)?;
        let part = Part { map: Arc::clone(&self.map), at: self.next, len };
        // SAFETY: the mapping has `left` bytes from `next` on.
        self.next = unsafe { self.next.add(room) };
        self.left -= room;
        Some(part)
    }
}

impl Part {
    /// `len` bytes of zero, where these are enough and the system has them.
    pub(crate) fn of_large(len: usize) -> Option<Part> {
        (len >= LEAST).then(|| Part::zeroed(len))?
    }

    /// `len` bytes of zero, if the system has them.
    fn zeroed(len: usize) -> Option<Part> {
        if len > CHUNK / 2 {
            return Chunk::new(len)?.carve(len);
        }
        let mut current = CURRENT.lock();
        if let Some(part) = current.as_mut().and_then(|chunk| chunk.carve(len)) {
            return Some(part);
        }
        let mut chunk = Chunk::new(CHUNK)?;
        let part = chunk.carve(len);
        *current = Some(chunk);
        part
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the part is within its mapping, initialised by the system, and borrowed as `self`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; no other part has these bytes, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let from = self.at.as_ptr().addr() - self.map.as_ptr().addr();
        let size = self.len.next_multiple_of(PAGE);
        // SAFETY: the pages are this part's alone, and nothing reads them again; an anonymous page that
        // was given back would read as zero.
        let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zero_apart_and_on_pages() {
        let mut parts: Vec<Part> =
            [LEAST, LEAST + 1, HUGE, CHUNK, CHUNK / 2].map(|len| Part::zeroed(len).unwrap()).into();
        for (at, part) in parts.iter_mut().enumerate() {
            assert!(part.bytes().iter().all(|byte| *byte == 0));
            assert_eq!(part.bytes().as_ptr().align_offset(PAGE), 0);
            part.bytes_mut().fill(at as u8 + 1);
        }
        for (at, part) in parts.iter().enumerate() {
            assert!(part.bytes().iter().all(|byte| *byte == at as u8 + 1));
        }
        drop(parts.remove(1));
        assert!(parts[0].bytes().iter().all(|byte| *byte == 1));
        assert!(Part::zeroed(usize::MAX).is_none());
        assert!(Part::zeroed(LEAST).unwrap().bytes().iter().all(|byte| *byte == 0));
    }
}

//! Executable memory: one reserved address range, handed out in pages, never writable and
//! executable at once.
//!
//! A [`CodeSpace`] reserves addresses without committing memory, so everything inside reaches
//! everything else with a 32-bit displacement. A [`Draft`] is a piece of it that is still
//! writable and not executable; publishing it turns it into [`Code`], whose text and constants
//! never become writable again. Dropping `Code` replaces its pages by fresh inaccessible ones, so
//! a stale pointer faults instead of running something else's bytes half written.
//!
//! Not here: when it is safe to drop code (the VM knows which sessions may be inside), and dual
//! mappings of one page (one protection change per published piece is cheap enough).
//!
//! Decision: docs/decisions/0019-code-pages.md

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{CodeError, CodeErrorKind};
use crate::instruction_cache;
use crate::machine::Machine;

/// Granularity of protection: whole pages of every kernel.
pub const PAGE: usize = Machine::HOST.page();

/// Addresses reserved by [`CodeSpace::shared`]: well inside the reach of a 32-bit displacement.
const SHARED_BYTES: usize = 1 << 30;

/// Largest region whose ends still reach each other through a signed 32-bit displacement.
const REACH: usize = i32::MAX as usize & !(PAGE - 1);

/// Rounds up to whole pages; `None` on overflow.
pub(crate) fn page_align(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE)
}

/// A reserved range of addresses that code is placed in.
#[derive(Debug)]
pub struct CodeSpace {
    base: NonNull<u8>,
    size: usize,
    /// Free ranges, offset to length, merged with their neighbours.
    free: Mutex<BTreeMap<usize, usize>>,
}

// SAFETY: the pointer is an address range owned by this value; all bookkeeping is behind the
// mutex, and memory is only written through a `Draft`, which owns its range exclusively.
unsafe impl Send for CodeSpace {}
// SAFETY: shared access goes through the mutex, and the base address never changes.
unsafe impl Sync for CodeSpace {}

impl CodeSpace {
    /// Reserves `bytes` of addresses (rounded up to pages, at most 2 GiB less one page).
    pub fn reserve(bytes: usize) -> Result<Arc<Self>, CodeError> {
        let size =
            page_align(bytes).filter(|&size| size > 0 && size <= REACH).ok_or_else(|| {
                CodeError::unsupported(format!(
                    "a code region of {bytes} bytes is not within 2 GiB"
                ))
            })?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(system_error("reserve addresses for code"));
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| {
            CodeError::new(CodeErrorKind::OutOfMemory, "the system mapped code at address zero")
        })?;
        Ok(Arc::new(Self { base, size, free: Mutex::new(BTreeMap::from([(0, size)])) }))
    }

    /// The region of this process, reserved on first use.
    pub fn shared() -> Result<Arc<Self>, CodeError> {
        static SHARED: OnceLock<Result<Arc<CodeSpace>, CodeError>> = OnceLock::new();
        SHARED.get_or_init(|| Self::reserve(SHARED_BYTES)).clone()
    }

    /// Allocates writable pages for code of these sizes, all bytes zero.
    pub fn draft(self: &Arc<Self>, sizes: &SegmentSizes) -> Result<Draft, CodeError> {
        let segments = sizes.ranges()?;
        let len = segments.data.end;
        let offset = self.allocate(len)?;
        let allocation = Allocation { space: Arc::clone(self), offset, len };
        allocation.protect(0..len, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Draft { allocation, segments })
    }

    /// Bytes of the region not handed out.
    pub fn free_bytes(&self) -> usize {
        self.free.lock().values().sum()
    }

    fn allocate(&self, len: usize) -> Result<usize, CodeError> {
        let mut free = self.free.lock();
        let (&offset, &len_free) =
            free.iter().find(|&(_, &len_free)| len_free >= len).ok_or_else(|| {
                CodeError::new(
                    CodeErrorKind::OutOfMemory,
                    format!(
                        "no space for {len} bytes in the {} bytes reserved for code",
                        self.size
                    ),
                )
            })?;
        free.remove(&offset);
        if len_free > len {
            free.insert(offset + len, len_free - len);
        }
        Ok(offset)
    }

    fn release(&self, offset: usize, len: usize) {
        let mut free = self.free.lock();
        let (mut start, mut end) = (offset, offset + len);
        if let Some((&before, &len_free)) = free.range(..start).next_back()
            && before + len_free == start
        {
            free.remove(&before);
            start = before;
        }
        if let Some(len_free) = free.remove(&end) {
            end += len_free;
        }
        free.insert(start, end - start);
    }
}

impl Drop for CodeSpace {
    fn drop(&mut self) {
        // SAFETY: every piece holds an `Arc` of this space, so nothing in the range is in use.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// Sizes in bytes of the segments of one allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Constants and tables; read-only once published.
    pub read_only: usize,
    /// Instructions; executable and not writable once published.
    pub text: usize,
    /// Variables; stay writable, never executable.
    pub data: usize,
}

impl SegmentSizes {
    fn ranges(&self) -> Result<SegmentRanges, CodeError> {
        let end = |start: usize, bytes: usize| {
            page_align(bytes).and_then(|bytes| start.checked_add(bytes)).filter(|&end| end <= REACH)
        };
        let ranges = (|| {
            let read_only = 0..end(0, self.read_only)?;
            let text = read_only.end..end(read_only.end, self.text)?;
            let data = text.end..end(text.end, self.data)?;
            Some(SegmentRanges { read_only, text, data })
        })();
        ranges.filter(|ranges| ranges.data.end > 0).ok_or_else(|| {
            CodeError::new(
                CodeErrorKind::OutOfMemory,
                format!("code of sizes {self:?} does not fit"),
            )
        })
    }
}

/// Page-aligned byte ranges of the segments within an allocation.
#[derive(Clone, Debug)]
struct SegmentRanges {
    read_only: Range<usize>,
    text: Range<usize>,
    data: Range<usize>,
}

/// An owned range of a code space.
#[derive(Debug)]
struct Allocation {
    space: Arc<CodeSpace>,
    offset: usize,
    len: usize,
}

impl Allocation {
    fn start(&self) -> *mut u8 {
        // SAFETY: `CodeSpace::allocate` returned `offset`, so it lies inside the reserved range.
        unsafe { self.space.base.as_ptr().add(self.offset) }
    }

    fn protect(&self, range: Range<usize>, protection: libc::c_int) -> Result<(), CodeError> {
        if range.is_empty() {
            return Ok(());
        }
        debug_assert!(range.end <= self.len);
        // SAFETY: whole pages of a range this piece owns; callers only lower the rights of pages
        // that have no outstanding `&mut` borrow.
        let status = unsafe {
            libc::mprotect(self.start().add(range.start).cast(), range.len(), protection)
        };
        if status == 0 { Ok(()) } else { Err(system_error("change the protection of code pages")) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: maps fresh inaccessible pages over a range this piece owns; the old pages, and
        // with them any right to execute, are gone when the call returns.
        let fresh = unsafe {
            libc::mmap(
                self.start().cast(),
                self.len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        // When the system refuses (out of mappings), the old pages may still be there: the range
        // is leaked rather than handed out again.
        if fresh != libc::MAP_FAILED {
            self.space.release(self.offset, self.len);
        }
    }
}

/// Code being written: readable and writable, not executable.
#[derive(Debug)]
pub struct Draft {
    allocation: Allocation,
    segments: SegmentRanges,
}

impl Draft {
    /// The address that byte 0 of [`Draft::bytes_mut`] has when the code runs.
    pub fn address(&self) -> usize {
        self.allocation.start() as usize
    }

    /// All segments in one slice; relative distances in it are final.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the piece is mapped readable and writable, owned by this draft, and borrowed
        // for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.start(), self.allocation.len) }
    }

    /// Where the instructions are within [`Draft::bytes_mut`].
    pub fn text(&self) -> Range<usize> {
        self.segments.text.clone()
    }

    /// Where the read-only segment is within [`Draft::bytes_mut`].
    pub fn read_only(&self) -> Range<usize> {
        self.segments.read_only.clone()
    }

    /// Where the writable segment is within [`Draft::bytes_mut`].
    pub fn data(&self) -> Range<usize> {
        self.segments.data.clone()
    }

    /// Makes the pages executable and not writable, and every core read what was written.
    pub fn publish(self) -> Result<Code, CodeError> {
        let start = self.address();
        let Range { start: first, end } = self.segments.text;
        instruction_cache::clean(start + first..start + end);
        self.allocation.protect(self.segments.read_only.clone(), libc::PROT_READ)?;
        self.allocation.protect(self.segments.text.clone(), libc::PROT_READ | libc::PROT_EXEC)?;
        instruction_cache::synchronise_threads()?;
        Ok(Code { allocation: self.allocation, segments: self.segments })
    }
}

/// Published code: executable and read-only (its data segment stays writable). Freed on drop.
#[derive(Debug)]
pub struct Code {
    allocation: Allocation,
    segments: SegmentRanges,
}

impl Code {
    /// The address of byte `offset` of what was drafted, or `None` outside of it.
    pub fn at(&self, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: the offset was compared with the length of the allocation, which is mapped.
        (offset < self.allocation.len)
            .then(|| unsafe { NonNull::new_unchecked(self.allocation.start().add(offset)) })
    }

    /// The instructions.
    pub fn instructions(&self) -> &[u8] {
        match self.text_at(0) {
            // SAFETY: published text is readable, and neither moves nor changes while `self` lives.
            Some(start) => unsafe { std::slice::from_raw_parts(start.as_ptr(), self.text().len()) },
            None => &[],
        }
    }

    /// The address of byte `offset` of the text segment, or `None` outside of it.
    pub fn text_at(&self, offset: usize) -> Option<NonNull<u8>> {
        self.at(self.segments.text.start.checked_add(offset)?)
            .filter(|_| offset < self.segments.text.len())
    }

    /// Addresses of the instructions.
    pub fn text(&self) -> Range<usize> {
        let start = self.allocation.start() as usize;
        start + self.segments.text.start..start + self.segments.text.end
    }
}

fn system_error(what: &str) -> CodeError {
    let cause = std::io::Error::last_os_error();
    CodeError::new(CodeErrorKind::OutOfMemory, format!("the system refused to {what}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov eax, 7; ret`
    #[cfg(not(target_arch = "aarch64"))]
    const SEVEN: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3];

    /// `mov w0, #7; ret`
    #[cfg(target_arch = "aarch64")]
    const SEVEN: [u8; 8] = [0xe0, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6];

    fn publish_seven(space: &Arc<CodeSpace>) -> Code {
        let mut draft =
            space.draft(&SegmentSizes { text: SEVEN.len(), ..SegmentSizes::default() }).unwrap();
        let at = draft.text().start;
        draft.bytes_mut()[at..at + SEVEN.len()].copy_from_slice(&SEVEN);
        draft.publish().unwrap()
    }

    fn rights(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .find(|line| {
                let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let parse = |text| usize::from_str_radix(text, 16).unwrap();
                (parse(from)..parse(to)).contains(&address)
            })
            .map(|line| line.split(' ').nth(1).unwrap().to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn published_code_runs_and_is_not_writable() {
        let space = CodeSpace::reserve(1 << 20).unwrap();
        let code = publish_seven(&space);
        let entry = code.text_at(0).unwrap();
        assert_eq!(rights(entry.as_ptr() as usize), "r-xp");
        // SAFETY: the bytes are a complete function of this type.
        let seven: extern "C" fn() -> i32 = unsafe { std::mem::transmute(entry) };
        assert_eq!(seven(), 7);
        drop(code);
        assert_eq!(rights(entry.as_ptr() as usize), "---p");
    }

    #[test]
    fn freed_ranges_merge_and_are_used_again() {
        let space = CodeSpace::reserve(4 * PAGE).unwrap();
        let pieces: Vec<_> = (0..4).map(|_| publish_seven(&space)).collect();
        let full = space.draft(&SegmentSizes { text: 1, ..SegmentSizes::default() }).unwrap_err();
        assert_eq!(full.kind(), CodeErrorKind::OutOfMemory);
        let mut pieces = pieces.into_iter();
        let (first, second) = (pieces.next().unwrap(), pieces.next().unwrap());
        let rest: Vec<_> = pieces.collect();
        drop(second);
        drop(rest);
        drop(first);
        assert_eq!(space.free_bytes(), 4 * PAGE);
        assert!(space.draft(&SegmentSizes { text: 4 * PAGE, ..SegmentSizes::default() }).is_ok());
    }

    #[test]
    fn parts_get_their_own_pages_and_rights() {
        let space = CodeSpace::reserve(1 << 20).unwrap();
        let draft = space.draft(&SegmentSizes { read_only: 1, text: PAGE + 1, data: 1 }).unwrap();
        let (read_only, data) = (draft.read_only(), draft.data());
        let code = draft.publish().unwrap();
        let at = |offset| rights(code.at(offset).unwrap().as_ptr() as usize);
        assert_eq!(at(read_only.start), "r--p");
        assert_eq!(code.text().len(), 2 * PAGE);
        assert_eq!(at(data.start), "rw-p");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(CodeSpace::reserve(0).is_err());
        assert!(CodeSpace::reserve(usize::MAX).is_err());
        let space = CodeSpace::reserve(PAGE).unwrap();
        assert!(
            space.draft(&SegmentSizes { text: usize::MAX, ..SegmentSizes::default() }).is_err()
        );
        assert!(
            space
                .draft(&SegmentSizes { text: usize::MAX / 2, read_only: usize::MAX / 2, data: 9 })
                .is_err()
        );
    }
}

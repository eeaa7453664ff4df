//! The memory of a library that Reflex loads itself: its segments at their distances, mapped
//! privately from the file, so that processes share the pages that they do not write.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::elf_file::{Segment, page, pages};
use super::loading::Reason;

/// Mapped segments; they are unmapped when this is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    reserved: Range<usize>,
    /// The distance from an address of the file to the one in memory.
    bias: usize,
    segments: Vec<Segment>,
}

// SAFETY: an address range of the process, which any thread may use.
unsafe impl Send for Memory {}
// SAFETY: as for Send; through a shared reference the memory changes only by `write`, which its
// callers serialise.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the reservation is this value's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.reserved.start as *mut c_void, self.reserved.len()) };
    }
}

impl Memory {
    /// Maps the segments of `file`, which are in order and share no pages.
    pub(super) fn map(file: &File, segments: &[Segment]) -> Result<Memory, Reason> {
        let failed = |e: io::Error| format!("its segments cannot be mapped: {e}");
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Err("it has no segments".to_owned());
        };
        let align = segments.iter().map(|segment| segment.align).fold(page(), u64::max);
        let bottom = first.addresses.start / align * align;
        let span = pages(&(bottom..last.addresses.end));
        let size = (span.end - span.start + align - page()) as usize;
        let start = reserve(size).map_err(failed)?;
        let bias = start.next_multiple_of(align as usize).wrapping_sub(bottom as usize);
        let reserved = start..start + size;
        let memory = Memory { reserved, bias, segments: segments.to_vec() };
        for segment in segments {
            memory.map_segment(file, segment).map_err(failed)?;
        }
        Ok(memory)
    }

    fn map_segment(&self, file: &File, segment: &Segment) -> io::Result<()> {
        let (addresses, bytes) = (&segment.addresses, &segment.file);
        let rights = match (segment.writable, segment.executable) {
            (true, _) => libc::PROT_READ | libc::PROT_WRITE,
            (false, true) => libc::PROT_READ | libc::PROT_EXEC,
            (false, false) => libc::PROT_READ,
        };
        let of_file = pages(&(addresses.start..addresses.start + (bytes.end - bytes.start)));
        let start = self.address(of_file.start);
        // Constants may be written in place once they are made writable; what is not written
        // takes no memory, so none is set aside.
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let offset = (bytes.start / page() * page()) as i64;
        if bytes.start < bytes.end {
            let size = (of_file.end - of_file.start) as usize;
            // SAFETY: the pages are in the reservation, which nothing uses yet.
            unsafe { mmap(start, size, rights, flags, file.as_raw_fd(), offset)? };
        }
        let zero = addresses.start + (bytes.end - bytes.start)..addresses.end;
        if zero.is_empty() {
            return Ok(());
        }
        let of_segment = pages(addresses);
        let beyond = if bytes.start < bytes.end { of_file.end } else { of_segment.start };
        if bytes.start < bytes.end {
            let size = (zero.end.min(of_file.end) - zero.start) as usize;
            // SAFETY: the bytes are in pages that were mapped writable above (a segment that is
            // longer than its part of the file is writable).
            unsafe { std::ptr::write_bytes(self.address(zero.start) as *mut u8, 0, size) };
        }
        if beyond < of_segment.end {
            let (size, flags) = ((of_segment.end - beyond) as usize, libc::MAP_PRIVATE);
            let flags = flags | libc::MAP_FIXED | libc::MAP_ANONYMOUS;
            // SAFETY: as above: these pages are in the reservation.
            unsafe { mmap(self.address(beyond), size, rights, flags, -1, 0)? };
        }
        Ok(())
    }

    /// The address in memory of an address of the file.
    pub(super) fn address(&self, address: u64) -> usize {
        self.bias.wrapping_add(address as usize)
    }

    /// The file's part of a read-only segment.
    pub(super) fn contents(&self, segment: &Segment) -> &[u8] {
        debug_assert!(!segment.writable);
        let size = (segment.file.end - segment.file.start) as usize;
        let start = self.address(segment.addresses.start) as *const u8;
        // SAFETY: the segment maps these bytes, and nothing writes them.
        unsafe { std::slice::from_raw_parts(start, size) }
    }

    /// The segment that has all of these addresses.
    fn segment(&self, addresses: &Range<u64>) -> Option<&Segment> {
        self.segments.iter().find(|segment| {
            let all = &segment.addresses;
            all.start <= addresses.start
                && addresses.start <= addresses.end
                && addresses.end <= all.end
        })
    }

    /// Whether code is at an address in memory.
    pub(super) fn is_code(&self, address: usize) -> bool {
        let address = address.wrapping_sub(self.bias) as u64;
        let code = self.segments.iter().filter(|segment| segment.executable);
        code.map(|segment| &segment.addresses).any(|range| range.contains(&address))
    }

    /// The address of `size` bytes of a segment, which may be none.
    pub(super) fn readable(&self, address: u64, size: u64) -> Option<NonNull<u8>> {
        self.segment(&(address..address.checked_add(size)?))?;
        NonNull::new(self.address(address) as *mut u8)
    }

    /// A word of a segment.
    pub(super) fn read(&self, address: u64) -> Option<usize> {
        let at = self.readable(address, size_of::<usize>() as u64)?;
        // SAFETY: the segment has these bytes; they need not be aligned.
        Some(unsafe { at.cast::<usize>().read_unaligned() })
    }

    /// Writes a word of a writable segment.
    ///
    /// # Safety
    /// The library's relocations give the word this value, and nothing else accesses it meanwhile.
    pub(super) unsafe fn write(&self, address: u64, value: usize) -> Result<(), Reason> {
        let end = address.checked_add(size_of::<usize>() as u64);
        let segment = end.and_then(|end| self.segment(&(address..end)));
        if segment.is_none_or(|segment| !segment.writable) {
            return Err(format!("a relocation of what is not writable, at {address:#x}"));
        }
        // SAFETY: the word is in a writable segment; the caller vouches for the rest.
        unsafe { (self.address(address) as *mut usize).write_unaligned(value) };
        Ok(())
    }

    /// Makes whole pages inside these addresses read-only, as the system's loader rounds them.
    pub(super) fn seal(&self, addresses: &Range<u64>) -> Result<(), Reason> {
        let inside = addresses.start / page() * page()..addresses.end / page() * page();
        if self.segment(addresses).is_none_or(|segment| !segment.writable) {
            return Err("its read-only part after relocation is not in a segment".to_owned());
        }
        self.protect(&inside, libc::PROT_READ)
    }

    /// Makes the pages of some data writable: writes go to copies of this process. Returns false
    /// if they are not data.
    pub(super) fn make_writable(&self, addresses: &Range<u64>) -> Result<bool, Reason> {
        let Some(segment) = self.segment(addresses) else { return Ok(false) };
        if segment.writable || segment.executable {
            return Ok(segment.writable);
        }
        self.protect(&pages(addresses), libc::PROT_READ | libc::PROT_WRITE).map(|()| true)
    }

    fn protect(&self, addresses: &Range<u64>, rights: i32) -> Result<(), Reason> {
        if addresses.is_empty() {
            return Ok(());
        }
        let (start, size) = (self.address(addresses.start), addresses.end - addresses.start);
        // SAFETY: the callers pass pages of a segment that is not code.
        if unsafe { libc::mprotect(start as *mut c_void, size as usize, rights) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(format!("the rights of {size} bytes of its memory cannot be set: {error}"))
    }
}

fn reserve(size: usize) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the system chooses addresses that nothing uses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start as usize) }
}

/// # Safety
/// With `MAP_FIXED`, nothing uses the pages at `start`.
unsafe fn mmap(
    start: usize,
    size: usize,
    rights: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> io::Result<()> {
    // SAFETY: the caller vouches for the pages.
    let at = unsafe { libc::mmap(start as *mut c_void, size, rights, flags, file, offset) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

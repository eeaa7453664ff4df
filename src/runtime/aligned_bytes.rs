//! Owned bytes that start on a boundary of cache lines, in huge pages where there are many: constants of
//! programs, and tensors of model files.

use std::fmt;

use crate::alloc::huge_pages::Part;

/// One cache line of bytes; a vector of these starts on a 64-byte boundary.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Owned bytes that start on a 64-byte boundary.
pub struct AlignedBytes {
    lines: Lines,
    len: usize,
}

/// The memory of the lines.
enum Lines {
    Heap(Vec<Line>),
    /// In huge pages, which take a third of the time to fill: nearly all of it is page faults.
    Huge(Part),
}

impl AlignedBytes {
    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> AlignedBytes {
        let len = bytes.len();
        if let Some(mut part) = Part::of_large(len) {
            part.bytes_mut().copy_from_slice(bytes);
            return AlignedBytes { lines: Lines::Huge(part), len };
        }
        let count = len.div_ceil(size_of::<Line>());
        let mut lines = Vec::<Line>::with_capacity(count);
        let rest = count * size_of::<Line>() - len;
        // SAFETY: the vector has the capacity of `count` lines of plain bytes, all of which are
        // written before `set_len`. Large constants are copied at the speed of memory.
        unsafe {
            let data = lines.as_mut_ptr().cast::<u8>();
            data.copy_from_nonoverlapping(bytes.as_ptr(), len);
            data.add(len).write_bytes(0, rest);
            lines.set_len(count);
        }
        AlignedBytes { lines: Lines::Heap(lines), len }
    }

    /// `len` bytes of 0.
    pub fn zeroed(len: usize) -> AlignedBytes {
        let heap = || Lines::Heap(vec![Line([0; 64]); len.div_ceil(size_of::<Line>())]);
        AlignedBytes { lines: Part::of_large(len).map_or_else(heap, Lines::Huge), len }
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.lines {
            // SAFETY: `lines` holds at least `len` initialised bytes in one contiguous
            // allocation (`Line` is 64 bytes without padding), borrowed as long as `self`.
            Lines::Heap(lines) => unsafe {
                std::slice::from_raw_parts(lines.as_ptr().cast(), self.len)
            },
            Lines::Huge(part) => part.bytes(),
        }
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.lines {
            // SAFETY: as for `as_ref`: at least `len` initialised bytes in one allocation, here
            // borrowed exclusively through `&mut self`.
            Lines::Heap(lines) => unsafe {
                std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), self.len)
            },
            Lines::Huge(part) => part.bytes_mut(),
        }
    }
}

//! Pinned host memory that copies go through: a ring whose parts are used again once the copy that
//! reads them has been made.

use std::collections::VecDeque;
use std::ffi::c_void;

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};

use crate::call::{Failure, cu};

/// Bytes of the ring.
const RING: usize = 4 << 20;
/// Most bytes of one part.
const PART: usize = 1 << 20;

/// The ring, which is allocated at first use.
#[derive(Debug)]
pub(crate) struct Staging {
    base: *mut u8,
    head: usize,
    /// Parts that copies read, the oldest first.
    busy: VecDeque<Part>,
}

#[derive(Debug)]
struct Part {
    start: usize,
    end: usize,
    /// It comes when the part is free.
    event: CUevent,
}

// SAFETY: the ring is host memory that this alone refers to, and events are the driver's.
unsafe impl Send for Staging {}

impl Default for Staging {
    fn default() -> Staging {
        Staging { base: std::ptr::null_mut(), head: 0, busy: VecDeque::new() }
    }
}

impl Staging {
    /// Enqueues a copy to the device of the current context. `from` may change afterwards.
    ///
    /// # Safety
    /// Both ranges are allocated, and the stream is one of the current context.
    pub(crate) unsafe fn send(
        &mut self,
        stream: CUstream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Failure> {
        for start in (0..bytes).step_by(PART) {
            let size = PART.min(bytes - start);
            let at = self.take(size)?;
            let part = self.base.wrapping_add(at);
            let target = to.wrapping_add(start).addr() as u64;
            let mut event = std::ptr::null_mut();
            // SAFETY: the part is inside the ring and no copy uses it; `from` has so many bytes.
            unsafe {
                part.copy_from_nonoverlapping(from.add(start), size);
                cu!(cuEventCreate(&mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32))?;
                cu!(cuMemcpyHtoDAsync_v2(target, part.cast::<c_void>(), size, stream))?;
                cu!(cuEventRecord(event, stream))?;
            }
            self.busy.push_back(Part { start: at, end: at + size, event });
        }
        Ok(())
    }

    /// Copies from the device of the current context, and waits for it.
    ///
    /// # Safety
    /// Both ranges are allocated, and the stream is one of the current context.
    pub(crate) unsafe fn receive(
        &mut self,
        stream: CUstream,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Failure> {
        if bytes == 0 {
            // SAFETY: the caller passes a stream of the current context.
            return unsafe { cu!(cuStreamSynchronize(stream)) };
        }
        for start in (0..bytes).step_by(PART) {
            let size = PART.min(bytes - start);
            let at = self.take(size)?;
            let part = self.base.wrapping_add(at);
            let source = from.wrapping_add(start).addr() as u64;
            // SAFETY: the part is inside the ring and no copy uses it but this one, which is made
            // when the stream has no work left; `to` has so many bytes.
            unsafe {
                cu!(cuMemcpyDtoHAsync_v2(part.cast::<c_void>(), source, size, stream))?;
                cu!(cuStreamSynchronize(stream))?;
                to.add(start).copy_from_nonoverlapping(part, size);
            }
        }
        Ok(())
    }

    /// The place of a part that no copy uses; waits for those that do.
    fn take(&mut self, size: usize) -> Result<usize, Failure> {
        if self.base.is_null() {
            let mut base = std::ptr::null_mut();
            // SAFETY: it writes one address.
            unsafe { cu!(cuMemHostAlloc(&mut base, RING, 0)) }?;
            self.base = base.cast();
        }
        if self.head + size > RING {
            self.head = 0;
        }
        let (start, end) = (self.head, self.head + size);
        while self.busy.iter().any(|part| part.start < end && start < part.end) {
            let Some(part) = self.busy.pop_front() else { break };
            // SAFETY: the event was recorded when the part was used, and this is its last use.
            unsafe {
                let waited = cu!(cuEventSynchronize(part.event));
                let _ = cu!(cuEventDestroy_v2(part.event));
                waited?;
            }
        }
        self.head = end.next_multiple_of(64);
        Ok(start)
    }
}

//! The register stack: address space reserved once, committed as it is touched.
//!
//! It never moves, so frames and machine code keep addresses into it. A guard page
//! follows the last slot; the limit checks make it unreachable, and it is there for
//! the day one of them is wrong.
//!
//! Decision: docs/decisions/0005-register-frames.md

use std::ptr::NonNull;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::error::Error;

const GUARD: usize = 1 << 16;

/// A reserved range of slots, all None (zero) at first.
pub struct Stack {
    base: NonNull<TVMFFIAny>,
    slots: usize,
}

// SAFETY: plain memory owned by the stack; what the slots hold is the session's matter.
unsafe impl Send for Stack {}

impl Stack {
    /// Reserves `slots` slots.
    pub fn reserve(slots: usize) -> Result<Stack, Error> {
        let bytes = Self::bytes(slots).ok_or_else(|| {
            Error::value_error(format!("a register stack of {slots} slots exceeds memory"))
        })?;
        let base = map(bytes + GUARD)?;
        let stack = Stack { base, slots: bytes / size_of::<TVMFFIAny>() };
        if !stack.guard() {
            return Err(system_error("cannot guard the register stack"));
        }
        Ok(stack)
    }

    /// Makes the pages behind the last slot inaccessible.
    fn guard(&self) -> bool {
        // Miri has no page protection; its own checks are stricter than a guard.
        // SAFETY: the guard lies inside the mapping, behind every slot.
        cfg!(miri) || unsafe { libc::mprotect(self.limit().cast(), GUARD, libc::PROT_NONE) } == 0
    }

    /// Bytes of `slots`, in whole pages.
    fn bytes(slots: usize) -> Option<usize> {
        let bytes = slots.checked_mul(size_of::<TVMFFIAny>())?.checked_next_multiple_of(GUARD)?;
        bytes.checked_add(GUARD).filter(|&all| all <= isize::MAX as usize)?;
        Some(bytes)
    }

    /// The first slot.
    pub fn base(&self) -> *mut TVMFFIAny {
        self.base.as_ptr()
    }

    /// One past the last slot.
    pub fn limit(&self) -> *mut TVMFFIAny {
        // SAFETY: one past the end of the slots, inside the mapping (the guard follows).
        unsafe { self.base.as_ptr().add(self.slots) }
    }
}

/// `bytes` of zeroed address space.
fn map(bytes: usize) -> Result<NonNull<TVMFFIAny>, Error> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let flags = if cfg!(miri) { flags } else { flags | libc::MAP_NORESERVE };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh private mapping; nothing else is affected.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(system_error(&format!(
            "cannot reserve {bytes} bytes of address space for the register stack"
        )));
    }
    Ok(NonNull::new(base.cast()).expect("a mapping is not at null"))
}

#[cold]
fn system_error(what: &str) -> Error {
    Error::new("MemoryError", format!("{what}: {}", std::io::Error::last_os_error()))
}

impl Drop for Stack {
    fn drop(&mut self) {
        let bytes = self.slots * size_of::<TVMFFIAny>() + GUARD;
        // SAFETY: the mapping is ours and nothing refers to it any more. A failure would
        // only leave memory mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_none_until_written() {
        let stack = Stack::reserve(10_000).unwrap();
        // SAFETY: the last slot of a live stack.
        let last = unsafe { &mut *stack.limit().sub(1) };
        assert_eq!(last.type_index, 0);
        *last = TVMFFIAny::int_like(1, 7);
        assert!(Stack::reserve(usize::MAX / 8).is_err());
    }
}

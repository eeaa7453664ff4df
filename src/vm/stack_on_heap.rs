//! The stand-in for `stack` on systems that reserve no address space: the register stack lies on the heap,
//! without a guard page.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::error::Error;

/// A range of slots, all None (zero) at first. It never moves.
pub struct Stack {
    base: NonNull<TVMFFIAny>,
    slots: usize,
}

// SAFETY: plain memory owned by the stack; what the slots hold is the session's matter.
unsafe impl Send for Stack {}

impl Stack {
    /// Allocates `slots` slots, at least one.
    pub fn reserve(slots: usize) -> Result<Stack, Error> {
        let slots = slots.max(1);
        let layout = Layout::array::<TVMFFIAny>(slots).map_err(|_| {
            Error::value_error(format!("a register stack of {slots} slots exceeds memory"))
        })?;
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }.cast());
        let base = base.ok_or_else(|| {
            Error::new("MemoryError", format!("no memory for a register stack of {slots} slots"))
        })?;
        Ok(Stack { base, slots })
    }

    /// The first slot.
    pub fn base(&self) -> *mut TVMFFIAny {
        self.base.as_ptr()
    }

    /// One past the last slot.
    pub fn limit(&self) -> *mut TVMFFIAny {
        // SAFETY: one past the end of the slots.
        unsafe { self.base.as_ptr().add(self.slots) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the memory is ours, of this layout, and nothing refers to it any more.
        unsafe {
            let layout = Layout::array::<TVMFFIAny>(self.slots).unwrap_unchecked();
            dealloc(self.base.as_ptr().cast(), layout);
        }
    }
}

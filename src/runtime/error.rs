//! Errors: tvm-ffi error objects, and the thread's slot for a raised one.
//!
//! A failing packed function leaves its error in the slot and returns -1; the
//! caller takes it out. Errors of this crate's own functions are the same objects,
//! so they cross the C ABI without translation.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use crate::abi::{TVMFFIByteArray, TVMFFIErrorCell, TVMFFIObject, type_index};
use crate::host;
use crate::object::{self, ObjectRef, ObjectType};
use crate::value::{Any, AnyView, slice_of};

/// An error with a kind (`TypeError`, `ValueError`, ...), a message and a backtrace.
///
/// ```
/// use reflex_runtime::error::Error;
/// let error = Error::new("ValueError", "no such axis: 3");
/// assert_eq!(error.kind(), "ValueError");
/// assert_eq!(error.to_string(), "ValueError: no such axis: 3");
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Error(ObjectRef);

// SAFETY: transparent; reads the cell that every `ffi.Error` has.
unsafe impl ObjectType for Error {
    const KEY: &'static str = "ffi.Error";
    #[inline]
    fn type_index() -> i32 {
        type_index::ERROR
    }
}

/// The cell and the backtrace it points to; kind and message follow it, each with
/// a NUL for C.
#[repr(C)]
struct Body {
    cell: TVMFFIErrorCell,
    backtrace: Vec<u8>,
}

impl Drop for Body {
    fn drop(&mut self) {
        for owned in [self.cell.cause_chain, self.cell.extra_context] {
            if let Some(object) = NonNull::new(owned) {
                // SAFETY: the cell owns both references, and is being dropped.
                drop(unsafe { ObjectRef::from_raw(object) });
            }
        }
    }
}

fn borrow(bytes: &[u8]) -> TVMFFIByteArray {
    TVMFFIByteArray { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Writes `text` and a NUL to `at`.
///
/// # Safety
/// `at` may be written for `text` and a NUL.
unsafe fn write_c_string(text: &str, at: NonNull<u8>) -> TVMFFIByteArray {
    // SAFETY: the caller passes memory for the text and its NUL.
    unsafe {
        at.as_ptr().copy_from_nonoverlapping(text.as_ptr(), text.len());
        at.add(text.len()).write(0);
    }
    TVMFFIByteArray { data: at.as_ptr().cast(), size: text.len() }
}

impl Error {
    /// An error without a backtrace.
    #[cold]
    pub fn new(kind: &str, message: impl Into<String>) -> Error {
        Error::with_context(kind, &message.into(), "", None, None)
    }

    /// An error with everything it can carry.
    #[cold]
    pub fn with_context(
        kind: &str,
        message: &str,
        backtrace: &str,
        cause: Option<ObjectRef>,
        context: Option<ObjectRef>,
    ) -> Error {
        let raw = |object: Option<ObjectRef>| {
            object.map_or(std::ptr::null_mut(), |object| object.into_raw().as_ptr())
        };
        let tail = kind.len() + message.len() + 2;
        Error(object::create(type_index::ERROR, tail, |tail| {
            let backtrace = backtrace.as_bytes().to_vec();
            // SAFETY: the tail is as long as both texts and their NULs.
            let (kind, message) = unsafe {
                let after = tail.add(kind.len() + 1);
                (write_c_string(kind, tail), write_c_string(message, after))
            };
            let cell = TVMFFIErrorCell {
                kind,
                message,
                backtrace: borrow(&backtrace),
                update_backtrace: Some(update_backtrace),
                cause_chain: raw(cause),
                extra_context: raw(context),
            };
            Body { cell, backtrace }
        }))
    }

    /// A value of the wrong type.
    #[cold]
    pub fn type_error(message: impl Into<String>) -> Error {
        Error::new("TypeError", message)
    }

    /// A value of the right type that cannot be used.
    #[cold]
    pub fn value_error(message: impl Into<String>) -> Error {
        Error::new("ValueError", message)
    }

    /// Something failed while running.
    #[cold]
    pub fn runtime_error(message: impl Into<String>) -> Error {
        Error::new("RuntimeError", message)
    }

    fn cell(&self) -> &TVMFFIErrorCell {
        // SAFETY: every `ffi.Error` has this cell after its header.
        unsafe { &*self.0.cell::<TVMFFIErrorCell>() }
    }

    fn text(&self, array: &TVMFFIByteArray) -> Cow<'_, str> {
        // SAFETY: the cell's arrays live as long as the error.
        String::from_utf8_lossy(unsafe { slice_of(array) })
    }

    /// Such as `TypeError`.
    pub fn kind(&self) -> Cow<'_, str> {
        self.text(&self.cell().kind)
    }

    /// The message.
    pub fn message(&self) -> Cow<'_, str> {
        self.text(&self.cell().message)
    }

    /// Where, innermost call first; often empty.
    pub fn backtrace(&self) -> String {
        self.text(&self.cell().backtrace).into_owned()
    }

    /// Adds lines to the end of the backtrace, through the error's own hook: an error of Python keeps
    /// its exception, and one of another library its memory.
    #[cold]
    pub fn append_backtrace(&self, lines: &str) {
        const APPEND: i32 = 1;
        if let Some(update) = self.cell().update_backtrace {
            // SAFETY: the hook is the one of this object, which is live; the array lives for the call.
            unsafe { update(self.0.as_ptr().cast(), &borrow(lines.as_bytes()), APPEND) };
        }
    }

    /// Puts the error in this thread's slot, replacing what was there: in that of a
    /// libtvm_ffi which the process loaded before us, since its callers look only there.
    #[cold]
    pub fn raise(self) {
        if let Some(host) = host::get() {
            return host.set_raised(&self.0);
        }
        let new = self.0.into_raw().as_ptr();
        // A thread that is shutting down has no slot; the error is dropped with it.
        match RAISED.try_with(|slot| slot.0.replace(new)) {
            Ok(old) => drop(adopt(old)),
            Err(_) => drop(adopt(new)),
        }
    }

    /// Takes the error out of this thread's slot, or out of that of a libtvm_ffi which
    /// the process loaded before us.
    #[cold]
    pub fn take_raised() -> Option<Error> {
        let raised = RAISED.try_with(|slot| slot.0.replace(std::ptr::null_mut())).ok()?;
        adopt(raised).or_else(|| {
            let object = host::get()?.take_raised()?;
            (object.type_index() == type_index::ERROR).then_some(Error(object))
        })
    }

    /// The error of a call that just returned failure; one is made up for a callee
    /// that set none.
    #[cold]
    pub fn of_failed_call() -> Error {
        Error::take_raised()
            .unwrap_or_else(|| Error::runtime_error("a function failed without setting an error"))
    }
}

struct Slot(Cell<*mut TVMFFIObject>);

impl Drop for Slot {
    fn drop(&mut self) {
        drop(adopt(self.0.get()));
    }
}

thread_local! {
    static RAISED: Slot = const { Slot(Cell::new(std::ptr::null_mut())) };
}

/// Takes over a reference that was in the slot.
fn adopt(raised: *mut TVMFFIObject) -> Option<Error> {
    // SAFETY: the slot owns its reference, and only errors are put there.
    NonNull::new(raised).map(|object| Error(unsafe { ObjectRef::from_raw(object) }))
}

/// tvm-ffi's hook for extending a backtrace as an error travels up. Errors belong
/// to one thread while they travel.
unsafe extern "C" fn update_backtrace(
    this: *mut c_void,
    backtrace: *const TVMFFIByteArray,
    mode: i32,
) {
    const REPLACE: i32 = 0;
    if this.is_null() || backtrace.is_null() {
        return;
    }
    // SAFETY: `this` is an error made by `with_context`, and no other thread uses it
    // while its holder updates it; the array is the caller's.
    unsafe {
        let body = this.cast::<TVMFFIObject>().add(1).cast::<Body>();
        let text = slice_of(backtrace);
        if mode == REPLACE {
            (*body).backtrace.clear();
        }
        (*body).backtrace.extend_from_slice(text);
        (*body).cell.backtrace = borrow(&(*body).backtrace);
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind(), self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl TryFrom<AnyView<'_>> for Error {
    type Error = Error;
    fn try_from(view: AnyView<'_>) -> Result<Error, Error> {
        match view.downcast_ref::<Error>() {
            Some(error) => Ok(error.clone()),
            None => Err(view.mismatch(Error::KEY)),
        }
    }
}

impl TryFrom<Any> for Error {
    type Error = Error;
    fn try_from(value: Any) -> Result<Error, Error> {
        value.view().try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_holds_the_last_error() {
        assert!(Error::take_raised().is_none());
        let first = Error::type_error("first");
        first.clone().raise();
        assert_eq!(first.object().strong_count(), 2);
        Error::value_error("second").raise();
        assert!(first.object().is_unique());
        assert_eq!(Error::take_raised().unwrap().to_string(), "ValueError: second");
        assert!(Error::take_raised().is_none());
        assert_eq!(Error::of_failed_call().kind(), "RuntimeError");
        std::thread::spawn(move || first.raise()).join().unwrap();
    }

    #[test]
    fn backtraces_grow_and_causes_are_owned() {
        let cause = Error::runtime_error("cause");
        let error =
            Error::with_context("KeyError", "message", "one\n", Some(cause.object().clone()), None);
        assert_eq!(cause.object().strong_count(), 2);
        let update = error.cell().update_backtrace.unwrap();
        // SAFETY: the error is ours alone, and the arrays are alive.
        unsafe {
            update(error.0.as_ptr().cast(), &borrow(b"two\n"), 1);
            assert_eq!(error.backtrace(), "one\ntwo\n");
            update(error.0.as_ptr().cast(), &borrow(b"three\n"), 0);
        }
        assert_eq!(error.backtrace(), "three\n");
        error.append_backtrace("four\n");
        assert_eq!(error.backtrace(), "three\nfour\n");
        assert_eq!(cause.object().strong_count(), 2, "the cause is kept");
        drop(error);
        assert!(cause.object().is_unique());
    }
}

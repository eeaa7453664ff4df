//! The C interface, which `include/reflex.h` declares: engines, programs, sessions, values.
//!
//! Functions that can fail return a [`ReflexStatus`] and leave kind, message and backtrace in
//! the thread's error slot. A panic is an error like any other; none crosses. Values are
//! tvm-ffi's `Any` and tensors DLPack's `DLTensor`, so compact arrays of other libraries are passed
//! without a copy, and packed functions go both ways.
//!
//! Handles are made by `*_new`, `*_open` and `*_load`, and freed by `*_free`. A session belongs to
//! one thread at a time: a second call while one runs is an error, not a race. A packed function that
//! a session called may call the session's functions.
//!
//! Decision: docs/decisions/0023-one-shared-library.md

#[cfg(feature = "python")]
mod exec_builder;
mod instrument;
#[cfg(feature = "python")]
mod ir;
#[cfg(feature = "python")]
mod outside;
#[cfg(feature = "python")]
mod packed;
mod program;
#[cfg(all(feature = "python", feature = "onnx"))]
mod quantize;
#[cfg(feature = "python")]
mod rpc;
#[cfg(feature = "python")]
mod schedule;
mod serve;
mod session;
mod signature;
mod values;

use std::any::Any as StdAny;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::value::AnyView;

use crate::error::{Error, ErrorKind, Result};

/// The result of a call: success, or the kind of its error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflexStatus {
    /// Done.
    Ok = 0,
    /// A file cannot be read or written.
    Io = 1,
    /// The model or program is malformed.
    Model = 2,
    /// The model needs something that is not supported.
    Unsupported = 3,
    /// An argument does not fit.
    Input = 4,
    /// Compilation failed.
    Compile = 5,
    /// Execution failed; the error's kind says more.
    Run = 6,
    /// The run was cancelled.
    Cancelled = 7,
    /// The run went on past its deadline.
    DeadlineExceeded = 8,
    /// The run used up its fuel.
    FuelExhausted = 9,
    /// Calls were nested deeper than allowed.
    StackOverflow = 10,
    /// A defect of this library.
    Internal = 11,
}

#[derive(Default)]
struct Slot {
    kind: CString,
    message: CString,
    backtrace: CString,
}

thread_local! {
    static ERROR: RefCell<Slot> = RefCell::default();
}

/// Text for C; what follows a NUL is left out.
fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

fn fail(error: &Error) -> ReflexStatus {
    let object = error.to_object();
    set_error(&object.kind(), &object.message(), &object.backtrace());
    match error.kind() {
        ErrorKind::Io => ReflexStatus::Io,
        ErrorKind::Model => ReflexStatus::Model,
        ErrorKind::Unsupported => ReflexStatus::Unsupported,
        ErrorKind::Input => ReflexStatus::Input,
        ErrorKind::Compile => ReflexStatus::Compile,
        ErrorKind::Run => ReflexStatus::Run,
        ErrorKind::Cancelled => ReflexStatus::Cancelled,
        ErrorKind::DeadlineExceeded => ReflexStatus::DeadlineExceeded,
        ErrorKind::FuelExhausted => ReflexStatus::FuelExhausted,
        ErrorKind::StackOverflow => ReflexStatus::StackOverflow,
    }
}

fn set_error(kind: &str, message: &str, backtrace: &str) {
    let slot =
        Slot { kind: c_string(kind), message: c_string(message), backtrace: c_string(backtrace) };
    // A thread that is shutting down has no slot.
    let _ = ERROR.try_with(|error| error.replace(slot));
}

#[cold]
fn panicked(payload: &(dyn StdAny + Send)) -> ReflexStatus {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    set_error("InternalError", text.unwrap_or("a panic without a message"), "");
    ReflexStatus::Internal
}

/// Runs the body of an export.
#[inline(always)]
fn status(body: impl FnOnce() -> Result<()>) -> ReflexStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ReflexStatus::Ok,
        Ok(Err(error)) => fail(&error),
        Err(payload) => panicked(&*payload),
    }
}

/// Runs the body of an export that reports nothing.
fn quiet(body: impl FnOnce()) {
    let _ = status(|| {
        body();
        Ok(())
    });
}

/// # Safety
/// `text` is null or a NUL-terminated string that outlives `'a`.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::input(format!("{what} is null")));
    }
    // SAFETY: the caller passes a string that ends in NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::input(format!("{what} is not UTF-8")))
}

/// # Safety
/// `handle` is null or a live `T`, which outlives `'a`.
unsafe fn live<'a, T>(handle: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: the caller passes a pointer that is null or valid and a handle that is null or live.
    unsafe { handle.as_ref() }.ok_or_else(|| Error::input(format!("{what} is null")))
}

/// # Safety
/// `out` is null or may be written.
unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::input("the result pointer is null"));
    }
    // SAFETY: the caller passes a result pointer that is null or may be written.
    unsafe { out.write(value) };
    Ok(())
}

/// # Safety
/// `items` is `count` live items that outlive `'a`; null is allowed for none.
unsafe fn slice<'a, T>(items: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    match (count, items.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Error::input(format!("{what} is null"))),
        // SAFETY: the caller passes as many items as it counts.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(items, count) }),
    }
}

/// # Safety
/// `args` is `count` valid values that outlive `'a`; null is allowed for none.
unsafe fn views<'a>(args: *const TVMFFIAny, count: i32) -> Result<&'a [AnyView<'a>]> {
    if count < 0 || (count > 0 && args.is_null()) {
        return Err(Error::input("the arguments are null"));
    }
    // SAFETY: the caller passes as many valid values as it counts.
    Ok(unsafe { AnyView::slice_from_raw(args, count) })
}

/// Returns the kind of the last error of this thread, such as `TypeError`; empty before the first one.
/// Valid until the next failure on this thread.
///
/// ```c
/// ReflexProgram *none;
/// CHECK(reflex_engine_load(engine, "no/such.onnx", &none) == REFLEX_STATUS_IO);
/// CHECK(strcmp(reflex_error_kind(), "OSError") == 0);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_error_kind() -> *const c_char {
    ERROR.try_with(|error| error.borrow().kind.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the message of the last error of this thread. Valid until the next failure on this thread.
///
/// ```c
/// ReflexProgram *none;
/// CHECK(reflex_engine_load(engine, "no/such.onnx", &none) != REFLEX_STATUS_OK);
/// fprintf(stderr, "%s\n", reflex_error_message());
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_error_message() -> *const c_char {
    ERROR.try_with(|error| error.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the backtrace of the last error of this thread: a line for each function of the program
/// that was active, innermost first. Valid until the next failure on this thread.
///
/// ```c
/// ReflexValue y, swapped[] = {args[1], args[0]};
/// CHECK(reflex_call(session, "main", swapped, 2, &y) == REFLEX_STATUS_RUN);
/// CHECK(strlen(reflex_error_backtrace()) > 0);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_error_backtrace() -> *const c_char {
    ERROR.try_with(|error| error.borrow().backtrace.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the version of this library, such as `0.1.0`.
///
/// ```c
/// printf("Reflex %s\n", reflex_version());
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn reflex_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

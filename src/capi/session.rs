//! Sessions for C.

use std::ffi::c_char;
use std::time::Duration;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::value::Any;
use reflex_vm::devices::CpuAllocators;
use reflex_vm::session::{Canceller, SavedResult};

use super::program::{ReflexProgram, free};
use super::values;
use super::{ReflexStatus, give, live, quiet, slice, status, text, views};
use crate::error::{Error, Result};
use crate::memory::AllocatorKind;
use crate::options::{Mode, SessionOptions};
use crate::session::Session;
use crate::shared_session::SharedSession;
use crate::shared_session::arguments::{compact, kept};

/// The way functions run. All modes give the same bits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ReflexMode {
    /// The interpreter first; what is hot becomes machine code.
    Tiered = 0,
    /// The interpreter.
    Bytecode = 1,
    /// Every function translated to machine code when the session opens.
    Compiled = 2,
}

/// One thread's running state of a program.
pub struct ReflexSession(SharedSession);

/// Stops a session's run from another thread.
pub struct ReflexCanceller(Canceller);

/// Uses a session exclusively.
///
/// # Safety
/// `session` is null or live.
#[inline(always)]
pub(super) unsafe fn with<T>(
    session: *mut ReflexSession,
    body: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    // SAFETY: the caller passes a handle that is null or live.
    unsafe { live(session, "the session") }?.0.with(body)
}

impl ReflexMode {
    fn of(mode: i32) -> Result<Mode> {
        let known = [
            (ReflexMode::Tiered, Mode::Tiered),
            (ReflexMode::Bytecode, Mode::Bytecode),
            (ReflexMode::Compiled, Mode::Compiled),
        ];
        let found = known.into_iter().find(|(c, _)| *c as i32 == mode);
        found.map(|(_, mode)| mode).ok_or_else(|| Error::input(format!("there is no mode {mode}")))
    }
}

/// Options of a session. Zeroes are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexSessionOptions {
    /// A `ReflexMode`.
    pub mode: i32,
    /// A `ReflexAllocator`.
    pub allocator: i32,
    /// Where the session computes, such as `cpu`; null is `cpu`. A program for several CPUs takes a list, such as
    /// `cpu:0,cpu:1`, or `cpu` for all.
    pub device: *const c_char,
    /// The allocators of CPUs with others than `allocator`, such as `cpu:1=naive`; null is none.
    pub allocators: *const c_char,
}

/// The allocator of tensors: the use of memory that a run releases.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ReflexAllocator {
    /// It is kept for reuse, within bounds.
    Pooled = 0,
    /// It goes back to the system at once.
    Naive = 1,
}

impl ReflexSessionOptions {
    /// # Safety
    /// `device` and `allocators` are null or strings.
    unsafe fn checked(&self) -> Result<SessionOptions> {
        let known = [
            (ReflexAllocator::Pooled, AllocatorKind::Pooled),
            (ReflexAllocator::Naive, AllocatorKind::Naive),
        ];
        let kind = known.into_iter().find(|(c, _)| *c as i32 == self.allocator);
        let unknown = || Error::input(format!("there is no allocator {}", self.allocator));
        let (_, kind) = kind.ok_or_else(unknown)?;
        let mut options = SessionOptions::new(ReflexMode::of(self.mode)?).allocator(kind);
        if !self.allocators.is_null() {
            // SAFETY: the caller passes strings that are null or end in NUL.
            let own = unsafe { text(self.allocators, "the allocators") }?;
            let own = CpuAllocators::from(kind).and(own).map_err(Error::input)?;
            options = options.with_allocators(own);
        }
        if self.device.is_null() {
            return Ok(options);
        }
        // SAFETY: the caller passes strings that are null or end in NUL.
        Ok(options.device(unsafe { text(self.device, "the device") }?))
    }
}

/// Opens a session; `mode` is a `ReflexMode`.
///
/// ```c
/// ReflexSession *compiled;
/// CHECK_OK(reflex_session_new(program, REFLEX_MODE_COMPILED, &compiled));
/// reflex_session_free(compiled);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_session_new(
    program: *const ReflexProgram,
    mode: i32,
    out: *mut *mut ReflexSession,
) -> ReflexStatus {
    let (allocator, device, allocators) =
        (ReflexAllocator::Pooled as i32, std::ptr::null(), std::ptr::null());
    let options = ReflexSessionOptions { mode, allocator, device, allocators };
    // SAFETY: the caller passes pointers that are null or valid.
    unsafe { reflex_session_open(program, &options, out) }
}

/// Opens a session with options.
///
/// ```c
/// ReflexSessionOptions options = {.mode = REFLEX_MODE_BYTECODE,
///                                 .allocator = REFLEX_ALLOCATOR_NAIVE};
/// ReflexSession *other;
/// CHECK_OK(reflex_session_open(program, &options, &other));
/// reflex_session_free(other);
/// options.device = "cpu";
/// options.allocators = "cpu:0=naive,cpu:1=pooled";
/// CHECK_OK(reflex_session_open(program, &options, &other));
/// reflex_session_free(other);
/// options.allocators = "cuda:0=naive";
/// CHECK(reflex_session_open(program, &options, &other) == REFLEX_STATUS_INPUT);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_session_open(
    program: *const ReflexProgram,
    options: *const ReflexSessionOptions,
    out: *mut *mut ReflexSession,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a handle that is null or live.
        let options = unsafe { live(options, "the options")?.checked()? };
        // SAFETY: the caller passes a handle that is null or live.
        let session = unsafe { live(program, "the program") }?.program.open(&options)?;
        let session = Box::new(ReflexSession(SharedSession::new(session)));
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(session)) }
    })
}

/// Frees a session.
///
/// ```c
/// ReflexSession *other;
/// CHECK_OK(reflex_session_new(program, REFLEX_MODE_TIERED, &other));
/// reflex_session_free(other);
/// ```
///
/// # Safety
/// `session` is null or came from `reflex_session_new`, does not run, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_session_free(session: *mut ReflexSession) {
    // SAFETY: the caller passes a handle that is null or owned, and uses it no more.
    quiet(|| unsafe { free(session) });
}

/// Calls a function by name, of the program or saved; the caller frees the result.
///
/// A function may return a constant of the program or an argument itself, not a copy. Constants are
/// read-only to callers: copy them before writing.
///
/// ```c
/// ReflexValue y;
/// CHECK_OK(reflex_call(session, "main", args, 2, &y));
/// CHECK(reflex_as_tensor(&y)->ndim == 2);
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_call(
    session: *mut ReflexSession,
    name: *const c_char,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        let mut copies = Vec::new();
        let args = compact(args, &mut copies)?;
        // SAFETY: the caller passes a session that is null or live.
        let value = unsafe { live(session, "the session") }?.0.call_views(name, args)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(result, value.into_raw()) }
    })
}

/// Calls a function by name until nothing more of it is being compiled, and drops the results.
/// `calls`, which may be null, receives the number of calls.
///
/// ```c
/// uint64_t calls;
/// CHECK_OK(reflex_warm_up(session, "main", args, 2, &calls));
/// CHECK(calls > 0);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_warm_up(
    session: *mut ReflexSession,
    name: *const c_char,
    args: *const TVMFFIAny,
    count: i32,
    calls: *mut u64,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        let mut copies = Vec::new();
        let args = compact(args, &mut copies)?;
        // SAFETY: the caller passes a session that is null or live.
        let made = unsafe { with(session, |s| s.warm_up_func(s.function_index(name)?, args)) }?;
        if calls.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(calls, made as u64) }
    })
}

/// Returns the index of a function, for `reflex_call_index`.
///
/// ```c
/// uint32_t index;
/// ReflexValue y;
/// CHECK_OK(reflex_function_index(session, "main", &index));
/// CHECK_OK(reflex_call_index(session, index, args, 2, &y));
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_function_index(
    session: *mut ReflexSession,
    name: *const c_char,
    number: *mut u32,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let name = unsafe { text(name, "the name") }?;
        // SAFETY: the caller passes a session that is null or live and a result pointer that is
        // null or may be written.
        unsafe { give(number, live(session, "the session")?.0.function_index(name)?) }
    })
}

/// Calls a function by index, without a look-up; the caller frees the result.
///
/// ```c
/// uint32_t index;
/// ReflexValue y;
/// CHECK_OK(reflex_function_index(session, "main", &index));
/// CHECK_OK(reflex_call_index(session, index, args, 2, &y));
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_call_index(
    session: *mut ReflexSession,
    number: u32,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        let (mut value, mut copies) = (Any::NONE, Vec::new());
        // SAFETY: the caller passes as many valid values as it counts, a session that is null or
        // live and a result pointer that is null or may be written.
        unsafe {
            let args = compact(views(args, count)?, &mut copies)?;
            live(session, "the session")?.0.call_into(number, args, &mut value)?;
            give(result, value.into_raw())
        }
    })
}

/// Calls a closure that a function of the program returned, or a function value; the caller frees
/// the result.
///
/// ```c
/// ReflexValue closure, two, one = reflex_int(1);
/// CHECK_OK(reflex_register_global_func("docs.invoked", add_one, NULL, NULL));
/// CHECK_OK(reflex_get_global_func("docs.invoked", &closure));
/// CHECK_OK(reflex_invoke_closure(session, &closure, &one, 1, &two));
/// CHECK(two.payload.v_int64 == 2);
/// reflex_free(&closure);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_invoke_closure(
    session: *mut ReflexSession,
    closure: *const TVMFFIAny,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes as many valid values as it counts, and one closure.
        let (closure, args) = unsafe { (views(closure, 1)?, views(args, count)?) };
        // SAFETY: the caller passes a session that is null or live.
        let session = unsafe { live(session, "the session") }?;
        let value = session.0.invoke_closure(&closure[0], args)?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(result, value.into_raw()) }
    })
}

/// Stores the arguments of a function for `reflex_invoke_stateful`. Borrowed tensors are
/// copied.
///
/// ```c
/// CHECK_OK(reflex_set_input(session, "main", args, 2));
/// CHECK_OK(reflex_invoke_stateful(session, "main"));
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_set_input(
    session: *mut ReflexSession,
    name: *const c_char,
    args: *const TVMFFIAny,
    count: i32,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, args) = unsafe { (text(name, "the name")?, kept(views(args, count)?)?) };
        // SAFETY: the caller passes a session that is null or live.
        unsafe { with(session, |s| s.set_input(name, args)) }
    })
}

/// Makes `reflex_invoke_stateful` write the results of a function to tensors: one for a
/// tensor result, one per item for a tuple. Inputs must be set first. Large results are not copied:
/// those that `reflex_get_output` gives are these tensors' memory then.
///
/// ```c
/// int64_t shape[] = {2, 5};
/// ReflexValue y;
/// CHECK_OK(reflex_tensor(f32, shape, 2, NULL, &y));
/// CHECK_OK(reflex_set_input(session, "main", args, 2));
/// CHECK_OK(reflex_bind_outputs(session, "main", &y, 1));
/// CHECK_OK(reflex_invoke_stateful(session, "main"));
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid; `targets` are tensor values, whose memory is used by
/// this run alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_bind_outputs(
    session: *mut ReflexSession,
    name: *const c_char,
    targets: *const TVMFFIAny,
    count: i32,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, bound) =
            unsafe { (text(name, "the name")?, values::targets(views(targets, count)?)?) };
        // SAFETY: the caller passes a session that is null or live.
        unsafe { with(session, |s| s.bind_outputs(name, bound)) }
    })
}

/// Runs a function on its stored arguments and keeps the result.
///
/// ```c
/// CHECK_OK(reflex_set_input(session, "main", args, 2));
/// CHECK_OK(reflex_invoke_stateful(session, "main"));
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_invoke_stateful(
    session: *mut ReflexSession,
    name: *const c_char,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let name = unsafe { text(name, "the name") }?;
        // SAFETY: the caller passes a session that is null or live.
        unsafe { with(session, |s| s.invoke_stateful(name)) }
    })
}

/// # Safety
/// `path` is `depth` indices, or null for none.
unsafe fn path_of(path: *const u32, depth: u32) -> Result<Vec<usize>> {
    // SAFETY: the caller passes as many items as it counts.
    let path = unsafe { slice(path, depth as usize, "the path") }?;
    Ok(path.iter().map(|index| *index as usize).collect())
}

/// Returns the number of items of the kept result of a function, -1 when it is not a tuple. `path`
/// walks into nested tuples first.
///
/// ```c
/// CHECK_OK(reflex_set_input(session, "main", args, 2));
/// CHECK_OK(reflex_invoke_stateful(session, "main"));
/// int64_t arity;
/// CHECK_OK(reflex_output_arity(session, "main", NULL, 0, &arity));
/// CHECK(arity == -1); // a tensor
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_output_arity(
    session: *mut ReflexSession,
    name: *const c_char,
    path: *const u32,
    depth: u32,
    arity: *mut i64,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many items as it
        // counts.
        let (name, path) = unsafe { (text(name, "the name")?, path_of(path, depth)?) };
        // SAFETY: the caller passes a session that is null or live and a result pointer that is
        // null or may be written.
        unsafe { give(arity, with(session, |s| s.output_arity(name, &path))?) }
    })
}

/// Returns an item of the kept result of a function, which must not be a tuple; the caller frees it.
///
/// ```c
/// CHECK_OK(reflex_set_input(session, "main", args, 2));
/// CHECK_OK(reflex_invoke_stateful(session, "main"));
/// ReflexValue y;
/// CHECK_OK(reflex_get_output(session, "main", NULL, 0, &y));
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_get_output(
    session: *mut ReflexSession,
    name: *const c_char,
    path: *const u32,
    depth: u32,
    result: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many items as it
        // counts.
        let (name, path) = unsafe { (text(name, "the name")?, path_of(path, depth)?) };
        // SAFETY: the caller passes a session that is null or live.
        let value: Any = unsafe { with(session, |s| s.get_output(name, &path)) }?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(result, value.into_raw()) }
    })
}

/// Saves a function with its last arguments under another name. Without `include_return`
/// calls of it give nothing. Borrowed tensors are copied.
///
/// ```c
/// ReflexValue y;
/// CHECK_OK(reflex_save_function(session, "main", "with_w", true, &args[1], 1));
/// CHECK_OK(reflex_call(session, "with_w", args, 1, &y));
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_save_function(
    session: *mut ReflexSession,
    name: *const c_char,
    saved: *const c_char,
    include_return: bool,
    args: *const TVMFFIAny,
    count: i32,
) -> ReflexStatus {
    status(|| {
        let result = if include_return { SavedResult::Keep } else { SavedResult::Drop };
        // SAFETY: the caller passes strings that are null or end in NUL.
        let (name, saved) = unsafe { (text(name, "the name")?, text(saved, "the saved name")?) };
        // SAFETY: the caller passes as many valid values as it counts.
        let args = kept(unsafe { views(args, count) }?)?;
        // SAFETY: the caller passes a session that is null or live.
        unsafe { with(session, |s| s.save_function(name, saved, result, args)) }
    })
}

/// Limits what later runs may do: a unit of fuel for each function entered and each backward jump.
/// `UINT64_MAX`, the default, is no limit.
///
/// ```c
/// ReflexValue y;
/// CHECK_OK(reflex_set_fuel(session, 0));
/// CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_FUEL_EXHAUSTED);
/// CHECK_OK(reflex_set_fuel(session, UINT64_MAX));
/// ```
///
/// # Safety
/// `session` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_set_fuel(session: *mut ReflexSession, fuel: u64) -> ReflexStatus {
    let set = |s: &mut Session| {
        s.set_fuel((fuel != u64::MAX).then_some(fuel));
        Ok(())
    };
    // SAFETY: the caller passes a session that is null or live.
    status(|| unsafe { with(session, set) })
}

/// Returns the fuel that is left; `UINT64_MAX` if there is no limit, as at first.
///
/// ```c
/// uint64_t fuel;
/// CHECK_OK(reflex_set_fuel(session, 100));
/// CHECK_OK(reflex_fuel(session, &fuel));
/// CHECK(fuel == 100);
/// CHECK_OK(reflex_set_fuel(session, UINT64_MAX));
/// CHECK_OK(reflex_fuel(session, &fuel));
/// CHECK(fuel == UINT64_MAX);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_fuel(session: *mut ReflexSession, fuel: *mut u64) -> ReflexStatus {
    // SAFETY: the caller passes a session that is null or live and a result pointer that is null
    // or may be written.
    status(|| unsafe { give(fuel, with(session, |s| Ok(s.fuel()))?) })
}

/// Makes runs fail that go on for longer than so many nanoseconds from now; a negative number removes
/// the deadline. A kernel is not interrupted.
///
/// ```c
/// ReflexValue y;
/// CHECK_OK(reflex_set_deadline(session, 0));
/// CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_DEADLINE_EXCEEDED);
/// CHECK_OK(reflex_set_deadline(session, -1));
/// ```
///
/// # Safety
/// `session` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_set_deadline(
    session: *mut ReflexSession,
    nanoseconds: i64,
) -> ReflexStatus {
    let set = |s: &mut Session| {
        s.set_deadline(u64::try_from(nanoseconds).ok().map(Duration::from_nanos));
        Ok(())
    };
    // SAFETY: the caller passes a session that is null or live.
    status(|| unsafe { with(session, set) })
}

/// Returns a handle that stops the session's runs from any thread.
///
/// ```c
/// ReflexCanceller *canceller;
/// ReflexValue y;
/// CHECK_OK(reflex_canceller_new(session, &canceller));
/// CHECK_OK(reflex_cancel(canceller)); // usually from another thread
/// CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
/// CHECK_OK(reflex_cancel_reset(canceller));
/// reflex_canceller_free(canceller);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_canceller_new(
    session: *mut ReflexSession,
    out: *mut *mut ReflexCanceller,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a session that is null or live.
        let canceller = unsafe { with(session, |s| Ok(s.canceller())) }?;
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(Box::new(ReflexCanceller(canceller)))) }
    })
}

/// Makes the current run, and later ones until a reset, fail soon. Any thread may call it.
///
/// ```c
/// ReflexCanceller *canceller;
/// ReflexValue y;
/// CHECK_OK(reflex_canceller_new(session, &canceller));
/// CHECK_OK(reflex_cancel(canceller)); // usually from another thread
/// CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
/// CHECK_OK(reflex_cancel_reset(canceller));
/// reflex_canceller_free(canceller);
/// ```
///
/// # Safety
/// `canceller` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_cancel(canceller: *const ReflexCanceller) -> ReflexStatus {
    // SAFETY: the caller passes a handle that is null or live.
    status(|| unsafe { live(canceller, "the canceller") }.map(|c| c.0.cancel()))
}

/// Lets runs go on again after `reflex_cancel`.
///
/// ```c
/// ReflexCanceller *canceller;
/// ReflexValue y;
/// CHECK_OK(reflex_canceller_new(session, &canceller));
/// CHECK_OK(reflex_cancel(canceller)); // usually from another thread
/// CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
/// CHECK_OK(reflex_cancel_reset(canceller));
/// reflex_canceller_free(canceller);
/// ```
///
/// # Safety
/// `canceller` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_cancel_reset(canceller: *const ReflexCanceller) -> ReflexStatus {
    // SAFETY: the caller passes a handle that is null or live.
    status(|| unsafe { live(canceller, "the canceller") }.map(|c| c.0.reset()))
}

/// Frees a canceller.
///
/// ```c
/// ReflexCanceller *canceller;
/// CHECK_OK(reflex_canceller_new(session, &canceller));
/// reflex_canceller_free(canceller);
/// ```
///
/// # Safety
/// `canceller` is null or came from `reflex_canceller_new`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_canceller_free(canceller: *mut ReflexCanceller) {
    // SAFETY: the caller passes a handle that is null or owned, and uses it no more.
    quiet(|| unsafe { free(canceller) });
}

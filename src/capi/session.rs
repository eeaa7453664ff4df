//! Sessions for C.

use std::ffi::c_char;
use std::time::Duration;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::session::{Canceller, SavedResult};

use super::program::{ReflexProgram, free};
use super::try_lock::TryLock;
use super::values::kept;
use super::{ReflexStatus, give, live, quiet, slice, status, text, views};
use crate::error::{Error, Result};
use crate::memory::AllocatorKind;
use crate::options::{Mode, SessionOptions};
use crate::session::Session;

/// How functions run. All modes give the same bits.
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
pub struct ReflexSession(TryLock<Session>);

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
    // SAFETY: by the caller's contract.
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

/// How a session is opened. Zeroes are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexSessionOptions {
    /// A `ReflexMode`.
    pub mode: i32,
    /// A `ReflexAllocator`.
    pub allocator: i32,
    /// Where the session computes, such as `cpu`; null is `cpu`.
    pub device: *const c_char,
}

/// What becomes of the memory of tensors that a run gives up.
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
    /// `device` is null or a string.
    unsafe fn checked(&self) -> Result<SessionOptions> {
        let known = [
            (ReflexAllocator::Pooled, AllocatorKind::Pooled),
            (ReflexAllocator::Naive, AllocatorKind::Naive),
        ];
        let kind = known.into_iter().find(|(c, _)| *c as i32 == self.allocator);
        let unknown = || Error::input(format!("there is no allocator {}", self.allocator));
        let (_, kind) = kind.ok_or_else(unknown)?;
        let options = SessionOptions::new(ReflexMode::of(self.mode)?).allocator(kind);
        if self.device.is_null() {
            return Ok(options);
        }
        // SAFETY: by the caller's contract.
        Ok(options.device(unsafe { text(self.device, "the device") }?))
    }
}

/// Opens a session; `mode` is a `ReflexMode`.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_session_new(
    program: *const ReflexProgram,
    mode: i32,
    out: *mut *mut ReflexSession,
) -> ReflexStatus {
    let device = std::ptr::null();
    let options = ReflexSessionOptions { mode, allocator: ReflexAllocator::Pooled as i32, device };
    // SAFETY: by the contract.
    unsafe { reflex_session_open(program, &options, out) }
}

/// Opens a session with options.
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
        // SAFETY: by the contract.
        let options = unsafe { live(options, "the options")?.checked()? };
        // SAFETY: by the contract.
        let session = unsafe { live(program, "the program") }?.0.open(&options)?;
        let session = Box::new(ReflexSession(TryLock::new(session)));
        // SAFETY: by the contract.
        unsafe { give(out, Box::into_raw(session)) }
    })
}

/// Gives a session back.
///
/// # Safety
/// `session` is null or came from `reflex_session_new`, does not run, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_session_free(session: *mut ReflexSession) {
    // SAFETY: by the contract.
    quiet(|| unsafe { free(session) });
}

/// Calls a function by name, of the program or saved; the caller frees the result.
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
        // SAFETY: by the contract.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        // SAFETY: by the contract.
        let value = unsafe { with(session, |s| s.call_views(name, args)) }?;
        // SAFETY: by the contract.
        unsafe { give(result, value.into_raw()) }
    })
}

/// Calls a function by name until nothing more of it is being compiled, and drops the results.
/// `calls`, which may be null, takes how often that was.
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
        // SAFETY: by the contract.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        // SAFETY: by the contract.
        let made = unsafe { with(session, |s| s.warm_up_func(s.function_index(name)?, args)) }?;
        if calls.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract.
        unsafe { give(calls, made as u64) }
    })
}

/// The number of a function, for `reflex_call_index`.
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
        // SAFETY: by the contract.
        let name = unsafe { text(name, "the name") }?;
        // SAFETY: by the contract.
        unsafe { give(number, with(session, |s| s.function_index(name))?) }
    })
}

/// Calls a function by number, without a look-up; the caller frees the result.
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
        let mut value = Any::NONE;
        // SAFETY: by the contract.
        unsafe {
            let args = views(args, count)?;
            with(session, |s| s.call_into(number, args, &mut value))?;
            give(result, value.into_raw())
        }
    })
}

/// Stores the arguments of a function for `reflex_invoke_stateful`. Borrowed tensors are
/// copied.
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
        // SAFETY: by the contract.
        let (name, args) = unsafe { (text(name, "the name")?, kept(views(args, count)?)?) };
        // SAFETY: by the contract.
        unsafe { with(session, |s| s.set_input(name, args)) }
    })
}

/// Makes `reflex_invoke_stateful` copy the results of a function into tensors: one for a
/// tensor result, one per item for a tuple. Inputs must be set first.
///
/// # Safety
/// Pointers are null or valid; `targets` are tensor values, whose memory no other
/// code uses during a run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_bind_outputs(
    session: *mut ReflexSession,
    name: *const c_char,
    targets: *const TVMFFIAny,
    count: i32,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let (name, targets) = unsafe { (text(name, "the name")?, views(targets, count)?) };
        let tensor = |value: &reflex_runtime::value::AnyView<'_>| {
            let what = || Error::input(format!("an output is bound to a {}", value.type_key()));
            value.downcast_ref::<Tensor>().cloned().ok_or_else(what)
        };
        let targets = targets.iter().map(tensor).collect::<Result<_>>()?;
        // SAFETY: by the contract.
        unsafe { with(session, |s| s.bind_outputs(name, targets)) }
    })
}

/// Runs a function on its stored arguments and keeps the result.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_invoke_stateful(
    session: *mut ReflexSession,
    name: *const c_char,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let name = unsafe { text(name, "the name") }?;
        // SAFETY: by the contract.
        unsafe { with(session, |s| s.invoke_stateful(name)) }
    })
}

/// # Safety
/// `path` is `depth` indices, or null for none.
unsafe fn path_of(path: *const u32, depth: u32) -> Result<Vec<usize>> {
    // SAFETY: by the caller's contract.
    let path = unsafe { slice(path, depth as usize, "the path") }?;
    Ok(path.iter().map(|index| *index as usize).collect())
}

/// Items of the kept result of a function, -1 when it is not a tuple. `path` walks into nested
/// tuples first.
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
        // SAFETY: by the contract.
        let (name, path) = unsafe { (text(name, "the name")?, path_of(path, depth)?) };
        // SAFETY: by the contract.
        unsafe { give(arity, with(session, |s| s.output_arity(name, &path))?) }
    })
}

/// An item of the kept result of a function, which must not be a tuple; the caller frees it.
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
        // SAFETY: by the contract.
        let (name, path) = unsafe { (text(name, "the name")?, path_of(path, depth)?) };
        // SAFETY: by the contract.
        let value: Any = unsafe { with(session, |s| s.get_output(name, &path)) }?;
        // SAFETY: by the contract.
        unsafe { give(result, value.into_raw()) }
    })
}

/// Saves a function with its last arguments under another name. Without `include_return`
/// calls of it give nothing. Borrowed tensors are copied.
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
        // SAFETY: by the contract.
        let (name, saved) = unsafe { (text(name, "the name")?, text(saved, "the saved name")?) };
        // SAFETY: by the contract.
        let args = kept(unsafe { views(args, count) }?)?;
        // SAFETY: by the contract.
        unsafe { with(session, |s| s.save_function(name, saved, result, args)) }
    })
}

/// Limits what later runs may do: one unit for each function entered and each backward jump.
/// `UINT64_MAX` is no limit.
///
/// # Safety
/// `session` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_set_fuel(session: *mut ReflexSession, fuel: u64) -> ReflexStatus {
    let set = |s: &mut Session| {
        s.set_fuel((fuel != u64::MAX).then_some(fuel));
        Ok(())
    };
    // SAFETY: by the contract.
    status(|| unsafe { with(session, set) })
}

/// What is left of the fuel.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_fuel(session: *mut ReflexSession, fuel: *mut u64) -> ReflexStatus {
    // SAFETY: by the contract.
    status(|| unsafe { give(fuel, with(session, |s| Ok(s.fuel()))?) })
}

/// Makes runs fail that go on for longer than so many nanoseconds from now; negative takes the
/// deadline away. A kernel is not interrupted.
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
    // SAFETY: by the contract.
    status(|| unsafe { with(session, set) })
}

/// A handle that stops the session's runs from any thread.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_canceller_new(
    session: *mut ReflexSession,
    out: *mut *mut ReflexCanceller,
) -> ReflexStatus {
    status(|| {
        // SAFETY: by the contract.
        let canceller = unsafe { with(session, |s| Ok(s.canceller())) }?;
        // SAFETY: by the contract.
        unsafe { give(out, Box::into_raw(Box::new(ReflexCanceller(canceller)))) }
    })
}

/// Makes the current run, and later ones until a reset, fail soon. Any thread may call it.
///
/// # Safety
/// `canceller` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_cancel(canceller: *const ReflexCanceller) -> ReflexStatus {
    // SAFETY: by the contract.
    status(|| unsafe { live(canceller, "the canceller") }.map(|c| c.0.cancel()))
}

/// Lets runs go on again.
///
/// # Safety
/// `canceller` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_cancel_reset(canceller: *const ReflexCanceller) -> ReflexStatus {
    // SAFETY: by the contract.
    status(|| unsafe { live(canceller, "the canceller") }.map(|c| c.0.reset()))
}

/// Gives a canceller back.
///
/// # Safety
/// `canceller` is null or came from `reflex_canceller_new`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_canceller_free(canceller: *mut ReflexCanceller) {
    // SAFETY: by the contract.
    quiet(|| unsafe { free(canceller) });
}

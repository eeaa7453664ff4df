//! Instruments, timing and profiling of sessions from C.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::time::Duration;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::{CallEvent, Instrument, Verdict};

use super::session::{ReflexSession, with};
use super::{ReflexStatus, c_string, give, slice, status, text, views};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::session::timing::TimingOptions;
use crate::shared_session::arguments::compact;

/// A call that is about to run or has run.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReflexCall {
    /// The function that calls.
    pub function: *const c_char,
    /// Its instruction.
    pub instruction: u32,
    /// The name of the function that is called.
    pub callee: *const c_char,
    /// The function that is called, as a value: a packed function, or a closure of the program.
    pub callable: *const TVMFFIAny,
    /// The arguments.
    pub args: *const TVMFFIAny,
    /// The number of arguments.
    pub count: i32,
    /// Null before the call, the result after it.
    pub result: *const TVMFFIAny,
}

/// Sees calls. The answer is 0 to go on, and -1 with an error raised by tvm-ffi's functions to
/// end the run. Before a call, 1 skips it: its result is None, and nothing is seen after it.
pub type ReflexInstrument =
    Option<unsafe extern "C" fn(data: *mut c_void, call: *const ReflexCall) -> i32>;

/// A C instrument. It keeps the arguments of calls that run, to show them again afterwards.
struct CallbackInstrument {
    callback: unsafe extern "C" fn(*mut c_void, *const ReflexCall) -> i32,
    data: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    running: Vec<Vec<Any>>,
    function: CString,
    callee: CString,
}

// SAFETY: the caller of `reflex_set_instrument` promises that the callback may be called from
// whatever thread runs the session.
unsafe impl Send for CallbackInstrument {}

impl Drop for CallbackInstrument {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: the data came with this deleter and is used no more.
            unsafe { deleter(self.data) };
        }
    }
}

impl CallbackInstrument {
    fn show(
        &mut self,
        call: &CallEvent<'_>,
        args: &[AnyView<'_>],
        result: Option<AnyView<'_>>,
    ) -> i32 {
        self.function = c_string(call.function());
        self.callee = c_string(call.callee());
        let result = result.map(|result| *result.as_raw());
        let shown = ReflexCall {
            function: self.function.as_ptr(),
            instruction: call.instr(),
            callee: self.callee.as_ptr(),
            callable: call.callable().as_raw(),
            args: args.as_ptr().cast(),
            count: args.len() as i32,
            result: result.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        };
        // SAFETY: the callback is the caller's, and everything shown lives for the call.
        unsafe { (self.callback)(self.data, &shown) }
    }
}

impl Instrument for CallbackInstrument {
    fn before(&mut self, call: &CallEvent<'_>) -> std::result::Result<Verdict, Raised> {
        match self.show(call, call.args(), None) {
            0 => {}
            -1 => return Err(Raised::of_failed_call()),
            _ => return Ok(Verdict::Skip),
        }
        self.running.push(call.args().iter().map(AnyView::to_owned).collect());
        Ok(Verdict::Run)
    }

    fn after(
        &mut self,
        call: &CallEvent<'_>,
        result: AnyView<'_>,
    ) -> std::result::Result<(), Raised> {
        let args = self.running.pop().unwrap_or_default();
        match self.show(call, AnyView::slice(&args), Some(result)) {
            -1 => Err(Raised::of_failed_call()),
            _ => Ok(()),
        }
    }

    fn aborted(&mut self) {
        self.running.clear();
    }
}

/// Shows every call of the session to `callback`, until it is replaced or null. Meanwhile everything
/// is interpreted. `deleter`, when not null, frees `data` at the end.
///
/// ```c
/// int calls = 0;
/// ReflexValue y;
/// CHECK_OK(reflex_set_instrument(session, count_calls, &calls, NULL));
/// CHECK_OK(reflex_call(session, "main", args, 2, &y));
/// CHECK_OK(reflex_set_instrument(session, NULL, NULL, NULL));
/// CHECK(calls > 0);
/// reflex_free(&y);
/// ```
///
/// # Safety
/// Pointers are null or valid; the callback may be called on any thread that runs the session,
/// does not unwind, and does not use the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_set_instrument(
    session: *mut ReflexSession,
    callback: ReflexInstrument,
    data: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> ReflexStatus {
    status(|| {
        let watcher = callback.map(|callback| {
            let running = Vec::new();
            let (function, callee) = (CString::default(), CString::default());
            Box::new(CallbackInstrument { callback, data, deleter, running, function, callee })
                as Box<dyn Instrument>
        });
        let set = |s: &mut Session| {
            s.set_instrument(watcher);
            Ok(())
        };
        // SAFETY: the caller passes a session that is null or live.
        unsafe { with(session, set) }
    })
}

/// Options of `reflex_time`: calls and measurements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReflexTiming {
    /// Calls whose mean is one measurement; at least 1.
    pub number: u32,
    /// Measurements; at least 1.
    pub repeat: u32,
    /// Each measurement takes at least so many milliseconds; `number` grows until it does.
    pub min_repeat_ms: u32,
    /// Pause between measurements, milliseconds.
    pub cooldown_ms: u32,
}

/// Times a function in place: `seconds` receives the seconds per call of each of the
/// `timing.repeat` measurements.
///
/// ```c
/// ReflexTiming timing = {.number = 3, .repeat = 2};
/// double seconds[2];
/// CHECK_OK(reflex_time(session, "main", args, 2, timing, seconds));
/// ```
///
/// # Safety
/// Pointers are null or valid; `seconds` holds an element for every measurement.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_time(
    session: *mut ReflexSession,
    name: *const c_char,
    args: *const TVMFFIAny,
    count: i32,
    timing: ReflexTiming,
    seconds: *mut f64,
) -> ReflexStatus {
    status(|| {
        let milliseconds = |ms: u32| Duration::from_millis(ms.into());
        let options = TimingOptions {
            number: timing.number,
            repeat: timing.repeat,
            min_repeat: milliseconds(timing.min_repeat_ms),
            cooldown: milliseconds(timing.cooldown_ms),
            ..TimingOptions::default()
        };
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        let mut copies = Vec::new();
        let args = compact(args, &mut copies)?;
        // SAFETY: the caller passes an element for every measurement.
        unsafe { slice(seconds, timing.repeat as usize, "the array of results") }?;
        // SAFETY: the caller passes a session that is null or live.
        let measured = unsafe { with(session, |s| s.time_evaluator(name, args, &options)) }?;
        for (at, each) in measured.0.iter().enumerate() {
            // SAFETY: the caller passes an array of `repeat` elements, and there are as many
            // measurements.
            unsafe { seconds.add(at).write(*each) };
        }
        Ok(())
    })
}

/// Calls a function once with every call inside counted and timed. `table` receives a table of
/// callees as a string that the caller frees. `trace`, when not null, is a file for the time line,
/// which Perfetto opens. `result` may be null.
///
/// ```c
/// ReflexValue table;
/// CHECK_OK(reflex_profile(session, "main", args, 2, NULL, &table, NULL));
/// reflex_free(&table);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_profile(
    session: *mut ReflexSession,
    name: *const c_char,
    args: *const TVMFFIAny,
    count: i32,
    trace: *const c_char,
    table: *mut TVMFFIAny,
    result: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL and as many valid values
        // as it counts.
        let (name, args) = unsafe { (text(name, "the name")?, views(args, count)?) };
        let mut copies = Vec::new();
        let args = compact(args, &mut copies)?;
        // SAFETY: the caller passes a session that is null or live.
        let (value, profile) = unsafe { with(session, |s| s.profile(name, args)) }?;
        if !trace.is_null() {
            // SAFETY: the caller passes strings that are null or end in NUL.
            let path = Path::new(unsafe { text(trace, "the trace file") }?);
            std::fs::write(path, profile.trace_json()).map_err(|e| Error::io(path, &e))?;
        }
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { printed(&profile.table(), table)? };
        if result.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(result, value.into_raw()) }
    })
}

/// # Safety
/// `out` is null or may be written.
unsafe fn printed(text: &str, out: *mut TVMFFIAny) -> Result<()> {
    // SAFETY: the caller passes a result pointer that is null or may be written.
    unsafe { give(out, Any::from(text).into_raw()) }
}

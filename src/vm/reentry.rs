//! Entering a session: host calls, and re-entrant calls from the native code that a session
//! called.
//!
//! A packed function that was given `%vm` may call functions of the program, and so may the
//! destructor of an object that kept it, and a host's callback through a [`Reentry`]. Such a run gets
//! a base frame on top of the frames in progress, and native stack, whose use by nested runs is
//! bounded.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::DeviceAllocator;
use reflex_runtime::device;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::storage::Storage;
use reflex_runtime::value::{Any, AnyView};

use crate::abi::{DISCARD, FRAME_BASE, FrameHeader};
use crate::builtins::Closure;
use crate::calls::{check_closure, wrong_arity};
use crate::decode::FuncCode;
use crate::devices::{CpuAllocators, Devices};
use crate::interp::drive_guarded;
use crate::native_stack;
use crate::output_buffers;
use crate::run_error::{Reason, RunError};
use crate::state::{Saved, SavedResult, State};
use crate::tier::Bailout;

/// Native stack that a nested run leaves for its callees.
const RESERVE: usize = 256 << 10;

/// A run in progress, on the native stack of its thread.
struct Run {
    state: *mut State,
    /// The run that it is nested in, or null.
    outer: *const Run,
}

thread_local! {
    /// The innermost run of this thread, or null.
    static RUNNING: Cell<*const Run> = const { Cell::new(std::ptr::null()) };
    /// Lowest address of this thread's stack; 0 until it is asked for.
    static STACK_LOW: Cell<usize> = const { Cell::new(0) };
}

/// Returns true if enough native stack is left for another nested run.
fn has_native_stack() -> bool {
    let here = 0_u8;
    if STACK_LOW.get() == 0 {
        STACK_LOW.set(stack_low());
    }
    (&raw const here).addr().saturating_sub(STACK_LOW.get()) > RESERVE
}

/// The lowest address of the calling thread's stack; where the system does not tell, one
/// that leaves a nested run half a megabyte beyond the reserve.
#[cold]
fn stack_low() -> usize {
    let here = 0_u8;
    let fallback = (&raw const here).addr().saturating_sub(RESERVE + (512 << 10)).max(1);
    native_stack::low().unwrap_or(fallback)
}

/// `Session::call_views` of the session with this state.
///
/// # Safety
/// As for [`run_base`].
pub(crate) unsafe fn call_by_name(
    state: *mut State,
    name: &str,
    args: &[AnyView<'_>],
) -> Result<Any, RunError> {
    let mut result = Any::NONE;
    // SAFETY: the caller passes a live state. Nothing is borrowed from it while the function runs:
    // a saved function is cloned.
    unsafe {
        if let Some(func) = (*state).program.find(name) {
            run_parts(state, func, [args, &[]], &mut result)?;
            return Ok(result);
        }
        let table = &raw const (*state).saved;
        let Some(Saved { closure, result }) = (*table).get(name).cloned() else {
            return Err(unknown(name));
        };
        let value = run_closure(state, &closure, args)?;
        Ok(if result == SavedResult::Keep { value } else { Any::NONE })
    }
}

/// `Session::invoke_closure` of the session with this state.
///
/// # Safety
/// As for [`run_base`].
pub(crate) unsafe fn invoke(
    state: *mut State,
    callee: &AnyView<'_>,
    args: &[AnyView<'_>],
) -> Result<Any, RunError> {
    if let Some(function) = callee.downcast_ref::<Function>() {
        return function.call(args).map_err(failed);
    }
    match Closure::of(callee) {
        // SAFETY: as the caller promises.
        Some(closure) => unsafe { run_closure(state, closure, args) },
        None => Err(failed(callee.mismatch("ffi.Function"))),
    }
}

/// # Safety
/// As for [`run_base`].
unsafe fn run_closure(
    state: *mut State,
    closure: &Closure,
    args: &[AnyView<'_>],
) -> Result<Any, RunError> {
    let mut result = Any::NONE;
    // SAFETY: the caller passes a live state.
    unsafe {
        check_closure(state, closure, args.len()).map_err(failed)?;
        run_parts(state, closure.func, [args, AnyView::slice(&closure.captured)], &mut result)?;
    }
    Ok(result)
}

/// Runs function number `func` on arguments in two parts.
///
/// # Safety
/// As for [`run_base`], but for the number of arguments, which is checked.
pub(crate) unsafe fn run_parts(
    state: *mut State,
    func: u32,
    parts: [&[AnyView<'_>]; 2],
    result: &mut Any,
) -> Result<(), RunError> {
    // SAFETY: the state holds the program as long as it lives.
    let program = unsafe { &*Arc::as_ptr(&(*state).program) };
    let Some(code) = program.function(func) else {
        return Err(unknown(program.name(func)));
    };
    let given = parts[0].len() + parts[1].len();
    if given != code.num_args as usize {
        return Err(failed(wrong_arity(program, func, given)));
    }
    // SAFETY: as the caller promises; the parts together are as many as the parameters.
    unsafe { run_base(state, code, parts, result) }
}

/// Calls `func` from the host or a callback, and stores its result in `result`.
///
/// # Safety
/// `state` is live and not executing, or executing a packed call or a destructor of this thread,
/// with nothing in use above the current frame; `parts` together number the parameters of `func`,
/// a function of its program.
pub unsafe fn run_base(
    state: *mut State,
    func: &FuncCode,
    parts: [&[AnyView<'_>]; 2],
    result: &mut Any,
) -> Result<(), RunError> {
    // Looking a thread's variable up costs a call in a shared library; once is enough.
    let running: *const Cell<*const Run> = RUNNING.with(std::ptr::from_ref);
    // SAFETY: variables of a thread without destructors live as long as it does, and this
    // function does not leave it.
    let running = unsafe { &*running };
    let outer = running.get();
    if !outer.is_null() && !has_native_stack() {
        let what = "native code and the session call each other too deeply";
        let error = Error::new("RecursionError", what);
        return Err(RunError::new(Reason::StackOverflow, error));
    }
    // SAFETY: the state is live and ours until the run ends. The base frame is complete
    // before the run, and gone after it; what the outer operation holds is below it, or moved
    // out of the state before (the recording, and results and errors where frames are left).
    unsafe {
        let abi = &raw mut (*state).abi;
        let (depth, pc) = ((*abi).depth, (*abi).pc);
        let fields = FrameHeader {
            caller: (*abi).regs,
            resume: (*abi).trampolines.exit,
            func: func.index,
            return_pc: pc,
            dst: DISCARD,
            flags: FRAME_BASE,
        };
        // The recorder has seen the packed call; a nested run is not part of the trace.
        let recording = (*state).recording.take();
        let run = Run { state, outer };
        running.set(&raw const run);
        State::begin_run(state);
        let pushed = State::push_values(state, func, parts, fields);
        let outcome = match pushed.and_then(|_| drive_guarded(state)) {
            Ok(()) => {
                *result = (*state).result.take();
                Ok(())
            }
            Err(()) => Err(failed_run(state, depth)),
        };
        running.set(outer);
        State::end_run(state);
        (*state).recording = recording;
        (*abi).pc = pc;
        outcome
    }
}

/// # Safety
/// `state` is live, and a run that began at `depth` just failed in it.
#[cold]
unsafe fn failed_run(state: *mut State, depth: u32) -> RunError {
    // SAFETY: the caller passes a live state; `depth` tells if the base frame was pushed.
    unsafe {
        if let Some(recording) = (*state).recording.take() {
            (*state).program.count_bailout(recording.site, &Bailout::RunFailed);
        }
        if let Some(mut instrument) = (*state).instrument.take() {
            instrument.aborted();
            (*state).instrument = Some(instrument);
        }
        if (*state).abi.depth > depth {
            return State::unwind(state);
        }
        let missing = || Error::runtime_error("the run could not begin");
        (*state).error.take().unwrap_or_else(|| RunError::new(Reason::Failed, missing()))
    }
}

/// The innermost run of this thread whose state `wanted` accepts.
fn find_running(wanted: impl Fn(*mut State) -> bool) -> Option<*mut State> {
    let mut run = RUNNING.get();
    while !run.is_null() {
        // SAFETY: runs are on this thread's stack until they end, and leave the chain before.
        let Run { state, outer } = unsafe { &*run };
        if wanted(*state) {
            return Some(*state);
        }
        run = *outer;
    }
    None
}

/// The state that `vm` (the value of `%vm`) stands for, if it runs on this thread.
pub fn running(vm: &AnyView<'_>) -> Result<*mut State, Error> {
    let named = |vm: *mut c_void| find_running(|state| std::ptr::eq(state.cast(), vm));
    vm.as_opaque()
        .and_then(named)
        .ok_or_else(|| Error::type_error("the VM argument is not the VM that runs on this thread"))
}

/// The fuel, deadline and instrument of one session while another runs with them; its drop gives back
/// what is left.
pub(crate) struct LentLimits {
    from: *mut State,
    to: *mut State,
}

impl LentLimits {
    /// # Safety
    /// The states are of two sessions, which are live until the drop. Limits are lent in turn:
    /// nothing else changes them between this call, the run, and the drop.
    pub(crate) unsafe fn lend(from: *mut State, to: *mut State) -> LentLimits {
        let lent = LentLimits { from, to };
        lent.exchange();
        lent
    }

    fn exchange(&self) {
        let LentLimits { from, to } = *self;
        // SAFETY: the states are live and not the same; no reference to the fields is held across a
        // call of native code, which alone leads here while one of them runs.
        unsafe {
            std::ptr::swap(&raw mut (*from).abi.fuel, &raw mut (*to).abi.fuel);
            std::ptr::swap(&raw mut (*from).deadline, &raw mut (*to).deadline);
            std::ptr::swap(&raw mut (*from).instrument, &raw mut (*to).instrument);
        }
    }
}

impl Drop for LentLimits {
    fn drop(&mut self) {
        self.exchange();
    }
}

/// A session's way back in for native code that a run of it called: the session itself is borrowed
/// by the run meanwhile.
#[derive(Clone, Debug)]
pub struct Reentry {
    state: *mut State,
    interrupt: Arc<AtomicU32>,
}

// SAFETY: the state behind the address is used by `Reentry`'s unsafe functions alone, whose callers
// promise that no other thread uses the session.
unsafe impl Send for Reentry {}
// SAFETY: as for Send.
unsafe impl Sync for Reentry {}

impl Reentry {
    /// The way into the session whose state this is.
    pub(crate) fn new(state: *mut State, interrupt: Arc<AtomicU32>) -> Reentry {
        Reentry { state, interrupt }
    }

    /// Returns true if native code that this thread runs was called by a run of the session, or of
    /// one that follows its canceller.
    pub fn is_inside(&self) -> bool {
        self.caller().is_some()
    }

    /// The innermost such run of this thread.
    fn caller(&self) -> Option<*mut State> {
        // SAFETY: states in the chain are live.
        let ours = |state: *mut State| unsafe { Arc::ptr_eq(&(*state).interrupt, &self.interrupt) };
        find_running(ours)
    }

    /// Lends the session the limits that it has lent to the run which called the native code: those
    /// of a nested run are what is left of the outer one's.
    fn limits_of_caller(&self) -> Option<LentLimits> {
        let caller = self.caller().filter(|caller| !std::ptr::eq(*caller, self.state))?;
        // SAFETY: the caller's run ends after this one; it is in native code until then.
        Some(unsafe { LentLimits::lend(caller, self.state) })
    }

    /// Calls a function of the program or a saved one, as `Session::call_views` does.
    ///
    /// # Safety
    /// The session is live, and the calling thread is the only one that uses it, from native code
    /// that a run of it called, or of one that follows it.
    pub unsafe fn call_views(&self, name: &str, args: &[AnyView<'_>]) -> Result<Any, RunError> {
        let _limits = self.limits_of_caller();
        // SAFETY: the caller passes a live session, used by this thread alone.
        unsafe { call_by_name(self.state, name, args) }
    }

    /// Calls function number `func`, as `Session::call_into` does.
    ///
    /// # Safety
    /// As for [`Reentry::call_views`].
    pub unsafe fn call_into(
        &self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<(), RunError> {
        let _limits = self.limits_of_caller();
        // SAFETY: the caller passes a live session, used by this thread alone.
        unsafe { run_parts(self.state, func, [args, &[]], result) }
    }

    /// Calls a closure or function value, as `Session::invoke_closure` does.
    ///
    /// # Safety
    /// As for [`Reentry::call_views`].
    pub unsafe fn invoke_closure(
        &self,
        callee: &AnyView<'_>,
        args: &[AnyView<'_>],
    ) -> Result<Any, RunError> {
        let _limits = self.limits_of_caller();
        // SAFETY: the caller passes a live session, used by this thread alone.
        unsafe { invoke(self.state, callee, args) }
    }
}

/// Where a session allocates a storage.
pub struct Placement {
    /// The allocator of the device's memory.
    pub allocator: &'static dyn DeviceAllocator,
    /// The device.
    pub device: DLDevice,
}

impl Placement {
    /// Where the session with this state allocates on device `index` of its list; -1 is the host.
    ///
    /// # Safety
    /// `state` is live, and nothing else refers to its devices.
    #[inline]
    pub unsafe fn of(state: *mut State, index: i64) -> Result<Placement, Error> {
        // SAFETY: see `# Safety`.
        unsafe {
            let devices = &raw const (*state).devices;
            let allocators = &raw const (*state).allocators;
            Placement::on(&*allocators, (*devices).get(index)?)
        }
    }

    /// Allocates a storage of `bytes`: in a pre-allocated output, if one of this size is offered.
    #[inline]
    pub fn storage(&self, bytes: usize) -> Result<Storage, Error> {
        match self.output_buffer(bytes) {
            Some(storage) => Ok(storage),
            None => Storage::on_device(self.allocator, bytes, self.device),
        }
    }

    /// Takes a pre-allocated output of this size, if one is offered: they are memory of the first CPU.
    #[inline]
    pub fn output_buffer(&self, bytes: usize) -> Option<Storage> {
        output_buffers::take(bytes).filter(|storage| storage.device() == self.device)
    }

    /// On a CPU the allocator is of the kind that the session has for it, elsewhere it is the device's.
    #[inline]
    fn on(allocators: &CpuAllocators, device: DLDevice) -> Result<Placement, Error> {
        let allocator = match device.is_cpu() {
            true => allocators.of(device.device_id).on_cpu(),
            false => device::get(device)?.allocator(),
        };
        Ok(Placement { allocator, device })
    }
}

/// Where the session that `vm` stands for allocates on device `index` of its list; -1 is the host.
/// A session that is not running has the default allocator and devices.
pub fn placement(vm: &AnyView<'_>, index: i64) -> Result<Placement, Error> {
    let Ok(state) = running(vm) else {
        return Placement::on(&CpuAllocators::default(), Devices::default().get(index)?);
    };
    // SAFETY: `running` says that the state is live and executes on this thread, and nothing else
    // refers to its devices.
    unsafe { Placement::of(state, index) }
}

/// Calls a closure from a packed function that was given `vm`, the value of `%vm`.
///
/// ```
/// use std::sync::Arc;
/// use reflex_runtime::{function::Function, value::Any};
/// use reflex_vm::{builder::ExecBuilder, bytecode::Reg, program::Program};
/// use reflex_vm::{reentry, session::{Options, Session}, verify::verify};
///
/// let twice = Function::new(|args| {
///     let once = reentry::call_back(&args[0], &args[1], &args[2..])?;
///     reentry::call_back(&args[0], &args[1], &[once.view()])
/// });
/// let mut b = ExecBuilder::new();
/// b.function("wrap", 1)?;
/// b.emit_call("vm.builtin.make_tuple", &[b.r(0)], b.r(1))?;
/// b.emit_ret(Reg(1))?;
/// b.end_function()?;
/// b.function("main", 1)?;
/// let wrap = b.f("wrap");
/// b.emit_call("twice", &[b.vm_state(), wrap, b.r(0)], b.r(1))?;
/// b.emit_ret(Reg(1))?;
/// b.end_function()?;
/// let library = std::collections::HashMap::from([("twice".to_owned(), twice)]);
/// let program = Arc::new(Program::load(verify(b.finish()?)?, &[&library])?);
/// let result = Session::new(&program, Options::default())?.call("main", &[Any::from(1_i64)])?;
/// assert_eq!(reflex_runtime::array::Array::try_from(result)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn call_back(
    vm: &AnyView<'_>,
    callee: &AnyView<'_>,
    args: &[AnyView<'_>],
) -> Result<Any, Error> {
    let state = running(vm)?;
    let Some(closure) = Closure::of(callee) else {
        return Err(callee.mismatch("ffi.Function"));
    };
    // SAFETY: `running` says that the state is live and executes on this thread. The ways from
    // a run into this function are packed calls and destructors of values that operations release;
    // both begin when the frames in progress are linked and nothing above the current one is
    // in use: returns and unwinding make the caller current after all that they release is gone.
    unsafe {
        check_closure(state, closure, args.len())?;
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let func = program.function(closure.func).ok_or_else(|| callee.mismatch("function"))?;
        let parts = [args, AnyView::slice(&closure.captured)];
        let mut result = Any::NONE;
        run_base(state, func, parts, &mut result).map_err(RunError::into_error)?;
        Ok(result)
    }
}

/// The error of a call that failed.
#[cold]
pub(crate) fn failed(error: Error) -> RunError {
    RunError::new(Reason::Failed, error)
}

/// The error for storing something with a name that is not a function; of the kind that TVM raises, as
/// is that of [`unknown`], for calls.
#[cold]
pub(crate) fn nothing_to_store(name: &str) -> RunError {
    failed(Error::value_error(format!("the program has no function `{name}`")))
}

/// The error for a name that is not a function.
#[cold]
pub(crate) fn unknown(name: &str) -> RunError {
    failed(Error::new("AttributeError", format!("the program has no function `{name}`")))
}

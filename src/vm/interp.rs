//! The interpreter: what every program means.
//!
//! One loop over dense operations, in four variants that differ in what happens at
//! function entries and backward jumps: nothing, enter native code, count arrivals, or
//! record. Calls between VM functions push frames and stay in the loop; the native
//! stack does not grow. In steady state nothing is allocated beyond what builtins make,
//! and no atomic is touched beyond counts of values that are copied or dropped.

use reflex_runtime::abi::{TVMFFIAny, type_index};
use reflex_runtime::closure::VmClosure;
use reflex_runtime::error::Error;
use reflex_runtime::function::{Function, guard};
use reflex_runtime::value::AnyView;

use crate::abi::{CodePtr, ERROR, FrameHeader};
use crate::builtins::{Builtin, Closure, Context, condition};
use crate::decode::{ArgRange, FuncCode, Op, SiteId};
use crate::state::{Arrival, Recording, State, release, store};
use crate::tier::{Bailout, Control, Step};

/// What happens at sites.
pub trait Variant {
    /// Whether cells are looked at.
    const NATIVE: bool;
    /// Whether arrivals are counted.
    const COUNTING: bool;
    /// Whether operations are shown to a recorder.
    const RECORDING: bool;
}

/// Interprets everything.
pub struct Plain;
/// Enters native code where there is some.
pub struct Native;
/// Also counts arrivals.
pub struct Counting;
/// Shows operations to the recorder; enters nothing.
pub struct Recorded;

impl Variant for Plain {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
}
impl Variant for Native {
    const NATIVE: bool = true;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
}
impl Variant for Counting {
    const NATIVE: bool = true;
    const COUNTING: bool = true;
    const RECORDING: bool = false;
}
impl Variant for Recorded {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = true;
}

/// Why the loop stopped.
pub enum Exit {
    /// A base frame was left; its result is in the state.
    Done,
    /// An error is in the state.
    Failed,
    /// Enter this code with the current frame.
    Enter(CodePtr),
    /// Go on in another variant.
    Switch,
}

/// Runs the current frame from `abi.pc` until something else has to happen.
///
/// # Safety
/// `state` is live, with a current frame whose function has an operation `abi.pc`, and
/// nothing else uses it meanwhile.
pub unsafe fn run<V: Variant>(state: *mut State) -> Exit {
    // SAFETY: (for the whole loop) the program outlives the loop (the state holds it);
    // verified code keeps pc, registers, constants and callees in bounds; registers hold
    // valid owned values between operations.
    unsafe {
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let vm = (*state).abi.vm_value.payload.ptr;
        let mut regs = (*state).abi.regs;
        let mut func = program.function((*crate::state::header(regs)).func).unwrap_unchecked();
        let mut pc = (*state).abi.pc;
        macro_rules! reload {
            () => {
                regs = (*state).abi.regs;
                func = program.function((*crate::state::header(regs)).func).unwrap_unchecked();
                pc = (*state).abi.pc;
            };
        }
        macro_rules! attempt {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(()) => return Exit::Failed,
                }
            };
        }
        macro_rules! fail {
            ($error:expr) => {{
                (*state).abi.pc = pc;
                State::fail(state, $error);
                return Exit::Failed;
            }};
        }
        loop {
            debug_assert!((pc as usize) < func.ops.len());
            let op = *func.ops.get_unchecked(pc as usize);
            if V::RECORDING && !record_step(state, func, pc, op) {
                (*state).abi.pc = pc;
                return Exit::Switch;
            }
            match op {
                Op::CallPacked { callee, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_packed(state, regs, func, callee, args, dst));
                    pc += 1;
                }
                Op::Builtin { builtin, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_builtin(state, regs, func, (builtin, vm), args, dst));
                    pc += 1;
                }
                Op::Kill { dst } => {
                    store(regs, dst, TVMFFIAny::NONE);
                    pc += 1;
                }
                Op::Copy { src, dst } => {
                    let value = State::owned(state, regs, src);
                    store(regs, dst, value);
                    pc += 1;
                }
                Op::Branch { cond, otherwise } => {
                    let value = &*regs.add(cond as usize);
                    let taken = match value.type_index {
                        type_index::BOOL | type_index::INT => value.payload.int != 0,
                        _ => match condition(&AnyView::from_raw(*value)) {
                            Ok(taken) => taken,
                            Err(error) => fail!(error),
                        },
                    };
                    pc = if taken { pc + 1 } else { otherwise };
                }
                Op::Goto { target } => pc = target,
                Op::LoopBack { target, site } => {
                    (*state).abi.pc = pc;
                    attempt!(State::charge(state));
                    pc = target;
                    if V::NATIVE {
                        (*state).abi.pc = pc;
                        match State::arrive(state, site, V::COUNTING) {
                            Arrival::Stay => {}
                            Arrival::Enter(code) => return Exit::Enter(code),
                            Arrival::Record => return Exit::Switch,
                        }
                    }
                }
                Op::CallVm { func: callee, args, dst } => {
                    (*state).abi.pc = pc;
                    let sources = func.args(args);
                    func = program.function(callee).unwrap_unchecked();
                    let ret = ((*state).abi.glue.exit, pc + 1, dst);
                    regs = attempt!(State::push_call(state, regs, func, sources, ret));
                    pc = 0;
                    if V::NATIVE {
                        match State::arrive(state, SiteId(callee), V::COUNTING) {
                            Arrival::Stay => {}
                            Arrival::Enter(code) => return Exit::Enter(code),
                            Arrival::Record => return Exit::Switch,
                        }
                    }
                }
                Op::InvokeClosure { args, dst } => {
                    (*state).abi.pc = pc;
                    let exit = (*state).abi.glue.exit;
                    match attempt!(invoke(state, regs, func, args, (exit, pc + 1, dst))) {
                        None => pc += 1,
                        Some(callee) => {
                            reload!();
                            if V::NATIVE {
                                match State::arrive(state, SiteId(callee), V::COUNTING) {
                                    Arrival::Stay => {}
                                    Arrival::Enter(code) => return Exit::Enter(code),
                                    Arrival::Record => return Exit::Switch,
                                }
                            }
                        }
                    }
                }
                Op::Ret { result } => {
                    let value = State::owned(state, regs, result);
                    let left = State::pop_frame(state, func, value);
                    if left.flags & crate::abi::FRAME_BASE != 0 {
                        return Exit::Done;
                    }
                    if !std::ptr::eq(left.resume, (*state).abi.glue.exit) {
                        return Exit::Enter(left.resume);
                    }
                    reload!();
                }
            }
        }
    }
}

/// Calls native code in the packed convention.
///
/// # Safety
/// `state` is live and at a packed call with these operands in the frame `regs` of
/// `func`.
#[inline(always)]
pub unsafe fn call_packed(
    state: *mut State,
    regs: *mut TVMFFIAny,
    func: &FuncCode,
    callee: u32,
    args: ArgRange,
    dst: u32,
) -> Result<(), ()> {
    // SAFETY: loading resolved every packed callee; the convention is kept: arguments
    // borrowed from registers and constants, the result slot None.
    unsafe {
        if State::interrupted(state) {
            State::poll(state)?;
        }
        let packed = (*state).program.packed(callee).unwrap_unchecked();
        let area = State::borrow_args(state, regs, func, func.args(args));
        let slot = regs.add(func.result_slot());
        *slot = TVMFFIAny::NONE;
        let status = (packed.call)(packed.this, area, args.len as i32, slot);
        if status != 0 {
            packed_failed(state, slot);
            return Err(());
        }
        store(regs, dst, *slot);
        Ok(())
    }
}

/// Takes over the error of a packed call.
///
/// # Safety
/// `state` is live, and `slot` is the result slot of a call that just failed.
#[cold]
#[inline(never)]
pub unsafe fn packed_failed(state: *mut State, slot: *mut TVMFFIAny) {
    // SAFETY: a callee may leave an owned value even when it fails.
    unsafe {
        release(slot.replace(TVMFFIAny::NONE));
        State::fail(state, Error::of_failed_call());
    }
}

/// Runs a builtin.
///
/// # Safety
/// `state` is live and at a builtin with these operands in the frame `regs` of `func`.
#[inline(always)]
pub unsafe fn call_builtin(
    state: *mut State,
    regs: *mut TVMFFIAny,
    func: &FuncCode,
    (builtin, vm): (Builtin, *mut std::ffi::c_void),
    args: ArgRange,
    dst: u32,
) -> Result<(), ()> {
    // SAFETY: arguments are borrowed from registers and constants for the call.
    unsafe {
        let area = State::borrow_args(state, regs, func, func.args(args));
        let views = AnyView::slice_from_raw(area, args.len as i32);
        match (builtin.run())(Context { vm }, views) {
            Ok(value) => {
                store(regs, dst, value.into_raw());
                Ok(())
            }
            Err(error) => {
                State::fail(state, error);
                Err(())
            }
        }
    }
}

/// Calls through a value: runs a packed function to its end, or pushes the frame of a
/// closure's function and returns that function.
///
/// # Safety
/// `state` is live and at a closure call with these arguments in the frame `regs` of
/// `func`; `ret` is as for [`State::push_call`].
pub unsafe fn invoke(
    state: *mut State,
    regs: *mut TVMFFIAny,
    func: &FuncCode,
    args: ArgRange,
    ret: (CodePtr, u32, u32),
) -> Result<Option<u32>, ()> {
    let (resume, return_pc, dst) = ret;
    // SAFETY: arguments are borrowed for as long as the frame they are read from stays
    // unchanged: pushing a frame on top of it writes only above it, and the new frame
    // owns its values.
    unsafe {
        let area = State::borrow_args(state, regs, func, func.args(args));
        let views = AnyView::slice_from_raw(area, args.len as i32);
        let (callee, values) = (&views[1], &views[2..]);
        let outcome = if let Some(function) = callee.downcast_ref::<Function>() {
            function.call(values).map(|value| {
                store(regs, dst, value.into_raw());
                None
            })
        } else if let Some(closure) = callee.downcast_ref::<VmClosure>() {
            // Closures of another VM's making want the VM before the arguments.
            let function = closure.function().clone();
            *area.add(1) = (*state).abi.vm_value;
            function.call(AnyView::slice_from_raw(area.add(1), args.len as i32 - 1)).map(|value| {
                store(regs, dst, value.into_raw());
                None
            })
        } else if let Some(closure) = Closure::of(callee) {
            check_closure(state, closure, values.len()).map(Some)
        } else {
            Err(callee.mismatch("ffi.Function"))
        };
        match outcome {
            Ok(None) => Ok(None),
            Ok(Some(closure)) => {
                let program = &*std::sync::Arc::as_ptr(&(*state).program);
                let target = program.function(closure.func).unwrap_unchecked();
                let fields = FrameHeader {
                    caller: regs,
                    resume,
                    func: closure.func,
                    return_pc,
                    dst,
                    flags: 0,
                };
                let parts = [values, AnyView::slice(&closure.captured)];
                State::push_values(state, target, parts, fields)?;
                Ok(Some(closure.func))
            }
            Err(error) => {
                State::fail(state, error);
                Err(())
            }
        }
    }
}

/// Whether `closure` can run here with `given` arguments besides its own.
///
/// # Safety
/// `state` is live.
pub unsafe fn check_closure(
    state: *mut State,
    closure: &Closure,
    given: usize,
) -> Result<&Closure, Error> {
    // SAFETY: the program lives as long as the state.
    let program = unsafe { &*std::sync::Arc::as_ptr(&(*state).program) };
    if closure.program != program.id() {
        return Err(Error::value_error("a closure of another program was invoked"));
    }
    let Some(func) = program.function(closure.func) else {
        return Err(Error::type_error(format!(
            "`{}` is not a VM function",
            program.name(closure.func)
        )));
    };
    let all = given + closure.captured.len();
    if all != func.num_args as usize {
        return Err(wrong_arity(program, closure.func, all));
    }
    Ok(closure)
}

/// The error for a call with the wrong number of arguments.
#[cold]
pub fn wrong_arity(program: &crate::program::Program, func: u32, given: usize) -> Error {
    let function = &program.executable().functions[func as usize];
    let names = match function.param_names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let plural = if function.num_args == 1 { "" } else { "s" };
    Error::type_error(format!(
        "`{}` expects {} argument{plural}{names}, {given} given",
        function.name, function.num_args
    ))
}

/// Shows an operation to the recorder; whether recording goes on.
///
/// # Safety
/// `state` is live and recording, at operation `pc` of the current frame of `func`.
#[cold]
unsafe fn record_step(state: *mut State, func: &FuncCode, pc: u32, op: Op) -> bool {
    // SAFETY: the recording and the registers are not touched by anything else while
    // the recorder looks at them.
    unsafe {
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let recording: *mut Option<Recording> = &raw mut (*state).recording;
        let Some(recording) = (*recording).as_mut() else {
            return false;
        };
        let regs = AnyView::slice_from_raw((*state).abi.regs, func.num_regs as i32);
        let depth = (*state).abi.depth as i32 - recording.depth as i32;
        let step = Step { program, func, pc, op, depth, regs };
        match recording.recorder.step(&step) {
            Control::Continue => return true,
            Control::Finish(compiled) => program.install(recording.site, &compiled),
            Control::Stop(bailout) => program.count(&bailout),
        }
        (*state).recording = None;
        false
    }
}

/// Runs from the current frame until its base frame is left.
///
/// # Safety
/// As for [`run`]; `native` sessions have a tier's glue.
pub unsafe fn drive(state: *mut State, native: bool, counting: bool) -> Result<(), ()> {
    // SAFETY: by the contract; code comes from cells and frame headers, which hold what
    // tiers promised to follow the protocol.
    unsafe {
        let base_depth = (*state).abi.depth;
        let mut exit = first_exit(state, native, counting);
        loop {
            exit = match exit {
                Exit::Done => return Ok(()),
                Exit::Failed => return Err(()),
                Exit::Enter(code) => {
                    // Native code runs unseen, so a recording cannot go on.
                    if (*state).recording.take().is_some() {
                        (*state).program.count(&Bailout::LeftFunction);
                    }
                    let Some(enter) = (*state).abi.glue.enter else { return Err(()) };
                    match enter(&raw mut (*state).abi, (*state).abi.regs, code) {
                        ERROR => Exit::Failed,
                        _ if (*state).abi.depth < base_depth => Exit::Done,
                        _ => Exit::Switch,
                    }
                }
                Exit::Switch => match ((*state).recording.is_some(), native, counting) {
                    (true, _, _) => run::<Recorded>(state),
                    (false, true, true) => run::<Counting>(state),
                    (false, true, false) => run::<Native>(state),
                    (false, false, _) => run::<Plain>(state),
                },
            };
        }
    }
}

/// How to begin at the entry of the base frame's function.
///
/// # Safety
/// As for [`drive`].
unsafe fn first_exit(state: *mut State, native: bool, counting: bool) -> Exit {
    if !native {
        return Exit::Switch;
    }
    // SAFETY: by the caller's contract.
    unsafe {
        let func = (*crate::state::header((*state).abi.regs)).func;
        match State::arrive(state, SiteId(func), counting) {
            Arrival::Enter(code) => Exit::Enter(code),
            Arrival::Stay | Arrival::Record => Exit::Switch,
        }
    }
}

/// [`drive`] behind a panic barrier: a panic of a builtin is an error of the run.
///
/// # Safety
/// As for [`drive`].
pub unsafe fn drive_guarded(state: *mut State, native: bool, counting: bool) -> Result<(), ()> {
    // SAFETY: by the contract. After a panic every register still holds a valid value:
    // operations write a register only when they have its new value.
    let outcome = guard(|| Ok(unsafe { drive(state, native, counting) }));
    outcome.unwrap_or_else(|error| {
        // SAFETY: the state is live.
        unsafe { State::fail(state, error) };
        Err(())
    })
}

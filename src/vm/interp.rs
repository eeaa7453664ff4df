//! The interpreter: what every program means.
//!
//! One loop over dense operations, in four variants that differ in what happens at
//! function entries and backward jumps: nothing, enter native code, count arrivals, or
//! record. Calls between VM functions push frames and stay in the loop; the native
//! stack does not grow. In steady state nothing is allocated beyond what builtins make,
//! and no atomic is touched beyond counts of values that are copied or dropped.

use reflex_runtime::abi::{TVMFFIAny, type_index};
use reflex_runtime::function::guard;
use reflex_runtime::value::AnyView;

use crate::abi::{CodePtr, ERROR, FRAME_BASE};
use crate::builtins::condition;
use crate::calls::{call_builtin, call_packed, invoke};
use crate::decode::{Op, SiteId};
use crate::hooks::{after_call, before_call, record_from_exit, record_step};
use crate::instrument::Verdict;
use crate::mode::Mode;
use crate::state::{Arrival, State, header, store};
use crate::tier::Bailout;

/// What happens at sites.
pub trait Variant {
    /// Whether cells are looked at.
    const NATIVE: bool;
    /// Whether arrivals are counted.
    const COUNTING: bool;
    /// Whether operations are shown to a recorder.
    const RECORDING: bool;
    /// Whether calls are shown to an instrument.
    const INSTRUMENTED: bool;
}

/// Interprets everything.
pub struct Plain;
/// Enters native code where there is some.
pub struct Native;
/// Also counts arrivals.
pub struct Counting;
/// Shows operations to the recorder; enters nothing.
pub struct Recorded;

/// Shows calls to the instrument; enters nothing.
pub struct Instrumented;

impl Variant for Instrumented {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
    const INSTRUMENTED: bool = true;
}
impl Variant for Plain {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
    const INSTRUMENTED: bool = false;
}
impl Variant for Native {
    const NATIVE: bool = true;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
    const INSTRUMENTED: bool = false;
}
impl Variant for Counting {
    const NATIVE: bool = true;
    const COUNTING: bool = true;
    const RECORDING: bool = false;
    const INSTRUMENTED: bool = false;
}
impl Variant for Recorded {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = true;
    const INSTRUMENTED: bool = false;
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
        let mut func = program.function((*header(regs)).func).unwrap_unchecked();
        let mut pc = (*state).abi.pc;
        macro_rules! reload {
            () => {
                regs = (*state).abi.regs;
                func = program.function((*header(regs)).func).unwrap_unchecked();
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
        macro_rules! seen {
            ($at:expr) => {
                if V::INSTRUMENTED {
                    attempt!(after_call(state, func, $at));
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
            if V::INSTRUMENTED && attempt!(before_call(state, func, pc, op)) == Verdict::Skip {
                pc += 1;
                continue;
            }
            match op {
                Op::CallPacked { callee, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_packed(state, regs, func, callee, args, dst));
                    seen!(pc);
                    pc += 1;
                }
                Op::Builtin { builtin, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_builtin(state, regs, func, (builtin, vm), args, dst));
                    seen!(pc);
                    pc += 1;
                }
                Op::Kill { dst } => {
                    store(regs, dst, TVMFFIAny::NONE);
                    seen!(pc);
                    pc += 1;
                }
                Op::Copy { src, dst } => {
                    let value = State::owned(state, regs, src);
                    store(regs, dst, value);
                    seen!(pc);
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
                    let ret = ((*state).abi.trampolines.exit, pc + 1, dst);
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
                    let exit = (*state).abi.trampolines.exit;
                    match attempt!(invoke(state, regs, func, args, (exit, pc + 1, dst))) {
                        None => {
                            seen!(pc);
                            pc += 1;
                        }
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
                    let left = State::pop_frame(state, func, result);
                    if left.flags & FRAME_BASE != 0 {
                        return Exit::Done;
                    }
                    if !std::ptr::eq(left.resume, (*state).abi.trampolines.exit) {
                        return Exit::Enter(left.resume);
                    }
                    reload!();
                    seen!(pc - 1);
                    if V::COUNTING
                        && let Some(site) = func.return_site(pc)
                    {
                        match State::arrive(state, site, true) {
                            Arrival::Stay => {}
                            Arrival::Enter(code) => return Exit::Enter(code),
                            Arrival::Record => return Exit::Switch,
                        }
                    }
                }
            }
        }
    }
}

/// Runs from the current frame until its base frame is left.
///
/// # Safety
/// As for [`run`]; sessions that run native code have a tier's trampolines.
pub unsafe fn drive(state: *mut State) -> Result<(), ()> {
    // SAFETY: by the contract; code comes from cells and frame headers, which hold what
    // tiers promised to follow the protocol.
    unsafe {
        let base_depth = (*state).abi.depth;
        let mut exit = first_exit(state);
        loop {
            exit = match exit {
                Exit::Done => return Ok(()),
                Exit::Failed => return Err(()),
                Exit::Enter(code) => {
                    // Native code runs unseen, so a recording cannot go on.
                    if let Some(recording) = (*state).recording.take() {
                        (*state).program.count_bailout(recording.site, &Bailout::NoLoop);
                    }
                    let Some(enter) = (*state).abi.trampolines.enter else { return Err(()) };
                    (*state).abi.hot_exit = 0;
                    match enter(&raw mut (*state).abi, (*state).abi.regs, code) {
                        ERROR => Exit::Failed,
                        _ if (*state).abi.depth < base_depth => Exit::Done,
                        _ => {
                            State::quiesce(state);
                            if (*state).abi.hot_exit != 0 {
                                record_from_exit(state);
                            }
                            Exit::Switch
                        }
                    }
                }
                Exit::Switch if (*state).instrument.is_some() => run::<Instrumented>(state),
                Exit::Switch if (*state).recording.is_some() => run::<Recorded>(state),
                Exit::Switch => match (*state).mode {
                    Mode::Bytecode => run::<Plain>(state),
                    Mode::Compiled => run::<Native>(state),
                    Mode::Tiered => run::<Counting>(state),
                },
            };
        }
    }
}

/// How to begin at the entry of the base frame's function.
///
/// # Safety
/// As for [`drive`].
unsafe fn first_exit(state: *mut State) -> Exit {
    // SAFETY: by the caller's contract.
    unsafe {
        if (*state).mode == Mode::Bytecode || (*state).instrument.is_some() {
            return Exit::Switch;
        }
        let func = (*header((*state).abi.regs)).func;
        match State::arrive(state, SiteId(func), (*state).mode == Mode::Tiered) {
            Arrival::Enter(code) => Exit::Enter(code),
            Arrival::Stay | Arrival::Record => Exit::Switch,
        }
    }
}

/// [`drive`] behind a panic barrier: a panic of a builtin is an error of the run.
///
/// # Safety
/// As for [`drive`].
pub unsafe fn drive_guarded(state: *mut State) -> Result<(), ()> {
    // SAFETY: by the contract. After a panic every register still holds a valid value:
    // operations write a register only when they have its new value.
    let outcome = guard(|| Ok(unsafe { drive(state) }));
    outcome.unwrap_or_else(|error| {
        // SAFETY: the state is live.
        unsafe { State::fail(state, error) };
        Err(())
    })
}

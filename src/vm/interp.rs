//! The interpreter, which defines the meaning of programs.
//!
//! One loop over dense operations, in five variants ([`Variant`]): without hooks, with entry into
//! native code at sites, with hot counters that count arrivals there too, with a trace recorder,
//! or with an instrument. Calls between VM functions push frames and stay in the loop; the native
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
use crate::state::{ReturnTo, SiteAction, State, header, store};
use crate::tier::{ArrivalFrom, Bailout};

/// A variant of the loop: the hooks that are compiled into it.
pub trait Variant {
    /// Whether native code is entered at sites.
    const NATIVE: bool;
    /// Whether arrivals at sites are counted.
    const COUNTING: bool;
    /// Whether operations are shown to a recorder.
    const RECORDING: bool;
    /// Whether calls are shown to an instrument.
    const INSTRUMENTED: bool;
}

/// Interprets bytecode, without hooks.
pub struct Bytecode;
/// Enters native code where some is installed.
pub struct Native;
/// Also counts arrivals.
pub struct Counting;
/// Shows operations to the recorder; enters no native code.
pub struct Recorded;
/// Shows calls to the instrument; enters no native code.
pub struct Instrumented;

impl Variant for Instrumented {
    const NATIVE: bool = false;
    const COUNTING: bool = false;
    const RECORDING: bool = false;
    const INSTRUMENTED: bool = true;
}
impl Variant for Bytecode {
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
pub enum Outcome {
    /// A base frame was left; its result is in the state.
    Done,
    /// An error is in the state.
    Failed,
    /// Native code is to be entered with the current frame.
    Enter(CodePtr),
    /// Another variant of the loop is to go on.
    Switch,
}

/// Interprets from `abi.pc` of the current frame until the loop has to be left.
///
/// # Safety
/// `state` is live, with a current frame whose function has an operation `abi.pc`, and
/// nothing else uses it meanwhile.
pub unsafe fn run<V: Variant>(state: *mut State) -> Outcome {
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
                    Err(()) => return Outcome::Failed,
                }
            };
        }
        macro_rules! call_hook {
            ($at:expr) => {
                if V::INSTRUMENTED {
                    attempt!(after_call(state, func, $at));
                }
            };
        }
        macro_rules! arrive {
            ($site:expr) => {
                match arrive::<V>(state, $site) {
                    SiteAction::Interpret => {}
                    SiteAction::Enter(code) => return Outcome::Enter(code),
                    SiteAction::Record => return Outcome::Switch,
                }
            };
        }
        macro_rules! fail {
            ($error:expr) => {{
                (*state).abi.pc = pc;
                State::fail(state, $error);
                return Outcome::Failed;
            }};
        }
        loop {
            debug_assert!((pc as usize) < func.ops.len());
            let op = *func.ops.get_unchecked(pc as usize);
            if V::RECORDING && !record_step(state, func, pc, op) {
                (*state).abi.pc = pc;
                return Outcome::Switch;
            }
            if V::INSTRUMENTED && attempt!(before_call(state, func, pc, op)) == Verdict::Skip {
                pc += 1;
                continue;
            }
            match op {
                Op::CallPacked { callee, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_packed(state, regs, func, callee, args, dst));
                    call_hook!(pc);
                    pc += 1;
                }
                Op::Builtin { builtin, args, dst } => {
                    (*state).abi.pc = pc;
                    attempt!(call_builtin(state, regs, func, builtin, vm, args, dst));
                    call_hook!(pc);
                    pc += 1;
                }
                Op::Kill { dst } => {
                    store(regs, dst, TVMFFIAny::NONE);
                    call_hook!(pc);
                    pc += 1;
                }
                Op::Copy { src, dst } => {
                    let value = State::owned(state, regs, src);
                    store(regs, dst, value);
                    call_hook!(pc);
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
                        arrive!(site);
                    }
                }
                Op::CallVm { func: callee, args, dst } => {
                    (*state).abi.pc = pc;
                    let sources = func.args(args);
                    func = program.function(callee).unwrap_unchecked();
                    let resume = (*state).abi.trampolines.exit;
                    let ret = ReturnTo { resume, return_pc: pc + 1, dst };
                    regs = attempt!(State::push_call(state, regs, func, sources, ret));
                    pc = 0;
                    if V::NATIVE {
                        arrive!(SiteId(callee));
                    }
                }
                Op::InvokeClosure { args, dst } => {
                    (*state).abi.pc = pc;
                    let resume = (*state).abi.trampolines.exit;
                    let ret = ReturnTo { resume, return_pc: pc + 1, dst };
                    match attempt!(invoke(state, regs, func, args, ret)) {
                        None => {
                            call_hook!(pc);
                            pc += 1;
                        }
                        Some(callee) => {
                            reload!();
                            if V::NATIVE {
                                arrive!(SiteId(callee));
                            }
                        }
                    }
                }
                Op::Ret { result } => {
                    let left = State::pop_frame(state, func, result);
                    if left.flags & FRAME_BASE != 0 {
                        return Outcome::Done;
                    }
                    if !std::ptr::eq(left.resume, (*state).abi.trampolines.exit) {
                        return Outcome::Enter(left.resume);
                    }
                    reload!();
                    call_hook!(pc - 1);
                    if V::COUNTING
                        && let Some(site) = func.return_site(pc)
                    {
                        arrive!(site);
                    }
                }
            }
        }
    }
}

/// Arrives at a site: enters the code there, or counts.
///
/// # Safety
/// `state` is live and has a tier's trampolines; `site` is one of its program's.
#[inline(always)]
unsafe fn arrive<V: Variant>(state: *mut State, site: SiteId) -> SiteAction {
    // SAFETY: the caller passes a live state and a site of its program.
    unsafe {
        match State::code_at(state, site) {
            Some(code) => SiteAction::Enter(code),
            None if V::COUNTING => State::count_arrival(state, site, ArrivalFrom::Interpreter),
            None => SiteAction::Interpret,
        }
    }
}

/// Runs from the current frame until its base frame is left.
///
/// # Safety
/// As for [`run`]; sessions that run native code have a tier's trampolines.
pub unsafe fn drive(state: *mut State) -> Result<(), ()> {
    // SAFETY: the caller passes a live state with a base frame; code comes from cells and frame
    // headers, which hold code that the tier promised to follow the protocol of `abi`.
    unsafe {
        let base_depth = (*state).abi.depth;
        let mut step = first_step(state);
        loop {
            step = match step {
                Outcome::Done => return Ok(()),
                Outcome::Failed => return Err(()),
                Outcome::Enter(code) => {
                    // The recorder does not see native code, so the recording is aborted.
                    if let Some(recording) = (*state).recording.take() {
                        (*state).program.count_bailout(recording.site, &Bailout::NoLoop);
                    }
                    let Some(enter) = (*state).abi.trampolines.enter else { return Err(()) };
                    (*state).abi.hot_exit = 0;
                    (*state).abi.uncompiled_call = 0;
                    match enter(&raw mut (*state).abi, (*state).abi.regs, code) {
                        ERROR => Outcome::Failed,
                        _ if (*state).abi.depth < base_depth => Outcome::Done,
                        _ => {
                            State::quiesce(state);
                            if (*state).abi.hot_exit != 0 {
                                record_from_exit(state);
                            } else if (*state).abi.uncompiled_call != 0 {
                                entered_by_native_code(state);
                            }
                            Outcome::Switch
                        }
                    }
                }
                Outcome::Switch if (*state).instrument.is_some() => run::<Instrumented>(state),
                Outcome::Switch if (*state).recording.is_some() => run::<Recorded>(state),
                Outcome::Switch => match (*state).mode {
                    Mode::Bytecode => run::<Bytecode>(state),
                    Mode::Compiled => run::<Native>(state),
                    Mode::Tiered => run::<Counting>(state),
                },
            };
        }
    }
}

/// Counts the arrival at the entry of a function without code that native code has called. Calls by
/// the interpreter count where they are made.
///
/// # Safety
/// As for [`drive`].
#[cold]
unsafe fn entered_by_native_code(state: *mut State) {
    // SAFETY: the caller passes a live state with a current frame, whose function is a site.
    unsafe {
        let counts =
            (*state).mode == Mode::Tiered && (*state).instrument.is_none() && (*state).abi.pc == 0;
        let site = SiteId((*header((*state).abi.regs)).func);
        if counts && State::code_at(state, site).is_none() {
            // A recording begins with the next step.
            let _ = State::count_arrival(state, site, ArrivalFrom::NativeCode);
        }
    }
}

/// The first step at the entry of the base frame's function.
///
/// # Safety
/// As for [`drive`].
unsafe fn first_step(state: *mut State) -> Outcome {
    // SAFETY: the caller passes a live state with a base frame; sessions of other modes than
    // bytecode have a tier's trampolines.
    unsafe {
        if (*state).mode == Mode::Bytecode {
            return Outcome::Switch;
        }
        State::use_free_lists(state);
        let func = (*header((*state).abi.regs)).func;
        if (*state).instrument.is_some() {
            return watched_code(state, func).map_or(Outcome::Switch, Outcome::Enter);
        }
        let action = match (*state).mode {
            Mode::Tiered => arrive::<Counting>(state, SiteId(func)),
            Mode::Compiled | Mode::Bytecode => arrive::<Native>(state, SiteId(func)),
        };
        match action {
            SiteAction::Enter(code) => Outcome::Enter(code),
            SiteAction::Interpret | SiteAction::Record => Outcome::Switch,
        }
    }
}

/// The code that shows the calls of `func` to an instrument. The first time, the tier is asked for it.
///
/// # Safety
/// As for [`drive`].
unsafe fn watched_code(state: *mut State, func: u32) -> Option<CodePtr> {
    // SAFETY: the caller passes a live state, which holds its program and tier.
    let (program, tier) = unsafe { (&(*state).program, (*state).tier.as_ref()?) };
    let watched = program.watched();
    if let Some(code) = watched.code(func) {
        return Some(code);
    }
    let code = program.function(func).filter(|code| !code.is_foreign)?;
    if !watched.is_first_request(func) {
        return None;
    }
    tier.compile_watched(program, code);
    watched.code(func)
}

/// [`drive`] behind a panic barrier: a panic of a builtin is an error of the run.
///
/// # Safety
/// As for [`drive`].
pub unsafe fn drive_guarded(state: *mut State) -> Result<(), ()> {
    // SAFETY: the caller's obligations are those of `drive`. After a panic every register still
    // holds a valid value: operations write a register only when they have its new value.
    let outcome = guard(|| Ok(unsafe { drive(state) }));
    outcome.unwrap_or_else(|error| {
        // SAFETY: the caller passes a live state, which `drive` no longer uses.
        unsafe { State::fail(state, error) };
        Err(())
    })
}

//! Calls out of a frame, as the interpreter and the libcalls of machine code make them.

use std::ffi::c_void;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::closure::VmClosure;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::value::AnyView;

use crate::abi::FrameHeader;
use crate::builtins::{Builtin, Closure, Context};
use crate::decode::{ArgRange, FuncCode};
use crate::fast_path::{self, Operands};
use crate::program::Program;
use crate::state::{ReturnTo, State, release, store};

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

/// Runs a builtin; `vm` is the value of `%vm`.
///
/// # Safety
/// `state` is live and at a builtin with these operands in the frame `regs` of `func`.
#[inline(always)]
pub unsafe fn call_builtin(
    state: *mut State,
    regs: *mut TVMFFIAny,
    func: &FuncCode,
    builtin: Builtin,
    vm: *mut c_void,
    args: ArgRange,
    dst: u32,
) -> Result<(), ()> {
    // SAFETY: arguments are borrowed from registers and constants for the call.
    unsafe {
        let sources = func.args(args);
        if fast_path::check_passes(builtin, Operands { bases: State::bases(state, regs), sources })
        {
            store(regs, dst, TVMFFIAny::NONE);
            return Ok(());
        }
        let area = State::borrow_args(state, regs, func, sources);
        let views = AnyView::slice_from_raw(area, args.len as i32);
        match (builtin.run())(Context { vm }, views) {
            Ok(value) => {
                store(regs, dst, value.into_raw());
                if builtin == Builtin::MakeTuple {
                    // The tuple has taken over what is read for the last time.
                    for reg in sources.iter().filter_map(|source| source.last_use()) {
                        if reg != dst {
                            store(regs, reg, TVMFFIAny::NONE);
                        }
                    }
                }
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
/// closure's function and returns the index of that function.
///
/// # Safety
/// `state` is live and at a closure call with these arguments in the frame `regs` of
/// `func`; `ret` is as for [`State::push_call`].
pub unsafe fn invoke(
    state: *mut State,
    regs: *mut TVMFFIAny,
    func: &FuncCode,
    args: ArgRange,
    ret: ReturnTo,
) -> Result<Option<u32>, ()> {
    let ReturnTo { resume, return_pc, dst } = ret;
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
            // Closures made by another VM take the VM before the arguments.
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

/// Checks that `closure` can run here with `given` arguments besides its captured ones.
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

/// The error for a call with the wrong number of arguments, of the kind that TVM raises.
#[cold]
pub fn wrong_arity(program: &Program, func: u32, given: usize) -> Error {
    let function = &program.executable().functions[func as usize];
    let names = match function.param_names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let plural = if function.num_args == 1 { "" } else { "s" };
    let message = format!(
        "`{}` expects {} argument{plural}{names}, {given} given",
        function.name, function.num_args
    );
    Error::new("InternalError", message)
}

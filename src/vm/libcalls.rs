//! Libcalls: the functions that machine code calls; see [`crate::abi::Libcalls`].
//!
//! Each does what the interpreter does for the same operation, by calling the same
//! code. They are entered with the session's current frame being the caller's.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject, type_index};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::guard;
use reflex_runtime::object::{self, ObjectRef, ObjectType};
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;

use crate::abi::{CodePtr, ERROR, FRAME_BASE, FRAME_NATIVE, FrameHeader, Libcalls, SessionAbi};
use crate::builtins;
use crate::calls::{self, call_builtin, call_packed};
use crate::decode::{FuncCode, Op};
use crate::hooks;
use crate::instrument::{CallSite, Verdict};
use crate::mode::Mode;
use crate::reentry::Placement;
use crate::state::{ReturnTo, State, header, store};

/// The table that every session points to.
pub static LIBCALLS: Libcalls = Libcalls {
    execute,
    push_call,
    pop_frame,
    poll,
    condition,
    packed_failed,
    release,
    push_frame,
    new_storage,
    new_tensor,
    new_tensor_and_storage,
    before_call,
    after_call,
};

/// The state, the current frame's function, and its operation `pc`, which becomes the
/// session's.
///
/// # Safety
/// `session` is the `abi` of a live state with a current frame that has this operation.
unsafe fn at<'p>(session: *mut SessionAbi, pc: u32) -> (*mut State, &'p FuncCode, Op) {
    let state = session.cast::<State>();
    // SAFETY: `abi` is the first field of `State`; the program outlives the libcall,
    // which is all that `'p` is used for.
    unsafe {
        (*state).abi.pc = pc;
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let func = program.function((*header((*state).abi.regs)).func).unwrap_unchecked();
        (state, func, func.ops[pc as usize])
    }
}

fn status(outcome: Result<(), ()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(()) => ERROR,
    }
}

/// # Safety
/// `state` is live.
#[cold]
unsafe fn misused(state: *mut State, libcall: &str, op: Op) -> Result<(), ()> {
    let message = format!("machine code used `{libcall}` for {op:?}");
    // SAFETY: the caller passes a live state, whose error nothing else refers to.
    unsafe { State::fail(state, Error::new("InternalError", message)) };
    Err(())
}

unsafe extern "C" fn execute(session: *mut SessionAbi, pc: u32) -> i32 {
    // SAFETY: machine code passes its live session and an operation of the current frame, as
    // `Libcalls` demands.
    unsafe {
        let (state, func, op) = at(session, pc);
        let regs = (*state).abi.regs;
        let outcome = guard(|| {
            Ok(match op {
                Op::CallPacked { callee, args, dst } => {
                    call_packed(state, regs, func, callee, args, dst)
                }
                Op::Builtin { builtin, args, dst } => {
                    let vm = (*state).abi.vm_value.payload.ptr;
                    call_builtin(state, regs, func, builtin, vm, args, dst)
                }
                Op::Copy { src, dst } => {
                    let value = State::owned(state, regs, src);
                    store(regs, dst, value);
                    Ok(())
                }
                Op::Kill { dst } => {
                    store(regs, dst, TVMFFIAny::NONE);
                    Ok(())
                }
                Op::CallVm { .. }
                | Op::InvokeClosure { .. }
                | Op::Goto { .. }
                | Op::LoopBack { .. }
                | Op::Branch { .. }
                | Op::Ret { .. } => misused(state, "execute", op),
            })
        });
        status(outcome.unwrap_or_else(|error| {
            State::fail(state, error);
            Err(())
        }))
    }
}

unsafe extern "C" fn push_call(session: *mut SessionAbi, pc: u32, resume: CodePtr) -> CodePtr {
    // SAFETY: machine code passes its live session and an operation of the current frame, as
    // `Libcalls` demands.
    unsafe {
        let (state, func, op) = at(session, pc);
        let regs = (*state).abi.regs;
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let pushed = match op {
            Op::CallVm { func: callee, args, dst } => {
                let target = program.function(callee).unwrap_unchecked();
                let ret = ReturnTo { resume, return_pc: pc + 1, dst };
                State::push_call(state, regs, target, func.args(args), ret)
                    .map(|_| Some(target.index))
            }
            Op::InvokeClosure { args, dst } => {
                let ret = ReturnTo { resume, return_pc: pc + 1, dst };
                let outcome = guard(|| Ok(calls::invoke(state, regs, func, args, ret)));
                outcome.unwrap_or_else(|error| {
                    State::fail(state, error);
                    Err(())
                })
            }
            _ => misused(state, "push_call", op).map(|()| None),
        };
        match pushed {
            Ok(Some(callee)) => (*(*state).abi.cells.add(callee as usize)).load(Ordering::Acquire),
            Ok(None) => {
                (*state).abi.pc = pc + 1;
                resume
            }
            Err(()) => std::ptr::null(),
        }
    }
}

unsafe extern "C" fn pop_frame(session: *mut SessionAbi, pc: u32) -> CodePtr {
    // SAFETY: machine code passes its live session and a return of the current frame, as
    // `Libcalls` demands.
    unsafe {
        let (state, func, op) = at(session, pc);
        let Op::Ret { result } = op else {
            debug_assert!(false, "machine code used `pop_frame` for {op:?}");
            std::hint::unreachable_unchecked()
        };
        let left = State::pop_frame(state, func, result);
        match left.flags {
            FRAME_BASE => (*state).abi.trampolines.exit,
            FRAME_NATIVE => (*state).abi.trampolines.returned,
            _ => continuation(state, &left),
        }
    }
}

/// The code that continues after a call that returned: that of the native caller, or the code
/// installed at the return point of a recursive call.
///
/// # Safety
/// `state` is live, and has just returned to the frame that `left` was called from.
unsafe fn continuation(state: *mut State, left: &FrameHeader) -> CodePtr {
    // SAFETY: the caller passes a live state; cells have an entry per site.
    unsafe {
        let interpreted = std::ptr::eq(left.resume, (*state).abi.trampolines.exit);
        if !interpreted || (*state).mode != Mode::Tiered {
            return left.resume;
        }
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let func = program.function((*header((*state).abi.regs)).func).unwrap_unchecked();
        match func.return_site(left.return_pc) {
            Some(site) => (*(*state).abi.cells.add(site.0 as usize)).load(Ordering::Acquire),
            None => left.resume,
        }
    }
}

unsafe extern "C" fn poll(session: *mut SessionAbi, pc: u32) -> i32 {
    let state = session.cast::<State>();
    // SAFETY: machine code passes its live session and an operation of the current frame, as
    // `Libcalls` demands.
    unsafe {
        (*state).abi.pc = pc;
        status(State::poll(state))
    }
}

unsafe extern "C" fn condition(session: *mut SessionAbi, pc: u32) -> i32 {
    // SAFETY: machine code passes its live session and an operation of the current frame, as
    // `Libcalls` demands.
    unsafe {
        let (state, _, op) = at(session, pc);
        let Op::Branch { cond, .. } = op else {
            return status(misused(state, "condition", op));
        };
        let value = AnyView::from_raw(*(*state).abi.regs.add(cond as usize));
        match builtins::condition(&value) {
            Ok(taken) => i32::from(taken),
            Err(error) => {
                State::fail(state, error);
                ERROR
            }
        }
    }
}

unsafe extern "C" fn packed_failed(
    session: *mut SessionAbi,
    pc: u32,
    result: *mut TVMFFIAny,
) -> i32 {
    let state = session.cast::<State>();
    // SAFETY: machine code passes its live session and an operation of the current frame, as
    // `Libcalls` demands.
    unsafe {
        (*state).abi.pc = pc;
        calls::packed_failed(state, result);
    }
    ERROR
}

unsafe extern "C" fn release(value: *const TVMFFIAny) {
    // SAFETY: machine code passes an owned object value, and overwrites the slot afterwards.
    unsafe {
        debug_assert!((*value).type_index >= type_index::STATIC_OBJECT_BEGIN);
        object::decrement((*value).payload.obj);
    }
}

unsafe extern "C" fn push_frame(
    session: *mut SessionAbi,
    func: u32,
    return_pc: u32,
    dst: u32,
) -> i32 {
    let state = session.cast::<State>();
    // SAFETY: machine code passes its live session, as `Libcalls` demands; every register of the new
    // frame is written at once.
    unsafe {
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let Some(target) = program.function(func) else { return ERROR };
        let (caller, resume) = ((*state).abi.regs, (*state).abi.trampolines.exit);
        let fields = FrameHeader { caller, resume, func, return_pc, dst, flags: 0 };
        match State::open_frame(state, target, fields) {
            Ok(regs) => {
                crate::state::clear(regs, 0, target);
                0
            }
            Err(()) => ERROR,
        }
    }
}

unsafe extern "C" fn new_storage(
    session: *mut SessionAbi,
    bytes: usize,
    device: i64,
) -> *mut TVMFFIObject {
    let made = guard(|| {
        // SAFETY: machine code passes its live session, whose devices nothing else refers to
        // meanwhile.
        unsafe { Placement::of(session.cast(), device)? }.storage(bytes)
    });
    made.map_or(std::ptr::null_mut(), |storage| storage.into_object().into_raw().as_ptr())
}

unsafe extern "C" fn new_tensor(
    storage: *mut TVMFFIObject,
    offset: i64,
    shape: *mut TVMFFIObject,
    dtype: u32,
) -> *mut TVMFFIObject {
    // SAFETY: machine code passes a storage and a shape that its registers and constants keep alive
    // during this call; these references are not released.
    let (storage, shape) = unsafe { (borrowed(storage), borrowed(shape)) };
    let made = guard(|| {
        let (storage, shape) = (storage.downcast_ref::<Storage>(), shape.downcast_ref::<Shape>());
        let (Some(storage), Some(shape)) = (storage, shape) else {
            return Err(Error::type_error("a tensor is made on a storage, of a shape"));
        };
        Tensor::on_storage(storage, bytes_of(offset)?, shape, DType::from_bits(dtype as i32))
    });
    made.map_or(std::ptr::null_mut(), |tensor| tensor.into_object().into_raw().as_ptr())
}

unsafe extern "C" fn new_tensor_and_storage(
    session: *mut SessionAbi,
    bytes: usize,
    device: i64,
    offset: i64,
    shape: *mut TVMFFIObject,
    dtype: u32,
) -> *mut TVMFFIObject {
    // SAFETY: machine code passes a shape of the constant table, which is kept alive.
    let shape = unsafe { borrowed(shape) };
    let made = guard(|| {
        let shape = shape.downcast_ref::<Shape>();
        let shape = shape.ok_or_else(|| Error::type_error("a tensor is made of a shape"))?;
        // SAFETY: machine code passes its live session, whose devices nothing else refers to
        // meanwhile.
        let placement = unsafe { Placement::of(session.cast(), device)? };
        let (offset, dtype) = (bytes_of(offset)?, DType::from_bits(dtype as i32));
        if let Some(storage) = placement.output_buffer(bytes) {
            return Tensor::on_storage(&storage, offset, shape, dtype);
        }
        let on = (placement.allocator, placement.device);
        Tensor::on_own_storage(on, bytes, offset, shape, dtype)
    });
    made.map_or(std::ptr::null_mut(), |tensor| tensor.into_object().into_raw().as_ptr())
}

fn bytes_of(offset: i64) -> Result<usize, Error> {
    usize::try_from(offset).map_err(|_| Error::value_error(format!("tensor at offset {offset}")))
}

/// # Safety
/// The object is not null and outlives the result.
unsafe fn borrowed(object: *mut TVMFFIObject) -> ManuallyDrop<ObjectRef> {
    // SAFETY: the caller keeps a reference, and `ManuallyDrop` never releases this one.
    ManuallyDrop::new(unsafe { ObjectRef::from_raw(NonNull::new_unchecked(object)) })
}

unsafe extern "C" fn before_call(session: *mut SessionAbi, site: *const c_void) -> i32 {
    let (state, site) = (session.cast::<State>(), site.cast::<CallSite>());
    // SAFETY: machine code passes its live session and the site of an operation of the current frame,
    // as `Libcalls` demands; its program keeps the site.
    unsafe {
        (*state).abi.pc = (*site).instr;
        match hooks::before_call_at(state, &*site) {
            Ok(Verdict::Run) => 0,
            Ok(Verdict::Skip) => {
                (*state).abi.pc = (*site).instr + 1;
                1
            }
            Err(()) => ERROR,
        }
    }
}

unsafe extern "C" fn after_call(session: *mut SessionAbi, site: *const c_void) -> i32 {
    let (state, site) = (session.cast::<State>(), site.cast::<CallSite>());
    // SAFETY: as in `before_call`.
    unsafe {
        (*state).abi.pc = (*site).instr;
        status(hooks::after_call_at(state, &*site))
    }
}

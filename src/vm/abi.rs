//! The layouts and protocols that machine code for VM functions is written against.
//!
//! # Frames
//!
//! A session has one register stack of 16-byte slots, reserved once; it never moves.
//! A frame is addressed by its register 0, `regs`:
//!
//! ```text
//! regs - FRAME_HEADER_SLOTS   FrameHeader
//! regs                        registers 0 .. num_regs, owned values, None when unset
//! regs + num_regs             result slot: None, or borrowed by a call in flight
//! regs + num_regs + 1         argument area: borrowed views, meaningless between calls
//! regs + frame_slots          register 0 of a callee's frame
//! ```
//!
//! `num_regs` and `frame_slots` are in [`crate::decode::FuncCode`]. Every register is a
//! valid owned value at all times, so an error or a side exit can happen between any two
//! operations, and the session can release a frame without knowing where it stopped.
//!
//! # Machine code
//!
//! Code for a function or a trace has the signature [`NativeFn`] in Cranelift's `tail`
//! convention (which Rust cannot call, hence [`Trampolines`]). It is entered with `regs` equal
//! to [`SessionAbi::regs`] and the frame complete: header written, parameters stored,
//! every other register None, fuel charged. It ends in one of four ways:
//!
//! 1. `return RESUME`: a deoptimisation. The interpreter continues at [`SessionAbi::pc`] of the frame at
//!    [`SessionAbi::regs`]. Nothing executed is executed again, so `pc` is the first
//!    operation that has not run.
//! 2. `return ERROR`: an error is in the session (a callback put it there). The session
//!    releases every frame up to the one it was entered with; code releases nothing.
//! 3. A tail call of the address that [`Libcalls::push_call`] or [`Libcalls::pop_frame`]
//!    returned, with the session and the new [`SessionAbi::regs`].
//! 4. `return RETURNED`: the frame it was entered with was left, its result is stored, and
//!    the frame was marked [`FRAME_NATIVE`].
//!
//! # Calls between native functions
//!
//! A frame's header says where its caller continues: `resume` is a continuation, and a tail
//! call of it needs no native stack. That alone would be enough, but an indirect jump per
//! return is one that the branch predictor misses. Native code may therefore also *call* the
//! callee's code: it marks the callee's frame [`FRAME_NATIVE`], and the callee leaves with
//! `RETURNED` instead of jumping to `resume`. Such calls nest at most
//! [`SessionAbi::native_calls`] deep, so recursion still grows the register stack and not
//! the native one. A native caller that gets another status than `RETURNED` clears the mark
//! (when the status is `RESUME`, the callee's frame is still there, and `resume` takes over)
//! and returns the same status at once.
//!
//! A continuation (where a call made by native code resumes) has the same signature and
//! is entered with the caller's frame current, the callee's result stored and the operation
//! after the call in [`SessionAbi::pc`]; code for a loop, with the loop's first operation there. The
//! address [`Trampolines::exit`] may stand anywhere a code address may: it returns `RESUME`.
//! Entry cells of functions without native code hold it, so native callers need no test.
//!
//! # Fuel and interrupts
//!
//! One unit of fuel is charged for each frame pushed and for each backward jump, by
//! every tier. On a backward jump native code subtracts one from
//! [`SessionAbi::fuel`], and calls [`Libcalls::poll`] when the result is negative or
//! the word at [`SessionAbi::interrupt`] is not zero. Before a packed call it calls
//! `poll` when that word is not zero; of kernels that a trace calls by their raw entries one
//! behind the other, before the first and every eighth. Frames pushed by libcalls charge for themselves.
//!
//! Decision: docs/decisions/0005-register-frames.md

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject};

/// This file's text: machine code that outlives its process is tied to it.
pub const CONTRACT: &str = include_str!("abi.rs");

/// A function or trace in machine code, as an opaque address.
pub type CodePtr = *const u8;

/// Status of native code: continue in the interpreter at `session.regs`, `session.pc`.
pub const RESUME: i32 = 0;
/// Status of native code: the frame it was called with was left.
pub const RETURNED: i32 = 1;
/// Status of native code and libcalls: an error is in the session.
pub const ERROR: i32 = -1;

/// Slots of a [`FrameHeader`].
pub const FRAME_HEADER_SLOTS: usize = 2;
/// `FrameHeader::dst` of a call whose result is discarded.
pub const DISCARD: u32 = u32::MAX;
/// `FrameHeader::flags`: the frame was entered by the host; its result goes to the host.
pub const FRAME_BASE: u32 = 1;
/// `FrameHeader::flags`: the caller's native code is waiting for [`RETURNED`].
pub const FRAME_NATIVE: u32 = 2;
/// The most calls of native code by native code that may be nested on the native stack.
pub const NATIVE_CALLS: u32 = 64;

/// The header before register 0 of every frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    /// Register 0 of the caller's frame; null in the first frame of a session.
    pub caller: *mut TVMFFIAny,
    /// Native code to continue with when this frame is left, or [`Trampolines::exit`].
    pub resume: CodePtr,
    /// The function running in this frame (index in the function table).
    pub func: u32,
    /// Operation of the caller that comes after the call.
    pub return_pc: u32,
    /// Register of the caller that takes the result, or [`DISCARD`].
    pub dst: u32,
    /// [`FRAME_BASE`], [`FRAME_NATIVE`] or zero.
    pub flags: u32,
}

/// The part of a session that machine code sees.
#[repr(C)]
pub struct SessionAbi {
    /// Register 0 of the current frame. Only [`Libcalls`] and side exits change it.
    pub regs: *mut TVMFFIAny,
    /// Remaining fuel; negative once exhausted.
    pub fuel: i64,
    /// Not zero when the host has asked the session to stop or to look at its deadline.
    pub interrupt: *const AtomicU32,
    /// Current operation: where to resume, and where an error happened. Libcalls that
    /// take a `pc` store it here.
    pub pc: u32,
    /// Frames on the stack.
    pub depth: u32,
    /// Most frames the stack may have.
    pub depth_limit: u32,
    /// Native calls of native code that may still be nested.
    pub native_calls: u32,
    /// One past the last slot that frames may use.
    pub stack_limit: *mut TVMFFIAny,
    /// The program's constant table ([`crate::decode::ArgSource::Const`] indexes it).
    pub consts: *const TVMFFIAny,
    /// The program's code cells, indexed by [`crate::decode::SiteId`].
    pub cells: *const AtomicPtr<u8>,
    /// The session itself as an opaque pointer value: what `%vm` reads as.
    pub vm_value: TVMFFIAny,
    /// Functions that machine code calls.
    pub libcalls: *const Libcalls,
    /// The tier's trampolines.
    pub trampolines: Trampolines,
    /// One object, or null, for each operation that allocates (see
    /// [`crate::decode::FuncCode::allocation`]): its last result, which machine code put here
    /// instead of destroying it, to be recycled by the operation's next run. Nothing else refers to
    /// it, except that a free tensor refers to its storage; the session owns it. The last entry is
    /// the arena that traces lay out their own storages in (see
    /// [`crate::decode::Code::arena_slot`]).
    pub recycled: *mut *mut TVMFFIObject,
    /// The hot side exit that native code has just taken, from which a side trace is to be
    /// recorded, by a number that the tier gave it; zero is none. See [`crate::tier::Tier::on_hot_exit`].
    pub hot_exit: u64,
    /// The program's identity, which its closures have ([`CLOSURE_PROGRAM`]).
    pub program: u64,
    /// The free lists of object memory of the thread that runs the session
    /// ([`reflex_runtime::alloc::pool::lists`]); set when a run begins.
    pub object_lists: *mut c_void,
    /// One after native code has called a function without code, whose frame is the current one;
    /// the interpreter counts the call. Zero after calls of others.
    pub uncompiled_call: u64,
    /// The free tensors of the thread that runs the session
    /// ([`reflex_runtime::alloc::free_tensors::lists`]), set with `object_lists`. They stay empty
    /// where the session allocates elsewhere than in the pooled memory of the first CPU.
    pub tensor_lists: *mut c_void,
}

/// The signature of machine code, in Cranelift's `tail` convention.
pub type NativeFn = unsafe extern "C" fn(session: *mut SessionAbi, regs: *mut TVMFFIAny) -> i32;

/// Native code between Rust and the `tail` convention, which every tier provides once per process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Trampolines {
    /// Calls `code` in the `tail` convention; null in sessions without a tier.
    pub enter: Option<
        unsafe extern "C" fn(session: *mut SessionAbi, regs: *mut TVMFFIAny, code: CodePtr) -> i32,
    >,
    /// A `tail` function that returns [`RESUME`]; null in sessions without a tier.
    pub exit: CodePtr,
    /// A `tail` function that returns [`RETURNED`]; null in sessions without a tier.
    pub returned: CodePtr,
}

impl Trampolines {
    /// For sessions without native code.
    pub const NONE: Trampolines =
        Trampolines { enter: None, exit: std::ptr::null(), returned: std::ptr::null() };
}

// SAFETY: all are addresses of immutable code, which the tier keeps for the life of the process.
unsafe impl Send for Trampolines {}
// SAFETY: as for Send: shared use only reads the addresses, and the code behind them is immutable.
unsafe impl Sync for Trampolines {}

/// Functions of the VM that machine code calls, in the C convention.
///
/// Each requires a live session whose current frame is the caller's, and a `pc` that is
/// an operation of that frame's function. They are called with every register valid.
#[repr(C)]
pub struct Libcalls {
    /// Runs the operation at `pc`, which is a packed call, a builtin, a copy or a kill,
    /// as the interpreter does, and stores its result. Returns zero or [`ERROR`].
    pub execute: unsafe extern "C" fn(session: *mut SessionAbi, pc: u32) -> i32,
    /// Runs the call at `pc` (of a VM function or through a closure): pushes the
    /// callee's frame and returns the code to tail-call next, with the new
    /// `session.regs`; null is an error. `resume` is the caller's continuation after
    /// `pc`. A function object has run when this returns `resume`, for the current frame.
    pub push_call:
        unsafe extern "C" fn(session: *mut SessionAbi, pc: u32, resume: CodePtr) -> CodePtr,
    /// Runs the return at `pc`: releases the frame, gives the result to the caller and
    /// returns the code to tail-call next, with the new `session.regs` and `session.pc`. Never
    /// null.
    pub pop_frame: unsafe extern "C" fn(session: *mut SessionAbi, pc: u32) -> CodePtr,
    /// Looks at fuel and interrupts at the operation `pc`. Returns zero to continue, or
    /// [`ERROR`].
    pub poll: unsafe extern "C" fn(session: *mut SessionAbi, pc: u32) -> i32,
    /// The truth of the condition register of the branch at `pc`: 1, 0 or [`ERROR`].
    /// Needed only when the register holds neither an integer nor a boolean.
    pub condition: unsafe extern "C" fn(session: *mut SessionAbi, pc: u32) -> i32,
    /// Takes over the error of the packed call at `pc` that just returned failure.
    /// `result` is released if the callee left something there. Returns [`ERROR`].
    pub packed_failed:
        unsafe extern "C" fn(session: *mut SessionAbi, pc: u32, result: *mut TVMFFIAny) -> i32,
    /// Releases the reference in an owned value of an object kind (type index 64 or
    /// more). The slot keeps its bits; overwrite it.
    pub release: unsafe extern "C" fn(value: *const TVMFFIAny),
    /// For side exits: pushes a frame of function `func` with every register None on
    /// the current frame, as if the caller had called it from the operation before
    /// `return_pc` for register `dst` (or [`DISCARD`]). Charges no fuel. Returns zero
    /// or [`ERROR`].
    pub push_frame:
        unsafe extern "C" fn(session: *mut SessionAbi, func: u32, return_pc: u32, dst: u32) -> i32,
    /// Makes a storage of `bytes` on device number `device` of the session (-1: the host), as
    /// `vm.builtin.alloc_storage` does. Null if that fails: the builtin tells the error.
    pub new_storage: unsafe extern "C" fn(
        session: *mut SessionAbi,
        bytes: usize,
        device: i64,
    ) -> *mut TVMFFIObject,
    /// Makes a tensor at `offset` bytes into a storage, with the dimensions of a shape and an element
    /// type by its bits, as `vm.builtin.alloc_tensor` does. Null if that fails: the builtin tells the
    /// error.
    pub new_tensor: unsafe extern "C" fn(
        storage: *mut TVMFFIObject,
        offset: i64,
        shape: *mut TVMFFIObject,
        dtype: u32,
    ) -> *mut TVMFFIObject,
    /// Makes a tensor as `new_tensor` does, on `bytes` of its own on device number `device` of the
    /// session: one on a storage to which nothing else refers. Null if there is no memory.
    pub new_tensor_and_storage: unsafe extern "C" fn(
        session: *mut SessionAbi,
        bytes: usize,
        device: i64,
        offset: i64,
        shape: *mut TVMFFIObject,
        dtype: u32,
    ) -> *mut TVMFFIObject,
    /// Shows the call at `site`, a [`crate::instrument::CallSite`] of an operation of the current frame that is about to run, to the session's
    /// instrument. Its arguments are lent in the frame's argument area. Returns zero to
    /// run it, [`ERROR`], or one when the instrument skips it: its result is stored as None and
    /// `session.pc` is the next operation, where the interpreter is to continue.
    pub before_call: unsafe extern "C" fn(session: *mut SessionAbi, site: *const c_void) -> i32,
    /// Shows the call at `site`, which has run, to the session's instrument. Returns zero or [`ERROR`].
    pub after_call: unsafe extern "C" fn(session: *mut SessionAbi, site: *const c_void) -> i32,
}

/// Offset of [`SessionAbi::regs`].
pub const SESSION_REGS: usize = 0;
/// Offset of [`SessionAbi::fuel`].
pub const SESSION_FUEL: usize = 8;
/// Offset of [`SessionAbi::interrupt`].
pub const SESSION_INTERRUPT: usize = 16;
/// Offset of [`SessionAbi::pc`].
pub const SESSION_PC: usize = 24;
/// Offset of [`SessionAbi::depth`].
pub const SESSION_DEPTH: usize = 28;
/// Offset of [`SessionAbi::depth_limit`].
pub const SESSION_DEPTH_LIMIT: usize = 32;
/// Offset of [`SessionAbi::native_calls`].
pub const SESSION_NATIVE_CALLS: usize = 36;
/// Offset of [`SessionAbi::stack_limit`].
pub const SESSION_STACK_LIMIT: usize = 40;
/// Offset of [`SessionAbi::consts`].
pub const SESSION_CONSTS: usize = 48;
/// Offset of [`SessionAbi::cells`].
pub const SESSION_CELLS: usize = 56;
/// Offset of [`SessionAbi::vm_value`].
pub const SESSION_VM_VALUE: usize = 64;
/// Offset of [`SessionAbi::libcalls`].
pub const SESSION_LIBCALLS: usize = 80;
/// Offset of [`SessionAbi::trampolines`]'s `exit`.
pub const SESSION_EXIT: usize = 96;
/// Offset of [`SessionAbi::recycled`].
pub const SESSION_RECYCLED: usize = 112;
/// Offset of [`SessionAbi::object_lists`].
pub const SESSION_OBJECT_LISTS: usize = 136;
/// Offset of [`SessionAbi::uncompiled_call`].
pub const SESSION_UNCOMPILED_CALL: usize = 144;
/// Offset of [`SessionAbi::tensor_lists`].
pub const SESSION_TENSOR_LISTS: usize = 152;
/// Bytes of a [`FrameHeader`]; the header of `regs` begins this far before it.
pub const FRAME_HEADER_SIZE: usize = 32;
/// Offset of [`FrameHeader::resume`] in the header.
pub const FRAME_RESUME: usize = 8;
/// Offset of [`FrameHeader::func`] in the header.
pub const FRAME_FUNC: usize = 16;
/// Offset of [`FrameHeader::return_pc`] in the header.
pub const FRAME_RETURN_PC: usize = 20;
/// Offset of [`FrameHeader::dst`] in the header.
pub const FRAME_DST: usize = 24;
/// Offset of [`FrameHeader::flags`] in the header.
pub const FRAME_FLAGS: usize = 28;
/// Offset of [`FrameHeader::caller`] in the header.
pub const FRAME_CALLER: usize = 0;

/// Offset of the identity of its program in a closure of a program.
pub const CLOSURE_PROGRAM: usize = 48;
/// Offset of the index of its function in a closure of a program.
pub const CLOSURE_FUNC: usize = 56;
/// Offset of the array of captured values in a closure of a program
/// ([`crate::builtins::Closure`]).
pub const CLOSURE_CAPTURED: usize = 64;

/// Offsets in [`Libcalls`].
pub mod libcall {
    use super::Libcalls;
    use std::mem::offset_of;

    /// [`Libcalls::execute`].
    pub const EXECUTE: usize = offset_of!(Libcalls, execute);
    /// [`Libcalls::push_call`].
    pub const PUSH_CALL: usize = offset_of!(Libcalls, push_call);
    /// [`Libcalls::pop_frame`].
    pub const POP_FRAME: usize = offset_of!(Libcalls, pop_frame);
    /// [`Libcalls::poll`].
    pub const POLL: usize = offset_of!(Libcalls, poll);
    /// [`Libcalls::condition`].
    pub const CONDITION: usize = offset_of!(Libcalls, condition);
    /// [`Libcalls::packed_failed`].
    pub const PACKED_FAILED: usize = offset_of!(Libcalls, packed_failed);
    /// [`Libcalls::release`].
    pub const RELEASE: usize = offset_of!(Libcalls, release);
    /// [`Libcalls::push_frame`].
    pub const PUSH_FRAME: usize = offset_of!(Libcalls, push_frame);
    /// [`Libcalls::new_storage`].
    pub const NEW_STORAGE: usize = offset_of!(Libcalls, new_storage);
    /// [`Libcalls::new_tensor`].
    pub const NEW_TENSOR: usize = offset_of!(Libcalls, new_tensor);
    /// [`Libcalls::new_tensor_and_storage`].
    pub const NEW_TENSOR_AND_STORAGE: usize = offset_of!(Libcalls, new_tensor_and_storage);
    /// [`Libcalls::before_call`].
    pub const BEFORE_CALL: usize = offset_of!(Libcalls, before_call);
    /// [`Libcalls::after_call`].
    pub const AFTER_CALL: usize = offset_of!(Libcalls, after_call);
}

const _: () = if cfg!(target_pointer_width = "64") {
    use std::mem::offset_of;
    assert!(offset_of!(SessionAbi, regs) == SESSION_REGS);
    assert!(offset_of!(SessionAbi, fuel) == SESSION_FUEL);
    assert!(offset_of!(SessionAbi, interrupt) == SESSION_INTERRUPT);
    assert!(offset_of!(SessionAbi, pc) == SESSION_PC);
    assert!(offset_of!(SessionAbi, depth) == SESSION_DEPTH);
    assert!(offset_of!(SessionAbi, depth_limit) == SESSION_DEPTH_LIMIT);
    assert!(offset_of!(SessionAbi, native_calls) == SESSION_NATIVE_CALLS);
    assert!(offset_of!(SessionAbi, stack_limit) == SESSION_STACK_LIMIT);
    assert!(offset_of!(SessionAbi, consts) == SESSION_CONSTS);
    assert!(offset_of!(SessionAbi, cells) == SESSION_CELLS);
    assert!(offset_of!(SessionAbi, vm_value) == SESSION_VM_VALUE);
    assert!(offset_of!(SessionAbi, libcalls) == SESSION_LIBCALLS);
    assert!(offset_of!(SessionAbi, trampolines) + offset_of!(Trampolines, exit) == SESSION_EXIT);
    assert!(offset_of!(SessionAbi, recycled) == SESSION_RECYCLED);
    assert!(offset_of!(SessionAbi, object_lists) == SESSION_OBJECT_LISTS);
    assert!(offset_of!(SessionAbi, uncompiled_call) == SESSION_UNCOMPILED_CALL);
    assert!(offset_of!(SessionAbi, tensor_lists) == SESSION_TENSOR_LISTS);
    assert!(size_of::<FrameHeader>() == FRAME_HEADER_SIZE);
    assert!(FRAME_HEADER_SIZE == FRAME_HEADER_SLOTS * size_of::<TVMFFIAny>());
    assert!(offset_of!(FrameHeader, resume) == FRAME_RESUME);
    assert!(offset_of!(FrameHeader, caller) == FRAME_CALLER);
    assert!(offset_of!(FrameHeader, func) == FRAME_FUNC);
    assert!(offset_of!(FrameHeader, return_pc) == FRAME_RETURN_PC);
    assert!(offset_of!(FrameHeader, dst) == FRAME_DST);
    assert!(offset_of!(FrameHeader, flags) == FRAME_FLAGS);
};

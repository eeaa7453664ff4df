//! The inside of a session: frames, values in registers, errors, sites.
//!
//! Everything here works on raw frames and is shared by the interpreter and the
//! callbacks of machine code, so that both do the same thing. Functions take
//! `*mut State`: machine code holds the same pointer, so no long-lived reference to the
//! whole state is made while frames run.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use reflex_runtime::abi::{TVMFFIAny, TVMFFIObject, type_index};
use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::object;
use reflex_runtime::value::{Any, AnyView};

use crate::abi::{CodePtr, DISCARD, FRAME_BASE, FRAME_HEADER_SLOTS, FrameHeader, SessionAbi};
use crate::builtins::Builtin;
use crate::decode::{ArgSource, FuncCode, Op, SiteId, Source};
use crate::epoch::Participant;
use crate::instrument::Instrument;
use crate::mode::Mode;
use crate::program::Program;
use crate::run_error::RunError;
use crate::stack::Stack;
use crate::tier::{HotAction, Recorder, Tier};

/// Bit of the interrupt word: stop as soon as possible.
pub const CANCEL: u32 = 1;
/// Bit of the interrupt word: a deadline is set; look at the clock.
pub const DEADLINE: u32 = 2;

/// A recording in progress.
pub struct Recording {
    pub recorder: Box<dyn Recorder>,
    pub site: SiteId,
    /// Depth of the frame in which it started.
    pub depth: u32,
}

/// All of a session. Machine code sees `abi`, the first field.
#[repr(C)]
pub struct State {
    pub abi: SessionAbi,
    pub program: Arc<Program>,
    pub mode: Mode,
    pub tier: Option<Arc<dyn Tier>>,
    /// Where storages come from.
    pub allocator: AllocatorKind,
    pub stack: Stack,
    /// Set before `ERROR` is returned by anything.
    pub error: Option<RunError>,
    /// Result of the last base frame.
    pub result: Any,
    /// Arrivals left per site until it is hot; empty in sessions that do not count.
    pub counters: Box<[u32]>,
    pub recording: Option<Recording>,
    /// Sees every call; while there is one, everything is interpreted.
    pub instrument: Option<Box<dyn Instrument>>,
    pub deadline: Option<Instant>,
    pub interrupt: Arc<AtomicU32>,
    /// What `abi.recycled` points to.
    pub recycled: Recycled,
    /// Runs in progress: that of the host, and those that native code began on top of it.
    pub runs: u32,
    /// Pins the epoch while the session runs; none in sessions that run no native code.
    pub participant: Option<Arc<Participant>>,
}

/// Objects kept for reuse by machine code; see [`SessionAbi::recycled`].
pub struct Recycled(NonNull<[*mut TVMFFIObject]>);

impl Recycled {
    /// An empty table of `len` entries.
    pub fn new(len: usize) -> Recycled {
        let table = vec![std::ptr::null_mut(); len].into_boxed_slice();
        Recycled(NonNull::from(Box::leak(table)))
    }

    /// The first entry.
    pub fn entries(&self) -> *mut *mut TVMFFIObject {
        self.0.as_ptr().cast()
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        // SAFETY: the table came from a box and is used no more.
        let table = unsafe { Box::from_raw(self.0.as_ptr()) };
        for &object in table.iter().filter(|object| !object.is_null()) {
            // SAFETY: the table owns a strong reference to each object in it.
            unsafe { object::decrement(object) };
        }
    }
}

/// Gives up an owned value.
///
/// # Safety
/// `value` is an owned value that nobody uses afterwards.
#[inline(always)]
pub unsafe fn release(value: TVMFFIAny) {
    if value.type_index >= type_index::STATIC_OBJECT_BEGIN {
        // SAFETY: an owned object value holds a strong reference, given up here.
        unsafe { object::decrement(value.payload.obj) };
    }
}

/// A second owned value.
///
/// # Safety
/// `value` is a valid owned or borrowed value of an owned kind.
#[inline(always)]
pub unsafe fn duplicate(value: TVMFFIAny) -> TVMFFIAny {
    if value.type_index >= type_index::STATIC_OBJECT_BEGIN {
        // SAFETY: a valid object value is of a live object.
        unsafe { object::increment(value.payload.obj) };
    }
    value
}

/// Writes what `value` borrows to `slot`, owned.
///
/// # Safety
/// `slot` may be written, and holds nothing to release.
#[inline(always)]
unsafe fn keep(value: &AnyView<'_>, slot: *mut TVMFFIAny) {
    // SAFETY: a view is valid; what is copied bit by bit becomes owned with its count.
    unsafe {
        if value.is_owned_kind() {
            // In one piece: a value that is written in parts and then read whole has to wait
            // for the cache.
            slot.copy_from_nonoverlapping(value.as_raw(), 1);
            if value.type_index() >= type_index::STATIC_OBJECT_BEGIN {
                object::increment((*slot).payload.obj);
            }
        } else {
            slot.write(value.to_owned().into_raw());
        }
    }
}

/// Stores an owned value in register `dst` of the frame at `regs`, or drops it.
///
/// # Safety
/// `regs` is a frame with more than `dst` registers, unless `dst` is `DISCARD`;
/// ownership of `value` moves.
#[inline(always)]
pub unsafe fn store(regs: *mut TVMFFIAny, dst: u32, value: TVMFFIAny) {
    let old = if dst == DISCARD {
        value
    } else {
        // SAFETY: the register exists and holds an owned value.
        unsafe { regs.add(dst as usize).replace(value) }
    };
    // SAFETY: what was replaced (or discarded) is owned and unreachable now.
    unsafe { release(old) };
}

/// The header of the frame at `regs`.
///
/// # Safety
/// `regs` is register 0 of a frame.
#[inline(always)]
pub unsafe fn header(regs: *mut TVMFFIAny) -> *mut FrameHeader {
    // SAFETY: every frame has a header before register 0.
    unsafe { regs.sub(FRAME_HEADER_SLOTS).cast() }
}

impl State {
    /// An owned value from `source` in the frame at `regs`; moves a last use.
    ///
    /// # Safety
    /// `state` is live, `regs` is a frame of the function that `source` belongs to.
    #[inline(always)]
    pub unsafe fn owned(state: *mut State, regs: *mut TVMFFIAny, source: Source) -> TVMFFIAny {
        // SAFETY: sources of verified code name existing registers and constants, all of
        // them valid owned values.
        unsafe {
            match source.get() {
                ArgSource::Reg(reg) => duplicate(*regs.add(reg as usize)),
                ArgSource::LastUse(reg) => regs.add(reg as usize).replace(TVMFFIAny::NONE),
                ArgSource::Const(at) => duplicate(*(*state).abi.consts.add(at as usize)),
                ArgSource::Vm => (*state).abi.vm_value,
            }
        }
    }

    /// [`State::owned`] into a slot, in one piece.
    ///
    /// # Safety
    /// As for [`State::owned`]; `slot` may be written, holds nothing to release and is no
    /// register of the frame.
    #[inline(always)]
    pub unsafe fn own_into(
        state: *mut State,
        regs: *mut TVMFFIAny,
        source: Source,
        slot: *mut TVMFFIAny,
    ) {
        // SAFETY: as for `owned`; only registers are ever a last use.
        unsafe {
            let from = State::bases(state, regs)[source.kind()].add(source.index() as usize);
            slot.copy_from_nonoverlapping(from, 1);
            if let ArgSource::LastUse(reg) = source.get() {
                *regs.add(reg as usize) = TVMFFIAny::NONE;
            } else if (*slot).type_index >= type_index::STATIC_OBJECT_BEGIN {
                object::increment((*slot).payload.obj);
            }
        }
    }

    /// What [`Source::kind`] counts from, in the frame at `regs`.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn bases(state: *mut State, regs: *mut TVMFFIAny) -> [*const TVMFFIAny; 4] {
        // SAFETY: by the contract.
        let (consts, vm) = unsafe { ((*state).abi.consts, &raw const (*state).abi.vm_value) };
        [regs.cast_const(), regs.cast_const(), consts, vm]
    }

    /// Puts borrowed arguments into the argument area of the frame at `regs`.
    ///
    /// # Safety
    /// As for [`State::owned`], and `sources` are arguments of one operation of `func`,
    /// the function of the frame.
    #[inline(always)]
    pub unsafe fn borrow_args(
        state: *mut State,
        regs: *mut TVMFFIAny,
        func: &FuncCode,
        sources: &[Source],
    ) -> *mut TVMFFIAny {
        // SAFETY: the area has room for the longest call of the function; sources of
        // verified code are in bounds of their base.
        unsafe {
            let area = regs.add(func.arg_area());
            let bases = State::bases(state, regs);
            for (at, source) in sources.iter().enumerate() {
                *area.add(at) = *bases[source.kind()].add(source.index() as usize);
            }
            area
        }
    }

    /// Reserves and heads a frame of `func` above the current one, and makes it
    /// current. Registers are not written: the caller initialises every one at once.
    ///
    /// # Safety
    /// `state` is live with a current frame (or none, when `regs` is null).
    #[inline(always)]
    pub unsafe fn open_frame(
        state: *mut State,
        func: &FuncCode,
        fields: FrameHeader,
    ) -> Result<*mut TVMFFIAny, ()> {
        // SAFETY: the slots between the current frame and the limit are unused; the
        // comparison is of addresses within one mapping, and cannot overflow since
        // frames are far smaller than the address space.
        unsafe {
            let abi = &mut (*state).abi;
            let new = if abi.regs.is_null() {
                (*state).stack.base().add(FRAME_HEADER_SLOTS)
            } else {
                let current = (*header(abi.regs)).func;
                let current = (*state).program.function(current).expect("frames run VM functions");
                abi.regs.add(current.frame_slots as usize)
            };
            let end = new.wrapping_add(func.frame_slots as usize);
            if end > abi.stack_limit || abi.depth >= abi.depth_limit {
                State::overflow(state);
                return Err(());
            }
            *header(new) = fields;
            abi.regs = new;
            abi.depth += 1;
            Ok(new)
        }
    }

    /// Charges one unit of fuel and looks at interrupts.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn charge(state: *mut State) -> Result<(), ()> {
        // SAFETY: the state and its interrupt word are live.
        unsafe {
            (*state).abi.fuel -= 1;
            let interrupted = (*(*state).abi.interrupt).load(Ordering::Relaxed) != 0;
            if (*state).abi.fuel < 0 || interrupted { State::poll(state) } else { Ok(()) }
        }
    }

    /// Whether someone wants attention.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn interrupted(state: *mut State) -> bool {
        // SAFETY: the interrupt word lives as long as the state.
        unsafe { (*(*state).abi.interrupt).load(Ordering::Relaxed) != 0 }
    }

    /// Pushes a frame for a call of `func` with the arguments `sources` of the current
    /// frame, whose operation after the call is `return_pc`.
    ///
    /// # Safety
    /// `state` is live, `regs` is its current frame, the sources are those of a call of
    /// `func` in that frame's function and number its parameters.
    #[inline(always)]
    pub unsafe fn push_call(
        state: *mut State,
        regs: *mut TVMFFIAny,
        func: &FuncCode,
        sources: &[Source],
        ret: (CodePtr, u32, u32),
    ) -> Result<*mut TVMFFIAny, ()> {
        debug_assert_eq!(sources.len(), func.num_args as usize);
        let (resume, return_pc, dst) = ret;
        let fields =
            FrameHeader { caller: regs, resume, func: func.index, return_pc, dst, flags: 0 };
        // SAFETY: by the contract; registers are all written before anything can fail.
        unsafe {
            let new = State::open_frame(state, func, fields)?;
            for (at, &source) in sources.iter().enumerate() {
                State::own_into(state, regs, source, new.add(at));
            }
            clear(new, sources.len(), func);
            (*state).abi.pc = 0;
            State::charge(state)?;
            Ok(new)
        }
    }

    /// Pushes a frame for a call of `func` with borrowed arguments in two parts.
    ///
    /// # Safety
    /// `state` is live; the parts together number the parameters of `func`.
    #[inline(always)]
    pub unsafe fn push_values(
        state: *mut State,
        func: &FuncCode,
        parts: [&[AnyView<'_>]; 2],
        fields: FrameHeader,
    ) -> Result<*mut TVMFFIAny, ()> {
        debug_assert_eq!(parts[0].len() + parts[1].len(), func.num_args as usize);
        // SAFETY: as in `push_call`.
        unsafe {
            let new = State::open_frame(state, func, fields)?;
            let mut count = 0;
            for part in parts {
                for value in part {
                    keep(value, new.add(count));
                    count += 1;
                }
            }
            clear(new, count, func);
            (*state).abi.pc = 0;
            State::charge(state)?;
            Ok(new)
        }
    }

    /// Releases the current frame and gives `result` to its caller or, from a base
    /// frame, to the host.
    ///
    /// # Safety
    /// `state` is live with a current frame of `func`, whose source `result` is.
    #[inline(always)]
    pub unsafe fn pop_frame(state: *mut State, func: &FuncCode, result: Source) -> FrameHeader {
        // SAFETY: registers are valid owned values; the caller's frame is below.
        unsafe {
            let regs = (*state).abi.regs;
            let left = *header(regs);
            let base = left.flags & FRAME_BASE != 0;
            let mut aside = TVMFFIAny::NONE;
            let slot = if base || left.dst == DISCARD {
                &raw mut aside
            } else {
                left.caller.add(left.dst as usize)
            };
            let old = *slot;
            State::own_into(state, regs, result, slot);
            for at in 0..func.num_regs as usize {
                release(*regs.add(at));
            }
            release(old);
            // Destructors may have called back, and such runs have results of their own.
            if base {
                (*state).result = Any::from_raw(aside);
            } else {
                release(aside);
            }
            (*state).abi.depth -= 1;
            (*state).abi.regs = left.caller;
            (*state).abi.pc = left.return_pc;
            left
        }
    }

    /// What to do on arrival at a site in a session that runs native code: enter code,
    /// start to record, or go on.
    ///
    /// # Safety
    /// `state` is live; `site` is one of its program's.
    #[inline(always)]
    pub unsafe fn arrive(state: *mut State, site: SiteId, counting: bool) -> Arrival {
        // SAFETY: cells and counters have an entry per site.
        unsafe {
            let code = (*(*state).abi.cells.add(site.0 as usize)).load(Ordering::Acquire);
            if !std::ptr::eq(code, (*state).abi.trampolines.exit) {
                return Arrival::Enter(code);
            }
            if !counting {
                return Arrival::Stay;
            }
            let counters: *mut Box<[u32]> = &raw mut (*state).counters;
            let left = &mut (&mut *counters)[site.0 as usize];
            *left -= 1;
            if *left == 0 { State::heat(state, site) } else { Arrival::Stay }
        }
    }

    /// # Safety
    /// As for [`State::arrive`].
    #[cold]
    #[inline(never)]
    unsafe fn heat(state: *mut State, site: SiteId) -> Arrival {
        // SAFETY: the state is live, and nothing else refers to the parts used.
        unsafe {
            let (Some(tier), counters) = (&(*state).tier, &raw mut (*state).counters) else {
                return Arrival::Stay;
            };
            State::quiesce(state);
            let left = &mut (&mut *counters)[site.0 as usize];
            match tier.on_hot_site(&(*state).program, site) {
                HotAction::Record(recorder) => {
                    // Should it fail, the next one begins elsewhere: what is reached so many times
                    // in each run that this divides the threshold is offered at its end every time.
                    *left = tier.hot_threshold().max(1).saturating_add(1);
                    let depth = (*state).abi.depth;
                    (*state).recording = Some(Recording { recorder, site, depth });
                    Arrival::Record
                }
                HotAction::Backoff => {
                    *left = tier.hot_threshold().max(1);
                    Arrival::Stay
                }
                HotAction::Blacklist(bailout) => {
                    // Long enough to be never; wrapping around merely asks again.
                    *left = u32::MAX;
                    (*state).program.count_bailout(site, &bailout);
                    Arrival::Stay
                }
            }
        }
    }
}

/// What [`State::arrive`] says.
pub enum Arrival {
    /// Go on interpreting.
    Stay,
    /// Run this.
    Enter(CodePtr),
    /// A recording began.
    Record,
}

/// Writes None to the registers from `from` on.
///
/// # Safety
/// `regs` is a frame of `func` whose registers from `from` on hold nothing.
#[inline(always)]
pub unsafe fn clear(regs: *mut TVMFFIAny, from: usize, func: &FuncCode) {
    for at in from..func.num_regs as usize {
        // SAFETY: the frame has this register, and it holds nothing to release.
        unsafe { *regs.add(at) = TVMFFIAny::NONE };
    }
}

/// What an operation calls, as bytecode has it, and where the result goes.
pub fn call_of<'p>(program: &'p Program, op: &Op) -> Option<(&'p str, u32)> {
    match *op {
        Op::CallPacked { callee, dst, .. } => Some((program.name(callee), dst)),
        Op::CallVm { func, dst, .. } => Some((program.name(func), dst)),
        Op::Builtin { builtin, dst, .. } => Some((builtin.name(), dst)),
        Op::InvokeClosure { dst, .. } => Some((Builtin::InvokeClosure.name(), dst)),
        Op::Copy { dst, .. } => Some((Builtin::Copy.name(), dst)),
        Op::Kill { dst } => Some((Builtin::NullValue.name(), dst)),
        Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } | Op::Ret { .. } => None,
    }
}

//! The inside of a session: frames, values in registers, errors, sites.
//!
//! Everything here works on raw frames and is shared by the interpreter and the
//! libcalls of machine code, so that both do the same thing. Functions take
//! `*mut State`: machine code holds the same pointer, so no long-lived reference to the
//! whole state is made while frames run.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use reflex_runtime::abi::{DLDevice, TVMFFIAny, TVMFFIObject, type_index};
use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::alloc::{free_tensors, pool};
use reflex_runtime::object;
use reflex_runtime::value::{Any, AnyView};

use crate::abi::{CodePtr, DISCARD, FRAME_BASE, FRAME_HEADER_SLOTS, FrameHeader, SessionAbi};
use crate::builtins::{Closure, GraphCache};
use crate::decode::{ArgSource, FuncCode, SiteId, Source};
use crate::devices::{CpuAllocators, Devices};
use crate::epoch::Participant;
use crate::instrument::Instrument;
use crate::mode::Mode;
use crate::program::Program;
use crate::run_error::RunError;
use crate::stack::Stack;
use crate::tier::{ArrivalFrom, HotAction, Recorder, Tier};

/// Bit of the interrupt word: stop as soon as possible.
pub const CANCEL: u32 = 1;
/// Bit of the interrupt word: a deadline is set; look at the clock.
pub const DEADLINE: u32 = 2;

/// A trace recording in progress.
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
    /// The allocators of storages.
    pub allocators: CpuAllocators,
    /// Where storages are.
    pub devices: Devices,
    pub stack: Stack,
    /// Set before `ERROR` is returned by anything.
    pub error: Option<RunError>,
    /// Result of the last base frame.
    pub result: Any,
    /// Hot counters: arrivals left per site until it is hot; empty in sessions that do not count.
    pub counters: Box<[u32]>,
    pub recording: Option<Recording>,
    /// Observes every call; while there is one, code is interpreted or watched.
    pub instrument: Option<Box<dyn Instrument>>,
    pub deadline: Option<Instant>,
    pub interrupt: Arc<AtomicU32>,
    /// The slots that `abi.recycled` points to.
    pub recycle_slots: RecycleSlots,
    /// Nested runs in progress: that of the host, and those that native code began on top of it.
    pub runs: u32,
    /// Pins the epoch while the session runs; none in sessions that run no native code.
    pub participant: Option<Arc<Participant>>,
    /// Saved functions by name.
    pub saved: HashMap<String, Saved>,
    /// Memory and arguments of the `vm.builtin.cuda_graph` functions.
    pub graphs: GraphCache,
}

/// The result of calls of a saved function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SavedResult {
    /// The function's result.
    Keep,
    /// None.
    Drop,
}

/// A function with its last arguments.
#[derive(Clone)]
pub struct Saved {
    /// The function and the arguments.
    pub closure: Closure,
    /// The result of calls.
    pub result: SavedResult,
}

/// One slot per allocating operation for an object that machine code recycles; see
/// [`SessionAbi::recycled`].
pub struct RecycleSlots(NonNull<[*mut TVMFFIObject]>);

impl RecycleSlots {
    /// `len` empty slots.
    pub fn new(len: usize) -> RecycleSlots {
        let table = vec![std::ptr::null_mut(); len].into_boxed_slice();
        RecycleSlots(NonNull::from(Box::leak(table)))
    }

    /// The first slot.
    pub fn as_ptr(&self) -> *mut *mut TVMFFIObject {
        self.0.as_ptr().cast()
    }
}

impl Drop for RecycleSlots {
    fn drop(&mut self) {
        // SAFETY: `new` leaked the box, and the session that read the table through `abi` is gone.
        let table = unsafe { Box::from_raw(self.0.as_ptr()) };
        for &object in table.iter().filter(|object| !object.is_null()) {
            // SAFETY: a slot that is not null owns a strong reference to its object.
            unsafe { object::decrement(object) };
        }
    }
}

/// Releases an owned value.
///
/// # Safety
/// `value` is an owned value, and the caller does not use it afterwards.
#[inline(always)]
pub unsafe fn release(value: TVMFFIAny) {
    if value.type_index >= type_index::STATIC_OBJECT_BEGIN {
        // SAFETY: an owned object value holds a strong reference, which the caller passes on to us.
        unsafe { object::decrement(value.payload.obj) };
    }
}

/// Clones a value: returns an owned one.
///
/// # Safety
/// `value` is a valid owned or borrowed value of an owned kind.
#[inline(always)]
pub unsafe fn clone_value(value: TVMFFIAny) -> TVMFFIAny {
    if value.type_index >= type_index::STATIC_OBJECT_BEGIN {
        // SAFETY: the caller passes a valid value, whose object is live.
        unsafe { object::increment(value.payload.obj) };
    }
    value
}

/// Clones the borrowed `value` into `slot`.
///
/// # Safety
/// `slot` may be written, and holds nothing to release.
#[inline(always)]
unsafe fn clone_into(value: &AnyView<'_>, slot: *mut TVMFFIAny) {
    // SAFETY: a view is valid; what is copied bit by bit becomes owned with its count.
    unsafe {
        if value.is_owned_kind() {
            // In one 16-byte store: loads that span several smaller stores miss store-to-load
            // forwarding.
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
                ArgSource::Reg(reg) => clone_value(*regs.add(reg as usize)),
                ArgSource::LastUse(reg) => regs.add(reg as usize).replace(TVMFFIAny::NONE),
                ArgSource::Const(at) => clone_value(*(*state).abi.consts.add(at as usize)),
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

    /// The base addresses that [`Source::kind`] indexes, for the frame at `regs`.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn bases(state: *mut State, regs: *mut TVMFFIAny) -> [*const TVMFFIAny; 4] {
        // SAFETY: the caller passes a live state, whose fields are only read.
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
        // SAFETY: the argument area is as long as the longest call of the function; sources of
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

    /// Returns true if the interrupt word is set.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn interrupted(state: *mut State) -> bool {
        // SAFETY: the interrupt word lives as long as the state.
        unsafe { (*(*state).abi.interrupt).load(Ordering::Relaxed) != 0 }
    }

    /// Pushes a frame for a call of `func` with the arguments `sources` of the current
    /// frame, which returns to `ret`.
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
        ret: ReturnTo,
    ) -> Result<*mut TVMFFIAny, ()> {
        debug_assert_eq!(sources.len(), func.num_args as usize);
        let ReturnTo { resume, return_pc, dst } = ret;
        let fields =
            FrameHeader { caller: regs, resume, func: func.index, return_pc, dst, flags: 0 };
        // SAFETY: the caller passes a live state with its current frame and that frame's sources;
        // `open_frame` makes the new frame, and every register is written before `charge` can fail.
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
        // SAFETY: as in `push_call`: every register of the new frame is written before `charge` can
        // fail. Views are valid values.
        unsafe {
            let new = State::open_frame(state, func, fields)?;
            let mut count = 0;
            for part in parts {
                for value in part {
                    clone_into(value, new.add(count));
                    count += 1;
                }
            }
            clear(new, count, func);
            (*state).abi.pc = 0;
            State::charge(state)?;
            Ok(new)
        }
    }

    /// Shows machine code the free lists of this thread: the session may have been on another one before.
    ///
    /// # Safety
    /// `state` is live, and this thread runs it.
    #[inline]
    pub unsafe fn use_free_lists(state: *mut State) {
        // SAFETY: as the caller promises.
        unsafe {
            (*state).abi.object_lists = pool::lists();
            let (devices, allocators) =
                (&raw const (*state).devices, &raw const (*state).allocators);
            let pooled = (*allocators).of(DLDevice::CPU.device_id) == AllocatorKind::Pooled;
            (*state).abi.tensor_lists = match pooled && (*devices).first() == DLDevice::CPU {
                true => free_tensors::lists(),
                false => free_tensors::no_lists(),
            };
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
            let mut discarded = TVMFFIAny::NONE;
            let slot = if base || left.dst == DISCARD {
                &raw mut discarded
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
                (*state).result = Any::from_raw(discarded);
            } else {
                release(discarded);
            }
            (*state).abi.depth -= 1;
            (*state).abi.regs = left.caller;
            (*state).abi.pc = left.return_pc;
            left
        }
    }

    /// The machine code at a site, if some is installed there.
    ///
    /// # Safety
    /// `state` is live and has a tier's trampolines; `site` is one of its program's.
    #[inline(always)]
    pub unsafe fn code_at(state: *mut State, site: SiteId) -> Option<CodePtr> {
        // SAFETY: the caller passes a live state, whose cells have an entry per site.
        unsafe {
            let code = (*(*state).abi.cells.add(site.0 as usize)).load(Ordering::Acquire);
            if std::ptr::eq(code, (*state).abi.trampolines.exit) { None } else { Some(code) }
        }
    }

    /// Counts an arrival at a site without machine code; a hot one is offered to the tier.
    ///
    /// # Safety
    /// `state` is live and counts arrivals; `site` is one of its program's.
    #[inline(always)]
    pub unsafe fn count_arrival(state: *mut State, site: SiteId, from: ArrivalFrom) -> SiteAction {
        // SAFETY: the caller passes a live state; nothing else refers to its counters, of which
        // there is one per site.
        unsafe {
            let counters: *mut Box<[u32]> = &raw mut (*state).counters;
            let left = &mut (&mut *counters)[site.0 as usize];
            *left -= 1;
            if *left == 0 { State::on_hot_site(state, site, from) } else { SiteAction::Interpret }
        }
    }

    /// # Safety
    /// As for [`State::count_arrival`].
    #[cold]
    #[inline(never)]
    unsafe fn on_hot_site(state: *mut State, site: SiteId, from: ArrivalFrom) -> SiteAction {
        // SAFETY: the caller passes a live state; the tier is held by the state, and the recorder
        // and counters are referred to by nothing else.
        unsafe {
            let (Some(tier), counters) = (&(*state).tier, &raw mut (*state).counters) else {
                return SiteAction::Interpret;
            };
            State::quiesce(state);
            let left = &mut (&mut *counters)[site.0 as usize];
            match tier.on_hot_site(&(*state).program, site, from) {
                HotAction::Record(recorder) => {
                    // One more than the threshold: if the recording aborts, the next one starts at
                    // another position. Otherwise a site whose arrivals per run divide the
                    // threshold would be offered at the end of a run every time.
                    *left = tier.hot_threshold().max(1).saturating_add(1);
                    let depth = (*state).abi.depth;
                    (*state).recording = Some(Recording { recorder, site, depth });
                    SiteAction::Record
                }
                HotAction::Backoff => {
                    *left = tier.hot_threshold().max(1);
                    SiteAction::Interpret
                }
                HotAction::Blacklist(bailout) => {
                    // In effect never; a counter that wraps around merely offers the site again.
                    *left = u32::MAX;
                    (*state).program.count_bailout(site, &bailout);
                    SiteAction::Interpret
                }
            }
        }
    }
}

/// The interpreter's next step at a site.
pub enum SiteAction {
    /// Go on interpreting.
    Interpret,
    /// Enter this code.
    Enter(CodePtr),
    /// A recording began.
    Record,
}

/// Where a callee's frame returns to.
#[derive(Clone, Copy)]
pub struct ReturnTo {
    /// See [`FrameHeader::resume`].
    pub resume: CodePtr,
    /// See [`FrameHeader::return_pc`].
    pub return_pc: u32,
    /// See [`FrameHeader::dst`].
    pub dst: u32,
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

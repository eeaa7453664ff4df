//! Hooks of the interpreter: each operation for a trace recorder, each call for an instrument.

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::value::AnyView;

use crate::abi::{DISCARD, FrameHeader};
use crate::decode::{FuncCode, Op};
use crate::instrument::{CallEvent, CallSite, Verdict};
use crate::state::{Recording, State, header, store};
use crate::tier::{CallerFrame, Control, Step};

/// Shows an operation to the recorder; returns true if recording goes on.
///
/// # Safety
/// `state` is live and recording, at operation `pc` of the current frame of `func`.
#[cold]
pub unsafe fn record_step(state: *mut State, func: &FuncCode, pc: u32, op: Op) -> bool {
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
        let caller = if matches!(op, Op::Ret { .. }) { caller_frame(state) } else { None };
        // The interpreter holds no address of code here, and no reference to a frame's header.
        let quiesce = || State::quiesce(state);
        let step = Step { program, func, pc, op, depth, regs, caller, quiesce: &quiesce };
        match recording.recorder.step(&step) {
            Control::Continue => return true,
            Control::Finish => {}
            Control::Abort(bailout) => program.count_bailout(recording.site, &bailout),
        }
        (*state).recording = None;
        State::quiesce(state);
        false
    }
}

/// The frame that the current one returns to, unless the host or native code called it.
///
/// # Safety
/// `state` is live with a current frame.
unsafe fn caller_frame(state: *mut State) -> Option<CallerFrame> {
    // SAFETY: the caller passes a live state with a current frame; a frame that is not a base frame
    // has a caller, whose header is live too.
    unsafe {
        let exit = (*state).abi.trampolines.exit;
        let returns_here = |at: &FrameHeader| at.flags == 0 && std::ptr::eq(at.resume, exit);
        let here = *header((*state).abi.regs);
        if !returns_here(&here) {
            return None;
        }
        let return_site = |at: &FrameHeader| ((*header(at.caller)).func, at.return_pc);
        let (func, return_pc) = return_site(&here);
        let (mut at, mut activations) = (here, 0);
        for _ in 0..CallerFrame::MAX_SCANNED {
            activations += u32::from(return_site(&at) == (func, return_pc));
            at = *header(at.caller);
            if !returns_here(&at) {
                break;
            }
        }
        Some(CallerFrame { func, return_pc, dst: here.dst, activations })
    }
}

/// Begins to record a side trace after native code has taken a hot side exit.
///
/// # Safety
/// `state` is live and at an operation; nothing else uses it meanwhile.
#[cold]
pub unsafe fn record_from_exit(state: *mut State) {
    // SAFETY: the state is live, and nothing else refers to the parts used.
    unsafe {
        let exit = std::mem::take(&mut (*state).abi.hot_exit);
        let hooked = (*state).instrument.is_some() || (*state).recording.is_some();
        let tier = &(*state).tier;
        let Some(tier) = tier.as_ref().filter(|_| !hooked) else { return };
        if let Some((site, recorder)) = tier.on_hot_exit(&(*state).program, exit) {
            let depth = (*state).abi.depth;
            (*state).recording = Some(Recording { recorder, site, depth });
        }
    }
}

/// Shows the call at `pc` to the instrument, if the operation is one; a skipped call
/// has its result None.
///
/// # Safety
/// `state` is live, at operation `pc` of the current frame of `func`.
pub unsafe fn before_call(
    state: *mut State,
    func: &FuncCode,
    pc: u32,
    op: Op,
) -> Result<Verdict, ()> {
    // SAFETY: sources of verified code; the session keeps the program.
    unsafe {
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        let Some(site) = program.call_site(func.index, pc) else { return Ok(Verdict::Run) };
        State::borrow_args(state, (*state).abi.regs, func, func.args_of(&op));
        before_call_at(state, site)
    }
}

/// Shows the call at `site`, whose arguments are in the argument area, to the instrument; a skipped call
/// has its result None.
///
/// # Safety
/// `state` is live, at that operation of its current frame.
#[inline]
pub unsafe fn before_call_at(state: *mut State, site: &CallSite) -> Result<Verdict, ()> {
    // SAFETY: the caller passes a live state at the site; the instrument is taken out of the state while
    // it runs, so nothing else refers to it.
    unsafe {
        let regs = (*state).abi.regs;
        let args = AnyView::slice_from_raw(regs.add(site.arg_area as usize), site.args as i32);
        let Some(mut instrument) = (*state).instrument.take() else { return Ok(Verdict::Run) };
        let verdict = instrument.before(&CallEvent { site, args });
        (*state).instrument = Some(instrument);
        match verdict {
            Ok(Verdict::Skip) => store(regs, site.dst, TVMFFIAny::NONE),
            Ok(Verdict::Run) => {}
            Err(error) => {
                (*state).abi.pc = site.instr;
                State::fail(state, error);
                return Err(());
            }
        }
        verdict.map_err(drop)
    }
}

/// Shows the call at `pc`, which has run, to the instrument.
///
/// # Safety
/// As for [`before_call`].
pub unsafe fn after_call(state: *mut State, func: &FuncCode, pc: u32) -> Result<(), ()> {
    // SAFETY: as in `before_call`.
    unsafe {
        let program = &*std::sync::Arc::as_ptr(&(*state).program);
        match program.call_site(func.index, pc) {
            Some(site) => after_call_at(state, site),
            None => Ok(()),
        }
    }
}

/// Shows the call at `site`, which has run, to the instrument.
///
/// # Safety
/// As for [`before_call_at`].
#[inline]
pub unsafe fn after_call_at(state: *mut State, site: &CallSite) -> Result<(), ()> {
    // SAFETY: as in `before_call_at`; the site's register is one of the current frame's.
    unsafe {
        let result = match site.dst {
            DISCARD => AnyView::NONE,
            dst => AnyView::from_raw(*(*state).abi.regs.add(dst as usize)),
        };
        let Some(mut instrument) = (*state).instrument.take() else { return Ok(()) };
        let outcome = instrument.after(&CallEvent { site, args: &[] }, result);
        (*state).instrument = Some(instrument);
        outcome.map_err(|error| {
            (*state).abi.pc = site.instr;
            State::fail(state, error);
        })
    }
}

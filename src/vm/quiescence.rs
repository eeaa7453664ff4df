//! A session's part in the reclamation of machine code: runs pin an epoch, and between native
//! calls the session announces that it is quiescent. See [`crate::epoch`].

use crate::epoch::Participant;
use crate::state::{State, header};

impl State {
    /// Counts a run that begins; the outermost one pins the epoch.
    ///
    /// # Safety
    /// `state` is live.
    #[inline(always)]
    pub unsafe fn begin_run(state: *mut State) {
        // SAFETY: the caller passes a live state, which no other reference is to.
        unsafe {
            (*state).runs += 1;
            if let (Some(participant), 1) = (&(*state).participant, (*state).runs) {
                (*state).program.epochs().pin(participant);
            }
        }
    }

    /// Counts a run that ended; the outermost one unpins the epoch.
    ///
    /// # Safety
    /// `state` is live, and its frames are those from before [`State::begin_run`].
    #[inline(always)]
    pub unsafe fn end_run(state: *mut State) {
        // SAFETY: the caller passes a live state, which no other reference is to.
        unsafe {
            (*state).runs -= 1;
            if let (Some(participant), 0) = (&(*state).participant, (*state).runs) {
                (*state).program.epochs().unpin(participant);
            }
        }
    }

    /// Announces a quiescent state, so that code retired meanwhile may be freed, unless native code
    /// called this run.
    ///
    /// # Safety
    /// `state` is live, and the interpreter runs in it, holding no address of code.
    #[inline(always)]
    pub unsafe fn quiesce(state: *mut State) {
        // SAFETY: the caller passes a live state; `quiesce_frames` asks no more than this function.
        unsafe {
            if let Some(participant) = &(*state).participant
                && (*state).program.epochs().is_stale(participant)
            {
                State::quiesce_frames(state, participant);
            }
        }
    }

    /// # Safety
    /// As for [`State::quiesce`]; `participant` is the state's.
    #[cold]
    #[inline(never)]
    unsafe fn quiesce_frames(state: *mut State, participant: &Participant) {
        // SAFETY: the caller passes a live state, which only this thread runs.
        if unsafe { (*state).runs } != 1 {
            // Native code that waits for this run is on the native stack.
            return;
        }
        // SAFETY: headers of frames lead to the first one, whose caller is null. A caller resumes
        // where its callee's header says, and the interpreter can resume any frame.
        unsafe {
            let frames = std::iter::successors(Some((*state).abi.regs), |&regs| {
                Some((*header(regs)).caller).filter(|caller| !caller.is_null())
            });
            for regs in frames {
                (*header(regs)).resume = (*state).abi.trampolines.exit;
            }
            (*state).program.epochs().repin(participant);
        }
    }
}

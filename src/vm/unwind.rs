//! Early ends of runs: recording errors, and unwinding the frames.

use std::sync::atomic::Ordering;
use std::time::Instant;

use reflex_runtime::error::Error;

use crate::abi::FRAME_BASE;
use crate::decode::Op;
use crate::program::Program;
use crate::run_error::{FrameInfo, LISTED, Reason, RunError};
use crate::state::{CANCEL, State, header, release};

impl State {
    /// Records an error of the operation the session is at.
    ///
    /// # Safety
    /// `state` is live.
    #[cold]
    #[inline(never)]
    pub unsafe fn fail(state: *mut State, error: Error) {
        // SAFETY: the state is live and nothing else refers to its error.
        unsafe { (*state).error = Some(RunError::new(Reason::Failed, error)) };
    }

    /// Records that a frame does not fit.
    ///
    /// # Safety
    /// `state` is live.
    #[cold]
    #[inline(never)]
    pub unsafe fn overflow(state: *mut State) {
        // SAFETY: the caller passes a live state, and nothing else refers to its error.
        unsafe {
            let abi = &(*state).abi;
            let error = if abi.depth >= abi.depth_limit {
                format!("calls are nested deeper than the limit of {}", abi.depth_limit)
            } else {
                format!("the register stack is full at {} nested calls", abi.depth)
            };
            let error = Error::new("RecursionError", error);
            (*state).error = Some(RunError::new(Reason::StackOverflow, error));
        }
    }

    /// Looks at fuel, the cancel flag and the deadline.
    ///
    /// # Safety
    /// `state` is live.
    #[cold]
    #[inline(never)]
    pub unsafe fn poll(state: *mut State) -> Result<(), ()> {
        // SAFETY: the caller passes a live state, whose interrupt word lives as long, and nothing
        // else refers to its error.
        unsafe {
            let flags = (*(*state).abi.interrupt).load(Ordering::Relaxed);
            let (reason, what) = if flags & CANCEL != 0 {
                (Reason::Cancelled, "the run was cancelled")
            } else if (*state).abi.fuel < 0 {
                (Reason::FuelExhausted, "the run used up its fuel")
            } else if (*state).deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                (Reason::DeadlineExceeded, "the run exceeded its deadline")
            } else {
                return Ok(());
            };
            (*state).error = Some(RunError::new(reason, Error::runtime_error(what)));
            Err(())
        }
    }

    /// Releases every frame down to and including the innermost base frame, and returns
    /// the error with the frames that were active.
    ///
    /// # Safety
    /// `state` is live with an error set and a base frame on the stack.
    #[cold]
    pub unsafe fn unwind(state: *mut State) -> RunError {
        let mut innermost = Vec::new();
        let mut outermost: Vec<FrameInfo> = Vec::new();
        let mut depth = 0;
        // SAFETY: frames are linked by their headers down to a base frame; registers are
        // valid owned values, released while their frame is the current one.
        unsafe {
            // Destructors may call back, and such runs have errors of their own.
            let error = (*state).error.take();
            let mut pc = (*state).abi.pc;
            loop {
                let regs = (*state).abi.regs;
                let func = (*header(regs)).func;
                let info = frame_info(&(*state).program, func, pc);
                depth += 1;
                if innermost.len() < LISTED {
                    innermost.push(info);
                } else {
                    if outermost.len() == LISTED {
                        outermost.remove(0);
                    }
                    outermost.push(info);
                }
                let func = (*state).program.function(func).expect("frames run VM functions");
                for at in 0..func.num_regs as usize {
                    release(*regs.add(at));
                }
                let left = *header(regs);
                (*state).abi.regs = left.caller;
                (*state).abi.depth -= 1;
                pc = left.return_pc.wrapping_sub(1);
                if left.flags & FRAME_BASE != 0 {
                    break;
                }
            }
            let missing = || Error::runtime_error("a tier failed without saying why");
            let error = error.unwrap_or_else(|| RunError::new(Reason::Failed, missing()));
            innermost.extend(outermost);
            error.at(innermost, depth)
        }
    }
}

fn frame_info(program: &Program, func: u32, pc: u32) -> FrameInfo {
    let op = program.function(func).and_then(|f| f.ops.get(pc as usize));
    let callee = op.and_then(Op::call).map(|(callee, _)| program.callee_name(callee));
    FrameInfo {
        function: program.name(func).to_owned(),
        instr: pc,
        callee: callee.map(str::to_owned),
    }
}

//! Frame sinking: frames are pushed and popped only where that is visible.
//!
//! The current frame is visible to host code, which may run functions of the program on top of it,
//! and to the interpreter after a side exit. Entering and leaving frames moves down to the first
//! instruction that may run host code. A call without one never gets a frame header. Side exits push
//! the frames that they need.

use reflex_vm::program::Program;

use super::super::ir::{End, FrameId, Ins, Trace};

/// Moves every `enter` and `leave` down as far as possible, and merges those that meet.
pub(super) fn sink_frames(_: &Program, trace: &mut Trace) {
    let callers: Vec<Option<FrameId>> =
        trace.frames.iter().map(|frame| frame.caller.map(|caller| caller.frame)).collect();
    let old = std::mem::take(&mut trace.code);
    let mut code = Vec::with_capacity(old.len());
    // For each instruction of `code`, the session's current frame.
    let mut current: Vec<FrameId> = Vec::with_capacity(old.len());
    let (mut is, mut should_be) = (FrameId(0), FrameId(0));
    for ins in old {
        match ins {
            Ins::EnterFrame { frame } => {
                should_be = frame;
                continue;
            }
            Ins::LeaveFrame { frame: FrameId(frame) } => {
                should_be = callers[frame as usize].unwrap_or(FrameId(frame));
                continue;
            }
            _ => {}
        }
        if ins.may_run_host_code() && is != should_be {
            code.push(Ins::SetFrame { frame: should_be, was: is });
            current.push(is);
            is = should_be;
        }
        code.push(ins);
        current.push(is);
    }
    if !matches!(trace.end, End::Interpreter(_)) && is != should_be {
        code.push(Ins::SetFrame { frame: should_be, was: is });
        current.push(is);
        is = should_be;
    }
    current.push(is);
    trace.code = code;
    trace.change_snapshots(|at, exit| {
        let mut exit = exit.clone();
        exit.entered = current[at];
        exit
    });
}

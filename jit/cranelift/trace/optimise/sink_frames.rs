//! Frames of inlined calls become real only where somebody could see them.
//!
//! A frame is seen by host code, which may run functions of the program on top of it, and by the
//! interpreter after an exit. Entering a frame is put off until the first instruction that may
//! run host code; a call that has none never gets a header. Exits make the frames they need.

use reflex_vm::program::Program;

use super::super::ir::{End, FrameId, Ins, Trace};

/// Puts off every `enter` as far as possible, and drops it with its `leave` where it meets that.
pub(super) fn sink_frames(_: &Program, trace: &mut Trace) {
    let old = std::mem::take(&mut trace.code);
    let mut code = Vec::with_capacity(old.len());
    // For each instruction of `code`, the outermost frame that is not real yet.
    let mut unreal: Vec<Option<FrameId>> = Vec::with_capacity(old.len());
    let mut waiting: Vec<FrameId> = Vec::new();
    for ins in old {
        match ins {
            Ins::Enter { frame } => {
                waiting.push(frame);
                continue;
            }
            Ins::Leave { frame } if waiting.last() == Some(&frame) => {
                waiting.pop();
                continue;
            }
            _ => {}
        }
        if ins.may_run_host_code() {
            for frame in waiting.drain(..) {
                code.push(Ins::Enter { frame });
                unreal.push(None);
            }
        }
        code.push(ins);
        unreal.push(waiting.first().copied());
    }
    if matches!(trace.end, End::Into { .. }) {
        code.extend(waiting.drain(..).map(|frame| Ins::Enter { frame }));
        unreal.resize(code.len(), None);
    }
    unreal.push(waiting.first().copied());
    trace.code = code;
    let callers: Vec<Option<FrameId>> =
        trace.frames.iter().map(|frame| frame.called.map(|(caller, ..)| caller)).collect();
    trace.change_exits(|at, exit| {
        let mut exit = exit.clone();
        if let Some(caller) = unreal[at].and_then(|FrameId(frame)| callers[frame as usize]) {
            exit.entered = caller;
        }
        exit
    });
}

//! The step between writing instructions and running them. x86-64 sees to it by itself; on AArch64 the
//! caches of instructions do not see writes, and cores may have fetched from the addresses before.
//!
//! Source: Arm, "Arm Architecture Reference Manual for A-profile architecture" (DDI 0487), section B2.4.4,
//! "Concurrent modification and execution of instructions".

use std::ops::Range;

use crate::error::CodeError;

/// Takes written instructions to where caches of instructions read from, before they become executable.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn clean(_: Range<usize>) {}

/// Makes every thread of the process fetch executable instructions anew.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn synchronise_threads() -> Result<(), CodeError> {
    Ok(())
}

/// Takes written instructions to where caches of instructions read from, before they become executable.
#[cfg(target_arch = "aarch64")]
pub(crate) fn clean(text: Range<usize>) {
    use std::arch::asm;

    /// Bits of the register that say that the data cache, or that of instructions, need not be asked.
    const DATA_IS_COHERENT: u64 = 1 << 28;
    const INSTRUCTIONS_ARE_COHERENT: u64 = 1 << 29;
    let kinds: u64;
    // SAFETY: the register is one that every process may read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) kinds, options(nomem, nostack, preserves_flags)) };
    let line = |at: u32| 4_usize << (kinds >> at & 15);
    let lines = |size: usize| (text.start / size * size..text.end).step_by(size);
    if kinds & DATA_IS_COHERENT == 0 {
        for at in lines(line(16)) {
            // SAFETY: cleaning a line changes no data; the line is of mapped memory.
            unsafe { asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)) };
        }
    }
    // SAFETY: a barrier.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    if kinds & INSTRUCTIONS_ARE_COHERENT == 0 {
        for at in lines(line(0)) {
            // SAFETY: lines of instructions are read again; the line is of mapped memory.
            unsafe { asm!("ic ivau, {}", in(reg) at, options(nostack, preserves_flags)) };
        }
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

/// Makes every thread of the process fetch executable instructions anew.
#[cfg(target_arch = "aarch64")]
pub(crate) fn synchronise_threads() -> Result<(), CodeError> {
    use std::sync::OnceLock;

    /// Commands of `membarrier`: every core that runs a thread of the process synchronises its context.
    const SYNC_CORE: libc::c_long = 1 << 5;
    const REGISTER_SYNC_CORE: libc::c_long = 1 << 6;
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let ask = |command: libc::c_long| {
        // SAFETY: the call takes numbers and accesses no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    if *REGISTERED.get_or_init(|| ask(REGISTER_SYNC_CORE)) && ask(SYNC_CORE) {
        return Ok(());
    }
    Err(CodeError::unsupported("code needs a Linux with membarrier for instructions (4.16)"))
}

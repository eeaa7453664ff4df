//! The kernel's process-wide memory barrier.

const QUERY: libc::c_int = 0;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn call(command: libc::c_int) -> libc::c_long {
    if cfg!(miri) {
        return -1;
    }
    // SAFETY: `membarrier` takes no pointers, and touches no memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Returns true if the kernel has it.
pub fn is_offered() -> bool {
    let needed = libc::c_long::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
    let offered = call(QUERY);
    offered > 0 && offered & needed == needed
}

/// Sends every thread through a fence; returns true if that was done.
pub fn all_threads() -> bool {
    // A process registers once before its first barrier; programs that never need one do not wait.
    call(PRIVATE_EXPEDITED) == 0
        || call(REGISTER_PRIVATE_EXPEDITED) == 0 && call(PRIVATE_EXPEDITED) == 0
}

//! Sleeping until a word changes: Linux's futexes.

use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `expected`; wake-ups may be spurious.
pub(super) fn wait(word: &AtomicU32, expected: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let no_timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the word is valid for the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, no_timeout) };
}

/// Wakes up one thread that sleeps on `word`, of which only the address is used.
pub(super) fn wake(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a wake-up does not access the word, and reports bad addresses as errors.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, 1) };
}

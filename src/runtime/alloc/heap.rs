//! The process's heap, which is the C library's.

use std::thread;

/// [`trim`] on a thread of its own, where there can be one: the caller goes on.
pub fn trim_in_background() {
    let thread = thread::Builder::new().name("reflex-trim".to_owned());
    if thread.spawn(trim).is_err() {
        trim();
    }
}

/// Releases freed memory to the system (`malloc_trim`). The C library's allocator caches what a
/// thread has freed in that thread's arena, so this pays after rare work that took much memory; it
/// takes about a millisecond for ten megabytes, and threads that allocate meanwhile may wait.
pub fn trim() {
    // SAFETY: the function takes no pointers, and may be called on any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

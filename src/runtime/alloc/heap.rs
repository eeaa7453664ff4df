//! The process's heap, which is the C library's.

/// Gives memory that was freed back to the system. The C library's allocator keeps what a thread
/// has freed for that thread, so this pays after work that took much and is seldom done; it takes
/// about a millisecond for ten megabytes, and threads that allocate meanwhile may wait for it.
pub fn trim() {
    // SAFETY: the function takes no pointers, and may be called on any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

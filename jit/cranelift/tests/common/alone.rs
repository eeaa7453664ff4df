//! Tests of what the process counts.

use parking_lot::Mutex;

/// Runs a test while no other of its file runs, since memory and its limit are the process's. When it
/// returns, the test's thread has ended, and so released what it kept for its next objects.
pub fn alone<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    std::thread::spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

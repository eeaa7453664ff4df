//! The count of the bytes in use, over all threads, and its limit.
//!
//! A thread that makes and drops small tensors would touch the process's count twice for each. So the
//! bytes of small blocks that a thread releases stay in the count as the thread's *reserve*, from which
//! its next allocations take. A reserve is a counter that only its thread writes, and is bounded. What is
//! in use is the count less all reserves, which is exact. While there is a limit, nothing is taken
//! from reserves, and those that are left count as free: an allocation fails if and only if the bytes in
//! use would exceed the limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Largest block that reserves count.
pub(super) const SMALL: usize = 1 << 10;
/// Most bytes in a reserve.
const MOST: usize = 64 << 10;

/// Bytes in use or in reserves.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The most that was ever in `COUNT`.
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// `usize::MAX` if there is none.
pub(super) static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static RESERVES: Mutex<Reserves> = Mutex::new(Reserves { all: Vec::new(), unused: Vec::new() });

/// The counters of all threads, and of those the ones whose threads have ended. As many are made as
/// threads ever had one at once, and kept for the process's life.
struct Reserves {
    all: Vec<&'static AtomicUsize>,
    unused: Vec<&'static AtomicUsize>,
}

/// Bounds the bytes in use.
pub(super) fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The limit, `usize::MAX` if there is none.
#[inline]
pub(super) fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// The bytes in use; exact unless other threads allocate meanwhile.
pub(super) fn total() -> usize {
    reserves().in_use()
}

/// At least the bytes in use: reserves are not subtracted.
#[inline]
pub(super) fn upper_bound() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The high-water mark of the bytes in use, reserves of other sizes included.
#[inline]
pub(super) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Counts bytes as in use, unless that exceeds the limit.
#[inline]
pub(super) fn add(bytes: usize) -> bool {
    let limit = limit();
    if limit != usize::MAX {
        return add_within(bytes, limit);
    }
    let count = COUNT.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if count > peak() {
        PEAK.fetch_max(count, Ordering::Relaxed);
    }
    true
}

/// Counts bytes as in use, whatever the limit: they are about to be released.
pub(super) fn count(bytes: usize) {
    COUNT.fetch_add(bytes, Ordering::Relaxed);
}

/// Counts bytes unless those in use would exceed a limit; what fails is never counted, so it makes no
/// other thread's allocation fail.
#[cold]
fn add_within(bytes: usize, limit: usize) -> bool {
    let within = |held: usize| {
        let sum = |count: usize| count.checked_add(bytes);
        let fits = |sum: &usize| sum.saturating_sub(held) <= limit;
        COUNT.try_update(Ordering::Relaxed, Ordering::Relaxed, |count| sum(count).filter(fits))
    };
    let added = within(0).or_else(|_| {
        let reserves = reserves();
        within(reserves.held())
    });
    let Ok(before) = added else { return false };
    PEAK.fetch_max(before + bytes, Ordering::Relaxed);
    true
}

/// Ends the use of bytes that [`add`] counted.
#[inline]
pub(super) fn subtract(bytes: usize) {
    COUNT.fetch_sub(bytes, Ordering::Relaxed);
}

/// The reserves of all threads. While they are borrowed, none is emptied into the count.
fn reserves() -> MutexGuard<'static, Reserves> {
    // Nothing can panic while the lock is held but for want of memory, which leaves the lists whole.
    RESERVES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Reserves {
    /// The bytes in all of them.
    fn held(&self) -> usize {
        self.all.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// The count less all reserves.
    fn in_use(&self) -> usize {
        // A thread may have moved bytes from its reserve meanwhile.
        COUNT.load(Ordering::Relaxed).saturating_sub(self.held())
    }
}

/// A reserve of a thread. Machine code reads it as the address of the counter, or null.
#[repr(transparent)]
pub(super) struct Reserve(Option<&'static AtomicUsize>);

impl Reserve {
    pub(super) const EMPTY: Reserve = Reserve(None);

    /// Takes bytes for a block; returns false if there are too few, or if there is a limit.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Some(counter) = self.0 else { return false };
        let rest = counter.load(Ordering::Relaxed).checked_sub(bytes);
        match rest.filter(|_| limit() == usize::MAX) {
            Some(rest) => {
                counter.store(rest, Ordering::Relaxed);
                true
            }
            None => false,
        }
    }

    /// Ends the use of a block's bytes, which stay in the reserve if they are few.
    #[inline]
    pub(super) fn put(&mut self, bytes: usize) {
        if bytes > SMALL || limit() != usize::MAX {
            return subtract(bytes);
        }
        let counter = *self.0.get_or_insert_with(counter);
        let held = counter.load(Ordering::Relaxed) + bytes;
        if held <= MOST {
            return counter.store(held, Ordering::Relaxed);
        }
        let _none_counts = reserves();
        counter.store(0, Ordering::Relaxed);
        subtract(held);
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let Some(counter) = self.0.take() else { return };
        let mut reserves = reserves();
        subtract(counter.swap(0, Ordering::Relaxed));
        reserves.unused.push(counter);
    }
}

/// A counter for this thread, which is 0.
#[cold]
fn counter() -> &'static AtomicUsize {
    let mut reserves = reserves();
    if let Some(counter) = reserves.unused.pop() {
        return counter;
    }
    let counter: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    reserves.all.push(counter);
    counter
}

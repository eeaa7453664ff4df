//! Work on many kernels at once, by as many threads as the process has processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use reflex_runtime::threads::default_threads;

/// The results of `work` on each item, in order; or the error of the first item in order that has one.
/// After an error no further item is begun.
pub(super) fn try_in_parallel<I: Sync, T: Send, E: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let cores = default_threads();
    let (next, slots) = (AtomicUsize::new(0), items.iter().map(|_| Mutex::new(None)));
    let slots: Vec<Mutex<Option<Result<T, E>>>> = slots.collect();
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(slot)) = (items.get(at), slots.get(at)) else { return };
            let result = work(item);
            if result.is_err() {
                // Items before this one are begun, so the first error in order is found.
                next.fetch_max(items.len(), Ordering::Relaxed);
            }
            *slot.lock().expect("no thread panics with the lock") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(items.len()) {
            // Threads that cannot be had are not needed.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let done = |slot: Mutex<Option<_>>| slot.into_inner().expect("no thread panicked");
    slots.into_iter().map_while(done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u32> = (0..100).collect();
        let found = try_in_parallel(&items, |n| Ok::<_, ()>(2 * n)).unwrap();
        assert_eq!(found, items.iter().map(|n| 2 * n).collect::<Vec<_>>());
        assert_eq!(try_in_parallel(&[], |n: &u32| Ok::<_, ()>(*n)), Ok(vec![]));
    }

    #[test]
    fn the_error_is_that_of_the_first_item() {
        let items: Vec<u64> = (0..50).collect();
        for _ in 0..20 {
            let found = try_in_parallel(&items, |n| {
                // The first to fail is the last to say so.
                std::thread::sleep(std::time::Duration::from_micros(300 - 5 * n));
                if *n < 7 { Ok(()) } else { Err(*n) }
            });
            assert_eq!(found, Err(7));
        }
    }
}

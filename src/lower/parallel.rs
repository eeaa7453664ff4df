//! Independent work on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use reflex_runtime::threads::default_threads;

/// The results of `work` on each number below `count`, in order, by `jobs` threads; 0 is one for each core.
pub fn in_parallel<T: Send>(count: usize, jobs: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = default_threads();
    let jobs = if jobs == 0 { cores } else { jobs };
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(at) else { return };
            let result = work(at);
            *slot.lock().expect("no worker panics with the lock") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        (1..jobs.min(count)).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let done = |slot: Mutex<Option<T>>| slot.into_inner().expect("no worker panicked");
    slots.into_iter().filter_map(done).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_are_in_order() {
        for jobs in [0, 1, 3] {
            assert_eq!(
                in_parallel(40, jobs, |at| at * 2),
                (0..40).map(|n| n * 2).collect::<Vec<_>>()
            );
        }
        assert!(in_parallel(0, 2, |at| at).is_empty());
    }
}

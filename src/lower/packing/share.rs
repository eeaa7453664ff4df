//! Work on the parts of a large constant, shared by all cores.

use std::sync::Mutex;

use reflex_runtime::threads::default_threads;

/// Constants from this size on, in bytes, are packed by more than one thread.
const LARGE: usize = 1 << 20;

/// Calls `work` on each part of `bytes`, `part` bytes of it, with its number; in any order.
pub fn for_each_part(bytes: &mut [u8], part: usize, work: impl Fn(usize, &mut [u8]) + Sync) {
    let cores = default_threads();
    let threads = if bytes.len() < LARGE { 1 } else { cores };
    let parts = bytes.chunks_exact_mut(part.max(1)).enumerate();
    let threads = threads.min(parts.len());
    if threads <= 1 {
        return parts.for_each(|(number, part)| work(number, part));
    }
    let parts = Mutex::new(parts);
    let run = || {
        loop {
            let next = parts.lock().expect("no thread panics with the lock").next();
            let Some((number, part)) = next else { return };
            work(number, part);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_worked_on_once() {
        for size in [0, 24, LARGE + 8] {
            let mut bytes = vec![1; size];
            for_each_part(&mut bytes, 8, |number, part| {
                part.iter_mut().for_each(|byte| *byte = byte.wrapping_add(number as u8));
            });
            let expected = |at: usize| (at / 8) as u8;
            assert!(
                bytes.iter().enumerate().all(|(at, byte)| *byte == expected(at).wrapping_add(1))
            );
        }
    }
}

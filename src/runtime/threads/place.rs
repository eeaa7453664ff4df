//! Where a helper wakes up: not where it was called.
//!
//! The system may wake a thread on the processor of who wakes it. Its caller goes on there with its
//! own share, and may have done the helper's too before the helper runs.

use std::mem::MaybeUninit;

use libc::{CPU_CLR, CPU_COUNT, CPU_EQUAL, cpu_set_t};

/// The processors that a helper's thread may run on.
pub(super) struct Place {
    thread: libc::pid_t,
    /// By what others have decided.
    own: Option<cpu_set_t>,
    /// By what was decided here.
    set: Option<cpu_set_t>,
    /// The processor that it is kept off.
    avoids: libc::c_int,
}

impl Place {
    /// That of a thread which is not known yet, and is left alone.
    pub(super) const NOWHERE: Place = Place { thread: 0, own: None, set: None, avoids: -1 };

    /// That of the calling thread.
    pub(super) fn here() -> Place {
        if cfg!(miri) {
            return Place::NOWHERE;
        }
        // SAFETY: the call takes nothing.
        let thread = unsafe { libc::gettid() };
        let own = affinity(thread);
        Place { thread, own, set: own, avoids: -1 }
    }

    /// Takes the processor of the calling thread away from the helper's thread, unless it has no
    /// other one, and gives back the one before. A hint: what the system refuses stays as it is.
    pub(super) fn keep_off_caller(&mut self) {
        if self.own.is_none() {
            return;
        }
        // SAFETY: the call takes nothing.
        let here = unsafe { libc::sched_getcpu() };
        if here != self.avoids && (0..libc::CPU_SETSIZE).contains(&here) {
            self.avoids = here;
            self.keep_off(here as usize);
        }
    }

    fn keep_off(&mut self, cpu: usize) {
        let now = affinity(self.thread);
        let as_set = |set: &cpu_set_t| now.as_ref().is_some_and(|now| same(now, set));
        if !self.set.as_ref().is_some_and(as_set) {
            // Somebody else has decided anew.
            self.own = now;
        }
        self.set = self.own;
        let Some(mut rest) = self.own else { return };
        // SAFETY: the set is valid, and has a place for the number.
        unsafe { CPU_CLR(cpu, &mut rest) };
        // SAFETY: the set is valid.
        let rest = if unsafe { CPU_COUNT(&rest) } > 0 { rest } else { return };
        // SAFETY: the set is valid for the call.
        let outcome =
            unsafe { libc::sched_setaffinity(self.thread, size_of_val(&rest), &raw const rest) };
        if outcome == 0 {
            self.set = Some(rest);
        }
    }
}

/// The processors that a thread may run on, where the system tells.
fn affinity(thread: libc::pid_t) -> Option<cpu_set_t> {
    let mut set = MaybeUninit::<cpu_set_t>::zeroed();
    // SAFETY: the set is valid for the call, which writes it.
    let outcome =
        unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: all zeros are a set too.
    let set = unsafe { set.assume_init() };
    (outcome == 0).then_some(set)
}

fn same(a: &cpu_set_t, b: &cpu_set_t) -> bool {
    // SAFETY: the sets are valid.
    unsafe { CPU_EQUAL(a, b) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_avoids_its_caller_and_follows_what_others_decide() {
        std::thread::scope(|scope| {
            let (place, asked) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
            let idle = scope.spawn(move || {
                place.0.send(Place::here()).unwrap();
                let _ = asked.1.recv();
            });
            let mut place = place.1.recv().unwrap();
            let own = place.own.unwrap();
            let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
                // SAFETY: the set is valid, and has a place for the number.
                .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &own) })
                .collect();
            for cpu in &cpus {
                place.keep_off(*cpu);
                let now = affinity(place.thread).unwrap();
                // SAFETY: as above.
                let (there, count) = unsafe { (libc::CPU_ISSET(*cpu, &now), CPU_COUNT(&now)) };
                assert_eq!(there, cpus.len() == 1, "its only one stays");
                assert_eq!(count as usize, (cpus.len() - 1).max(1), "the one before is back");
            }
            let mut one = own;
            // SAFETY: as above; the set is valid for the call.
            unsafe {
                cpus.iter().rev().skip(1).for_each(|cpu| CPU_CLR(*cpu, &mut one));
                libc::sched_setaffinity(place.thread, size_of_val(&one), &raw const one);
            }
            place.keep_off(*cpus.last().unwrap());
            assert!(same(&affinity(place.thread).unwrap(), &one), "somebody wants it there");
            drop(asked.0);
            idle.join().unwrap();
        });
    }
}

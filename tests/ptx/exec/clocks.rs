//! Vector clocks: the accesses of other threads of a block that a thread has seen within an epoch.

use crate::mem::race::Agent;

/// Vector clocks. A barrier of the whole block forgets them: it orders everything.
#[derive(Debug, Default)]
pub struct Clocks {
    own: Vec<u32>,
    seen: Vec<Vec<u32>>,
}

impl Clocks {
    /// Clocks of the threads of a block, and of the engines that work for them.
    pub fn new(threads: usize) -> Clocks {
        Clocks { own: vec![1; threads], seen: vec![vec![]; threads] }
    }

    /// Forgets everything at the end of an epoch.
    pub fn reset(&mut self) {
        self.own.fill(1);
        self.seen.iter_mut().for_each(Vec::clear);
    }

    /// The agent of a thread.
    pub fn agent(&self, thread: u32, epoch: u32, block_start: u32) -> Agent<'_> {
        let at = thread as usize;
        Agent {
            thread: thread as u16,
            epoch,
            block_start,
            clock: self.own[at],
            seen: &self.seen[at],
        }
    }

    /// Orders everything that `before` did before what `after` will do.
    pub fn order(&mut self, before: &[u32], after: &[u32]) {
        let mut known = vec![0; self.own.len()];
        for thread in before {
            let at = *thread as usize;
            for (to, from) in known.iter_mut().zip(&self.seen[at]) {
                *to = (*to).max(*from);
            }
            known[at] = known[at].max(self.own[at]);
        }
        for thread in before {
            self.own[*thread as usize] += 1;
        }
        for thread in after {
            let seen = &mut self.seen[*thread as usize];
            seen.resize(known.len(), 0);
            for (to, from) in seen.iter_mut().zip(&known) {
                *to = (*to).max(*from);
            }
        }
    }

    /// Adds what a thread has done and seen to what others may learn.
    pub fn release(&mut self, thread: u32, into: &mut Vec<u32>) {
        let at = thread as usize;
        into.resize(self.own.len(), 0);
        for (to, from) in into.iter_mut().zip(&self.seen[at]) {
            *to = (*to).max(*from);
        }
        into[at] = into[at].max(self.own[at]);
        self.own[at] += 1;
    }

    /// A thread learns what others have released.
    pub fn acquire(&mut self, thread: u32, from: &[u32]) {
        let seen = &mut self.seen[thread as usize];
        seen.resize(self.own.len(), 0);
        for (to, from) in seen.iter_mut().zip(from) {
            *to = (*to).max(*from);
        }
    }

    /// The clock of a thread.
    pub fn now(&self, thread: u32) -> u32 {
        self.own[thread as usize]
    }

    /// Whether a thread has seen another at a clock.
    pub fn has_seen(&self, thread: u32, other: u32, clock: u32) -> bool {
        let seen = &self.seen[thread as usize];
        thread == other || seen.get(other as usize).is_some_and(|seen| *seen >= clock)
    }

    /// Ends a step of a thread, and returns its clock.
    pub fn tick(&mut self, thread: u32) -> u32 {
        let own = &mut self.own[thread as usize];
        *own += 1;
        *own - 1
    }

    /// A thread learns what another did up to a clock.
    pub fn acquire_one(&mut self, thread: u32, other: u32, clock: u32) {
        let seen = &mut self.seen[thread as usize];
        seen.resize(self.own.len(), 0);
        let to = &mut seen[other as usize];
        *to = (*to).max(clock);
    }

    /// The clock of a thread, itself included.
    pub fn knowledge(&self, thread: u32) -> Vec<u32> {
        let at = thread as usize;
        let mut seen = self.seen[at].clone();
        seen.resize(self.own.len(), 0);
        seen[at] = self.own[at];
        seen
    }
}

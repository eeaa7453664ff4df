//! What threads of a block know of each other within an epoch.

use crate::mem::race::Agent;

/// Vector clocks. A barrier of the whole block forgets them: it orders everything.
#[derive(Debug, Default)]
pub struct Clocks {
    own: Vec<u32>,
    seen: Vec<Vec<u32>>,
}

impl Clocks {
    /// Clocks of the threads of a block.
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
}

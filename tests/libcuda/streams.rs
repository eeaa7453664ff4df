//! Streams: queues of work that runs when something waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reflex_ptx::Module;

use crate::status::{LAUNCH_TIMEOUT, Status};

/// Work of a stream.
pub enum Work {
    /// A copy from the host, whose memory is read when it runs.
    FromHost { to: u64, from: usize, bytes: usize },
    /// A copy to the host.
    ToHost { to: usize, from: u64, bytes: usize },
    /// A copy between allocations.
    Copy { to: u64, from: u64, bytes: usize },
    /// A fill.
    Fill { to: u64, value: u8, bytes: usize },
    /// A kernel.
    Launch(Launch),
    /// From here on, a ticket is done.
    Record(u64),
    /// Nothing more runs until a ticket is done.
    Wait(u64),
}

/// A kernel with its parameters.
#[derive(Clone)]
pub struct Launch {
    pub module: Arc<Module>,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: Vec<u8>,
    /// Number of the launch, from 1.
    pub number: u64,
}

/// A stream.
pub struct Stream {
    pub device: usize,
    queue: VecDeque<Work>,
    /// Whether it was destroyed: what it has still runs.
    ended: bool,
}

/// The streams of all devices.
#[derive(Default)]
pub struct Streams {
    all: BTreeMap<u64, Stream>,
    /// Tickets that are done.
    done: BTreeSet<u64>,
    tickets: u64,
    /// State of the generator of orders; 0 for the order in which work is needed.
    random: u64,
}

/// The end of a wait.
#[derive(Clone, Copy)]
pub enum Goal {
    /// A stream has no work left.
    Empty(u64),
    /// A ticket is done.
    Ticket(u64),
}

impl Streams {
    pub fn new(seed: u64) -> Streams {
        Streams { random: seed, ..Streams::default() }
    }

    pub fn add(&mut self, handle: u64, device: usize) {
        self.all.insert(handle, Stream { device, queue: VecDeque::new(), ended: false });
    }

    /// The device of a stream that was not destroyed.
    pub fn device_of(&self, handle: u64) -> Option<usize> {
        self.all.get(&handle).filter(|stream| !stream.ended).map(|stream| stream.device)
    }

    pub fn end(&mut self, handle: u64) {
        if let Some(stream) = self.all.get_mut(&handle) {
            stream.ended = true;
        }
    }

    pub fn push(&mut self, handle: u64, work: Work) {
        if let Some(stream) = self.all.get_mut(&handle) {
            stream.queue.push_back(work);
        }
    }

    /// A ticket that no stream has yet.
    pub fn new_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub fn is_done(&self, ticket: u64) -> bool {
        self.done.contains(&ticket)
    }

    /// The next work on the way to a goal, with its device; none when the goal is reached.
    pub fn next(&mut self, goal: Goal) -> Result<Option<(usize, Work)>, Status> {
        loop {
            let reached = match goal {
                Goal::Empty(handle) => self.all.get(&handle).is_none_or(|s| s.queue.is_empty()),
                Goal::Ticket(ticket) => self.done.contains(&ticket),
            };
            if reached {
                return Ok(None);
            }
            // Nothing can ever run: the wait goes in a circle.
            let needed = self.needed(goal).ok_or(LAUNCH_TIMEOUT)?;
            let handle = if self.toss() { self.any().unwrap_or(needed) } else { needed };
            let Some(stream) = self.all.get_mut(&handle) else { return Err(LAUNCH_TIMEOUT) };
            match stream.queue.pop_front() {
                Some(Work::Record(ticket)) => drop(self.done.insert(ticket)),
                Some(Work::Wait(_)) | None => {}
                Some(work) => return Ok(Some((stream.device, work))),
            }
        }
    }

    /// A stream that can run and has to, for a goal.
    fn needed(&self, goal: Goal) -> Option<u64> {
        let mut handle = match goal {
            Goal::Empty(handle) => handle,
            Goal::Ticket(ticket) => self.recorder(ticket)?,
        };
        for _ in 0..=self.all.len() {
            match self.all.get(&handle)?.queue.front()? {
                Work::Wait(ticket) if !self.done.contains(ticket) => {
                    handle = self.recorder(*ticket)?;
                }
                _ => return Some(handle),
            }
        }
        None
    }

    fn recorder(&self, ticket: u64) -> Option<u64> {
        let records = |work: &Work| matches!(work, Work::Record(of) if *of == ticket);
        let found = self.all.iter().find(|(_, stream)| stream.queue.iter().any(records));
        found.map(|(handle, _)| *handle)
    }

    /// Some stream that can run.
    fn any(&mut self) -> Option<u64> {
        let runs = |stream: &Stream| match stream.queue.front() {
            Some(Work::Wait(ticket)) => self.done.contains(ticket),
            front => front.is_some(),
        };
        let ready: Vec<u64> =
            self.all.iter().filter(|(_, stream)| runs(stream)).map(|(handle, _)| *handle).collect();
        let at = self.draw() as usize % ready.len().max(1);
        ready.get(at).copied()
    }

    fn toss(&mut self) -> bool {
        self.random != 0 && self.draw().is_multiple_of(2)
    }

    /// Xorshift (Marsaglia, 2003).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<u64> {
        let mut streams = Streams::new(seed);
        streams.add(1, 0);
        streams.add(2, 0);
        let ticket = streams.new_ticket();
        let fill = |to| Work::Fill { to, value: 0, bytes: 1 };
        streams.push(1, fill(10));
        streams.push(1, Work::Wait(ticket));
        streams.push(1, fill(11));
        streams.push(2, fill(20));
        streams.push(2, Work::Record(ticket));
        streams.push(2, fill(21));
        let mut order = vec![];
        while let Some((_, work)) = streams.next(Goal::Empty(1)).unwrap() {
            if let Work::Fill { to, .. } = work {
                order.push(to);
            }
        }
        order
    }

    #[test]
    fn only_what_is_needed_runs_unless_a_seed_says_more() {
        assert_eq!(order(0), [10, 20, 11], "21 is not needed");
        let orders: BTreeSet<Vec<u64>> = (1..40).map(order).collect();
        assert!(orders.len() > 2, "{orders:?}");
        for order in orders {
            let at = |of| order.iter().position(|to| *to == of);
            assert!(at(20) < at(11) && at(10) < at(11), "{order:?}");
        }
    }

    #[test]
    fn a_circle_of_waits_is_an_error() {
        let mut streams = Streams::new(0);
        streams.add(1, 0);
        let ticket = streams.new_ticket();
        streams.push(1, Work::Wait(ticket));
        assert!(matches!(streams.next(Goal::Empty(1)), Err(LAUNCH_TIMEOUT)));
    }
}

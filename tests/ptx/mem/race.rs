//! The order of accesses: the threads that wrote and read each byte since the last barrier.
//!
//! A barrier of a whole block ends an epoch, and everything before it is ordered. Within an epoch
//! a vector clock per thread says what it knows of the others; barriers that order threads update it.

use std::collections::HashMap;

use crate::fault::Other;

const PAGE: u64 = 4096;
/// The thread of a record that stands for several readers.
const MANY: u16 = u16::MAX;

/// A thread's access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub write: bool,
    /// Whether it is atomic, or strong, so that other such accesses do not race with it.
    pub atomic: bool,
}

/// A thread that touches memory, and what it knows of the others.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// Index in the block.
    pub thread: u16,
    /// The current epoch; epochs of a launch are unique.
    pub epoch: u32,
    /// The first epoch of the block.
    pub block_start: u32,
    /// The agent's own clock in this epoch.
    pub clock: u32,
    /// The clocks of others that this agent has seen in this epoch; empty when none.
    pub seen: &'a [u32],
}

impl Agent<'_> {
    fn has_seen(&self, thread: u16, clock: u32) -> bool {
        thread == self.thread || self.seen.get(usize::from(thread)).is_some_and(|c| *c >= clock)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write_epoch: u32,
    write_clock: u32,
    read_epoch: u32,
    /// The clock of the one reader, or the number of the set of readers.
    read_clock: u32,
    /// The last epoch in which another block has read.
    foreign_epoch: u32,
    write_thread: u16,
    read_thread: u16,
    write_atomic: bool,
    read_atomic: bool,
}

/// Cells for units of `1 << shift` bytes.
#[derive(Debug)]
struct Page {
    shift: u32,
    cells: Vec<Cell>,
}

impl Page {
    /// Makes units as small as an access needs.
    fn refine(&mut self, shift: u32) {
        while self.shift > shift {
            self.cells = self.cells.iter().flat_map(|cell| [*cell, *cell]).collect();
            self.shift -= 1;
        }
    }
}

/// Records of all accesses of a launch.
#[derive(Debug, Default)]
pub struct Races {
    pages: HashMap<u64, usize>,
    store: Vec<Page>,
    last: Option<(u64, usize)>,
    /// Readers of cells that several threads read, with their clocks.
    sets: Vec<Vec<(u16, u32)>>,
    /// Whether order within an epoch occurs, so that sets of readers are kept.
    precise: bool,
    /// Epochs before this one are forgotten.
    start: u32,
}

impl Races {
    /// No records. `precise` where threads order themselves by more than barriers of the block.
    pub fn new(precise: bool) -> Races {
        Races { precise, ..Races::default() }
    }

    /// Forgets all records before an epoch.
    pub fn forget_before(&mut self, epoch: u32) {
        self.start = epoch;
        self.end_epoch();
    }

    /// Forgets sets of readers, which only matter within an epoch.
    pub fn end_epoch(&mut self) {
        self.sets.clear();
    }

    /// Records an access and returns what it races with.
    pub fn access(
        &mut self,
        address: u64,
        size: u64,
        access: Access,
        agent: &Agent<'_>,
    ) -> Option<(u64, Other)> {
        let shift = (address | size).trailing_zeros().min(2);
        let mut at = address;
        let end = address + size;
        while at < end {
            let page = self.page(at / PAGE);
            self.store[page].refine(shift);
            let unit = self.store[page].shift;
            let stop = end.min((at / PAGE + 1) * PAGE);
            while at < stop {
                let index = ((at % PAGE) >> unit) as usize;
                if let Some(other) = self.touch(page, index, access, agent) {
                    return Some((at, other));
                }
                at = ((at >> unit) + 1) << unit;
            }
        }
        None
    }

    fn page(&mut self, number: u64) -> usize {
        if let Some((last, page)) = self.last
            && last == number
        {
            return page;
        }
        let page = *self.pages.entry(number).or_insert_with(|| {
            self.store.push(Page { shift: 2, cells: vec![Cell::default(); PAGE as usize / 4] });
            self.store.len() - 1
        });
        self.last = Some((number, page));
        page
    }

    fn touch(
        &mut self,
        page: usize,
        index: usize,
        access: Access,
        agent: &Agent<'_>,
    ) -> Option<Other> {
        let mut cell = self.store[page].cells[index];
        let conflict = self.conflict(&cell, access, agent);
        if access.write {
            cell.write_epoch = agent.epoch;
            cell.write_clock = agent.clock;
            cell.write_thread = agent.thread;
            cell.write_atomic = access.atomic;
        } else {
            self.record_read(&mut cell, access, agent);
        }
        self.store[page].cells[index] = cell;
        conflict
    }

    fn conflict(&self, cell: &Cell, access: Access, agent: &Agent<'_>) -> Option<Other> {
        let strong = |other: bool| other && access.atomic;
        if cell.write_epoch >= self.start.max(1) && !strong(cell.write_atomic) {
            let other_block = cell.write_epoch < agent.block_start;
            let now = cell.write_epoch == agent.epoch;
            if other_block || now && !agent.has_seen(cell.write_thread, cell.write_clock) {
                let thread = Some(u32::from(cell.write_thread));
                return Some(Other { thread, other_block, write: true });
            }
        }
        let foreign = cell.foreign_epoch;
        if access.write && foreign >= self.start.max(1) && foreign < agent.block_start {
            return Some(Other { thread: None, other_block: true, write: false });
        }
        if access.write && cell.read_epoch >= self.start.max(1) && !strong(cell.read_atomic) {
            let other_block = cell.read_epoch < agent.block_start;
            let now = cell.read_epoch == agent.epoch;
            if other_block || now && !self.has_seen_readers(cell, agent) {
                let thread = (cell.read_thread != MANY).then_some(u32::from(cell.read_thread));
                return Some(Other { thread, other_block, write: false });
            }
        }
        None
    }

    fn has_seen_readers(&self, cell: &Cell, agent: &Agent<'_>) -> bool {
        if cell.read_thread != MANY {
            return agent.has_seen(cell.read_thread, cell.read_clock);
        }
        let set = self.sets.get(cell.read_clock as usize);
        self.precise
            && set.is_some_and(|set| set.iter().all(|(thread, at)| agent.has_seen(*thread, *at)))
    }

    fn record_read(&mut self, cell: &mut Cell, access: Access, agent: &Agent<'_>) {
        let first = cell.read_epoch != agent.epoch;
        if first && !cell.read_atomic && cell.read_epoch < agent.block_start {
            cell.foreign_epoch = cell.foreign_epoch.max(cell.read_epoch);
        }
        if first || cell.read_thread == agent.thread {
            cell.read_atomic = access.atomic && (first || cell.read_atomic);
            cell.read_epoch = agent.epoch;
            cell.read_thread = agent.thread;
            cell.read_clock = agent.clock;
            return;
        }
        cell.read_atomic &= access.atomic;
        if !self.precise {
            cell.read_thread = MANY;
        } else if cell.read_thread != MANY {
            let readers = vec![(cell.read_thread, cell.read_clock), (agent.thread, agent.clock)];
            self.sets.push(readers);
            cell.read_clock = self.sets.len() as u32 - 1;
            cell.read_thread = MANY;
        } else if let Some(set) = self.sets.get_mut(cell.read_clock as usize) {
            match set.iter_mut().find(|(thread, _)| *thread == agent.thread) {
                Some(reader) => reader.1 = agent.clock,
                None => set.push((agent.thread, agent.clock)),
            }
        }
    }
}

//! Operations that a block has issued and not finished: copies, phases of barrier objects, and matrix
//! products.

use std::collections::{HashMap, VecDeque};

use crate::mem::bytes::Bytes;
use crate::num::format::Format;

/// Values of one operand for all lanes.
pub type Lanes = [u64; 32];

/// Where an access comes from.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The warp.
    pub warp: usize,
    /// The lane.
    pub lane: usize,
    /// The instruction.
    pub pc: u32,
}

/// A copy that has not run.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Offset in shared memory.
    pub to: u64,
    /// Address of the source.
    pub from: u64,
    pub bytes: u64,
    /// Bytes that are read; the others become zero.
    pub read: u64,
}

/// The copies of a thread: those of the open group, and closed groups.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    pub open: Vec<Copy>,
    pub groups: VecDeque<Vec<Copy>>,
}

impl Copies {
    /// Whether a copy that has not run writes bytes of a range.
    pub fn touches(&self, at: u64, size: u64) -> bool {
        let mut all = self.groups.iter().flatten().chain(&self.open);
        all.any(|copy| copy.to < at + size && at < copy.to + copy.bytes)
    }
}

/// A part of a copy whose bytes are neighbours on both sides: offset in shared memory, address in
/// global memory (none for zeros), bytes.
pub type Piece = (u64, Option<u64>, u64);

/// A load that has not run.
#[derive(Clone, Debug)]
pub struct Load {
    pub site: Site,
    pub pieces: Vec<Piece>,
    pub bytes: u64,
    pub barrier: u64,
    /// The epoch of its issue, and what its thread knew then.
    pub epoch: u32,
    pub seen: Vec<u32>,
}

/// Stores of one thread: those of the open group, and closed groups.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    pub open: Vec<Vec<Piece>>,
    pub groups: VecDeque<Vec<Vec<Piece>>>,
}

/// The bulk copies of a block, and what its threads wrote without a fence since.
#[derive(Clone, Debug)]
pub struct Bulks {
    pub loads: VecDeque<Load>,
    pub stores: Vec<Stores>,
    pub unfenced: Bytes,
    pub by_thread: Vec<Vec<(u64, u64)>>,
}

impl Bulks {
    /// No copies.
    pub fn new(shared: usize, threads: usize) -> Bulks {
        Bulks {
            loads: VecDeque::new(),
            stores: vec![Stores::default(); threads],
            unfenced: Bytes::new(shared),
            by_thread: vec![vec![]; threads],
        }
    }

    /// Whether a load that has not run writes bytes of a range.
    pub fn touches(&self, at: u64, size: u64) -> bool {
        let mut pieces = self.loads.iter().flat_map(|load| &load.pieces);
        pieces.any(|(to, _, bytes)| *to < at + size && at < to + bytes)
    }

    /// A thread wrote shared memory.
    pub fn wrote(&mut self, thread: u32, at: u64, size: u64) {
        self.unfenced.mark(at as usize, size as usize, true);
        self.by_thread[thread as usize].push((at, size));
    }

    /// A thread made its writes visible to asynchronous readers.
    pub fn fence(&mut self, thread: u32) {
        for (at, size) in std::mem::take(&mut self.by_thread[thread as usize]) {
            self.unfenced.mark(at as usize, size as usize, false);
        }
    }

    /// The first byte of a range that was written without a fence.
    pub fn unfenced(&self, at: u64, size: u64) -> Option<u64> {
        (at..at + size).find(|at| self.unfenced.is_written(*at as usize, 1))
    }
}

/// One barrier object.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Arrivals that a phase takes.
    pub expected: i64,
    /// Arrivals that the current phase still takes.
    pub pending: i64,
    /// Bytes that the current phase still takes.
    pub bytes: i64,
    /// Phases that are complete.
    pub phase: u64,
    /// The clock of the threads that arrive at the current phase.
    pub gathering: Vec<u32>,
    /// The same of complete phases.
    pub published: Vec<u32>,
    /// Thread, epoch and clock of the initialisation.
    pub made: (u32, u32, u32),
    /// Lanes that wait, by warp.
    pub waiting: Vec<(usize, u32)>,
}

/// The barrier objects of a block, by their offsets in shared memory.
#[derive(Clone, Debug, Default)]
pub struct Mbarriers {
    pub all: HashMap<u64, Object>,
}

impl Mbarriers {
    /// A barrier of the block has ordered everything.
    pub fn end_epoch(&mut self) {
        for state in self.all.values_mut() {
            state.gathering.clear();
            state.published.clear();
        }
    }
}

/// Where the first matrix is.
#[derive(Clone, Debug)]
pub enum First {
    Shared(u64),
    /// Registers of the four warps.
    Registers(Vec<[Lanes; 4]>),
}

/// A product that has not run.
#[derive(Clone, Debug)]
pub struct Product {
    pub site: Site,
    pub format: Format,
    pub d: Box<[u32]>,
    pub a: First,
    pub b: u64,
    pub keep: bool,
    pub negate: [bool; 2],
    pub transposed: [bool; 2],
}

/// The products of a warpgroup.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub open: Vec<Product>,
    /// Closed groups, with the clock of the warpgroup at which they read.
    pub groups: VecDeque<(u32, Vec<Product>)>,
    /// Sums of pending products by their first register.
    pub sums: HashMap<u32, Sums>,
}

/// Sums that registers get back when no product of them is pending.
#[derive(Clone, Debug)]
pub struct Sums {
    pub registers: Box<[u32]>,
    /// Values of the registers, for the four warps.
    pub warps: Vec<Vec<Lanes>>,
}

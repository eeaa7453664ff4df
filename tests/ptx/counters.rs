//! Counters of the work of a launch, in numbers that bound its time on a device.

use std::collections::{BTreeMap, HashMap};

use crate::op::{KINDS, Kind};

/// Requests of one instruction to global or shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Requests of warps.
    pub requests: u64,
    /// Sectors of 32 bytes in global memory, or wavefronts in shared memory.
    pub units: u64,
    /// The fewest units with which the same bytes could be moved.
    pub ideal: u64,
    /// Bytes that all lanes asked for.
    pub bytes: u64,
}

impl Requests {
    /// Adds one request.
    pub fn add(&mut self, units: u64, ideal: u64, bytes: u64) {
        self.requests += 1;
        self.units += units;
        self.ideal += ideal;
        self.bytes += bytes;
    }

    fn merge(&mut self, other: &Requests) {
        self.requests += other.requests;
        self.units += other.units;
        self.ideal += other.ideal;
        self.bytes += other.bytes;
    }
}

/// Counters of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions of threads, by kind, in the order of [`KINDS`].
    pub instructions: [u64; KINDS.len()],
    /// Instructions of warps.
    pub warp_instructions: u64,
    /// Requests to global memory, by line of the text.
    pub global: BTreeMap<u32, Requests>,
    /// Requests to shared memory, by line of the text.
    pub shared: BTreeMap<u32, Requests>,
    /// Different sectors of global memory that were read.
    pub sectors_read: u64,
    /// Different sectors of global memory that were written.
    pub sectors_written: u64,
    /// Barriers of blocks that were passed.
    pub barriers: u64,
    /// Blocks that ran.
    pub blocks: u64,
}

impl Counters {
    /// Instructions of threads of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.instructions[kind as usize]
    }

    /// Instructions of all threads.
    pub fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }

    /// All requests to global memory.
    pub fn global_requests(&self) -> Requests {
        sum(&self.global)
    }

    /// All requests to shared memory.
    pub fn shared_requests(&self) -> Requests {
        sum(&self.shared)
    }
}

fn sum(requests: &BTreeMap<u32, Requests>) -> Requests {
    let mut all = Requests::default();
    requests.values().for_each(|one| all.merge(one));
    all
}

/// A set of sectors of 32 bytes.
#[derive(Debug, Default)]
pub struct Sectors {
    pages: HashMap<u64, u128>,
    /// A page that is not in the map yet.
    last: (u64, u128),
}

impl Sectors {
    /// Adds the sector of an address.
    pub fn add(&mut self, address: u64) {
        let (page, bit) = (address >> 12, address >> 5 & 127);
        if self.last.0 != page {
            self.flush();
            self.last = (page, 0);
        }
        self.last.1 |= 1 << bit;
    }

    fn flush(&mut self) {
        *self.pages.entry(self.last.0).or_default() |= self.last.1;
    }

    /// The number of them.
    pub fn count(&mut self) -> u64 {
        self.flush();
        self.pages.values().map(|mask| u64::from(mask.count_ones())).sum()
    }
}

/// Sectors that a request of a warp touches, and the fewest that hold as many bytes.
pub fn sectors(addresses: &[u64], size: u64) -> (u64, u64) {
    let mut first: [u64; 32] = [0; 32];
    let count = addresses.len().min(32);
    let first = &mut first[..count];
    first.copy_from_slice(&addresses[..count]);
    if !first.is_sorted() {
        first.sort_unstable();
    }
    let (mut unique, mut touched, mut last) = (0, 0, None);
    for (at, address) in first.iter().enumerate() {
        unique += u64::from(at == 0 || first[at - 1] != *address);
        for sector in address >> 5..=(address + size - 1) >> 5 {
            touched += u64::from(last.is_none_or(|last| last < sector));
            last = last.max(Some(sector));
        }
    }
    (touched, (unique * size).div_ceil(32))
}

/// Wavefronts of a request to shared memory, and the fewest for as many lanes. Banks are four
/// bytes wide; lanes with 8 or 16 bytes are served by groups of 16 or 8.
pub fn wavefronts(addresses: &[u64], size: u64) -> (u64, u64) {
    let group = match size {
        16.. => 8,
        8.. => 16,
        _ => 32,
    };
    let mut total = 0;
    for lanes in addresses.chunks(group) {
        let mut words: [u64; 64] = [u64::MAX; 64];
        let mut count = 0;
        for address in lanes {
            for word in address / 4..=(address + size - 1) / 4 {
                if count < 64 {
                    words[count] = word;
                    count += 1;
                }
            }
        }
        let words = &mut words[..count];
        words.sort_unstable();
        let mut banks = [0_u64; 32];
        for (at, word) in words.iter().enumerate() {
            banks[(word % 32) as usize] += u64::from(at == 0 || words[at - 1] != *word);
        }
        total += banks.into_iter().max().unwrap_or(0);
    }
    (total, addresses.chunks(group).count() as u64)
}

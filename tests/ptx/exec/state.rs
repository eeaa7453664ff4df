//! The state of a block while it runs.

use crate::mem::bytes::Bytes;

use super::clocks::Clocks;
use super::pending::{Bulks, Copies, Group, Lanes, Mbarriers};

/// A warp: a program counter and registers for each lane.
#[derive(Debug)]
pub struct Warp {
    /// The thread of lane 0.
    pub first: u32,
    /// Lanes that have not exited.
    pub live: u32,
    /// Live lanes that wait for nothing.
    pub ready: u32,
    /// Lanes that wait at a barrier.
    pub at_barrier: u32,
    /// Lanes that wait at a collective.
    pub at_collective: u32,
    /// Lanes that wait for a phase of a barrier object.
    pub at_mbarrier: u32,
    /// Lanes that wait for the other warps of a warpgroup.
    pub at_group: u32,
    /// Lanes that wait for the threads of a cluster.
    pub at_cluster: u32,
    /// Whether it used up its last turn.
    pub spun: bool,
    /// The next instruction of each lane.
    pub pcs: [u32; 32],
    /// The barrier of each lane that waits at one.
    pub barrier: [u8; 32],
    /// Registers, 32 lanes each.
    pub registers: Vec<u64>,
    /// Registers that the warp has written since its last `wgmma.fence`; at the beginning all are.
    pub unfenced: Vec<bool>,
}

impl Warp {
    /// A warp at the beginning of a kernel. Registers hold what no program means.
    pub fn new(first: u32, lanes: u32, registers: u32) -> Warp {
        let live = if lanes >= 32 { u32::MAX } else { (1 << lanes) - 1 };
        Warp {
            first,
            live,
            ready: live,
            at_barrier: 0,
            at_collective: 0,
            at_mbarrier: 0,
            at_group: 0,
            at_cluster: 0,
            spun: false,
            pcs: [0; 32],
            barrier: [0; 32],
            registers: vec![0xcdcd_cdcd_cdcd_cdcd; registers as usize * 32],
            unfenced: vec![true; registers as usize],
        }
    }

    /// A register of all lanes.
    pub fn register(&self, register: u32) -> &Lanes {
        let at = register as usize * 32;
        self.registers[at..at + 32].try_into().expect("32 lanes")
    }

    /// A register of all lanes, to be written by an instruction.
    pub fn register_mut(&mut self, register: u32) -> &mut Lanes {
        self.unfenced[register as usize] = true;
        self.slot(register)
    }

    /// A register of all lanes that tensor cores take or give back.
    pub fn slot(&mut self, register: u32) -> &mut Lanes {
        let at = register as usize * 32;
        (&mut self.registers[at..at + 32]).try_into().expect("32 lanes")
    }

    /// Sets the program counter of lanes.
    pub fn set_pc(&mut self, mask: u32, pc: u32) {
        for lane in lanes(mask) {
            self.pcs[lane] = pc;
        }
    }
}

/// Lanes of a mask.
pub fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros();
        left &= left - 1;
        Some(lane as usize)
    })
}

/// One of the barriers of a block.
#[derive(Clone, Debug, Default)]
pub struct Barrier {
    /// Threads that have arrived, those that do not wait among them.
    pub arrived: Vec<u32>,
    /// The number of threads expected, where the instruction says it.
    pub count: Option<u32>,
    /// Arrived threads with a true predicate.
    pub trues: u32,
}

/// The barrier of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    /// Threads that have arrived.
    pub arrived: Vec<u32>,
    /// The clock of those at the current phase.
    pub gathering: Vec<u32>,
    /// The same of complete phases.
    pub published: Vec<u32>,
}

/// A block, or the blocks of a cluster, which run together: their threads and their memory stand one behind the other.
#[derive(Debug)]
pub struct Block {
    /// The index of the first.
    pub index: [u32; 3],
    /// Blocks.
    pub count: u32,
    /// The threads of all.
    pub threads: u32,
    /// Bytes of shared memory from one block to the next, and those that a block has.
    pub stride: u64,
    pub shared_bytes: u64,
    /// The barrier of all.
    pub cluster: ClusterState,
    /// The first epoch.
    pub start: u32,
    /// Warps.
    pub warps: Vec<Warp>,
    /// Shared memory.
    pub shared: Bytes,
    /// Local memory of all threads.
    pub local: Bytes,
    /// Barriers.
    pub barriers: Vec<Barrier>,
    /// The order of threads within the epoch.
    pub clocks: Clocks,
    /// Asynchronous copies of each thread.
    pub copies: Vec<Copies>,
    /// Barrier objects.
    pub mbarriers: Mbarriers,
    /// Bulk copies.
    pub bulks: Bulks,
    /// Matrix products of each warpgroup.
    pub groups: Vec<Group>,
}

impl Block {
    /// Threads that have not exited.
    pub fn live(&self) -> u32 {
        self.warps.iter().map(|warp| warp.live.count_ones()).sum()
    }

    /// Those of one block.
    pub fn live_in(&self, block: usize) -> u32 {
        let each = self.warps.len() / self.count as usize;
        self.warps[block * each..][..each].iter().map(|warp| warp.live.count_ones()).sum()
    }

    /// The block of a warp.
    pub fn number(&self, warp: usize) -> usize {
        warp / (self.warps.len() / self.count as usize)
    }

    /// Where the shared memory of a warp's block begins in that of all.
    pub fn base(&self, warp: usize) -> u64 {
        self.number(warp) as u64 * self.stride
    }
}

/// A small generator of numbers (splitmix64).
#[derive(Debug)]
pub struct Generator(pub u64);

impl Generator {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit.max(1)
    }
}

//! A launch: blocks one after another, and the warps of a block by a schedule.

use crate::counters::{Counters, Requests, Sectors};
use crate::fault::{Fault, FaultKind};
use crate::mem::bytes::Bytes;
use crate::mem::global::Global;
use crate::mem::race::Races;
use crate::mem::window::SHARED_START;
use crate::op::Kernel;
use crate::options::{LaunchOptions, Order};

use super::clocks::Clocks;
use super::pending::{Bulks, Copies, Group, Mbarriers, Site};
use super::state::{Barrier, Block, ClusterState, Generator, Warp};

/// Barriers of a block.
pub const BARRIERS: usize = 16;
/// Instructions of a warp in one turn, where the order is by index.
const TURN: u64 = 4096;

/// The kernel, the shape and the memory of a launch.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Extents of the grid.
    pub grid: [u32; 3],
    /// Extents of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared: u64,
    /// Bytes of dynamic shared memory.
    pub dynamic: u32,
    /// Addresses of the kernel's symbols.
    pub symbols: Vec<u64>,
    /// Parameters.
    pub params: &'a [u8],
    /// Options.
    pub options: LaunchOptions,
}

/// A launch that runs.
#[derive(Debug)]
pub struct Machine<'a> {
    pub setup: Setup<'a>,
    pub memory: &'a mut Global,
    pub counters: Counters,
    pub fuel: u64,
    pub epoch: u32,
    pub global_races: Races,
    pub shared_races: Races,
    pub block: Block,
    pub generator: Generator,
    /// Requests by operation: to global and to shared memory.
    pub requests: Vec<[Requests; 2]>,
    pub read: Sectors,
    pub written: Sectors,
}

/// Runs a launch.
pub fn run(setup: Setup<'_>, memory: &mut Global) -> Result<Counters, Fault> {
    let kernel = setup.kernel;
    let count = kernel.cluster.max(1);
    let threads = count * setup.block.iter().product::<u32>();
    let seed = if let Order::Seeded(seed) = setup.options.order { seed } else { 0 };
    let block = new_block(&setup, threads);
    let mut machine = Machine {
        memory,
        counters: Counters::default(),
        fuel: setup.options.fuel,
        epoch: 0,
        global_races: Races::new(kernel.fine_order),
        shared_races: Races::new(kernel.fine_order),
        block,
        generator: Generator(seed),
        requests: vec![[Requests::default(); 2]; kernel.code.len()],
        read: Sectors::default(),
        written: Sectors::default(),
        setup,
    };
    machine.all_blocks()?;
    machine.collect();
    Ok(machine.counters)
}

fn new_block(setup: &Setup<'_>, threads: u32) -> Block {
    let kernel = setup.kernel;
    let warps = (0..threads.div_ceil(32)).map(|warp| {
        let first = warp * 32;
        Warp::new(first, threads - first, kernel.registers)
    });
    let count = kernel.cluster.max(1);
    let stride = match count {
        1 => setup.shared,
        // Swizzling goes by addresses.
        _ => setup.shared.next_multiple_of(1024),
    };
    let shared = (stride * u64::from(count)) as usize;
    Block {
        index: [0; 3],
        count,
        threads,
        stride,
        shared_bytes: setup.shared,
        cluster: ClusterState::default(),
        start: 1,
        warps: warps.collect(),
        shared: Bytes::new(shared),
        local: Bytes::new(kernel.local_size as usize * threads as usize),
        barriers: vec![Barrier::default(); BARRIERS * count as usize],
        // One more for bulk copies, and one for each warpgroup.
        clocks: Clocks::new(threads as usize + 1 + threads.div_ceil(128) as usize),
        copies: vec![Copies::default(); threads as usize],
        mbarriers: Mbarriers::default(),
        bulks: Bulks::new(shared, threads as usize),
        groups: vec![Group::default(); threads.div_ceil(128) as usize],
    }
}

impl Machine<'_> {
    fn all_blocks(&mut self) -> Result<(), Fault> {
        let [x, y, z] = self.setup.grid.map(u64::from);
        let each = u64::from(self.block.count);
        let x = x / each;
        let count = x * y * z;
        let mut shuffled: Vec<u64> = vec![];
        if let Order::Seeded(_) = self.setup.options.order {
            shuffled = (0..count).collect();
            for at in (1..shuffled.len()).rev() {
                let other = self.generator.below(at as u64 + 1) as usize;
                shuffled.swap(at, other);
            }
        }
        for at in 0..count {
            let number = match self.setup.options.order {
                Order::Index => at,
                Order::Reverse => count - 1 - at,
                Order::Seeded(_) => shuffled[at as usize],
            };
            let first = [number % x * each, number / x % y, number / x / y];
            self.block.index = first.map(|i| i as u32);
            self.one_block(at > 0)?;
        }
        Ok(())
    }

    fn one_block(&mut self, reset: bool) -> Result<(), Fault> {
        if reset {
            let kernel = self.setup.kernel;
            for warp in &mut self.block.warps {
                *warp = Warp::new(warp.first, self.block.threads - warp.first, kernel.registers);
            }
            self.block.shared.clear();
            self.block.local.clear();
            self.block.barriers.fill(Barrier::default());
            self.block.mbarriers = Mbarriers::default();
            self.block.bulks = Bulks::new(self.block.shared.len(), self.block.threads as usize);
            self.block.cluster = ClusterState::default();
            self.block.groups.fill(Group::default());
        }
        self.epoch += 1;
        self.block.start = self.epoch;
        self.block.clocks.reset();
        self.shared_races.forget_before(self.epoch);
        self.global_races.end_epoch();
        self.counters.blocks += u64::from(self.block.count);
        while self.block.live() > 0 {
            let Some(warp) = self.next_warp() else {
                // Bulk copies run as late as they may.
                if self.run_bulk()? {
                    continue;
                }
                return Err(self.stuck());
            };
            let turn = match self.setup.options.order {
                Order::Seeded(_) => 1 + self.generator.below(64),
                Order::Index | Order::Reverse => TURN,
            };
            if self.block.warps.iter().all(|warp| warp.ready == 0 || warp.spun) {
                self.run_bulk()?;
                self.block.warps.iter_mut().for_each(|warp| warp.spun &= warp.ready == 0);
                self.block.warps[warp].spun = true;
            }
            self.turn(warp, turn)?;
        }
        while self.run_bulk()? {}
        Ok(())
    }

    /// A warp that can run.
    fn next_warp(&mut self) -> Option<usize> {
        let ready = |warp: &Warp| warp.ready != 0;
        let warps = &self.block.warps;
        match self.setup.options.order {
            // Behind a warp that used up its turn, others come first.
            Order::Index => {
                let fresh = warps.iter().position(|warp| ready(warp) && !warp.spun);
                fresh.or_else(|| warps.iter().position(ready))
            }
            Order::Reverse => {
                let fresh = warps.iter().rposition(|warp| ready(warp) && !warp.spun);
                fresh.or_else(|| warps.iter().rposition(ready))
            }
            Order::Seeded(_) => {
                let count = warps.iter().filter(|warp| ready(warp)).count();
                let pick = self.generator.below(count as u64) as usize;
                let mut all = (0..warps.len()).filter(|at| ready(&warps[*at]));
                all.nth(pick)
            }
        }
    }

    /// The fault of a block in which nothing can run.
    fn stuck(&self) -> Fault {
        let warps = self.block.warps.iter().enumerate();
        let waiting = |mask: fn(&Warp) -> u32| {
            let mut found = warps.clone().filter(move |(_, warp)| mask(warp) != 0);
            found.next().map(|(at, warp)| {
                let lane = mask(warp).trailing_zeros() as usize;
                Site { warp: at, lane, pc: warp.pcs[lane] }
            })
        };
        if let Some(site) = waiting(|warp| warp.at_collective) {
            let warp = &self.block.warps[site.warp];
            let arrived = warp.at_collective;
            return self.fault(site, FaultKind::DivergentCollective { mask: warp.live, arrived });
        }
        if let Some(site) = waiting(|warp| warp.at_barrier) {
            let barrier = usize::from(self.block.warps[site.warp].barrier[site.lane]);
            let state = &self.block.barriers[barrier];
            let live = self.block.live_in(self.block.number(site.warp));
            let expected = state.count.unwrap_or(live);
            let (arrived, barrier) = (state.arrived.len() as u32, (barrier % BARRIERS) as u32);
            return self.fault(site, FaultKind::DivergentBarrier { barrier, arrived, expected });
        }
        if let Some(site) = waiting(|warp| warp.at_group) {
            let (mask, arrived) = (u32::MAX, self.block.warps[site.warp].at_group);
            return self.fault(site, FaultKind::DivergentCollective { mask, arrived });
        }
        let site = waiting(|warp| warp.at_mbarrier).or_else(|| waiting(|warp| warp.at_cluster));
        let site = site.unwrap_or(Site { warp: 0, lane: 0, pc: 0 });
        self.fault(site, FaultKind::Deadlock { waiting: self.block.live() })
    }

    /// A fault at a place.
    pub fn fault(&self, site: Site, kind: FaultKind) -> Fault {
        let kernel = self.setup.kernel;
        let [x, y, _] = self.setup.block;
        let number = self.block.number(site.warp) as u32;
        let each = self.block.threads / self.block.count;
        let thread = self.block.warps[site.warp].first + site.lane as u32 - number * each;
        let inst = &kernel.code[site.pc as usize];
        let [first, row, plane] = self.block.index;
        Fault {
            kernel: kernel.name.clone(),
            block: [first + number, row, plane],
            thread: [thread % x, thread / x % y, thread / x / y],
            line: inst.line,
            instruction: kernel.opcodes[inst.opcode as usize].clone(),
            kind,
        }
    }

    /// The address of a byte of shared memory, as its block has it.
    pub fn shared_address(&self, at: u64) -> u64 {
        match self.block.count {
            1 => at + SHARED_START,
            _ => at % self.block.stride + SHARED_START,
        }
    }

    /// Collects the requests of operations by line.
    fn collect(&mut self) {
        for (inst, [global, shared]) in self.setup.kernel.code.iter().zip(&self.requests) {
            if global.requests > 0 {
                self.counters.global.insert(inst.line, *global);
            }
            if shared.requests > 0 {
                self.counters.shared.insert(inst.line, *shared);
            }
        }
        self.counters.sectors_read = self.read.count();
        self.counters.sectors_written = self.written.count();
    }
}

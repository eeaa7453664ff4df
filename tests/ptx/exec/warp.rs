//! The instructions of a warp: lanes at the same place run together.

use crate::fault::{Fault, FaultKind};
use crate::op::{ALWAYS, Inst, Op, Special, Src};
use crate::options::Order;

use super::machine::Machine;
use super::pending::{Lanes, Site};
use super::state::lanes;

/// The control flow after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next one, for the same lanes.
    Next,
    /// Program counters are set, and lanes are chosen again.
    Choose,
}

impl Machine<'_> {
    /// Runs a warp until nothing of it can run, or its turn ends.
    pub fn turn(&mut self, warp: usize, turn: u64) -> Result<(), Fault> {
        let mut left = turn;
        while left > 0 && self.block.warps[warp].ready != 0 {
            let (pc, mask, stop) = self.choose(warp);
            self.group(warp, pc, mask, stop, &mut left)?;
            if self.block.warps[warp].ready == 0 && self.block.warps[warp].at_collective != 0 {
                self.retry_collectives(warp)?;
            }
        }
        self.block.warps[warp].spun = left == 0;
        Ok(())
    }

    /// Lanes to run, where, and the place of others at which they may join.
    fn choose(&mut self, warp: usize) -> (u32, u32, u32) {
        let order = self.setup.options.order;
        let state = &self.block.warps[warp];
        let ready = state.ready;
        let first = ready.trailing_zeros() as usize;
        // Most often all lanes are at one place.
        let pc = state.pcs[first];
        if lanes(ready).all(|lane| state.pcs[lane] == pc) {
            return (pc, ready, u32::MAX);
        }
        let places = lanes(ready).map(|lane| state.pcs[lane]);
        // After a full turn any place, so that lanes that poll do not hold up those they wait for.
        let pc = match order {
            _ if state.spun => {
                let pick = self.generator.below(u64::from(ready.count_ones())) as usize;
                places.clone().nth(pick)
            }
            Order::Index => places.clone().min(),
            Order::Reverse => places.clone().max(),
            Order::Seeded(_) => {
                let pick = self.generator.below(u64::from(ready.count_ones())) as usize;
                places.clone().nth(pick)
            }
        };
        let pc = pc.unwrap_or(0);
        let mask = lanes(ready).filter(|lane| state.pcs[*lane] == pc);
        let mask = mask.fold(0, |mask, lane| mask | 1 << lane);
        let stop = places.filter(|place| *place > pc).min().unwrap_or(u32::MAX);
        (pc, mask, stop)
    }

    /// Runs lanes from one place until they part, wait, or reach others.
    fn group(
        &mut self,
        warp: usize,
        start: u32,
        mask: u32,
        stop: u32,
        left: &mut u64,
    ) -> Result<(), Fault> {
        let kernel = self.setup.kernel;
        let mut pc = start;
        loop {
            let inst = &kernel.code[pc as usize];
            let run = if inst.guard == ALWAYS { mask } else { self.guarded(warp, inst, mask) };
            if inst.head {
                self.account(warp, inst, pc, mask, run)?;
                *left = left.saturating_sub(1);
            }
            let flow = match &inst.op {
                Op::Branch { target } => {
                    if run == mask {
                        // A backward jump ends the group's turn if others wait or time is up.
                        pc = *target;
                        if *left == 0 || pc >= stop || (pc <= start && stop != u32::MAX) {
                            self.block.warps[warp].set_pc(mask, pc);
                            return Ok(());
                        }
                        continue;
                    }
                    if run == 0 {
                        Flow::Next
                    } else {
                        let state = &mut self.block.warps[warp];
                        state.set_pc(run, *target);
                        state.set_pc(mask & !run, pc + 1);
                        Flow::Choose
                    }
                }
                _ if run == 0 => Flow::Next,
                op => self.execute(warp, pc, op, mask, run)?,
            };
            if flow == Flow::Choose {
                return Ok(());
            }
            pc += 1;
            if *left == 0 || pc >= stop {
                self.block.warps[warp].set_pc(mask, pc);
                return Ok(());
            }
        }
    }

    fn guarded(&self, warp: usize, inst: &Inst, mask: u32) -> u32 {
        let predicate = self.block.warps[warp].register(inst.guard);
        let mut set = 0;
        for (lane, value) in predicate.iter().enumerate() {
            set |= ((*value & 1) as u32) << lane;
        }
        mask & if inst.negated { !set } else { set }
    }

    fn account(
        &mut self,
        warp: usize,
        inst: &Inst,
        pc: u32,
        mask: u32,
        run: u32,
    ) -> Result<(), Fault> {
        let threads = u64::from(run.count_ones());
        self.counters.instructions[inst.kind as usize] += threads;
        self.counters.warp_instructions += 1;
        let used = u64::from(mask.count_ones());
        match self.fuel.checked_sub(used) {
            Some(fuel) => {
                self.fuel = fuel;
                Ok(())
            }
            None => {
                let lane = mask.trailing_zeros() as usize;
                Err(self.fault(Site { warp, lane, pc }, FaultKind::OutOfFuel))
            }
        }
    }

    /// A source for all lanes.
    pub fn read(&self, warp: usize, src: Src) -> Lanes {
        match src {
            Src::Reg(register) => *self.block.warps[warp].register(register),
            Src::Imm(value) => [value; 32],
            Src::Sym(symbol) => [self.setup.symbols[symbol as usize]; 32],
        }
    }

    /// Writes a register of the lanes of a mask.
    pub fn write(&mut self, warp: usize, register: u32, mask: u32, values: &Lanes) {
        let to = self.block.warps[warp].register_mut(register);
        if mask == u32::MAX {
            *to = *values;
            return;
        }
        for lane in lanes(mask) {
            to[lane] = values[lane];
        }
    }

    fn execute(
        &mut self,
        warp: usize,
        pc: u32,
        op: &Op,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let mut out = [0; 32];
        match op {
            Op::Alu { f, dst, src } => {
                let [a, b, c] = src.map(|src| self.read(warp, src));
                for lane in lanes(run) {
                    out[lane] = f(a[lane], b[lane], c[lane]);
                }
                self.write(warp, *dst, run, &out);
            }
            Op::Alu4 { f, dst, src } => {
                let [a, b, c, d] = src.map(|src| self.read(warp, src));
                for lane in lanes(run) {
                    out[lane] = f(a[lane], b[lane], c[lane], d[lane]);
                }
                self.write(warp, *dst, run, &out);
            }
            Op::Move { dst, src } => {
                let values = self.read(warp, *src);
                self.write(warp, *dst, run, &values);
            }
            Op::Convert { how, dst, src } => {
                let values = self.read(warp, *src);
                let keep = crate::num::integer::mask(dst.bits);
                for lane in lanes(run) {
                    out[lane] = how.apply(values[lane]) & keep;
                }
                self.write(warp, dst.reg, run, &out);
            }
            Op::Special { dst, what } => {
                for lane in lanes(run) {
                    out[lane] = self.special(warp, lane, *what);
                }
                self.write(warp, *dst, run, &out);
            }
            Op::ActiveMask { dst } => self.write(warp, *dst, run, &[u64::from(run); 32]),
            Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } => {
                self.access(warp, pc, op, run)?;
            }
            Op::AsyncCopy { .. } | Op::AsyncCommit | Op::AsyncWait { .. } => {
                self.copy(warp, pc, op, run)?;
            }
            Op::Mbarrier { at, what } => return self.mbarrier(warp, pc, *at, what, mask, run),
            Op::Bulk(bulk) => {
                for lane in lanes(run) {
                    self.bulk(Site { warp, lane, pc }, bulk)?;
                }
            }
            Op::Warpgroup(what) => return self.warpgroup(warp, pc, what, mask, run),
            Op::ProxyFence => {
                let first = self.block.warps[warp].first;
                lanes(run).for_each(|lane| self.block.bulks.fence(first + lane as u32));
            }
            Op::Nop | Op::Branch { .. } => {}
            Op::BranchTable { table, index } => {
                return self.branch_table(warp, pc, *table, *index, mask, run);
            }
            Op::Exit => return self.exit(warp, pc, mask, run),
            Op::Trap => {
                let lane = run.trailing_zeros() as usize;
                return Err(self.fault(Site { warp, lane, pc }, FaultKind::Trap));
            }
            Op::Barrier { .. } => return self.barrier(warp, pc, op, mask, run),
            Op::ClusterBarrier(half) => return self.cluster_barrier(warp, pc, *half, mask, run),
            Op::Collective { mask: wanted, what } => {
                return self.collective(warp, pc, *wanted, what, mask, run);
            }
        }
        Ok(Flow::Next)
    }

    fn special(&self, warp: usize, lane: usize, what: Special) -> u64 {
        let (state, block) = (&self.block.warps[warp], self.block.number(warp) as u32);
        let thread = state.first + lane as u32 - block * (self.block.threads / self.block.count);
        let ([x, y, _], lane) = (self.setup.block, lane as u32);
        let along = |axis: u8| if axis == 0 { self.block.count } else { 1 };
        let own = |axis: u8| if axis == 0 { block } else { 0 };
        u64::from(match what {
            Special::Tid(0) => thread % x,
            Special::Tid(1) => thread / x % y,
            Special::Tid(_) => thread / x / y,
            Special::Ntid(axis) => self.setup.block[usize::from(axis)],
            Special::Ctaid(axis) => self.block.index[usize::from(axis)] + own(axis),
            Special::Cluster(axis) => self.block.index[usize::from(axis)] / along(axis),
            Special::Clusters(axis) => self.setup.grid[usize::from(axis)] / along(axis),
            Special::ClusterRank => block,
            Special::ClusterBlocks => self.block.count,
            Special::Nctaid(axis) => self.setup.grid[usize::from(axis)],
            Special::Lane => lane,
            Special::Warp => warp as u32 - block * self.warps_of_block(),
            Special::Warps => self.warps_of_block(),
            Special::MaskEq => 1 << lane,
            Special::MaskLt => (1 << lane) - 1,
            Special::MaskLe => u32::MAX >> (31 - lane),
            Special::MaskGt => !(u32::MAX >> (31 - lane)),
            Special::MaskGe => u32::MAX << lane,
            Special::Clock => return self.setup.options.fuel - self.fuel,
            Special::DynamicShared => self.setup.dynamic,
            Special::Fixed(value) => value,
        })
    }

    fn warps_of_block(&self) -> u32 {
        self.block.warps.len() as u32 / self.block.count
    }

    fn branch_table(
        &mut self,
        warp: usize,
        pc: u32,
        table: u32,
        index: Src,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let (indices, kernel) = (self.read(warp, index), self.setup.kernel);
        self.block.warps[warp].set_pc(mask & !run, pc + 1);
        for lane in lanes(run) {
            let index = indices[lane] & 0xffff_ffff;
            let Some(target) = kernel.tables[table as usize].get(index as usize) else {
                return Err(self.fault(Site { warp, lane, pc }, FaultKind::BranchTable { index }));
            };
            self.block.warps[warp].pcs[lane] = *target;
        }
        Ok(Flow::Choose)
    }

    fn exit(&mut self, warp: usize, pc: u32, mask: u32, run: u32) -> Result<Flow, Fault> {
        for lane in lanes(run) {
            self.finish_copies(Site { warp, lane, pc }, 0)?;
            self.finish_stores(Site { warp, lane, pc }, 0)?;
        }
        let state = &mut self.block.warps[warp];
        state.live &= !run;
        state.ready &= !run;
        state.set_pc(mask & !run, pc + 1);
        if self.block.warps[warp].at_collective != 0 {
            self.retry_collectives(warp)?;
        }
        self.retry_barriers()?;
        self.complete_cluster();
        Ok(Flow::Choose)
    }
}

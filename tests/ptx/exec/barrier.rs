//! Barriers of a block, and of the blocks of a cluster.

use crate::fault::{Fault, FaultKind};
use crate::op::{BarrierResult, ClusterBarrier, Op, Src};

use super::machine::{BARRIERS, Machine};
use super::pending::Site;
use super::state::{Barrier, lanes};
use super::warp::Flow;

impl Machine<'_> {
    /// Threads arrive at a barrier.
    pub fn barrier(
        &mut self,
        warp: usize,
        pc: u32,
        op: &Op,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let Op::Barrier { id, count, arrive, result } = op else {
            return Ok(Flow::Next);
        };
        let lane = run.trailing_zeros() as usize;
        let site = Site { warp, lane, pc };
        let number = self.read(warp, *id)[lane] as usize;
        if number >= BARRIERS {
            let problem = "a block has barriers 0 to 15";
            return Err(self.fault(site, FaultKind::Operand { problem }));
        }
        let number = self.block.number(warp) * BARRIERS + number;
        let counts = count.map(|count| self.read(warp, count)[lane] as u32);
        if counts.is_some_and(|count| count == 0 || !count.is_multiple_of(32)) {
            let problem = "the count of a barrier is a multiple of 32";
            return Err(self.fault(site, FaultKind::Operand { problem }));
        }
        let trues = match result {
            Some((_, _, predicate)) => self.trues(warp, *predicate, run),
            None => 0,
        };
        let state = &mut self.block.barriers[number];
        if !state.arrived.is_empty() && state.count != counts {
            let problem = "threads give one barrier different counts";
            return Err(self.fault(site, FaultKind::Operand { problem }));
        }
        state.count = counts;
        state.trues += trues;
        let warp_state = &mut self.block.warps[warp];
        state.arrived.extend(lanes(run).map(|lane| warp_state.first + lane as u32));
        warp_state.set_pc(mask & !run, pc + 1);
        if *arrive {
            warp_state.set_pc(run, pc + 1);
        } else {
            warp_state.set_pc(run, pc);
            warp_state.ready &= !run;
            warp_state.at_barrier |= run;
            lanes(run).for_each(|lane| warp_state.barrier[lane] = number as u8);
        }
        self.complete(number, Some(site))?;
        Ok(Flow::Choose)
    }

    fn trues(&self, warp: usize, predicate: Src, run: u32) -> u32 {
        let values = self.read(warp, predicate);
        lanes(run).filter(|lane| values[*lane] & 1 == 1).count() as u32
    }

    /// Barriers that are complete now that threads have exited.
    pub fn retry_barriers(&mut self) -> Result<(), Fault> {
        for number in 0..self.block.barriers.len() {
            if !self.block.barriers[number].arrived.is_empty() {
                self.complete(number, None)?;
            }
        }
        Ok(())
    }

    /// Lets the threads of a barrier go on once all have arrived.
    fn complete(&mut self, number: usize, site: Option<Site>) -> Result<(), Fault> {
        let live = self.block.live_in(number / BARRIERS);
        let state = &self.block.barriers[number];
        let (arrived, whole) = (state.arrived.len() as u32, state.count.is_none());
        let expected = state.count.unwrap_or(live);
        if arrived < expected || arrived == 0 {
            return Ok(());
        }
        if let (true, Some(site)) = (arrived > expected, site) {
            let barrier = (number % BARRIERS) as u32;
            let kind = FaultKind::DivergentBarrier { barrier, arrived, expected };
            return Err(self.fault(site, kind));
        }
        let state = std::mem::take(&mut self.block.barriers[number]);
        let mut waiting = vec![];
        for warp in 0..self.block.warps.len() {
            self.release(warp, number, &state, &mut waiting)?;
        }
        self.counters.barriers += 1;
        // A barrier of one block orders nothing of the others of its cluster.
        if whole && self.block.count == 1 {
            self.epoch += 1;
            self.block.clocks.reset();
            self.block.mbarriers.end_epoch();
            self.shared_races.end_epoch();
            self.global_races.end_epoch();
        } else {
            self.block.clocks.order(&state.arrived, &waiting);
        }
        Ok(())
    }

    fn release(
        &mut self,
        warp: usize,
        number: usize,
        barrier: &Barrier,
        waiting: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        let state = &self.block.warps[warp];
        let here = lanes(state.at_barrier).filter(|lane| state.barrier[*lane] == number as u8);
        let mask = here.fold(0_u32, |mask, lane| mask | 1 << lane);
        if mask == 0 {
            return Ok(());
        }
        let lane = mask.trailing_zeros() as usize;
        let pc = state.pcs[lane];
        // Lanes of a warp have to arrive by the same instruction.
        if let Some(lane) = lanes(mask).find(|lane| state.pcs[*lane] != pc) {
            let (arrived, expected) = (mask.count_ones(), state.live.count_ones());
            let barrier = (number % BARRIERS) as u32;
            let kind = FaultKind::DivergentBarrier { barrier, arrived, expected };
            return Err(self.fault(Site { warp, lane, pc: state.pcs[lane] }, kind));
        }
        if let Op::Barrier { result: Some((how, dst, _)), .. } =
            self.setup.kernel.code[pc as usize].op
        {
            let all = barrier.arrived.len() as u32;
            let value = match how {
                BarrierResult::Count => barrier.trues,
                BarrierResult::All => u32::from(barrier.trues == all),
                BarrierResult::Any => u32::from(barrier.trues > 0),
            };
            self.write(warp, dst, mask, &[u64::from(value); 32]);
        }
        let state = &mut self.block.warps[warp];
        waiting.extend(lanes(mask).map(|lane| state.first + lane as u32));
        state.at_barrier &= !mask;
        state.ready |= mask;
        state.set_pc(mask, pc + 1);
        Ok(())
    }

    /// Threads arrive at the barrier of their cluster, or wait for all others to.
    pub fn cluster_barrier(
        &mut self,
        warp: usize,
        pc: u32,
        half: ClusterBarrier,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let first = self.block.warps[warp].first;
        let ClusterBarrier::Arrive { release } = half else {
            let here = |lane: &usize| self.block.cluster.arrived.contains(&(first + *lane as u32));
            let waiting = lanes(run).filter(here).fold(0_u32, |mask, lane| mask | 1 << lane);
            for lane in lanes(run & !waiting) {
                self.block.clocks.acquire(first + lane as u32, &self.block.cluster.published);
            }
            let state = &mut self.block.warps[warp];
            state.set_pc(mask & !waiting, pc + 1);
            state.set_pc(waiting, pc);
            state.ready &= !waiting;
            state.at_cluster |= waiting;
            return Ok(Flow::Choose);
        };
        for lane in lanes(run) {
            let thread = first + lane as u32;
            if self.block.cluster.arrived.contains(&thread) {
                let problem =
                    "a thread arrives at the barrier of a cluster again before it has waited";
                return Err(self.fault(Site { warp, lane, pc }, FaultKind::Operand { problem }));
            }
            self.block.cluster.arrived.push(thread);
            if release {
                self.block.clocks.release(thread, &mut self.block.cluster.gathering);
            }
        }
        self.block.warps[warp].set_pc(mask, pc + 1);
        self.complete_cluster();
        Ok(Flow::Choose)
    }

    /// Lets those go on who wait for all threads of the cluster, once all that are left have arrived.
    pub fn complete_cluster(&mut self) {
        let here = |first: u32, live: u32| {
            lanes(live).all(|lane| self.block.cluster.arrived.contains(&(first + lane as u32)))
        };
        let state = &self.block.cluster;
        if state.arrived.is_empty() || !self.block.warps.iter().all(|w| here(w.first, w.live)) {
            return;
        }
        let state = &mut self.block.cluster;
        state.arrived.clear();
        state.published = std::mem::take(&mut state.gathering);
        for warp in &mut self.block.warps {
            for lane in lanes(warp.at_cluster) {
                self.block.clocks.acquire(warp.first + lane as u32, &self.block.cluster.published);
                warp.pcs[lane] += 1;
            }
            warp.ready |= warp.at_cluster;
            warp.at_cluster = 0;
        }
        self.counters.barriers += 1;
    }
}

//! Instructions that the lanes of a mask execute together.

use crate::fault::{Fault, FaultKind};
use crate::num::Scalar;
use crate::num::integer::mask as low_bits;
use crate::op::{Collective, Op, Shuffle, Src, Vote};
use crate::options::{Order, Policy};

use super::machine::Machine;
use super::pending::{Lanes, Site};
use super::state::lanes;
use super::warp::Flow;

/// A value that no lane gave: NaN, the largest float or the smallest. As an integer it is as unlikely.
fn undefined(order: Order) -> u64 {
    match order {
        Order::Index => 0xffff_ffff,
        Order::Reverse => 0x7f7f_ffff,
        Order::Seeded(_) => 0xff7f_ffff,
    }
}

impl Machine<'_> {
    /// Lanes arrive at a collective. Those whose partners are missing wait.
    pub fn collective(
        &mut self,
        warp: usize,
        pc: u32,
        wanted: Src,
        what: &Collective,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let masks = self.read(warp, wanted);
        let live = self.block.warps[warp].live;
        let mut left = run;
        let mut waiting = 0;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let members = masks[lane] as u32;
            let same = lanes(left).filter(|other| masks[*other] as u32 == members);
            let here = same.fold(0_u32, |here, lane| here | 1 << lane);
            left &= !here;
            let site = Site { warp, lane, pc };
            let kind = FaultKind::DivergentCollective { mask: members, arrived: here };
            if here & !members != 0 || (whole_warp(what) && members & !live != 0) {
                return Err(self.fault(site, kind));
            }
            if here == members & live {
                self.together(site, what, here)?;
            } else {
                waiting |= here;
            }
        }
        if waiting == 0 {
            return Ok(Flow::Next);
        }
        let state = &mut self.block.warps[warp];
        state.ready &= !waiting;
        state.at_collective |= waiting;
        state.set_pc(mask & !waiting, pc + 1);
        state.set_pc(waiting, pc);
        // Others may have waited for these.
        self.retry_collectives(warp)?;
        Ok(Flow::Choose)
    }

    /// Runs collectives whose lanes have all come.
    pub fn retry_collectives(&mut self, warp: usize) -> Result<(), Fault> {
        let mut left = self.block.warps[warp].at_collective;
        while left != 0 {
            let state = &self.block.warps[warp];
            let lane = left.trailing_zeros() as usize;
            let pc = state.pcs[lane];
            let Op::Collective { mask: wanted, what } = &self.setup.kernel.code[pc as usize].op
            else {
                return Ok(());
            };
            let masks = self.read(warp, *wanted);
            let members = masks[lane] as u32;
            let same = lanes(left)
                .filter(|other| state.pcs[*other] == pc && masks[*other] as u32 == members);
            let here = same.fold(0_u32, |here, lane| here | 1 << lane);
            left &= !here;
            if here == members & state.live {
                self.together(Site { warp, lane, pc }, what, here)?;
                let state = &mut self.block.warps[warp];
                state.at_collective &= !here;
                state.ready |= here;
                state.set_pc(here, pc + 1);
            }
        }
        Ok(())
    }

    fn together(&mut self, site: Site, what: &Collective, mask: u32) -> Result<(), Fault> {
        let warp = site.warp;
        match what {
            Collective::WarpBarrier => {
                let first = self.block.warps[warp].first;
                let threads: Vec<u32> = lanes(mask).map(|lane| first + lane as u32).collect();
                self.block.clocks.order(&threads, &threads);
            }
            Collective::Shuffle { mode, dst, inside, value, lane, clamp } => {
                let operands = [*value, *lane, *clamp].map(|src| self.read(warp, src));
                let (values, valid) = self.shuffled(site, *mode, &operands, mask)?;
                self.write(warp, *dst, mask, &values);
                if let Some(inside) = inside {
                    self.write(warp, *inside, mask, &valid);
                }
            }
            Collective::Vote { mode, dst, predicate, negated } => {
                let values = self.read(warp, *predicate);
                let set = lanes(mask).filter(|lane| (values[*lane] & 1 == 1) != *negated);
                let set = set.fold(0_u32, |set, lane| set | 1 << lane);
                let result = match mode {
                    Vote::All => u32::from(set == mask),
                    Vote::Any => u32::from(set != 0),
                    Vote::Uniform => u32::from(set == 0 || set == mask),
                    Vote::Ballot => set,
                };
                self.write(warp, *dst, mask, &[u64::from(result); 32]);
            }
            Collective::Match { all, dst, equal, value, bits } => {
                let values = self.read(warp, *value).map(|value| value & low_bits(*bits));
                self.matched(warp, *all, [Some(*dst), *equal], &values, mask);
            }
            Collective::Reduce { with, dst, value } => {
                let values = self.read(warp, *value);
                let result = reduce(*with, &values, mask);
                self.write(warp, *dst, mask, &[result; 32]);
            }
            Collective::Elect { dst, elected } => {
                let leader = mask.trailing_zeros();
                let mut flags = [0; 32];
                flags[leader as usize] = 1;
                self.write(warp, *dst, mask, &[u64::from(leader); 32]);
                self.write(warp, *elected, mask, &flags);
            }
            Collective::LoadMatrix { .. }
            | Collective::StoreMatrix { .. }
            | Collective::Mma { .. } => self.matrix(site, what, mask)?,
        }
        Ok(())
    }

    /// Values and predicates of a shuffle.
    fn shuffled(
        &self,
        site: Site,
        mode: Shuffle,
        [values, by, clamp]: &[Lanes; 3],
        mask: u32,
    ) -> Result<(Lanes, Lanes), Fault> {
        let (mut out, mut valid) = ([0; 32], [0; 32]);
        for lane in lanes(mask) {
            let (by, bound) = (by[lane] as i64 & 31, clamp[lane] as i64 & 31);
            let segment = clamp[lane] as i64 >> 8 & 31;
            let this = lane as i64;
            let last = this & segment | bound & !segment;
            let (from, inside) = match mode {
                Shuffle::Up => (this - by, this - by >= last),
                Shuffle::Down => (this + by, this + by <= last),
                Shuffle::Butterfly => (this ^ by, this ^ by <= last),
                Shuffle::Index => {
                    let from = this & segment | by & !segment;
                    (from, from <= last)
                }
            };
            let from = if inside { from as usize & 31 } else { lane };
            valid[lane] = u64::from(inside);
            if mask >> from & 1 == 0 {
                if self.setup.options.inactive_lanes == Policy::Allow {
                    out[lane] = undefined(self.setup.options.order);
                    continue;
                }
                let kind = FaultKind::InactiveLane { lane: from as u32 };
                return Err(self.fault(Site { lane, ..site }, kind));
            }
            out[lane] = values[from];
        }
        Ok((out, valid))
    }

    fn matched(
        &mut self,
        warp: usize,
        all: bool,
        dst: [Option<u32>; 2],
        values: &Lanes,
        mask: u32,
    ) {
        let (mut out, mut equal) = ([0; 32], [0; 32]);
        for lane in lanes(mask) {
            let same = lanes(mask).filter(|other| values[*other] == values[lane]);
            let same = same.fold(0_u32, |same, lane| same | 1 << lane);
            equal[lane] = u64::from(same == mask);
            out[lane] = u64::from(if all && same != mask { 0 } else { same });
        }
        for (dst, values) in dst.into_iter().zip([out, equal]) {
            if let Some(dst) = dst {
                self.write(warp, dst, mask, &values);
            }
        }
    }
}

/// Whether the instruction needs all 32 lanes.
fn whole_warp(what: &Collective) -> bool {
    match what {
        Collective::LoadMatrix { .. } | Collective::StoreMatrix { .. } | Collective::Mma { .. } => {
            true
        }
        Collective::WarpBarrier
        | Collective::Shuffle { .. }
        | Collective::Vote { .. }
        | Collective::Match { .. }
        | Collective::Elect { .. }
        | Collective::Reduce { .. } => false,
    }
}

fn reduce(with: Scalar, values: &Lanes, mask: u32) -> u64 {
    let first = values[mask.trailing_zeros() as usize];
    let rest = mask & mask.wrapping_sub(1);
    lanes(rest).fold(first, |all, lane| with(all, values[lane], 0))
}

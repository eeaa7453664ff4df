//! Barrier objects in shared memory: arrivals, expected bytes, and phases.

use crate::fault::{Fault, FaultKind, Space};
use crate::mem::race::Access;
use crate::mem::window::{SHARED_START, block_of};
use crate::op::{Addr, Mbarrier, Src};

use super::machine::Machine;
use super::memory::{Place, WRITE};
use super::pending::{Object, Site};
use super::state::lanes;
use super::warp::Flow;

/// The most arrivals, and the most bytes that may be outstanding.
const LIMIT: i64 = (1 << 20) - 1;

impl Machine<'_> {
    /// Lanes use a barrier object.
    pub fn mbarrier(
        &mut self,
        warp: usize,
        pc: u32,
        at: Addr,
        what: &Mbarrier,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let addresses = self.addresses(warp, at);
        let mut waiting = 0;
        for lane in lanes(run) {
            let site = Site { warp, lane, pc };
            let object = self.object(site, addresses[lane], what)?;
            match *what {
                Mbarrier::Init { count } => {
                    let expected = self.lane(site, count) as i64;
                    if !(1..=LIMIT).contains(&expected) {
                        return Err(self.misuse(site, object, "count out of range"));
                    }
                    let thread = self.block.warps[warp].first + lane as u32;
                    let made = (thread, self.epoch, self.block.clocks.now(thread));
                    let state = Object { expected, pending: expected, made, ..Object::default() };
                    self.block.mbarriers.all.insert(object, state);
                }
                Mbarrier::Invalidate => drop(self.block.mbarriers.all.remove(&object)),
                Mbarrier::Expect { bytes } => {
                    let bytes = self.lane(site, bytes) as i64;
                    self.expect(site, object, bytes)?;
                }
                Mbarrier::Arrive { state, count, expect } => {
                    let [count, bytes] = [count, expect].map(|src| self.lane(site, src) as i64);
                    self.expect(site, object, bytes)?;
                    let phase = self.arrive(site, object, count)?;
                    if let Some(state) = state {
                        self.block.warps[warp].register_mut(state)[lane] = phase;
                    }
                }
                Mbarrier::Wait { dst, phase, parity, blocks } => {
                    let done = self.is_done(site, object, phase, parity);
                    if !done && blocks {
                        waiting |= 1 << lane;
                        let state = self.block.mbarriers.all.get_mut(&object);
                        state.into_iter().for_each(|state| state.waiting.push((warp, 1 << lane)));
                    } else {
                        self.block.warps[warp].register_mut(dst)[lane] = u64::from(done);
                    }
                }
            }
        }
        if waiting == 0 {
            return Ok(Flow::Next);
        }
        let state = &mut self.block.warps[warp];
        state.ready &= !waiting;
        state.at_mbarrier |= waiting;
        state.set_pc(mask & !waiting, pc + 1);
        state.set_pc(waiting, pc);
        Ok(Flow::Choose)
    }

    /// A 32-bit operand of a lane.
    fn lane(&self, site: Site, src: Src) -> u64 {
        self.read(site.warp, src)[site.lane] & 0xffff_ffff
    }

    /// Checks the address of an object, and that it exists unless it is made now.
    fn object(&mut self, site: Site, address: u64, what: &Mbarrier) -> Result<u64, Fault> {
        if let (Some(block), address) = block_of(self.shared_generic(address) & 0xffff_ffff) {
            return self.remote_object(site, block, address, what);
        }
        let init = matches!(what, Mbarrier::Init { .. });
        let access = if init { WRITE } else { Access { write: true, atomic: true } };
        let place = self.place(site, Space::Generic, self.shared_generic(address), 8, access)?;
        if init {
            // Its bits are not for loads.
            self.block.shared.mark(place.at as usize, 8, false);
            return Ok(place.at);
        }
        let Some(state) = self.block.mbarriers.all.get(&place.at) else {
            return Err(self.misuse(site, place.at, "not initialised"));
        };
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let (maker, epoch, clock) = state.made;
        if epoch == self.epoch && !self.block.clocks.has_seen(thread, maker, clock) {
            return Err(self.misuse(site, place.at, "used without order after its initialisation"));
        }
        Ok(place.at)
    }

    /// Checks the address of an object in the shared memory of a block of the cluster, at which a thread arrives.
    fn remote_object(
        &mut self,
        site: Site,
        block: u64,
        address: u64,
        what: &Mbarrier,
    ) -> Result<u64, Fault> {
        let inside = address.checked_sub(SHARED_START).filter(|at| {
            at.is_multiple_of(8)
                && at + 8 <= self.block.shared_bytes
                && block < u64::from(self.block.count)
        });
        let Some(at) = inside.map(|at| at + block * self.block.stride) else {
            let kind =
                FaultKind::OutOfBounds { space: Space::Shared, address, size: 8, freed: false };
            return Err(self.fault(site, kind));
        };
        if !matches!(what, Mbarrier::Arrive { state: None, .. }) {
            return Err(self.misuse(site, at, "is another block's, at which threads only arrive"));
        }
        if self.block.live_in(block as usize) == 0 {
            return Err(self.misuse(site, at, "is a block's that has ended"));
        }
        let Some(object) = self.block.mbarriers.all.get(&at) else {
            return Err(self.misuse(site, at, "not initialised"));
        };
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let (maker, epoch, clock) = object.made;
        if epoch == self.epoch && !self.block.clocks.has_seen(thread, maker, clock) {
            return Err(self.misuse(site, at, "used without order after its initialisation"));
        }
        let place = Place { space: Space::Shared, at };
        self.order(site, place, 8, Access { write: true, atomic: true })?;
        Ok(at)
    }

    fn misuse(&self, site: Site, object: u64, problem: &'static str) -> Fault {
        let address = self.shared_address(object);
        self.fault(site, FaultKind::Mbarrier { address, problem })
    }

    /// More bytes that the current phase waits for.
    fn expect(&mut self, site: Site, object: u64, bytes: i64) -> Result<(), Fault> {
        let Some(state) = self.block.mbarriers.all.get_mut(&object) else {
            return Ok(());
        };
        state.bytes += bytes;
        if state.bytes > LIMIT {
            return Err(self.misuse(site, object, "too many bytes expected"));
        }
        Ok(())
    }

    /// Arrives, and returns the phase.
    fn arrive(&mut self, site: Site, object: u64, count: i64) -> Result<u64, Fault> {
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let Some(state) = self.block.mbarriers.all.get_mut(&object) else {
            return Ok(0);
        };
        let phase = state.phase;
        state.pending -= count;
        self.block.clocks.release(thread, &mut state.gathering);
        if state.pending < 0 {
            return Err(self.misuse(site, object, "more arrivals than a phase takes"));
        }
        self.advance(object);
        Ok(phase)
    }

    /// Bytes have come for an object.
    pub fn complete_bytes(
        &mut self,
        site: Site,
        object: u64,
        bytes: u64,
        agent: u32,
    ) -> Result<(), Fault> {
        let Some(state) = self.block.mbarriers.all.get_mut(&object) else {
            return Err(self.misuse(site, object, "not initialised"));
        };
        state.bytes -= bytes as i64;
        self.block.clocks.release(agent, &mut state.gathering);
        if state.bytes < -LIMIT {
            return Err(self.misuse(site, object, "more bytes than a phase can take"));
        }
        self.advance(object);
        Ok(())
    }

    /// Begins the next phase when all have arrived and all bytes have come.
    fn advance(&mut self, object: u64) {
        let Some(state) = self.block.mbarriers.all.get_mut(&object) else {
            return;
        };
        if state.pending != 0 || state.bytes != 0 {
            return;
        }
        state.phase += 1;
        state.pending = state.expected;
        let gathered = std::mem::take(&mut state.gathering);
        if state.published.len() < gathered.len() {
            state.published.resize(gathered.len(), 0);
        }
        for (to, from) in state.published.iter_mut().zip(&gathered) {
            *to = (*to).max(*from);
        }
        for (warp, mask) in std::mem::take(&mut state.waiting) {
            let warp = &mut self.block.warps[warp];
            warp.at_mbarrier &= !mask;
            warp.ready |= mask;
        }
    }

    /// Whether a phase is complete; if so the thread learns what came before.
    fn is_done(&mut self, site: Site, object: u64, phase: Src, parity: bool) -> bool {
        let wanted = self.read(site.warp, phase)[site.lane];
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let Some(state) = self.block.mbarriers.all.get(&object) else {
            return false;
        };
        let done = if parity { state.phase & 1 != wanted & 1 } else { state.phase > wanted };
        if done {
            self.block.clocks.acquire(thread, &state.published);
        }
        done
    }

    /// A generic address for one that may be an offset in shared memory.
    pub fn shared_generic(&self, address: u64) -> u64 {
        use crate::mem::window::{MASK, SHARED};
        if address & MASK == 0 { address & 0xffff_ffff | SHARED } else { address }
    }
}

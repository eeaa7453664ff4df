//! Loads, stores and atomics: bounds, alignment, initialisation, order, and counters.

use crate::counters::{sectors, wavefronts};
use crate::fault::{Fault, FaultKind, Space};
use crate::mem::race::Access;
use crate::mem::window::{SHARED_START, resolve};
use crate::num::integer::{mask as low_bits, sign_extend};
use crate::op::{Addr, AtomicOp, Dst, Op, Src};
use crate::options::Policy;

use super::machine::Machine;
use super::pending::{Lanes, Site};
use super::state::lanes;

/// A plain read.
pub const READ: Access = Access { write: false, atomic: false };
/// A plain write.
pub const WRITE: Access = Access { write: true, atomic: false };

/// Bytes that an access may touch: a space and an offset or address in it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Global, shared, local or param.
    pub space: Space,
    /// An address in global memory, else an offset.
    pub at: u64,
}

impl Machine<'_> {
    /// A load, store or atomic of the lanes of a mask.
    pub fn access(&mut self, warp: usize, pc: u32, op: &Op, run: u32) -> Result<(), Fault> {
        match op {
            Op::Load { space, bytes, signed, strong, dst, addr } => {
                let access = Access { write: false, atomic: *strong };
                let size = u64::from(*bytes) * dst.len() as u64;
                let addresses = self.addresses(warp, *addr);
                self.count(pc, *space, &addresses, run, size);
                self.load(warp, pc, run, *space, access, (*bytes, *signed), dst, &addresses)
            }
            Op::Store { space, bytes, strong, src, addr } => {
                let access = Access { write: true, atomic: *strong };
                let size = u64::from(*bytes) * src.len() as u64;
                let addresses = self.addresses(warp, *addr);
                self.count(pc, *space, &addresses, run, size);
                self.store(warp, pc, run, *space, access, *bytes, src, &addresses)
            }
            Op::Atomic { addr, space, bytes, .. } => {
                let addresses = self.addresses(warp, *addr);
                self.count(pc, *space, &addresses, run, u64::from(*bytes));
                lanes(run)
                    .try_for_each(|lane| self.atomic(Site { warp, lane, pc }, op, addresses[lane]))
            }
            _ => Ok(()),
        }
    }

    /// Addresses of all lanes.
    pub fn addresses(&self, warp: usize, addr: Addr) -> Lanes {
        self.read(warp, addr.base).map(|base| base.wrapping_add(addr.offset as u64))
    }

    #[expect(clippy::too_many_arguments)]
    fn load(
        &mut self,
        warp: usize,
        pc: u32,
        run: u32,
        space: Space,
        access: Access,
        (bytes, signed): (u8, bool),
        dst: &[Option<Dst>],
        addresses: &Lanes,
    ) -> Result<(), Fault> {
        let width = u64::from(bytes);
        for lane in lanes(run) {
            let site = Site { warp, lane, pc };
            let size = width * dst.len() as u64;
            let place = self.place(site, space, addresses[lane], size, access)?;
            for (to, at) in dst.iter().zip(0..) {
                let Some(to) = to else {
                    continue;
                };
                let mut value = self.load_at(place, at * width, usize::from(bytes));
                if signed {
                    value = sign_extend(value, u32::from(bytes) * 8) as u64;
                }
                let register = self.block.warps[warp].register_mut(to.reg);
                register[lane] = value & low_bits(to.bits);
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments)]
    fn store(
        &mut self,
        warp: usize,
        pc: u32,
        run: u32,
        space: Space,
        access: Access,
        bytes: u8,
        src: &[Src],
        addresses: &Lanes,
    ) -> Result<(), Fault> {
        let width = u64::from(bytes);
        for lane in lanes(run) {
            let site = Site { warp, lane, pc };
            let size = width * src.len() as u64;
            let place = self.place(site, space, addresses[lane], size, access)?;
            for (from, at) in src.iter().zip(0..) {
                let value = match *from {
                    Src::Reg(register) => self.block.warps[warp].register(register)[lane],
                    Src::Imm(value) => value,
                    Src::Sym(symbol) => self.setup.symbols[symbol as usize],
                };
                self.store_at(place, at * width, usize::from(bytes), value);
            }
        }
        Ok(())
    }

    fn atomic(&mut self, site: Site, op: &Op, address: u64) -> Result<(), Fault> {
        let Op::Atomic { space, op, bytes, dst, a, b, .. } = op else {
            return Ok(());
        };
        let size = usize::from(*bytes);
        let write = Access { write: true, atomic: true };
        let place = self.place(site, *space, address, size as u64, write)?;
        self.initialised(site, place, size as u64)?;
        let [a, b] = [*a, *b]
            .map(|src| self.read(site.warp, src)[site.lane] & low_bits(8 * u32::from(*bytes)));
        let old = self.load_at(place, 0, size);
        let new = match op {
            AtomicOp::Apply(f) => f(old, a, 0),
            AtomicOp::Exchange => a,
            AtomicOp::CompareSwap if old == a => b,
            AtomicOp::CompareSwap => old,
            AtomicOp::Increment if old >= a => 0,
            AtomicOp::Increment => old + 1,
            AtomicOp::Decrement if old == 0 || old > a => a,
            AtomicOp::Decrement => old - 1,
        };
        self.store_at(place, 0, size, new);
        if let Some(dst) = dst {
            self.block.warps[site.warp].register_mut(*dst)[site.lane] = old;
        }
        Ok(())
    }

    /// Checks an access and says which bytes it touches.
    pub fn place(
        &mut self,
        site: Site,
        space: Space,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<Place, Fault> {
        let (space, address) = match space {
            Space::Generic => resolve(address),
            Space::Const => (Space::Global, address),
            // Sums of 32 bits wrap; a generic address is none of these spaces.
            Space::Shared | Space::Local if address >> 33 == 0 => (space, address & 0xffff_ffff),
            Space::Shared | Space::Local | Space::Global | Space::Param => (space, address),
        };
        if !address.is_multiple_of(size) {
            return Err(self.fault(site, FaultKind::Misaligned { space, address, size }));
        }
        let at = match space {
            Space::Global => return self.global(site, address, size, access),
            Space::Shared => {
                let at = address.checked_sub(SHARED_START);
                let inside = |at: &u64| at.saturating_add(size) <= self.block.shared_bytes;
                at.filter(inside).map(|at| at + self.block.base(site.warp))
            }
            Space::Local => {
                let thread = u64::from(self.block.warps[site.warp].first) + site.lane as u64;
                let each = self.setup.kernel.local_size;
                let inside = address.saturating_add(size) <= each;
                inside.then(|| thread * each + address)
            }
            _ => {
                let end = address.checked_add(size);
                end.filter(|end| *end <= self.setup.params.len() as u64).map(|end| end - size)
            }
        };
        let Some(at) = at else {
            let kind = FaultKind::OutOfBounds { space, address, size, freed: false };
            return Err(self.fault(site, kind));
        };
        let place = Place { space, at };
        if space == Space::Param && access.write {
            return Err(self.fault(site, FaultKind::ReadOnly { space, address }));
        }
        if !access.write {
            self.initialised(site, place, size)?;
        }
        if space == Space::Shared {
            self.order(site, place, size, access)?;
            if access.write && self.setup.kernel.async_proxy {
                let thread = self.block.warps[site.warp].first + site.lane as u32;
                self.block.bulks.wrote(thread, at, size);
            }
        }
        Ok(place)
    }

    fn global(
        &mut self,
        site: Site,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<Place, Fault> {
        let space = Space::Global;
        let Some((allocation, _)) = self.memory.find(address, size) else {
            let freed = self.memory.was_freed(address);
            return Err(self.fault(site, FaultKind::OutOfBounds { space, address, size, freed }));
        };
        if access.write && allocation.read_only {
            return Err(self.fault(site, FaultKind::ReadOnly { space: Space::Const, address }));
        }
        let place = Place { space, at: address };
        if !access.write {
            self.initialised(site, place, size)?;
        }
        let sectors = if access.write { &mut self.written } else { &mut self.read };
        sectors.add(address);
        self.order(site, place, size, access)?;
        Ok(place)
    }

    /// Fails where bytes were not written.
    fn initialised(&mut self, site: Site, place: Place, size: u64) -> Result<(), Fault> {
        if self.setup.options.uninitialised == Policy::Allow {
            return Ok(());
        }
        let (at, length) = (place.at as usize, size as usize);
        let written = match place.space {
            Space::Global => match self.memory.find(place.at, size) {
                Some((allocation, at)) => allocation.bytes.is_written(at, length),
                None => false,
            },
            Space::Shared => self.block.shared.is_written(at, length),
            Space::Local => self.block.local.is_written(at, length),
            _ => true,
        };
        if written {
            return Ok(());
        }
        let pending = self.block.copies.iter().any(|copies| copies.touches(place.at, size))
            || self.block.bulks.touches(place.at, size);
        let kind = if place.space == Space::Shared && pending {
            FaultKind::AsyncPending { address: self.shared_address(place.at) }
        } else {
            let address = match place.space {
                Space::Shared => self.shared_address(place.at),
                _ => place.at,
            };
            FaultKind::Uninitialised { space: place.space, address, size }
        };
        Err(self.fault(site, kind))
    }

    /// Fails where another access has no order with this one.
    pub fn order(
        &mut self,
        site: Site,
        place: Place,
        size: u64,
        access: Access,
    ) -> Result<(), Fault> {
        if self.setup.options.races == Policy::Allow {
            return Ok(());
        }
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let agent = self.block.clocks.agent(thread, self.epoch, self.block.start);
        let races = match place.space {
            Space::Global => &mut self.global_races,
            _ => &mut self.shared_races,
        };
        let Some((at, other)) = races.access(place.at, size, access, &agent) else {
            return Ok(());
        };
        let space = place.space;
        let address = if space == Space::Shared { self.shared_address(at) } else { at };
        Err(self.fault(site, FaultKind::Race { space, address, write: access.write, other }))
    }

    /// Loads from a place that was checked.
    pub fn load_at(&mut self, place: Place, offset: u64, size: usize) -> u64 {
        let at = place.at + offset;
        match place.space {
            Space::Global => match self.memory.find(at, size as u64) {
                Some((allocation, at)) => allocation.bytes.load(at, size),
                None => 0,
            },
            Space::Shared => self.block.shared.load(at as usize, size),
            Space::Local => self.block.local.load(at as usize, size),
            _ => {
                let mut word = [0; 8];
                word[..size].copy_from_slice(&self.setup.params[at as usize..at as usize + size]);
                u64::from_le_bytes(word)
            }
        }
    }

    /// Stores to a place that was checked.
    pub fn store_at(&mut self, place: Place, offset: u64, size: usize, value: u64) {
        let at = place.at + offset;
        match place.space {
            Space::Global => {
                if let Some((allocation, at)) = self.memory.find(at, size as u64) {
                    allocation.bytes.store(at, size, value);
                }
            }
            Space::Shared => self.block.shared.store(at as usize, size, value),
            _ => self.block.local.store(at as usize, size, value),
        }
    }

    /// Counts a request of a warp.
    pub fn count(&mut self, pc: u32, space: Space, addresses: &Lanes, run: u32, size: u64) {
        let first = addresses[run.trailing_zeros() as usize & 31];
        let space = if space == Space::Generic { resolve(first).0 } else { space };
        let mut asked = [0; 32];
        let mut count = 0;
        for lane in lanes(run) {
            asked[count] = addresses[lane];
            count += 1;
        }
        let (asked, bytes) = (&asked[..count], size * count as u64);
        // A request that wraps around is a fault later.
        if asked.iter().any(|address| address.checked_add(size).is_none()) {
            return;
        }
        let (table, (units, ideal)) = match space {
            Space::Global => (0, sectors(asked, size)),
            Space::Shared => (1, wavefronts(asked, size)),
            _ => return,
        };
        self.requests[pc as usize][table].add(units, ideal, bytes);
    }
}

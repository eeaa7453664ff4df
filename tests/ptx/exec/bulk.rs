//! Bulk copies: boxes of tensors and runs of bytes, which move as late as they may.

use crate::fault::{Fault, FaultKind, Space};
use crate::mem::race::{Access, Agent};
use crate::mem::window::{SHARED_START, resolve};
use crate::op::{Addr, Bulk, Src};
use crate::options::{Order, Policy};
use crate::tensor_map::{Swizzle, TensorMap};

use super::machine::Machine;
use super::memory::{READ, WRITE};
use super::pending::{Load, Piece, Site};

impl Machine<'_> {
    /// A lane issues, groups or waits for bulk copies.
    pub fn bulk(&mut self, site: Site, bulk: &Bulk) -> Result<(), Fault> {
        let thread = (self.block.warps[site.warp].first + site.lane as u32) as usize;
        match bulk {
            Bulk::Load { to, map, coordinates, barrier, multicast } => {
                let map = self.map(site, *map)?;
                let pieces = self.pieces(site, &map, *to, coordinates)?;
                let own = 1 << self.block.number(site.warp);
                let blocks =
                    multicast.map_or(own, |mask| self.read(site.warp, mask)[site.lane] & 0xffff);
                if blocks >> self.block.count != 0 {
                    let problem = "a copy to a block that the cluster does not have";
                    return Err(self.fault(site, FaultKind::Operand { problem }));
                }
                for block in (0..u64::from(self.block.count)).filter(|n| blocks >> n & 1 == 1) {
                    self.issue_load(site, block, &pieces, map.box_bytes(), *barrier)?;
                }
                Ok(())
            }
            Bulk::Copy { to, from, bytes, barrier } => {
                let (to, from) = (self.shared_offset(site, *to)?, self.one(site, *from));
                let bytes = self.read(site.warp, *bytes)[site.lane] & 0xffff_ffff;
                if !bytes.is_multiple_of(16) || !from.is_multiple_of(16) || !to.is_multiple_of(16) {
                    let problem = "bulk copies move multiples of 16 bytes between such addresses";
                    return Err(self.fault(site, FaultKind::Operand { problem }));
                }
                if to + bytes > self.block.shared_bytes {
                    return Err(self.outside(site, Space::Shared, to + SHARED_START, bytes));
                }
                let pieces =
                    (0..bytes / 16).map(|i| (to + 16 * i, Some(from.wrapping_add(16 * i)), 16));
                let (pieces, own) = (pieces.collect::<Vec<Piece>>(), self.block.number(site.warp));
                self.issue_load(site, own as u64, &pieces, bytes, *barrier)
            }
            Bulk::Store { from, map, coordinates } => {
                let map = self.map(site, *map)?;
                let negative = |src: &Src| (self.read(site.warp, *src)[site.lane] as i32) < 0;
                if coordinates.iter().any(negative) {
                    // An H100 ends the kernel with an illegal instruction, and loads such boxes.
                    let problem = "a box that is stored begins before the tensor";
                    return Err(self.fault(site, FaultKind::Operand { problem }));
                }
                let pieces = self.pieces(site, &map, *from, coordinates)?;
                for (at, _, size) in &pieces {
                    self.fenced(site, *at + self.block.base(site.warp), *size)?;
                }
                self.block.bulks.stores[thread].open.push(pieces);
                Ok(())
            }
            Bulk::Commit => {
                let stores = &mut self.block.bulks.stores[thread];
                let group = std::mem::take(&mut stores.open);
                stores.groups.push_back(group);
                Ok(())
            }
            Bulk::Wait { left } => self.finish_groups_of_stores(site, *left as usize),
        }
    }

    fn one(&self, site: Site, addr: Addr) -> u64 {
        self.addresses(site.warp, addr)[site.lane]
    }

    /// An offset in the shared memory of the block.
    fn shared_offset(&self, site: Site, addr: Addr) -> Result<u64, Fault> {
        let address = resolve(self.shared_generic(self.one(site, addr))).1;
        match address.checked_sub(SHARED_START) {
            Some(at) if at <= self.block.shared_bytes => Ok(at),
            _ => Err(self.outside(site, Space::Shared, address, 16)),
        }
    }

    fn outside(&self, site: Site, space: Space, address: u64, size: u64) -> Fault {
        self.fault(site, FaultKind::OutOfBounds { space, address, size, freed: false })
    }

    /// Reads a tensor map from parameters or global memory.
    fn map(&mut self, site: Site, addr: Addr) -> Result<TensorMap, Fault> {
        let (mut space, at) = resolve(self.one(site, addr));
        // The address of a parameter may come without its window.
        if at < self.setup.kernel.param_size {
            space = Space::Param;
        }
        let mut bytes = vec![];
        for word in 0..16 {
            let place = self.place(site, space, at.wrapping_add(8 * word), 8, READ)?;
            bytes.extend(self.load_at(place, 0, 8).to_le_bytes());
        }
        let problem = "no tensor map at this address";
        TensorMap::from_bytes(&bytes)
            .ok_or_else(|| self.fault(site, FaultKind::Operand { problem }))
    }

    /// The pieces of a box; those outside of the tensor have no source.
    fn pieces(
        &self,
        site: Site,
        map: &TensorMap,
        shared: Addr,
        coordinates: &[Src],
    ) -> Result<Vec<Piece>, Fault> {
        let base = self.shared_offset(site, shared)? + SHARED_START;
        let first: Vec<i64> = coordinates
            .iter()
            .map(|src| i64::from(self.read(site.warp, *src)[site.lane] as i32))
            .collect();
        let aligned = if map.swizzle == Swizzle::None { 16 } else { 128 };
        let problem = if first.len() != map.dims.len() {
            "the coordinates do not fit the tensor map"
        } else if first[0] * i64::from(map.element) % 16 != 0 {
            // An H100 ends the kernel with an illegal instruction.
            "the innermost coordinate of a box is no multiple of 16 bytes"
        } else if !base.is_multiple_of(aligned) {
            "the address of a box in shared memory is not aligned"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(self.fault(site, FaultKind::Operand { problem }));
        }
        if map.box_bytes() > self.block.shared_bytes - (base - SHARED_START) {
            return Err(self.outside(site, Space::Shared, base, map.box_bytes()));
        }
        let element = u64::from(map.element);
        let count = map.box_bytes() / element;
        Ok((0..count)
            .map(|at| {
                let to = map.swizzle.apply(base + at * element) - SHARED_START;
                (to, element_address(map, &first, at), element)
            })
            .collect())
    }

    /// Issues a load to a block of the cluster: to the same places, and to the same barrier object, as in this one.
    fn issue_load(
        &mut self,
        site: Site,
        block: u64,
        pieces: &[Piece],
        bytes: u64,
        barrier: Addr,
    ) -> Result<(), Fault> {
        let base = block * self.block.stride;
        let barrier = self.shared_offset(site, barrier)? + base;
        let there = |(to, from, size): &Piece| (to + base, *from, *size);
        let pieces: Vec<Piece> = pieces.iter().map(there).collect();
        let thread = self.block.warps[site.warp].first + site.lane as u32;
        let (epoch, seen) = (self.epoch, self.block.clocks.knowledge(thread));
        let mut load = Load { site, pieces, bytes, barrier, epoch, seen };
        self.check_load(&mut load)?;
        for (to, _, size) in &load.pieces {
            self.block.shared.mark(*to as usize, *size as usize, false);
        }
        self.block.bulks.loads.push_back(load);
        Ok(())
    }

    /// Checks bounds and order of a load.
    fn check_load(&mut self, load: &mut Load) -> Result<(), Fault> {
        if load.epoch != self.epoch {
            load.seen.clear();
        }
        let agent = self.block.threads;
        for at in 0..load.pieces.len() {
            let (to, from, size) = load.pieces[at];
            if to + size > self.block.shared.len() as u64 {
                return Err(self.outside(load.site, Space::Shared, self.shared_address(to), size));
            }
            if self.block.live_in((to / self.block.stride.max(1)) as usize) == 0
                && self.block.count > 1
            {
                let problem = "a copy to a block of the cluster that has ended";
                return Err(self.fault(load.site, FaultKind::Operand { problem }));
            }
            self.engine(load.site, Space::Shared, to, size, WRITE, agent, &load.seen)?;
            if let Some(from) = from {
                let Some((allocation, offset)) = self.memory.find(from, size) else {
                    return Err(self.outside(load.site, Space::Global, from, size));
                };
                if !allocation.bytes.is_written(offset, size as usize)
                    && self.setup.options.uninitialised == Policy::Fault
                {
                    let space = Space::Global;
                    let kind = FaultKind::Uninitialised { space, address: from, size };
                    return Err(self.fault(load.site, kind));
                }
                self.read.add(from);
                self.engine(load.site, Space::Global, from, size, READ, agent, &load.seen)?;
            }
        }
        Ok(())
    }

    /// Records an access of an engine that works for threads.
    #[expect(clippy::too_many_arguments)]
    pub fn engine(
        &mut self,
        site: Site,
        space: Space,
        at: u64,
        size: u64,
        access: Access,
        engine: u32,
        seen: &[u32],
    ) -> Result<(), Fault> {
        if self.setup.options.races == Policy::Allow {
            return Ok(());
        }
        let own = self.block.clocks.agent(engine, self.epoch, self.block.start);
        let agent = Agent { seen, ..own };
        let races = match space {
            Space::Global => &mut self.global_races,
            _ => &mut self.shared_races,
        };
        let Some((at, other)) = races.access(at, size, access, &agent) else {
            return Ok(());
        };
        let address = if space == Space::Global { at } else { self.shared_address(at) };
        Err(self.fault(site, FaultKind::Race { space, address, write: access.write, other }))
    }

    /// Runs one load; false when there is none.
    pub fn run_bulk(&mut self) -> Result<bool, Fault> {
        let count = self.block.bulks.loads.len() as u64;
        let at = match self.setup.options.order {
            Order::Seeded(_) => self.generator.below(count) as usize,
            Order::Index => 0,
            Order::Reverse => count.saturating_sub(1) as usize,
        };
        let Some(mut load) = self.block.bulks.loads.remove(at) else {
            return Ok(false);
        };
        self.check_load(&mut load)?;
        for (to, from, size) in &load.pieces {
            let value = match from.and_then(|from| self.memory.find(from, *size)) {
                Some((allocation, at)) => {
                    allocation.bytes.get(at, *size as usize).map(<[u8]>::to_vec)
                }
                None => None,
            };
            let value = value.unwrap_or_else(|| vec![0; *size as usize]);
            self.block.shared.write(*to as usize, &value);
        }
        let agent = self.block.threads;
        self.complete_bytes(load.site, load.barrier, load.bytes, agent)?;
        Ok(true)
    }

    /// Fails where a range was written without a fence.
    pub fn fenced(&self, site: Site, at: u64, size: u64) -> Result<(), Fault> {
        match self.block.bulks.unfenced(at, size) {
            Some(at) => {
                let address = self.shared_address(at);
                Err(self.fault(site, FaultKind::ProxyFence { address }))
            }
            None => Ok(()),
        }
    }

    /// Runs groups of stores of a thread until at most `left` remain.
    fn finish_groups_of_stores(&mut self, site: Site, left: usize) -> Result<(), Fault> {
        let thread = (self.block.warps[site.warp].first + site.lane as u32) as usize;
        while self.block.bulks.stores[thread].groups.len() > left {
            let group = self.block.bulks.stores[thread].groups.pop_front().unwrap_or_default();
            for pieces in group {
                self.store_pieces(site, &pieces)?;
            }
        }
        Ok(())
    }

    /// Runs all stores of a thread.
    pub fn finish_stores(&mut self, site: Site, left: usize) -> Result<(), Fault> {
        self.finish_groups_of_stores(site, left)?;
        let thread = (self.block.warps[site.warp].first + site.lane as u32) as usize;
        for pieces in std::mem::take(&mut self.block.bulks.stores[thread].open) {
            self.store_pieces(site, &pieces)?;
        }
        Ok(())
    }

    fn store_pieces(&mut self, site: Site, pieces: &[Piece]) -> Result<(), Fault> {
        for (at, to, size) in pieces {
            let from = self.place(site, Space::Shared, at + SHARED_START, *size, READ)?;
            let Some(to) = to else {
                continue;
            };
            let place = self.place(site, Space::Global, *to, *size, WRITE)?;
            let value = self.load_at(from, 0, *size as usize);
            self.store_at(place, 0, *size as usize, value);
        }
        Ok(())
    }
}

/// The address of an element of a box; none outside of the tensor.
fn element_address(map: &TensorMap, first: &[i64], at: u64) -> Option<u64> {
    let (mut rest, mut address) = (at, map.address);
    for (axis, extent) in map.extents.iter().enumerate() {
        let extent = u64::from((*extent).max(1));
        let coordinate = first[axis] + (rest % extent) as i64;
        rest /= extent;
        if coordinate < 0 || coordinate >= i64::from(map.dims[axis]) {
            return None;
        }
        let stride = if axis == 0 { u64::from(map.element) } else { map.strides[axis - 1] };
        address = address.wrapping_add(coordinate as u64 * stride);
    }
    Some(address)
}

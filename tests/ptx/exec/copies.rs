//! Asynchronous copies: they run as late as a wait allows, and until then nothing may look.

use crate::fault::{Fault, FaultKind, Space};
use crate::op::Op;

use super::machine::Machine;
use super::memory::{Place, READ, WRITE};
use super::pending::{Copy, Site};
use super::state::lanes;

impl Machine<'_> {
    /// Issues, groups or waits for copies.
    pub fn copy(&mut self, warp: usize, pc: u32, op: &Op, run: u32) -> Result<(), Fault> {
        let first = self.block.warps[warp].first as usize;
        match op {
            Op::AsyncCommit => {
                for lane in lanes(run) {
                    let copies = &mut self.block.copies[first + lane];
                    let group = std::mem::take(&mut copies.open);
                    copies.groups.push_back(group);
                }
            }
            Op::AsyncWait { left } => {
                for lane in lanes(run) {
                    let site = Site { warp, lane, pc };
                    match left {
                        Some(left) => self.finish_groups(site, *left as usize)?,
                        None => self.finish_copies(site, 0)?,
                    }
                }
            }
            Op::AsyncCopy { bytes, to, from, read } => {
                let (to, from) = (self.addresses(warp, *to), self.addresses(warp, *from));
                let size = u64::from(*bytes);
                self.count(pc, Space::Global, &from, run, size);
                self.count(pc, Space::Shared, &to, run, size);
                let read = read.map(|read| self.read(warp, read));
                for lane in lanes(run) {
                    let read = read.map_or(size, |read| (read[lane] & 0xffff_ffff).min(size));
                    let site = Site { warp, lane, pc };
                    self.issue(site, to[lane], from[lane], size, read)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn issue(
        &mut self,
        site: Site,
        to: u64,
        from: u64,
        bytes: u64,
        read: u64,
    ) -> Result<(), Fault> {
        let place = self.place(site, Space::Shared, to, bytes, WRITE)?;
        if read > 0 {
            self.source(site, from, bytes, read)?;
        }
        self.block.shared.mark(place.at as usize, bytes as usize, false);
        let thread = self.block.warps[site.warp].first as usize + site.lane;
        self.block.copies[thread].open.push(Copy { to: place.at, from, bytes, read });
        Ok(())
    }

    /// Checks the source of a copy.
    fn source(&mut self, site: Site, from: u64, bytes: u64, read: u64) -> Result<(), Fault> {
        let space = Space::Global;
        if !from.is_multiple_of(bytes) {
            let kind = FaultKind::Misaligned { space, address: from, size: bytes };
            return Err(self.fault(site, kind));
        }
        if read == bytes {
            return self.place(site, space, from, bytes, READ).map(drop);
        }
        (0..read).try_for_each(|at| self.place(site, space, from + at, 1, READ).map(drop))
    }

    /// Runs groups of a thread until at most `left` remain.
    fn finish_groups(&mut self, site: Site, left: usize) -> Result<(), Fault> {
        let thread = self.block.warps[site.warp].first as usize + site.lane;
        while self.block.copies[thread].groups.len() > left {
            let group = self.block.copies[thread].groups.pop_front().unwrap_or_default();
            for copy in group {
                self.finish(site, copy)?;
            }
        }
        Ok(())
    }

    /// Runs all copies of a thread, those of the open group last.
    pub fn finish_copies(&mut self, site: Site, left: usize) -> Result<(), Fault> {
        self.finish_groups(site, left)?;
        let thread = self.block.warps[site.warp].first as usize + site.lane;
        for copy in std::mem::take(&mut self.block.copies[thread].open) {
            self.finish(site, copy)?;
        }
        Ok(())
    }

    fn finish(&mut self, site: Site, copy: Copy) -> Result<(), Fault> {
        let Copy { to, from, bytes, read } = copy;
        let place = self.place(site, Space::Shared, self.shared_address(to), bytes, WRITE)?;
        if read > 0 {
            self.source(site, from, bytes, read)?;
        }
        for at in 0..bytes {
            let source = Place { space: Space::Global, at: from };
            let value = if at < read { self.load_at(source, at, 1) } else { 0 };
            self.store_at(place, at, 1, value);
        }
        Ok(())
    }
}

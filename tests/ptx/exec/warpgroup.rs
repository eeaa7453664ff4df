//! Instructions of warpgroups: matrix products that read shared memory when they are waited for.

use crate::fault::{Fault, FaultKind, Space};
use crate::mem::window::SHARED_START;
use crate::num::mma::{HOPPER, dot};
use crate::op::{GroupMatrix, Src, Warpgroup};
use crate::options::Policy;
use crate::tensor_map::Swizzle;

use super::machine::Machine;
use super::memory::READ;
use super::pending::{First, Lanes, Product, Site, Sums};
use super::warp::Flow;

/// The value of sums before they are waited for: a NaN that no arithmetic makes.
const PENDING: u64 = 0x7fad_dead;
/// Rows and products of an instruction.
const ROWS: usize = 64;
const DEPTH: usize = 16;

impl Machine<'_> {
    /// A warp comes to an instruction of its warpgroup, which runs when all four are there.
    pub fn warpgroup(
        &mut self,
        warp: usize,
        pc: u32,
        what: &Warpgroup,
        mask: u32,
        run: u32,
    ) -> Result<Flow, Fault> {
        let site = Site { warp, lane: run.trailing_zeros() as usize, pc };
        let group = warp / 4;
        let kind = FaultKind::DivergentCollective { mask: u32::MAX, arrived: run };
        if self.block.warps[warp].live != u32::MAX || self.block.warps.len() < group * 4 + 4 {
            return Err(self.fault(site, kind));
        }
        // Lanes that have parted may come one after another.
        let state = &mut self.block.warps[warp];
        state.set_pc(mask & !run, pc + 1);
        state.set_pc(run, pc);
        state.ready &= !run;
        state.at_group |= run;
        let warps = group * 4..group * 4 + 4;
        if !warps.clone().all(|warp| self.block.warps[warp].at_group == u32::MAX) {
            return Ok(Flow::Choose);
        }
        if warps.clone().any(|warp| self.block.warps[warp].pcs != [pc; 32]) {
            return Err(self.fault(site, kind));
        }
        let site = Site { warp: group * 4, lane: 0, pc };
        match what {
            Warpgroup::Fence => {
                let warps = &mut self.block.warps[warps.clone()];
                warps.iter_mut().for_each(|warp| warp.unfenced.fill(false));
            }
            Warpgroup::Commit => {
                let clock = self.block.clocks.tick(self.block.threads + 1 + group as u32);
                let state = &mut self.block.groups[group];
                let open = std::mem::take(&mut state.open);
                state.groups.push_back((clock, open));
            }
            Warpgroup::Wait { left } => self.retire(site, group, *left as usize)?,
            Warpgroup::Mma { format, d, a, b, scale, negate, transposed } => {
                let a = match a {
                    GroupMatrix::Shared(descriptor) => {
                        First::Shared(self.read(site.warp, *descriptor)[0])
                    }
                    GroupMatrix::Registers(parts) => {
                        let registers = parts.iter().filter_map(|part| match part {
                            Src::Reg(register) => Some(*register),
                            _ => None,
                        });
                        self.registers_fenced(site, group, registers)?;
                        First::Registers(self.registers(group, parts))
                    }
                };
                let b = self.read(site.warp, *b)[0];
                let keep = self.read(site.warp, *scale)[0] & 1 == 1;
                let (format, d) = (*format, d.clone());
                let (negate, transposed) = (*negate, *transposed);
                let product = Product { site, format, d, a, b, keep, negate, transposed };
                self.issue_product(group, product)?;
            }
        }
        for warp in warps {
            let state = &mut self.block.warps[warp];
            state.at_group = 0;
            state.ready = state.live;
            state.set_pc(u32::MAX, pc + 1);
        }
        Ok(Flow::Choose)
    }

    fn registers(&self, group: usize, parts: &[Src]) -> Vec<[Lanes; 4]> {
        let of = |warp: usize| std::array::from_fn(|at| self.read(warp, parts[at]));
        (group * 4..group * 4 + 4).map(of).collect()
    }

    /// Fails where a warp has written one of the registers since its last fence. What products have written needs none
    /// (PTX ISA, `wgmma.fence`).
    fn registers_fenced(
        &self,
        site: Site,
        group: usize,
        mut registers: impl Iterator<Item = u32>,
    ) -> Result<(), Fault> {
        let warps = &self.block.warps[group * 4..group * 4 + 4];
        let written = |of: &u32| warps.iter().any(|warp| warp.unfenced[*of as usize]);
        match registers.find(written) {
            Some(_) => Err(self.fault(site, FaultKind::RegisterFence)),
            None => Ok(()),
        }
    }

    /// Takes the sums away from the registers until the product is waited for.
    fn issue_product(&mut self, group: usize, product: Product) -> Result<(), Fault> {
        self.touch(group, &product)?;
        if !self.block.groups[group].sums.contains_key(&product.d[0]) {
            self.registers_fenced(product.site, group, product.d.iter().copied())?;
            let warps = &mut self.block.warps[group * 4..group * 4 + 4];
            let sums = warps.iter_mut().map(|warp| {
                let take = |register: &u32| std::mem::replace(warp.slot(*register), [PENDING; 32]);
                product.d.iter().map(take).collect()
            });
            let sums = Sums { registers: product.d.clone(), warps: sums.collect() };
            self.block.groups[group].sums.insert(product.d[0], sums);
        }
        self.block.groups[group].open.push(product);
        Ok(())
    }

    /// Runs groups of products until at most `left` remain.
    fn retire(&mut self, site: Site, group: usize, left: usize) -> Result<(), Fault> {
        let engine = self.block.threads + 1 + group as u32;
        let first = self.block.warps[site.warp].first;
        while self.block.groups[group].groups.len() > left {
            let Some((clock, products)) = self.block.groups[group].groups.pop_front() else {
                break;
            };
            for product in products {
                self.product(group, &product)?;
            }
            // The threads know that the reads are over.
            for thread in first..first + 128 {
                self.block.clocks.acquire_one(thread, engine, clock);
            }
        }
        self.hand_back(group);
        Ok(())
    }

    /// Writes sums without pending products to their registers.
    fn hand_back(&mut self, group: usize) {
        let state = &mut self.block.groups[group];
        let pending: Vec<u32> = state
            .groups
            .iter()
            .flat_map(|(_, group)| group)
            .chain(&state.open)
            .map(|p| p.d[0])
            .collect();
        let done: Vec<u32> =
            state.sums.keys().copied().filter(|register| !pending.contains(register)).collect();
        for first in done {
            let Some(sums) = state.sums.remove(&first) else {
                continue;
            };
            for (warp, values) in self.block.warps[group * 4..].iter_mut().zip(sums.warps) {
                for (register, values) in sums.registers.iter().zip(values) {
                    *warp.slot(*register) = values;
                }
            }
        }
    }

    fn product(&mut self, group: usize, product: &Product) -> Result<(), Fault> {
        let columns = product.d.len() * 2;
        let [turn_a, turn_b] = product.transposed;
        let b = self.matrix_of(product, product.b, columns, turn_b)?;
        let a = match &product.a {
            First::Shared(descriptor) => self.matrix_of(product, *descriptor, ROWS, turn_a)?,
            First::Registers(warps) => from_registers(warps),
        };
        let flip = |matrix: Vec<Vec<u64>>, negate: bool| -> Vec<Vec<u64>> {
            let sign = if negate { 0x8000 } else { 0 };
            matrix.into_iter().map(|row| row.into_iter().map(|x| x ^ sign).collect()).collect()
        };
        let (a, b) = (flip(a, product.negate[0]), flip(b, product.negate[1]));
        let Some(sums) = self.block.groups[group].sums.get_mut(&product.d[0]) else {
            return Ok(());
        };
        for (warp, sums) in sums.warps.iter_mut().enumerate() {
            for (register, values) in sums.iter_mut().enumerate() {
                for (lane, value) in values.iter_mut().enumerate() {
                    let row = 16 * warp + lane / 4 + register / 2 % 2 * 8;
                    let column = register / 4 * 8 + lane % 4 * 2 + register % 2;
                    let sum = if product.keep { *value & 0xffff_ffff } else { 0 };
                    *value = dot(HOPPER, product.format, &a[row], &b[column], sum);
                }
            }
        }
        Ok(())
    }

    /// The vector clock of accesses that the first threads of all four warps have seen.
    fn seen_by_all(&self, group: usize) -> Vec<u32> {
        let of = |warp: usize| self.block.clocks.knowledge(self.block.warps[warp].first);
        let mut seen = of(group * 4);
        for warp in group * 4 + 1..group * 4 + 4 {
            for (to, from) in seen.iter_mut().zip(of(warp)) {
                *to = (*to).min(from);
            }
        }
        seen
    }

    /// Checks the reads of a product and their order, when it is issued.
    fn touch(&mut self, group: usize, product: &Product) -> Result<(), Fault> {
        let engine = self.block.threads + 1 + group as u32;
        let seen = self.seen_by_all(group);
        let [turn_a, turn_b] = product.transposed;
        let mut matrices = vec![(product.b, product.d.len() as u64 * 2, turn_b)];
        if let First::Shared(descriptor) = product.a {
            matrices.push((descriptor, ROWS as u64, turn_a));
        }
        for (descriptor, rows, transposed) in matrices {
            // Each has eight neighbours in memory.
            let chunks = (0..rows / 8).flat_map(|group| (0..DEPTH as u64).map(move |n| (group, n)));
            for (group, n) in chunks {
                let [row, k] =
                    if transposed { [group * 8, n] } else { [group * 8 + n / 2, n % 2 * 8] };
                let at = self.chunk(product, address(descriptor, row, k, transposed))?;
                self.fenced(product.site, at, 16)?;
                self.engine(product.site, Space::Shared, at, 16, READ, engine, &seen)?;
            }
        }
        Ok(())
    }

    /// The offset of 16 bytes that are there and written.
    fn chunk(&self, product: &Product, address: u64) -> Result<u64, Fault> {
        let (space, size, freed) = (Space::Shared, 16, false);
        let at = address.wrapping_sub(SHARED_START);
        if at.checked_add(size).is_none_or(|end| end > self.block.shared_bytes) {
            let kind = FaultKind::OutOfBounds { space, address, size, freed };
            return Err(self.fault(product.site, kind));
        }
        let at = at + self.block.base(product.site.warp);
        let checked = self.setup.options.uninitialised == Policy::Fault;
        if checked && !self.block.shared.is_written(at as usize, 16) {
            let kind = if self.block.bulks.touches(at, 16) {
                FaultKind::AsyncPending { address }
            } else {
                FaultKind::Uninitialised { space, address, size }
            };
            return Err(self.fault(product.site, kind));
        }
        Ok(at)
    }

    /// Rows of a matrix in shared memory, whose rows run along the sum.
    fn matrix_of(
        &self,
        product: &Product,
        descriptor: u64,
        rows: usize,
        transposed: bool,
    ) -> Result<Vec<Vec<u64>>, Fault> {
        let mut matrix = vec![vec![0; DEPTH]; rows];
        for (row, values) in matrix.iter_mut().enumerate() {
            for (k, value) in values.iter_mut().enumerate() {
                let [row, k] = [row as u64, k as u64];
                let within = if transposed { row } else { k } % 8 * 2;
                let [row, k] = if transposed { [row / 8 * 8, k] } else { [row, k / 8 * 8] };
                let at = self.chunk(product, address(descriptor, row, k, transposed))?;
                *value = self.block.shared.load((at + within) as usize, 2);
            }
        }
        Ok(matrix)
    }
}

/// The address of an element's vector of 16 bytes by a descriptor: of eight neighbours along the sum, or,
/// `transposed`, of eight neighbouring rows (or columns).
///
/// Source: NVIDIA, "Parallel Thread Execution ISA", "Strides" of matrices in shared memory; CUTLASS,
/// `mma_sm90_desc.hpp`, "canonical layouts".
fn address(descriptor: u64, row: u64, k: u64, transposed: bool) -> u64 {
    let field = |at: u32| (descriptor >> at & 0x3fff) << 4;
    let (start, leading, stride) = (field(0), field(16), field(32));
    let (swizzle, pitch) = match (descriptor >> 62, transposed) {
        (0, false) => return start + row / 8 * stride + k / 8 * leading + row % 8 * 16,
        (0, true) => return start + row / 8 * stride + k / 8 * leading + k % 8 * 16,
        (1, _) => (Swizzle::Bytes128, 128),
        (2, _) => (Swizzle::Bytes64, 64),
        _ => (Swizzle::Bytes32, 32),
    };
    swizzle.apply(match transposed {
        false => start + row / 8 * stride + row % 8 * pitch + k / 8 * 16,
        true => {
            let panel = pitch / 2;
            start + row / panel * leading + k / 8 * stride + k % 8 * pitch + row % panel / 8 * 16
        }
    })
}

/// Rows of a matrix of 64 by 16 from fragments.
fn from_registers(warps: &[[Lanes; 4]]) -> Vec<Vec<u64>> {
    let at = |row: usize, k: usize| {
        let (warp, row) = (row / 16, row % 16);
        let register = warps[warp][row / 8 + k / 8 * 2];
        register[row % 8 * 4 + k % 8 / 2] >> (16 * (k % 2)) & 0xffff
    };
    (0..ROWS).map(|row| (0..DEPTH).map(|k| at(row, k)).collect()).collect()
}

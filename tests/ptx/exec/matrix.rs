//! Matrix instructions of a warp.

use crate::fault::{Fault, Space};
use crate::num::format::Format;
use crate::num::mma::{AMPERE, HOPPER, dot};
use crate::op::{Addr, Collective, Src};
use crate::options::Arch;

use super::machine::Machine;
use super::memory::{READ, WRITE};
use super::pending::{Lanes, Site};
use super::state::lanes;

/// Bytes of a row of a matrix of 8 by 8.
const ROW: u64 = 16;

impl Machine<'_> {
    /// Runs a matrix instruction of all lanes.
    pub fn matrix(&mut self, site: Site, what: &Collective, mask: u32) -> Result<(), Fault> {
        match what {
            Collective::LoadMatrix { transposed, dst, addr } => {
                self.load_matrices(site, *transposed, dst, *addr)
            }
            Collective::StoreMatrix { transposed, src, addr } => {
                self.store_matrices(site, *transposed, src, *addr)
            }
            Collective::Mma { format, k, d, a, b, c } => {
                let operands = [a, b, c].map(|sources| {
                    sources.iter().map(|src| self.read(site.warp, *src)).collect::<Vec<Lanes>>()
                });
                let results = self.multiply(*format, *k as usize, &operands);
                for (register, values) in d.iter().zip(&results) {
                    self.write(site.warp, *register, mask, values);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn load_matrices(
        &mut self,
        site: Site,
        transposed: bool,
        dst: &[u32],
        addr: Addr,
    ) -> Result<(), Fault> {
        let addresses = self.addresses(site.warp, addr);
        for (matrix, register) in dst.iter().enumerate() {
            let rows = 0xff << (8 * matrix);
            self.count(site.pc, Space::Shared, &addresses, rows, ROW);
            let mut elements = [[0; 8]; 8];
            for (lane, row) in lanes(rows).zip(&mut elements) {
                let site = Site { lane, ..site };
                let place = self.place(site, Space::Shared, addresses[lane], ROW, READ)?;
                for (element, at) in row.iter_mut().zip(0..) {
                    *element = self.load_at(place, 2 * at, 2);
                }
            }
            let mut values = [0; 32];
            for (lane, value) in values.iter_mut().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let pair = if transposed {
                    [elements[column][row], elements[column + 1][row]]
                } else {
                    [elements[row][column], elements[row][column + 1]]
                };
                *value = pair[0] | pair[1] << 16;
            }
            self.write(site.warp, *register, u32::MAX, &values);
        }
        Ok(())
    }

    fn store_matrices(
        &mut self,
        site: Site,
        transposed: bool,
        src: &[Src],
        addr: Addr,
    ) -> Result<(), Fault> {
        let addresses = self.addresses(site.warp, addr);
        for (matrix, source) in src.iter().enumerate() {
            let rows = 0xff << (8 * matrix);
            self.count(site.pc, Space::Shared, &addresses, rows, ROW);
            let values = self.read(site.warp, *source);
            let mut elements = [[0; 8]; 8];
            for (lane, value) in values.iter().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                for (at, half) in [(column, *value & 0xffff), (column + 1, *value >> 16 & 0xffff)] {
                    let [row, at] = if transposed { [at, row] } else { [row, at] };
                    elements[row][at] = half;
                }
            }
            for (lane, row) in lanes(rows).zip(&elements) {
                let site = Site { lane, ..site };
                let place = self.place(site, Space::Shared, addresses[lane], ROW, WRITE)?;
                for (element, at) in row.iter().zip(0..) {
                    self.store_at(place, 2 * at, 2, *element);
                }
            }
        }
        Ok(())
    }

    /// `m16n8` products from fragments, as registers of all lanes.
    fn multiply(&self, format: Format, k: usize, [a, b, c]: &[Vec<Lanes>; 3]) -> [Lanes; 4] {
        let model = match self.setup.options.arch {
            Arch::Sm80 => AMPERE,
            Arch::Sm90a => HOPPER,
        };
        let half = |lanes: &Lanes, lane: usize, at: usize| lanes[lane] >> (16 * (at % 2)) & 0xffff;
        // Lane `4 * row + column / 2` holds two neighbours of a row.
        let a_at =
            |row: usize, at: usize| half(&a[row / 8 + at / 8 * 2], row % 8 * 4 + at % 8 / 2, at);
        let b_at = |at: usize, column: usize| half(&b[at / 8], column * 4 + at % 8 / 2, at);
        let rows: Vec<Vec<u64>> =
            (0..16).map(|row| (0..k).map(|at| a_at(row, at)).collect()).collect();
        let columns: Vec<Vec<u64>> =
            (0..8).map(|column| (0..k).map(|at| b_at(at, column)).collect()).collect();
        let mut results = [[0; 32]; 4];
        for (register, values) in results.iter_mut().enumerate() {
            for (lane, value) in values.iter_mut().enumerate() {
                let (row, column) = (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2);
                let sum = c[register][lane] & 0xffff_ffff;
                *value = dot(model, format, &rows[row], &columns[column], sum);
            }
        }
        results
    }
}

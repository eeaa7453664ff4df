//! Predicted times of tiled products on a GPU, which rank the tiles that a rule has.
//!
//! A roofline of one multiprocessor, in cycles for a group of steps: multiply-adds, instructions, traffic of shared memory and of the
//! level 2 cache, and the latency of memory over the groups that are on their way. As many blocks share it as
//! registers and shared memory allow (occupancy). Blocks come in waves, the last of which may be small, and all of it takes no
//! less than the bytes of memory do.
//!
//! Decision: docs/decisions/0107-nhwc-and-tile-costs.md
//!
//! Figures are those of the device ([`GpuTarget`]) and of the kernel; none is fitted to a measurement.

use reflex_tir::codegen::GpuTarget;

/// Instructions of warps that a multiprocessor begins in a cycle.
const ISSUED: f64 = 4.0;
/// Bytes of shared memory that a multiprocessor reads or writes in a cycle.
const SHARED_BYTES: f64 = 128.0;
/// Bytes of shared memory that the device keeps for each block.
const RESERVED: i64 = 1 << 10;
/// Threads of a multiprocessor.
const MOST_THREADS: i64 = 2048;
/// Registers are given to a thread in units of so many.
const REGISTER_UNIT: i64 = 8;
/// Cycles from a load that misses the level 2 cache to its data. Source: Luo et al., "Benchmarking and Dissecting the
/// Nvidia Hopper GPU Architecture via Microbenchmarking" (2024).
const LATENCY: f64 = 700.0;

/// A product of matrices.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// Matrices.
    pub batch: i64,
    /// Rows.
    pub m: i64,
    /// Columns.
    pub n: i64,
    /// Steps of the reduction.
    pub k: i64,
}

/// A kernel that computes tiled products, as it uses a multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct TileCost {
    /// Rows and columns of a block's tile.
    pub tile: [i64; 2],
    /// Steps of a group.
    pub depth: i64,
    /// Groups that are on their way or are multiplied.
    pub stages: i64,
    /// Threads of a block.
    pub threads: i64,
    /// Registers of a thread, at most; `tests/gpu_facts.txt` holds them against the assembler's.
    pub registers: i64,
    /// Shared memory of a block, bytes.
    pub shared_bytes: i64,
    /// Multiply-adds of a multiprocessor in a cycle.
    pub rate: i64,
    /// Multiply-adds for each pair of elements.
    pub passes: i64,
    /// Instructions of warps for a group, as counted in the rule.
    pub instructions: i64,
    /// Bytes that a block writes to shared memory for a group, and that registers or tensor cores get from it.
    pub traffic: i64,
    /// Bytes of an operand's element.
    pub element: i64,
}

impl TileCost {
    /// Blocks that a multiprocessor has at a time.
    pub fn resident(&self, gpu: &GpuTarget) -> i64 {
        let units = (self.registers + REGISTER_UNIT - 1) / REGISTER_UNIT;
        let registers = units * REGISTER_UNIT * self.threads;
        let shared = i64::from(gpu.shared_bytes) + RESERVED;
        let by = [
            i64::from(gpu.registers) / registers,
            shared / (self.shared_bytes + RESERVED),
            MOST_THREADS / self.threads,
        ];
        by.into_iter().min().unwrap_or(0).max(1)
    }

    /// Blocks of a product.
    pub fn blocks(&self, of: Extents) -> i64 {
        let tiles = |n: i64, tile: i64| (n + tile - 1) / tile;
        of.batch * tiles(of.m, self.tile[0]) * tiles(of.n, self.tile[1])
    }

    /// The cycles of a product.
    pub fn cycles(&self, gpu: &GpuTarget, of: Extents) -> f64 {
        let operands = (of.m + of.n) * of.k * self.element;
        let bytes = of.batch * (operands + of.m * of.n * self.element);
        let in_cycle = f64::from(gpu.memory_gbps) * 1e3 / f64::from(gpu.clock_mhz);
        self.waves(gpu, of).max(bytes as f64 / in_cycle)
    }

    /// The cycles of a multiprocessor.
    fn waves(&self, gpu: &GpuTarget, of: Extents) -> f64 {
        let sms = i64::from(gpu.sms);
        let each = (self.blocks(of) + sms - 1) / sms;
        let resident = self.resident(gpu).min(each).max(1);
        let (waves, rest) = (each / resident, each % resident);
        let last = if rest == 0 { 0.0 } else { self.wave(gpu, of.k, rest) };
        waves as f64 * self.wave(gpu, of.k, resident) + last
    }

    /// The resources of a kernel, and the time that is predicted for a product of known extents.
    pub fn note(&self, gpu: &GpuTarget, of: Option<Extents>) -> String {
        let TileCost { threads, registers, shared_bytes, .. } = self;
        let resident = self.resident(gpu);
        let time = of.map(|of| self.cycles(gpu, of) / f64::from(gpu.clock_mhz));
        let time = time.map_or(String::new(), |us| format!(", {us:.1} us predicted"));
        format!(
            "{threads} threads of {registers} registers at most, {shared_bytes} bytes of shared memory, \
             {resident} blocks on a multiprocessor{time}"
        )
    }

    /// The cycles of so many blocks on a multiprocessor.
    fn wave(&self, gpu: &GpuTarget, steps: i64, blocks: i64) -> f64 {
        let [rows, columns] = self.tile;
        let groups = (steps + self.depth - 1) / self.depth;
        let blocks = blocks as f64;
        let from_l2 = f64::from(gpu.l2_bytes_per_cycle) / f64::from(gpu.sms);
        let multiply = (rows * columns * self.depth * self.passes) as f64 / self.rate as f64;
        let issue = self.instructions as f64 / ISSUED;
        let shared = self.traffic as f64 / SHARED_BYTES;
        let loads = ((rows + columns) * self.depth * self.element) as f64 / from_l2;
        let latency = LATENCY / (self.stages - 1).max(1) as f64;
        let group = (blocks * multiply.max(issue).max(shared).max(loads)).max(latency);
        let stores = blocks * (rows * columns * self.element) as f64 / from_l2;
        LATENCY + groups as f64 * group + stores
    }
}

/// The kernel that takes the least time; where memory decides, the least of the multiprocessors'. The first of equals.
pub fn fastest<'a, T>(
    gpu: &GpuTarget,
    of: Extents,
    all: &'a [T],
    cost: &dyn Fn(&T) -> TileCost,
) -> &'a T {
    let time = |t: &T| (cost(t).cycles(gpu, of), cost(t).waves(gpu, of));
    let by_time = |a: &&T, b: &&T| {
        let (a, b) = (time(a), time(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    all.iter().min_by(by_time).expect("a kernel")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(side: i64, threads: i64, registers: i64) -> TileCost {
        TileCost {
            tile: [side; 2],
            depth: 64,
            stages: 3,
            threads,
            registers,
            shared_bytes: 3 * 2 * side * 64 * 2,
            rate: 2048,
            passes: 1,
            instructions: 0,
            traffic: 6 * side * 64 * 2,
            element: 2,
        }
    }

    fn cube(n: i64) -> Extents {
        Extents { batch: 1, m: n, n, k: n }
    }

    #[test]
    fn registers_shared_memory_and_threads_limit_the_blocks_of_a_multiprocessor() {
        let gpu = &GpuTarget::known()[1];
        assert_eq!(tile(128, 256, 128).resident(gpu), 2);
        assert_eq!(tile(128, 256, 129).resident(gpu), 1, "136 registers");
        assert_eq!(tile(64, 128, 64).resident(gpu), 4, "48 KiB");
        assert_eq!(tile(16, 1024, 16).resident(gpu), 2, "threads");
    }

    #[test]
    fn time_grows_with_work_and_never_beats_a_roof() {
        let gpu = &GpuTarget::known()[1];
        for side in [32, 64, 128] {
            let tile = tile(side, 128, 64);
            for n in [64, 256, 1024, 4096] {
                let cycles = tile.cycles(gpu, cube(n));
                assert!(cycles <= tile.cycles(gpu, cube(2 * n)));
                let multiply = (n * n * n) as f64 / 2048.0 / f64::from(gpu.sms);
                let bytes = (3 * n * n * 2) as f64 * f64::from(gpu.clock_mhz);
                assert!(cycles >= multiply && cycles >= bytes / f64::from(gpu.memory_gbps) / 1e3);
            }
        }
    }

    #[test]
    fn few_large_tiles_lose_to_many_small_ones_and_win_where_there_are_enough() {
        let gpu = &GpuTarget::known()[1];
        let all = [tile(128, 256, 128), tile(64, 128, 64)];
        let best = |n| fastest(gpu, cube(n), &all, &|t| *t).tile[0];
        assert_eq!([256, 512, 8192].map(best), [64, 64, 128]);
    }
}

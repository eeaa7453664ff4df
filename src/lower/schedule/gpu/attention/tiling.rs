//! The choice of an attention's tiles.

use reflex_tir::codegen::Target;
use reflex_tir::mma::SIDE;
use reflex_tir::{DType, Expr, ExprKind};

use crate::precision::BF16_ATTR;
use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::gpu::attention::pattern::Pattern;
use crate::schedule::gpu::attention::share::{Share, Unit};
use crate::schedule::gpu::gemm::ENOUGH_TILES;
use crate::schedule::gpu::grid::count;

/// The most rows that are taken one by one.
const FEW_ROWS: i64 = 8;
/// Threads of a block for few rows, and its keys: one each.
const FEW: i64 = 64;
/// The longest queries and values: results of longer ones leave a thread no registers.
const MOST_WIDTH: i64 = 128;
/// The most parts of the keys, and tiles of keys that each has at least.
const MOST_PARTS: i64 = 32;
const LEAST_TILES: i64 = 4;

/// Tiles of an attention.
pub struct Tiling {
    /// Who multiplies.
    pub unit: Unit,
    /// Rows of a tile.
    pub rows: i64,
    /// Keys of a tile.
    pub keys: i64,
    /// The type of operands in shared memory, and of weights.
    pub operands: DType,
    pub weights: DType,
    /// The share of a thread in the scores, and in the results.
    pub scores: Share,
    pub results: Share,
    /// Blocks that share the keys of a row.
    pub parts: i64,
}

impl Tiling {
    /// The largest tiles that are enough for a GPU and fit its shared memory, twice if possible.
    pub fn of(nest: &Nest<'_>, pattern: &Pattern) -> Result<Tiling, Refusal> {
        let widths = (pattern.depth.extent.as_int(), pattern.column.extent.as_int());
        let (Some(depth), Some(columns)) = widths else { return Err(Refusal::UnknownExtent) };
        if depth.max(columns) > MOST_WIDTH || depth.min(columns) < 1 {
            return Err(Refusal::TooWide);
        }
        let rounds = nest.func.attrs.contains_key(BF16_ATTR);
        let stored = operand_type(pattern)?;
        let rows = pattern.row.extent.as_int();
        let few = rows.filter(|rows| *rows <= FEW_ROWS);
        let operands = match stored {
            DType::F32 if rounds && few.is_none() => DType::BF16,
            stored => stored,
        };
        let shapes: Vec<(Unit, i64, i64)> = match (few, operands) {
            (Some(rows), _) => vec![(Unit::Threads([1, FEW]), rows, FEW)],
            (None, DType::F32) => [(64, 64), (32, 64), (32, 32)]
                .map(|(rows, keys)| (Unit::Threads([16, 16]), rows, keys))
                .to_vec(),
            (None, _) => [(128, 64), (64, 64), (32, 64), (32, 32)]
                .map(|(rows, keys)| (Unit::Warps(rows / SIDE), rows, keys))
                .to_vec(),
        };
        let tilings: Vec<Tiling> = shapes
            .into_iter()
            .map(|(unit, rows, keys)| {
                let all_lanes = 16 / operands.itemsize() as i64;
                let lanes = widest(columns, unit.slots()).min(all_lanes);
                let weights = if let Unit::Warps(_) = unit { operands } else { DType::F32 };
                let scores = Share::of(unit, rows, keys, 1);
                let results = Share::of(unit, rows, columns, lanes);
                Tiling { unit, rows, keys, operands, weights, scores, results, parts: 1 }
            })
            .collect();
        let most = match nest.target {
            Target::Gpu(gpu) => i64::from(gpu.shared_bytes),
            Target::Cpu(_) => return Err(Refusal::SharedMemory),
        };
        let enough = |t: &&Tiling| t.blocks(pattern).is_none_or(|n| n >= ENOUGH_TILES);
        let fits = |t: &&Tiling| t.shared_bytes(depth) <= most;
        let fits_twice = |t: &&Tiling| 2 * t.shared_bytes(depth) <= most;
        let all = || tilings.iter().filter(fits);
        let found = all().filter(fits_twice).find(enough).or_else(|| all().find(enough));
        let found = found.or_else(|| all().rfind(fits_twice));
        let found = found.or_else(|| all().next_back()).ok_or(Refusal::SharedMemory)?;
        let parts = found.split(pattern);
        Ok(Tiling { parts, ..*found })
    }

    /// Blocks for all rows, if known.
    fn blocks(&self, pattern: &Pattern) -> Option<i64> {
        let rows = pattern.row.extent.as_int()?;
        Some(count(&pattern.batch).as_int()? * ((rows + self.rows - 1) / self.rows))
    }

    /// Parts of the keys, where rows are few.
    fn split(&self, pattern: &Pattern) -> i64 {
        let Some(blocks) = self.blocks(pattern) else { return 1 };
        if 2 * blocks > ENOUGH_TILES || blocks == 0 {
            return 1;
        }
        let tiles = pattern.key.extent.as_int().map(|keys| keys / (self.keys * LEAST_TILES));
        // Few rows of a call may have any number of keys before them; many are a call's first.
        let most =
            tiles.unwrap_or(if self.keys == FEW && self.rows <= FEW_ROWS { MOST_PARTS } else { 1 });
        (2 * ENOUGH_TILES / blocks).min(most).clamp(1, MOST_PARTS)
    }

    /// Tiles of keys of a part.
    pub fn tiles_of_part(&self, keys: &Expr) -> Expr {
        keys.clone().ceildiv(self.keys * self.parts)
    }

    /// Whether tiles have keys alone.
    pub fn has_whole_keys(&self, keys: &Expr) -> bool {
        keys.as_int().is_some_and(|n| n % (self.keys * self.parts) == 0)
    }

    /// Elements of a query or key in shared memory.
    pub fn depth(&self, depth: i64) -> i64 {
        match self.unit {
            Unit::Warps(_) => (depth + SIDE - 1) / SIDE * SIDE,
            Unit::Threads(_) => depth,
        }
    }

    /// Elements from a row of weights to the next.
    pub fn weights_stride(&self) -> i64 {
        self.keys + 16 / self.weights.itemsize() as i64
    }

    fn shared_bytes(&self, depth: i64) -> i64 {
        let (operand, weight) = (self.operands.itemsize() as i64, self.weights.itemsize() as i64);
        let row = |width: i64| width * operand + 32;
        let tiles = (self.rows + self.keys) * row(self.depth(depth))
            + self.keys * row(self.results.columns());
        tiles + self.rows * self.weights_stride() * weight + self.rows * self.unit.slots() * 4
    }
}

/// Neighbours of a row that a thread has, where so many threads share it.
fn widest(columns: i64, threads: i64) -> i64 {
    let each = (columns + threads - 1) / threads;
    1 << (63 - each.max(1).leading_zeros()).min(2)
}

/// The type that all operands are stored in.
fn operand_type(pattern: &Pattern) -> Result<DType, Refusal> {
    let of = |e: &Expr| match e.kind() {
        ExprKind::Cast { value, .. } => value.dtype(),
        _ => e.dtype(),
    };
    let types = [&pattern.q, &pattern.k, &pattern.v].map(of);
    let known = matches!(types[0], DType::F32 | DType::F16 | DType::BF16);
    match known && types.iter().all(|ty| *ty == types[0]) {
        true => Ok(types[0]),
        false => Err(Refusal::ElementType),
    }
}

//! Statements of matrix units: the tile unit of a CPU (Intel AMX), and the tensor cores of a GPU
//! ([`Mma`]) with the copies that feed them ([`BoxCopy`]).
//!
//! A matrix register is a buffer of [`Scope::Tile`](crate::Scope::Tile): up to 16 rows of up to 16
//! 32-bit elements, allocated by nests of [`Stmt::Allocate`](crate::Stmt::Allocate) with nothing
//! between them, at most [`REGISTERS`] at once. Code generation configures the unit where the
//! outermost is allocated and releases it at the end, so kernels leave it as they found it.
//!
//! Decision: docs/decisions/0042-amx-tiles.md

use serde::{Deserialize, Serialize};

use crate::box_copy::BoxCopy;
use crate::mma::{PANEL, Team, VECTOR};
use crate::thread::WARP;
use crate::{Buffer, Expr, Intrin, PrimFunc, Sign};

/// Matrix registers of the unit.
pub const REGISTERS: usize = 8;
/// The most rows of a matrix register, and the most 32-bit elements in a row.
pub const SIDE: i64 = 16;

/// The palette of 8 registers of 16 rows of 64 bytes, the only one that x86-64 CPUs have.
const PALETTE: u8 = 1;
/// Where the bytes per row (two bytes a register) and the rows (one byte) are in a configuration.
const ROW_BYTES_AT: usize = 16;
const ROWS_AT: usize = 48;

/// The operand of `ldtilecfg`, in words, for registers that are numbered in this order. An error if one is no matrix
/// register, or there are too many.
pub fn configuration(func: &PrimFunc, registers: &[Buffer]) -> Result<[i64; 8], String> {
    if registers.len() > REGISTERS {
        return Err(format!("{} matrix registers of {REGISTERS}", registers.len()));
    }
    let mut bytes = [0; 64];
    bytes[0] = PALETTE;
    for (n, buffer) in registers.iter().enumerate() {
        let data = &func.buffers[*buffer];
        let extent = |d: usize| data.shape.get(d).and_then(|e| e.as_int());
        let (Some(rows @ 1..=SIDE), Some(words @ 1..=SIDE)) = (extent(0), extent(1)) else {
            return Err(format!("{} is no matrix register", data.name));
        };
        bytes[ROW_BYTES_AT + 2 * n] = words as u8 * 4;
        bytes[ROWS_AT + n] = rows as u8;
    }
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = i64::from_le_bytes(*bytes);
    }
    Ok(words)
}

/// Rows of 32-bit elements in memory, evenly spaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StridedRows {
    /// The buffer.
    pub buffer: Buffer,
    /// Row-major position of the first element.
    pub first: Expr,
    /// Elements from the beginning of a row to that of the next.
    pub stride: Expr,
}

impl Team {
    /// Row and column of the first element that a thread keeps.
    pub fn origin(self, lane: &Expr) -> [Expr; 2] {
        let row = match self {
            Team::Warp => lane.clone().floordiv(4),
            Team::Warpgroup { .. } => {
                lane.clone().floordiv(WARP) * SIDE + lane.clone().floormod(WARP).floordiv(4)
            }
        };
        [row, lane.clone().floormod(4) * 2]
    }
}

/// [`swizzled`](crate::mma::swizzled) of an element in a row: where that row keeps it.
pub fn swizzled_in_row(row: &Expr, vector: Expr) -> Expr {
    Expr::call(Intrin::BitXor, vec![vector, row.clone().floormod(VECTOR)]) * VECTOR
}

/// [`swizzled`](crate::mma::swizzled) as an expression.
pub fn swizzled_position(position: &Expr) -> Expr {
    let row = position.clone().floordiv(PANEL).floormod(VECTOR) * VECTOR;
    Expr::call(Intrin::BitXor, vec![position.clone(), row])
}

/// An operand of tensor cores in shared memory: rows of the first operand, or columns of the second one, of 16
/// steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MmaOperand {
    /// Where it is: a row for each row or column, or for each step if `transposed`. Those of a warpgroup are in
    /// panels, whose rows follow each other; the stride is the distance of panels, of which the operand has
    /// several if it is `transposed`. Positions are those before vectors change places.
    pub rows: StridedRows,
    /// Whether neighbours in memory are neighbouring rows or columns, not neighbouring steps.
    pub transposed: bool,
}

impl MmaOperand {
    /// Where the buffer has a row's (or column's) element of a step.
    pub fn position(&self, team: Team, row: Expr, step: Expr) -> Expr {
        let StridedRows { first, stride, .. } = &self.rows;
        match (team, self.transposed) {
            (Team::Warp, false) => first.clone() + row * stride.clone() + step,
            (Team::Warp, true) => first.clone() + step * stride.clone() + row,
            (Team::Warpgroup { .. }, false) => {
                swizzled_position(&(first.clone() + row * PANEL + step))
            }
            (Team::Warpgroup { .. }, true) => {
                let panel = row.clone().floordiv(PANEL) * stride.clone();
                swizzled_position(&(first.clone() + panel + step * PANEL + row.floormod(PANEL)))
            }
        }
    }
}

/// `sum += a * b` by a warp or a warpgroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mma {
    /// Who multiplies.
    pub team: Team,
    /// The thread's elements of the sum are [`each`](Team::each) of this buffer, float32.
    pub sum: Buffer,
    /// Row-major position of the first of them.
    pub first: Expr,
    /// Rows of the first operand.
    pub a: MmaOperand,
    /// Columns of the second operand.
    pub b: MmaOperand,
    /// The thread's number in its warp or warpgroup.
    pub lane: Expr,
}

impl Mma {
    /// Its positions in memory.
    pub fn exprs(&self) -> [&Expr; 6] {
        let Mma { first, a, b, lane, .. } = self;
        [first, &a.rows.first, &a.rows.stride, &b.rows.first, &b.rows.stride, lane]
    }
}

/// An operation of a matrix unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TileOp {
    /// `tile[i, j] = 0`
    Zero {
        /// The register.
        tile: Buffer,
    },
    /// `tile[i, j] = from[i, j]`
    Load {
        /// The register.
        tile: Buffer,
        /// Where from.
        from: StridedRows,
    },
    /// `to[i, j] = tile[i, j]`
    Store {
        /// The register.
        tile: Buffer,
        /// Where to.
        to: StridedRows,
    },
    /// Matrix multiply-accumulate of bfloat16 into the float32 `sum`, as `tdpbf16ps` computes it.
    /// `a` holds VNNI pairs along its rows, `b` down its columns. Per element the multiplications
    /// of lower halves are added in order, from zero, by fused multiply-adds, those of upper halves
    /// too, then both sums, then that to `sum`; subnormal operands count as zero, subnormal results
    /// are zero.
    DotBf16 {
        /// `[rows, columns]` of float32.
        sum: Buffer,
        /// `[rows, k / 2]` VNNI pairs as uint32.
        a: Buffer,
        /// `[k / 2, columns]` VNNI pairs as uint32.
        b: Buffer,
    },
    /// Matrix multiply-accumulate of 8-bit integers into the int32 `sum`, which wraps, as `tdpbusd` and its
    /// like compute it. `a` holds words of four neighbours along its rows, `b` down its columns.
    DotI8 {
        /// `[rows, columns]` of int32.
        sum: Buffer,
        /// `[rows, k / 4]` words as uint32.
        a: Buffer,
        /// `[k / 4, columns]` words as uint32.
        b: Buffer,
        /// Of the integers in `a` and in `b`.
        signs: [Sign; 2],
    },
    /// Matrix multiply-accumulate by a warp or warpgroup of a GPU.
    Mma(Box<Mma>),
    /// A copy of a box of a tensor to shared memory of a GPU.
    Box(Box<BoxCopy>),
}

impl TileOp {
    /// The registers.
    pub fn tiles(&self) -> Vec<Buffer> {
        match self {
            TileOp::Zero { tile } | TileOp::Load { tile, .. } | TileOp::Store { tile, .. } => {
                vec![*tile]
            }
            TileOp::DotBf16 { sum, a, b } | TileOp::DotI8 { sum, a, b, .. } => {
                vec![*sum, *a, *b]
            }
            TileOp::Mma(_) | TileOp::Box(_) => vec![],
        }
    }

    /// The rows in memory that it touches.
    pub fn rows(&self) -> Vec<&StridedRows> {
        match self {
            TileOp::Load { from: rows, .. } | TileOp::Store { to: rows, .. } => vec![rows],
            TileOp::Mma(mma) => vec![&mma.a.rows, &mma.b.rows],
            TileOp::Zero { .. }
            | TileOp::DotBf16 { .. }
            | TileOp::DotI8 { .. }
            | TileOp::Box(_) => vec![],
        }
    }

    /// The expressions in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            TileOp::Mma(mma) => mma.exprs().to_vec(),
            TileOp::Box(copy) => copy.exprs(),
            _ => self.rows().into_iter().flat_map(|rows| [&rows.first, &rows.stride]).collect(),
        }
    }

    /// The buffer it writes.
    pub fn written(&self) -> Buffer {
        match self {
            TileOp::Zero { tile } | TileOp::Load { tile, .. } => *tile,
            TileOp::Store { to, .. } => to.buffer,
            TileOp::DotBf16 { sum, .. } | TileOp::DotI8 { sum, .. } => *sum,
            TileOp::Mma(mma) => mma.sum,
            TileOp::Box(copy) => copy.to,
        }
    }

    /// Every buffer it touches.
    pub fn buffers(&self) -> Vec<Buffer> {
        let rows = self.rows().into_iter().map(|rows| rows.buffer);
        let others = match self {
            TileOp::Mma(mma) => vec![mma.sum],
            TileOp::Box(copy) => vec![copy.to, copy.from],
            _ => vec![],
        };
        self.tiles().into_iter().chain(others).chain(rows).collect()
    }

    /// The same on other buffers and with other positions.
    pub fn map(
        &self,
        buffer: &mut dyn FnMut(Buffer) -> Buffer,
        expr: &mut dyn FnMut(&Expr) -> Expr,
    ) -> TileOp {
        match self {
            TileOp::Zero { tile } => TileOp::Zero { tile: buffer(*tile) },
            TileOp::Load { tile, from } => {
                TileOp::Load { tile: buffer(*tile), from: map_rows(from, buffer, expr) }
            }
            TileOp::Store { tile, to } => {
                TileOp::Store { tile: buffer(*tile), to: map_rows(to, buffer, expr) }
            }
            TileOp::DotBf16 { sum, a, b } => {
                TileOp::DotBf16 { sum: buffer(*sum), a: buffer(*a), b: buffer(*b) }
            }
            TileOp::DotI8 { sum, a, b, signs } => {
                let [sum, a, b] = [sum, a, b].map(|b| buffer(*b));
                TileOp::DotI8 { sum, a, b, signs: *signs }
            }
            TileOp::Mma(mma) => {
                let mut operand = |operand: &MmaOperand| {
                    let rows = map_rows(&operand.rows, buffer, expr);
                    MmaOperand { rows, transposed: operand.transposed }
                };
                let (a, b) = (operand(&mma.a), operand(&mma.b));
                let (first, lane) = (expr(&mma.first), expr(&mma.lane));
                TileOp::Mma(Box::new(Mma {
                    team: mma.team,
                    sum: buffer(mma.sum),
                    first,
                    a,
                    b,
                    lane,
                }))
            }
            TileOp::Box(copy) => TileOp::Box(Box::new(copy.map(buffer, expr))),
        }
    }
}

fn map_rows(
    rows: &StridedRows,
    buffer: &mut dyn FnMut(Buffer) -> Buffer,
    expr: &mut dyn FnMut(&Expr) -> Expr,
) -> StridedRows {
    StridedRows {
        buffer: buffer(rows.buffer),
        first: expr(&rows.first),
        stride: expr(&rows.stride),
    }
}

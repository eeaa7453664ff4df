//! The elements of a block's tile of scores, or of results, that a thread keeps in registers.

use reflex_tir::mma::{SIDE, Team};
use reflex_tir::{Buffer, DType, Expr, ForKind, Stmt};

use crate::schedule::core::nest::Nest;

/// Who multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Threads by fused multiply-adds, so many along rows and along columns.
    Threads([i64; 2]),
    /// Warps on tensor cores, 16 rows each.
    Warps(i64),
}

impl Unit {
    /// The threads of a block.
    pub fn block(self) -> [i64; 2] {
        match self {
            Unit::Threads(block) => block,
            Unit::Warps(warps) => [warps, Team::Warp.threads()],
        }
    }

    /// Threads that have columns of a row.
    pub fn slots(self) -> i64 {
        match self {
            Unit::Threads([_, columns]) => columns,
            Unit::Warps(_) => 4,
        }
    }

    /// The number of a thread among those.
    pub fn slot(self, tx: &Expr) -> Expr {
        match self {
            Unit::Threads(_) => tx.clone(),
            Unit::Warps(_) => tx.clone().floormod(4),
        }
    }

    /// The `i`-th row of a thread that has `rows` of them.
    pub fn row(self, [ty, tx]: [&Expr; 2], rows: i64, i: &Expr) -> Expr {
        match self {
            Unit::Threads(_) => ty.clone() * rows + i.clone(),
            Unit::Warps(_) => {
                let [row, _] = Team::Warp.origin(tx);
                ty.clone() * Team::Warp.rows() + row + i.clone() * 8
            }
        }
    }
}

/// Elements of a thread: in so many rows, vectors of neighbours in a row.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Who computes them.
    pub unit: Unit,
    /// Rows.
    pub rows: i64,
    /// Vectors of a row.
    pub vectors: i64,
    /// Elements of a vector.
    pub lanes: i64,
}

impl Share {
    /// The share of a matrix with that many rows and at least that many columns.
    pub fn of(unit: Unit, rows: i64, columns: i64, lanes: i64) -> Share {
        match unit {
            Unit::Threads([down, right]) => {
                let vectors = (columns + right * lanes - 1) / (right * lanes);
                Share { unit, rows: rows / down, vectors, lanes }
            }
            Unit::Warps(_) => {
                let vectors = (columns + SIDE - 1) / SIDE * 2;
                Share { unit, rows: 2, vectors, lanes: 2 }
            }
        }
    }

    /// Columns of the matrix, at least those that were asked for.
    pub fn columns(&self) -> i64 {
        self.vectors * self.lanes * self.unit.slots()
    }

    /// Registers for it.
    pub fn local(&self, nest: &mut Nest<'_>, name: &str) -> Buffer {
        let shape = match self.unit {
            Unit::Threads(_) => [self.rows, self.vectors * self.lanes],
            // As products of tensor cores leave them.
            Unit::Warps(_) => [self.vectors / 2, Team::Warp.each()],
        };
        nest.local(name, DType::F32, &shape)
    }

    /// Where the registers have an element.
    pub fn index(&self, i: &Expr, v: &Expr, l: &Expr) -> Vec<Expr> {
        match self.unit {
            Unit::Threads(_) => vec![i.clone(), v.clone() * self.lanes + l.clone()],
            Unit::Warps(_) => {
                let half = v.clone().floormod(2) * 4;
                vec![v.clone().floordiv(2), half + i.clone() * 2 + l.clone()]
            }
        }
    }

    /// The row of an element in the tile.
    pub fn row(&self, thread: [&Expr; 2], i: &Expr) -> Expr {
        self.unit.row(thread, self.rows, i)
    }

    /// Its column there.
    pub fn column(&self, [_, tx]: [&Expr; 2], v: &Expr, l: &Expr) -> Expr {
        match self.unit {
            Unit::Threads([_, right]) => (v.clone() * right + tx.clone()) * self.lanes + l.clone(),
            Unit::Warps(_) => {
                let [_, first] = Team::Warp.origin(tx);
                v.clone() * 8 + first + l.clone()
            }
        }
    }

    /// Loops over the elements: rows, vectors, lanes of a vector.
    pub fn each(
        &self,
        nest: &mut Nest<'_>,
        body: &mut dyn FnMut(&mut Nest<'_>, Expr, Expr, Expr) -> Stmt,
    ) -> Stmt {
        nest.repeat(ForKind::Unrolled, "i", self.rows, |nest, i| {
            nest.repeat(ForKind::Unrolled, "v", self.vectors, |nest, v| {
                nest.repeat(ForKind::Unrolled, "l", self.lanes, |nest, l| {
                    body(nest, i.clone(), v.clone(), l)
                })
            })
        })
    }
}

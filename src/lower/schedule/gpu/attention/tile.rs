//! Tiles of queries, keys and values in shared memory: rows lie as they do in memory, each 16 bytes longer, so that
//! threads read neighbouring rows from different banks.

use reflex_tir::thread::ASYNC_COPY;
use reflex_tir::{Buffer, DType, Expr, ExprKind, ForKind, Scope, Stmt};

use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;
use crate::schedule::gpu::attention::pattern::uncast;
use crate::schedule::gpu::gemm::unit_step;
use crate::schedule::gpu::grid::{guarded, threads};

/// Bytes of an access.
const ACCESS: i64 = 16;
/// Accesses of a thread that are written one after the other.
const UNROLLED: i64 = 16;

/// A tile of an operand.
pub struct Tile {
    /// Its memory: rows, and the elements of a row.
    pub buffer: Buffer,
    /// The type of an element.
    pub dtype: DType,
    /// Elements of an access.
    pub vector: i64,
    rows: i64,
    width: i64,
    /// The operand's element over both axes.
    value: Expr,
    row: Axis,
    near: Axis,
    /// Whether every row there is of the operand.
    whole: bool,
    /// Elements that are loaded at once.
    loaded: i64,
    /// Whether neighbours in memory are in neighbouring rows.
    across: bool,
}

/// The size of a tile.
pub struct Size {
    /// Rows.
    pub rows: i64,
    /// Elements of a row, as far as products read them.
    pub width: i64,
    /// Whether tiles have rows of the operand alone.
    pub whole: bool,
}

impl Tile {
    /// The tile of an operand that has the element `value`, converted to `dtype`.
    pub fn new(
        nest: &mut Nest<'_>,
        name: &str,
        (value, dtype): (Expr, DType),
        [row, near]: [&Axis; 2],
        size: Size,
    ) -> Tile {
        let vector = ACCESS / dtype.itemsize() as i64;
        let loaded = matches!(uncast(&value).kind(), ExprKind::Load { .. });
        let steps = |axis: &Axis| loaded && unit_step(nest, &value, std::slice::from_ref(axis));
        let (along, across) = (steps(near), steps(row));
        let whole_vectors = near.extent.as_int().is_some_and(|n| n % vector == 0);
        let loaded = if along && whole_vectors { vector } else { 1 };
        let Size { rows, width, whole } = size;
        let width = (width + vector - 1) / vector * vector;
        let shape = vec![rows.into(), (width + vector).into()];
        let buffer = nest.func.new_buffer(name, dtype, shape, Scope::Shared);
        let across = across && !along;
        let (row, near) = (row.clone(), near.clone());
        Tile { buffer, dtype, vector, rows, width, value, row, near, whole, loaded, across }
    }

    /// Elements from a row to the next.
    pub fn stride(&self) -> i64 {
        self.width + self.vector
    }

    /// Elements of a row.
    pub fn width(&self) -> i64 {
        self.width
    }

    /// Fills the tile with the operand's rows from `first` on, 0 outside of it.
    pub fn fill(&self, nest: &mut Nest<'_>, block: [i64; 2], first: &Expr) -> Stmt {
        let (count, all) = (block[0] * block[1], self.rows * self.width / self.loaded);
        let accesses = (all + count - 1) / count;
        let kind = if accesses <= UNROLLED { ForKind::Unrolled } else { ForKind::Serial };
        threads(nest, block, &mut |nest, ty, tx| {
            nest.repeat(kind.clone(), "e", accesses, |nest, e| {
                let n = e * count + ty.clone() * block[1] + tx.clone();
                let row = self.width / self.loaded;
                let (far, near) = match self.across {
                    true => (n.clone().floormod(self.rows), n.clone().floordiv(self.rows)),
                    false => (n.clone().floordiv(row), n.clone().floormod(row) * self.loaded),
                };
                let mut copy = nest.lanes_of(self.loaded, |_, lane| {
                    let element = self.element(first.clone() + far.clone(), near.clone(), &lane);
                    Stmt::store(self.buffer, vec![far, near + lane], element)
                });
                let is_copy = self.loaded == self.vector
                    && matches!(self.value.kind(), ExprKind::Load { .. });
                if let Stmt::For(l) = &mut copy
                    && is_copy
                {
                    l.annotations.insert(ASYNC_COPY.to_owned(), "1".to_owned());
                }
                match all % count {
                    0 => copy,
                    _ => guarded(n.lt(all), copy),
                }
            })
        })
    }

    /// The element of a row, and the `lane`-th of the row's elements from `near` on.
    fn element(&self, row: Expr, near: Expr, lane: &Expr) -> Expr {
        let mut inside = Expr::bool(true);
        if !self.whole {
            inside = inside.and(row.clone().lt(self.row.extent.clone()));
        }
        if self.near.extent.as_int() != Some(self.width) {
            inside = inside.and(near.clone().lt(self.near.extent.clone()));
        }
        let near = near + lane.clone();
        let element = self.value.substitute(&|v| match v {
            v if v == self.row.var => Some(row.clone()),
            v if v == self.near.var => Some(near.clone()),
            _ => None,
        });
        match inside.as_int() {
            Some(1) => element,
            _ => Expr::if_then_else(inside, element, Expr::constant(0.0, self.dtype)),
        }
    }
}

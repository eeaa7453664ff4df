//! Statements on matrix registers.

use super::Verifier;
use crate::box_copy::BoxCopy;
use crate::mma::Half;
use crate::tile::{Mma, SIDE, TileOp};
use crate::{Buffer, DType, Scope};

impl Verifier<'_> {
    /// A matrix register: its rows and words.
    pub(super) fn register(&mut self, buffer: Buffer) -> Option<(i64, i64)> {
        let data = self.func.buffers.get(buffer)?;
        let side = |n: i64| (1..=SIDE).contains(&n);
        let extents = match &data.shape[..] {
            [rows, words] => rows.as_int().zip(words.as_int()),
            _ => None,
        };
        let fits = extents.filter(|(rows, words)| side(*rows) && side(*words));
        let is = data.scope == Scope::Tile && data.dtype.itemsize() == 4 && fits.is_some();
        self.require(is, || format!("`{}` is no matrix register", data.name));
        fits.filter(|_| is)
    }

    pub(super) fn tile(&mut self, tile: &TileOp) {
        for buffer in tile.buffers() {
            let known = self.buffers.contains(&buffer);
            let name = self.buffer_name(buffer);
            self.require(known, || format!("buffer `{name}` is not in scope"));
        }
        for e in tile.exprs() {
            self.expr(e);
            self.require(e.dtype() == DType::I64, || format!("rows at {}", e.dtype()));
        }
        match tile {
            TileOp::Mma(mma) => return self.mma(mma),
            TileOp::Box(copy) => return self.box_copy(copy),
            _ => {}
        }
        let extents: Vec<_> = tile.tiles().into_iter().map(|t| self.register(t)).collect();
        if let Some(rows) = tile.rows().first() {
            let word = |v: &Self, b| v.func.buffers.get(b).map(|d| d.dtype);
            let same = word(self, rows.buffer) == word(self, tile.tiles()[0]);
            let memory = self.func.buffers.get(rows.buffer).is_some_and(|d| d.scope != Scope::Tile);
            let name = self.buffer_name(rows.buffer);
            self.require(same && memory, || format!("`{name}` holds no rows of the register"));
        }
        if let TileOp::Store { to, .. } = tile {
            self.stored(to.buffer);
        }
        let dtype = |t: &Buffer| self.func.buffers.get(*t).map(|d| d.dtype);
        let types: Vec<_> = tile.tiles().iter().filter_map(dtype).collect();
        let product = match tile {
            TileOp::DotBf16 { sum, a, b } => Some((DType::F32, sum, a, b)),
            TileOp::DotI8 { sum, a, b, .. } => Some((DType::I32, sum, a, b)),
            _ => None,
        };
        if let (Some((of, sum, a, b)), [Some(c), Some(x), Some(y)]) = (product, &extents[..]) {
            let fits = *c == (x.0, y.1) && x.1 == y.0;
            let words = types == [of, DType::U32, DType::U32];
            let apart = sum != a && sum != b;
            self.require(fits && words && apart, || {
                "matrix registers whose shapes or types do not fit a product".into()
            });
        }
    }
    /// A copy of a box: its dimensions, and where to and from it goes.
    fn box_copy(&mut self, copy: &BoxCopy) {
        self.stored(copy.to);
        if let Some(fault) = copy.fault() {
            self.require(false, || fault);
        }
        let data = |b: Buffer| self.func.buffers.get(b).map(|data| (data.dtype, data.scope));
        let (to, from) = (data(copy.to), data(copy.from));
        let fits = matches!((to, from), (Some((a, Scope::Shared)), Some((b, Scope::Global)))
            if a == b && Half::of(a).is_some());
        self.require(fits, || {
            "a box is of float16 or bfloat16, and goes from global to shared memory".into()
        });
    }

    /// A product of tensor cores: what it reads and adds to.
    fn mma(&mut self, mma: &Mma) {
        self.stored(mma.sum);
        let columns = mma.team.columns();
        self.require((8..=256).contains(&columns) && columns % 8 == 0, || {
            format!("a warpgroup multiplies 8, 16, .. or 256 columns, not {columns}")
        });
        let data = |b: Buffer| self.func.buffers.get(b).map(|data| (data.dtype, data.scope));
        let operands = [&mma.a, &mma.b].map(|operand| data(operand.rows.buffer));
        let sum = data(mma.sum);
        let halves = operands[0].is_some_and(|(dtype, _)| Half::of(dtype).is_some());
        let same = operands[0].map(|(dtype, _)| dtype) == operands[1].map(|(dtype, _)| dtype);
        self.require(halves && same, || "tensor cores multiply two float16 or two bfloat16".into());
        let private =
            sum.is_some_and(|(dtype, scope)| (dtype, scope) == (DType::F32, Scope::Local));
        self.require(private, || "the sum of tensor cores is a thread's own, float32".into());
    }
}

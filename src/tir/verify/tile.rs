//! Statements on matrix registers.

use super::Verifier;
use crate::tile::{SIDE, TileOp};
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
        let extents: Vec<_> = tile.tiles().into_iter().map(|t| self.register(t)).collect();
        if let Some(rows) = tile.rows() {
            for e in [&rows.first, &rows.stride] {
                self.expr(e);
                self.require(e.dtype() == DType::I64, || format!("rows at {}", e.dtype()));
            }
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
        if let (TileOp::DotBf16 { sum, a, b }, [Some(c), Some(x), Some(y)]) = (tile, &extents[..]) {
            let fits = *c == (x.0, y.1) && x.1 == y.0;
            let words = types == [DType::F32, DType::U32, DType::U32];
            let apart = sum != a && sum != b;
            self.require(fits && words && apart, || {
                "matrix registers whose shapes or types do not fit a product".into()
            });
        }
    }
}

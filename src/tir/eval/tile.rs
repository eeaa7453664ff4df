//! Statements on matrix registers, one element at a time.

use super::error::EvalErrorKind;
use super::scalar::{Scalar, dot_tile};
use super::{Done, Evaluator};
use crate::tile::{StridedRows, TileOp};
use crate::{Buffer, Expr};

impl Evaluator<'_> {
    pub(super) fn run_tile(&mut self, tile: &TileOp) -> Done {
        match tile {
            TileOp::Zero { tile } => {
                let zero = Expr::constant(0.0, self.func.buffers[*tile].dtype);
                let zero = self.eval(&zero)?;
                self.each(*tile, &mut |m, i, j| m.put(*tile, &[i, j], zero))
            }
            TileOp::Load { tile, from } => {
                let at = self.positions(from)?;
                self.each(*tile, &mut |m, i, j| {
                    let value = m.get(from.buffer, &[at(i, j)])?;
                    m.put(*tile, &[i, j], value)
                })
            }
            TileOp::Store { tile, to } => {
                let at = self.positions(to)?;
                self.each(*tile, &mut |m, i, j| {
                    let value = m.get(*tile, &[i, j])?;
                    m.put(to.buffer, &[at(i, j)], value)
                })
            }
            TileOp::DotBf16 { sum, a, b } => {
                let words = self.shape(*a)?[1];
                self.each(*sum, &mut |m, i, j| {
                    let pairs = |k: i64| {
                        let (a, b) = (m.get(*a, &[i, k])?, m.get(*b, &[k, j])?);
                        Ok((a.as_int()? as u32, b.as_int()? as u32))
                    };
                    let pairs = (0..words).map(pairs).collect::<Result<Vec<_>, EvalErrorKind>>()?;
                    let Scalar::F32(old) = m.get(*sum, &[i, j])? else {
                        return Err(EvalErrorKind::Type("a sum that is not float32".into()));
                    };
                    m.put(*sum, &[i, j], Scalar::F32(dot_tile(old, &pairs)))
                })
            }
        }
    }

    /// Calls `f` for every element of a register.
    fn each(&mut self, tile: Buffer, f: &mut dyn FnMut(&mut Self, i64, i64) -> Done) -> Done {
        let [rows, words] = self.shape(tile)?[..] else {
            return Err(EvalErrorKind::Type("a matrix register has two dimensions".into()));
        };
        for i in 0..rows {
            for j in 0..words {
                self.fuel = self.fuel.checked_sub(1).ok_or(EvalErrorKind::Fuel)?;
                f(self, i, j)?;
            }
        }
        Ok(())
    }

    fn positions(
        &self,
        rows: &StridedRows,
    ) -> Result<impl Fn(i64, i64) -> i64 + use<>, EvalErrorKind> {
        let (first, stride) = (self.int(&rows.first)?, self.int(&rows.stride)?);
        Ok(move |i, j| first + i * stride + j)
    }
}

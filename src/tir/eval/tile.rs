//! Statements on matrix registers, one element at a time.

use super::error::EvalErrorKind;
use super::scalar::{Scalar, dot_i8, dot_tile};
use super::{Done, Evaluator};
use crate::mma::{Half, PANEL, SIDE, Team, dot, element, swizzled};
use crate::thread::WARP;
use crate::tile::{Mma, MmaOperand, StridedRows, TileOp};
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
            TileOp::DotI8 { sum, a, b, signs } => {
                let words = self.shape(*a)?[1];
                self.each(*sum, &mut |m, i, j| {
                    let mut total = m.get(*sum, &[i, j])?.as_int()? as i32;
                    for k in 0..words {
                        let (a, b) = (m.get(*a, &[i, k])?, m.get(*b, &[k, j])?);
                        let [a, b] = [a.as_int()? as u32, b.as_int()? as u32];
                        total = dot_i8((a, signs[0]), (b, signs[1]), total);
                    }
                    m.put(*sum, &[i, j], Scalar::Int(i64::from(total)))
                })
            }
            TileOp::Mma(mma) => self.run_mma(mma),
            TileOp::Box(copy) => self.run_box(copy),
        }
    }

    /// A thread's part of a product of its warp.
    fn run_mma(&mut self, mma: &Mma) -> Done {
        let dtype = self.func.buffers[mma.a.rows.buffer].dtype;
        let half = Half::of(dtype)
            .ok_or_else(|| EvalErrorKind::Type(format!("tensor cores do not multiply {dtype}")))?;
        let (lane, first) = (self.int(&mma.lane)?, self.int(&mma.first)?);
        let operand = |operand: &MmaOperand| {
            let StridedRows { buffer, first, stride } = &operand.rows;
            let (first, stride) = (self.int(first)?, self.int(stride)?);
            let (team, transposed) = (mma.team, operand.transposed);
            let position = move |row: i64, step: i64| match (team, transposed) {
                (Team::Warp, false) => first + row * stride + step,
                (Team::Warp, true) => first + step * stride + row,
                (Team::Warpgroup { .. }, false) => swizzled(first + row * PANEL + step),
                (Team::Warpgroup { .. }, true) => {
                    swizzled(first + row / PANEL * stride + step * PANEL + row % PANEL)
                }
            };
            Ok((*buffer, position))
        };
        let (a, b) = (operand(&mma.a)?, operand(&mma.b)?);
        for n in 0..mma.team.each() {
            let (row, column) = element(n);
            let (row, column) = (row + lane / WARP * SIDE + lane % WARP / 4, column + lane % 4 * 2);
            let bits = |buffer: Buffer, position: i64| match self.get(buffer, &[position])? {
                Scalar::F16(x) => Ok(x.to_bits()),
                Scalar::Bf16(x) => Ok(x.to_bits()),
                _ => Err(EvalErrorKind::Type("an operand of other than 16 bits".into())),
            };
            let pair = |step| Ok((bits(a.0, (a.1)(row, step))?, bits(b.0, (b.1)(column, step))?));
            let pairs = (0..SIDE).map(pair).collect::<Result<Vec<_>, EvalErrorKind>>()?;
            self.fuel = self.fuel.checked_sub(SIDE as u64).ok_or(EvalErrorKind::Fuel)?;
            let at = [first + n];
            let Scalar::F32(old) = self.get(mma.sum, &at)? else {
                return Err(EvalErrorKind::Type("a sum that is not float32".into()));
            };
            self.put(mma.sum, &at, Scalar::F32(dot(half, old, &pairs)))?;
        }
        Ok(())
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

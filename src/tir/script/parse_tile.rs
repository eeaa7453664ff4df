//! Statements on matrix registers from text.

use ruff_python_ast::{Expr as Py, ExprCall};
use ruff_text_size::Ranged;

use super::ops;
use super::parse::{Name, Parser, Read, path};
use crate::box_copy::{BoxCopy, BoxDim};
use crate::mma::Team;
use crate::tile::{Mma, MmaOperand, StridedRows, TileOp};
use crate::{Buffer, Expr};

impl Parser<'_> {
    /// `T.tile_zero(c)`, `T.tile_load(a, x[first], stride)` and the like, if it is one of them.
    pub fn tile(&mut self, e: &Py) -> Read<Option<TileOp>> {
        let Py::Call(call) = e else { return Ok(None) };
        let function = path(&call.func).unwrap_or_default();
        let Some(name) = function.strip_prefix("T.tile_") else { return Ok(None) };
        Ok(Some(match (name, &call.arguments.args[..]) {
            ("zero", [tile]) => TileOp::Zero { tile: self.named_buffer(tile)? },
            ("load", [tile, first, stride]) => {
                TileOp::Load { tile: self.named_buffer(tile)?, from: self.rows(first, stride)? }
            }
            ("store", [tile, first, stride]) => {
                TileOp::Store { tile: self.named_buffer(tile)?, to: self.rows(first, stride)? }
            }
            ("dot_bf16", [sum, a, b]) => TileOp::DotBf16 {
                sum: self.named_buffer(sum)?,
                a: self.named_buffer(a)?,
                b: self.named_buffer(b)?,
            },
            ("mma", product) => self.product(Team::Warp, product, call)?,
            ("wgmma", [columns, product @ ..]) => {
                let columns = self.index(columns)?.as_int();
                let columns = columns.ok_or_else(|| self.unsupported(call))?;
                self.product(Team::Warpgroup { columns }, product, call)?
            }
            ("box", [first, from, dims @ ..]) => self.copy(first, from, dims, call)?,
            (name, [sum, a, b]) => TileOp::DotI8 {
                signs: ops::signs_of(name).ok_or_else(|| self.unsupported(call))?,
                sum: self.named_buffer(sum)?,
                a: self.named_buffer(a)?,
                b: self.named_buffer(b)?,
            },
            _ => return Err(self.unsupported(call)),
        }))
    }

    /// The copy of a box: where to, where from, and extent, stride, begin and count of each dimension.
    fn copy(&mut self, first: &Py, from: &Py, dims: &[Py], call: &ExprCall) -> Read<TileOp> {
        let [extent, ..] = dims else { return Err(self.unsupported(call)) };
        let StridedRows { buffer: to, first, .. } = self.rows(first, extent)?;
        let from = self.named_buffer(from)?;
        let (dims, rest) = dims.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(self.unsupported(call));
        }
        let dim = |[extent, stride, at, count]: &[Py; 4]| {
            let [extent, stride, at] = [extent, stride, at].map(|e| self.index(e));
            let count = self.index(count)?.as_int().ok_or_else(|| self.unsupported(call))?;
            Ok(BoxDim { extent: extent?, stride: stride?, at: at?, count })
        };
        let dims = dims.iter().map(dim).collect::<Read<_>>()?;
        Ok(TileOp::Box(Box::new(BoxCopy { to, first, from, dims })))
    }

    /// The product of eight arguments: the sum, three for each operand, the thread's number.
    fn product(&mut self, team: Team, arguments: &[Py], call: &ExprCall) -> Read<TileOp> {
        let [sum, a, a_stride, a_transposed, b, b_stride, b_transposed, lane] = arguments else {
            return Err(self.unsupported(call));
        };
        let StridedRows { buffer: sum, first, .. } = self.rows(sum, lane)?;
        let a = self.operand(a, a_stride, a_transposed)?;
        let b = self.operand(b, b_stride, b_transposed)?;
        Ok(TileOp::Mma(Box::new(Mma { team, sum, first, a, b, lane: self.index(lane)? })))
    }

    fn operand(&mut self, first: &Py, stride: &Py, transposed: &Py) -> Read<MmaOperand> {
        let Py::BooleanLiteral(transposed) = transposed else {
            return Err(self.unsupported(transposed));
        };
        Ok(MmaOperand { rows: self.rows(first, stride)?, transposed: transposed.value })
    }

    pub fn named_buffer(&mut self, e: &Py) -> Read<Buffer> {
        match e {
            Py::Name(name) => match self.lookup(&name.id) {
                Some(Name::Buffer(buffer)) => Ok(buffer),
                _ => Err(self.refuse(e.start(), format!("buffer `{}` is not defined", name.id))),
            },
            _ => Err(self.unsupported(e)),
        }
    }

    fn rows(&mut self, first: &Py, stride: &Py) -> Read<StridedRows> {
        let Py::Subscript(element) = first else { return Err(self.unsupported(first)) };
        let (buffer, indices) = self.element(element)?;
        let first = self.position(buffer, indices);
        Ok(StridedRows { buffer, first, stride: self.index(stride)? })
    }

    /// Row-major position of an element.
    fn position(&self, buffer: Buffer, indices: Vec<Expr>) -> Expr {
        let shape = &self.func.buffers[buffer].shape;
        if indices.len() == 1 && shape.len() != 1 {
            return indices.into_iter().next().unwrap_or_else(|| Expr::i64(0));
        }
        let terms = shape.iter().zip(indices);
        terms.fold(Expr::i64(0), |at, (n, i)| at * n.clone() + i)
    }
}

//! Copies of boxes of a tensor from global to shared memory: the tensor memory accelerator of a GPU (TMA,
//! `cp.async.bulk.tensor`).
//!
//! One thread copies a box to a panel ([`mma`](crate::mma)), whose rows are [`PANEL`] elements along the tensor's first
//! dimension here, the contiguous one. Elements of the box that lie outside of the tensor are zeros. The meaning is that
//! of one thread, as with any other statement; in code the copy goes on by itself, so it has to be in a loop whose
//! iterations are pipelined ([`pipeline`](crate::pipeline)).
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", version 8.0, "Tensors".
//!
//! Decision: docs/decisions/0105-warp-specialisation.md

use serde::{Deserialize, Serialize};

use crate::mma::PANEL;
use crate::{Buffer, Expr};

/// The most dimensions of a box.
pub const MOST_DIMS: usize = 5;
/// The most elements of a box along a dimension.
pub const MOST_ELEMENTS: i64 = 256;
/// Bytes that strides, but for the first dimension's, and addresses of tensors are multiples of.
pub const ALIGN: i64 = 16;

/// A dimension of a tensor and of a box in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxDim {
    /// Elements of the tensor.
    pub extent: Expr,
    /// Elements between neighbours in memory.
    pub stride: Expr,
    /// Where the box begins.
    pub at: Expr,
    /// Elements of the box.
    pub count: i64,
}

/// `to[first..] = from[box]`
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxCopy {
    /// The buffer in shared memory.
    pub to: Buffer,
    /// Row-major position of the panel.
    pub first: Expr,
    /// The buffer in global memory; the tensor begins with it.
    pub from: Buffer,
    /// Dimensions, the contiguous one first.
    pub dims: Vec<BoxDim>,
}

impl BoxCopy {
    /// The expressions in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        let of_dims = self.dims.iter().flat_map(|dim| [&dim.extent, &dim.stride, &dim.at]);
        [&self.first].into_iter().chain(of_dims).collect()
    }

    /// Elements of the box.
    pub fn elements(&self) -> i64 {
        self.dims.iter().map(|dim| dim.count).product()
    }

    /// The same on other buffers and with other positions.
    pub fn map(
        &self,
        buffer: &mut dyn FnMut(Buffer) -> Buffer,
        expr: &mut dyn FnMut(&Expr) -> Expr,
    ) -> BoxCopy {
        let mut dim = |dim: &BoxDim| BoxDim {
            extent: expr(&dim.extent),
            stride: expr(&dim.stride),
            at: expr(&dim.at),
            count: dim.count,
        };
        let dims = self.dims.iter().map(&mut dim).collect();
        let (to, from) = (buffer(self.to), buffer(self.from));
        BoxCopy { to, first: expr(&self.first), from, dims }
    }

    /// The fault of its dimensions, if there is one.
    pub(crate) fn fault(&self) -> Option<String> {
        let Some((row, others)) = self.dims.split_first() else {
            return Some("a box without dimensions".to_owned());
        };
        if self.dims.len() > MOST_DIMS {
            return Some(format!(
                "a box of {} dimensions, of at most {MOST_DIMS}",
                self.dims.len()
            ));
        }
        if row.stride.as_int() != Some(1) || row.count != PANEL {
            return Some(format!("a box whose rows are not {PANEL} neighbours"));
        }
        let size = |dim: &&BoxDim| !(1..=MOST_ELEMENTS).contains(&dim.count);
        let large = others.iter().find(size);
        large.map(|dim| format!("a box of {} elements along a dimension", dim.count))
    }
}

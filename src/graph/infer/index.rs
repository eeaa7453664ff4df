//! Operators whose indices are data, and selections of the extreme elements.

use reflex_tir::{CmpOp, DType, Expr};

use super::{Inference, Inferred, at, axis_of, canonical_dim, index_type, same_type};
use crate::{GatherKind, ScatterKind, TensorType, dims};

impl Inference<'_> {
    pub(super) fn gather(&mut self, kind: &GatherKind) -> Inferred {
        let args = self.expect(2, 2)?;
        let (x, indices) = (args[0], args[1]);
        let is_table = |axis: usize| x.shape.get(axis).and_then(Expr::as_int) == Some(256);
        match (indices.dtype, kind) {
            (DType::U8 | DType::I8, GatherKind::Axis(axis)) if is_table(*axis) => {}
            (dtype, _) => index_type(dtype)?,
        }
        let shape = match *kind {
            GatherKind::Axis(axis) => {
                axis_of(x, axis)?;
                [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat()
            }
            GatherKind::Elements(axis) => {
                axis_of(x, axis)?;
                same_rank(x, indices)?;
                self.within(1, axis)?;
                indices.shape.clone()
            }
            GatherKind::Nd { batch_dims } => self.gather_nd(batch_dims)?,
        };
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    fn gather_nd(&mut self, batch_dims: usize) -> Inferred<Vec<Expr>> {
        let (x, indices) = (self.args[0], self.args[1]);
        let depth = coordinate_depth(indices)?;
        if batch_dims >= indices.shape.len() || batch_dims + depth > x.shape.len() {
            return Err(format!("coordinates of {depth} with {batch_dims} batch axes do not fit"));
        }
        for axis in 0..batch_dims {
            self.unify(at(0, axis), at(1, axis))?;
        }
        let lead = &indices.shape[..indices.shape.len() - 1];
        Ok([lead, &x.shape[batch_dims + depth..]].concat())
    }

    pub(super) fn scatter(&mut self, kind: &ScatterKind) -> Inferred {
        let args = self.expect(3, 3)?;
        let (x, indices, updates) = (args[0], args[1], args[2]);
        index_type(indices.dtype)?;
        same_type(x, updates)?;
        match *kind {
            ScatterKind::Elements(axis) => {
                axis_of(x, axis)?;
                same_rank(x, indices)?;
                same_rank(x, updates)?;
                self.within(1, axis)?;
                for i in 0..x.shape.len() {
                    self.unify(at(1, i), at(2, i))?;
                }
            }
            ScatterKind::Nd => {
                let depth = coordinate_depth(indices)?;
                let lead = indices.shape.len() - 1;
                if depth > x.shape.len() || updates.shape.len() != lead + x.shape.len() - depth {
                    return Err(format!("updates do not fit coordinates of {depth}"));
                }
                for axis in 0..lead {
                    self.unify(at(1, axis), at(2, axis))?;
                }
                for axis in depth..x.shape.len() {
                    self.unify(at(0, axis), at(2, lead + axis - depth))?;
                }
            }
        }
        Ok(vec![x.clone()])
    }

    pub(super) fn top_k(&self, axis: usize, k: &Expr) -> Inferred {
        let x = self.one()?;
        axis_of(x, axis)?;
        let k = canonical_dim(k)?;
        if dims::decide(CmpOp::Gt, &k, &x.shape[axis]) == Some(true) {
            return Err(format!("{k:?} of {:?} elements", x.shape[axis]));
        }
        let mut shape = x.shape.clone();
        shape[axis] = k;
        Ok(vec![TensorType::new(x.dtype, shape.clone()), TensorType::new(DType::I64, shape)])
    }

    /// The other axes of `arg` do not go past those of argument 0.
    fn within(&mut self, arg: usize, axis: usize) -> Inferred<()> {
        let (x, small) = (self.args[0], self.args[arg]);
        for i in (0..x.shape.len()).filter(|i| *i != axis) {
            match dims::decide(CmpOp::Le, &small.shape[i], &x.shape[i]) {
                Some(true) => {}
                Some(false) => return Err(format!("axis {i} of argument {arg} is too long")),
                None => self.require(arg, i, &x.shape[i].clone())?,
            }
        }
        Ok(())
    }
}

fn same_rank(a: &TensorType, b: &TensorType) -> Inferred<()> {
    if a.shape.len() == b.shape.len() { Ok(()) } else { Err("ranks differ".into()) }
}

/// Length of the coordinates in the last axis.
fn coordinate_depth(indices: &TensorType) -> Inferred<usize> {
    let last = indices.shape.last().ok_or("coordinates need an axis")?;
    let depth = last.as_int().ok_or("the length of the coordinates must be a number")?;
    usize::try_from(depth).map_err(|_| format!("coordinates of {depth}"))
}

//! Operators that move elements without computing on them, and those made from nothing.

use reflex_tir::{DType, Expr};

use super::{Inference, Inferred, at, axis_of, canonical_dim, canonical_shape, same_type};
use crate::{TensorType, dims};

impl Inference<'_> {
    pub(super) fn reshape(&self, shape: &[Expr]) -> Inferred {
        let x = self.one()?;
        let shape = canonical_shape(shape)?;
        let (before, after) = (dims::product(&x.shape), dims::product(&shape));
        if dims::equal(&before, &after) == Some(false) {
            return Err(format!("{before:?} elements do not fill {shape:?}"));
        }
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    pub(super) fn transpose(&self, perm: &[usize]) -> Inferred {
        let x = self.one()?;
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.shape.len()) {
            return Err(format!("{perm:?} is not a permutation of the axes"));
        }
        let shape = perm.iter().map(|axis| x.shape[*axis].clone()).collect();
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    pub(super) fn broadcast_to(&mut self, shape: &[Expr]) -> Inferred {
        let x = self.one()?;
        let shape = canonical_shape(shape)?;
        let Some(lead) = shape.len().checked_sub(x.shape.len()) else {
            return Err(format!("a shape of rank {} is too small", shape.len()));
        };
        for (axis, dim) in x.shape.iter().enumerate() {
            if dim.as_int() != Some(1) {
                self.require(0, axis, &shape[lead + axis])?;
            }
        }
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    pub(super) fn concat(&mut self, axis: usize) -> Inferred {
        let args = self.expect(1, usize::MAX)?;
        let first = args[0];
        axis_of(first, axis)?;
        let mut shape = first.shape.clone();
        for (arg, other) in args.iter().enumerate().skip(1) {
            same_type(first, other)?;
            if other.shape.len() != shape.len() {
                return Err("ranks differ".into());
            }
            for i in (0..shape.len()).filter(|i| *i != axis) {
                shape[i] = self.unify(at(0, i), at(arg, i))?;
            }
            shape[axis] = shape[axis].clone() + other.shape[axis].clone();
        }
        Ok(vec![TensorType::new(first.dtype, canonical_shape(&shape)?)])
    }

    pub(super) fn slice(&self, begin: &[Expr], size: &[Expr], stride: &[i64]) -> Inferred {
        let x = self.one()?;
        let rank = x.shape.len();
        if begin.len() != rank || size.len() != rank || stride.len() != rank {
            return Err(format!("begin, extent and stride have one entry for each of {rank} axes"));
        }
        let size = canonical_shape(size)?;
        for axis in 0..rank {
            let Some(count) = size[axis].as_int().filter(|n| *n > 0) else { continue };
            let last = stride[axis].checked_mul(count - 1).ok_or("stride overflows")?;
            for index in [begin[axis].clone(), begin[axis].clone() + last] {
                let inside = dims::decide(reflex_tir::CmpOp::Ge, &index, &Expr::i64(0));
                let below = dims::decide(reflex_tir::CmpOp::Lt, &index, &x.shape[axis]);
                if inside == Some(false) || below == Some(false) {
                    return Err(format!("index {index:?} of axis {axis} is out of bounds"));
                }
            }
        }
        Ok(vec![TensorType::new(x.dtype, size)])
    }

    pub(super) fn pad(&self, before: &[Expr], after: &[Expr]) -> Inferred {
        let args = self.expect(1, 2)?;
        let x = args[0];
        if before.len() != x.shape.len() || after.len() != x.shape.len() {
            return Err(format!("pads have one entry for each of {} axes", x.shape.len()));
        }
        if let Some(value) = args.get(1) {
            same_type(x, value)?;
            if dims::product(&value.shape).as_int() != Some(1) {
                return Err("the padding value is one element".into());
            }
        }
        let padded =
            |i: usize| canonical_dim(&(x.shape[i].clone() + before[i].clone() + after[i].clone()));
        let shape = (0..x.shape.len()).map(padded).collect::<Inferred<_>>()?;
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    pub(super) fn iota(&self, count: &Expr) -> Inferred {
        self.expect(0, 0)?;
        Ok(vec![TensorType::new(DType::I64, vec![canonical_dim(count)?])])
    }

    pub(super) fn dims(&self, values: &[Expr]) -> Inferred {
        self.expect(0, 0)?;
        Ok(vec![TensorType::new(DType::I64, vec![Expr::i64(values.len() as i64)])])
    }

    pub(super) fn dim(&self, values: &[Expr]) -> Inferred {
        self.expect(0, 0)?;
        if values.len() != 1 {
            return Err(format!("a scalar of {} values", values.len()));
        }
        Ok(vec![TensorType::new(DType::I64, vec![])])
    }
}

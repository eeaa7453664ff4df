//! Elementwise operators, reductions and scans.

use reflex_tir::{DType, Expr};

use super::{Inference, Inferred, axis_of, boolean, float, integer, number, same_type};
use crate::{Binary, ReduceKind, TensorType, Unary};

impl Inference<'_> {
    pub(super) fn unary(&self, f: Unary) -> Inferred {
        let x = self.one()?;
        let dtype = match f {
            Unary::Neg | Unary::Abs | Unary::Sign => number(x.dtype).map(|()| x.dtype),
            Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Tanh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Erf
            | Unary::Sigmoid
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round => float(x.dtype).map(|()| x.dtype),
            Unary::IsNan | Unary::IsInf => float(x.dtype).map(|()| DType::BOOL),
            Unary::Not => boolean(x.dtype).map(|()| DType::BOOL),
            Unary::BitNot => integer(x.dtype).map(|()| x.dtype),
        }?;
        Ok(vec![TensorType::new(dtype, x.shape.clone())])
    }

    pub(super) fn binary(&mut self, f: Binary) -> Inferred {
        let args = self.expect(2, 2)?;
        let dtype = same_type(args[0], args[1])?;
        let result = match f {
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::FloorMod
            | Binary::TruncMod
            | Binary::Pow
            | Binary::Min
            | Binary::Max => number(dtype).map(|()| dtype),
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => Ok(DType::BOOL),
            Binary::And | Binary::Or | Binary::Xor => boolean(dtype).map(|()| dtype),
            Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => {
                integer(dtype).map(|()| dtype)
            }
        }?;
        let shape = self.broadcast(&[0, 1], 0)?;
        Ok(vec![TensorType::new(result, shape)])
    }

    pub(super) fn choose(&mut self) -> Inferred {
        let args = self.expect(3, 3)?;
        boolean(args[0].dtype)?;
        let dtype = same_type(args[1], args[2])?;
        let shape = self.broadcast(&[0, 1, 2], 0)?;
        Ok(vec![TensorType::new(dtype, shape)])
    }

    pub(super) fn cast(&self, dtype: DType) -> Inferred {
        Ok(vec![TensorType::new(dtype, self.one()?.shape.clone())])
    }

    pub(super) fn reduce(
        &self,
        kind: ReduceKind,
        axes: &[usize],
        reduced: ReducedShape,
    ) -> Inferred {
        let x = self.one()?;
        match kind {
            ReduceKind::Mean => float(x.dtype)?,
            ReduceKind::Sum | ReduceKind::Max | ReduceKind::Min | ReduceKind::Prod => {
                number(x.dtype)?;
            }
        }
        if !axes.is_sorted_by(|a, b| a < b) {
            return Err(format!("axes {axes:?} are not sorted and distinct"));
        }
        axes.iter().try_for_each(|axis| axis_of(x, *axis).map(|_| ()))?;
        Ok(vec![TensorType::new(x.dtype, reduced(&x.shape, axes))])
    }

    pub(super) fn arg_reduce(&self, axis: usize, reduced: ReducedShape) -> Inferred {
        let x = self.one()?;
        axis_of(x, axis)?;
        Ok(vec![TensorType::new(DType::I64, reduced(&x.shape, &[axis]))])
    }

    pub(super) fn bitcast(&self, dtype: DType) -> Inferred {
        let x = self.one()?;
        let fits = x.dtype.is_scalar() && dtype.is_scalar() && x.dtype.bits == dtype.bits;
        if !fits || !dtype.bits.is_multiple_of(8) {
            return Err(format!("{} and {dtype} have different widths", x.dtype));
        }
        Ok(vec![TensorType::new(dtype, x.shape.clone())])
    }

    pub(super) fn scan(&self, axis: usize) -> Inferred {
        let x = self.one()?;
        axis_of(x, axis)?;
        number(x.dtype)?;
        Ok(vec![x.clone()])
    }

    pub(super) fn softmax(&self, axis: usize) -> Inferred {
        let x = self.one()?;
        axis_of(x, axis)?;
        float(x.dtype)?;
        Ok(vec![x.clone()])
    }
}

/// The shape of a reduction over axes: [`ones`] or [`without`].
type ReducedShape = fn(&[Expr], &[usize]) -> Vec<Expr>;

/// `shape` with the reduced axes at 1.
pub(super) fn ones(shape: &[Expr], axes: &[usize]) -> Vec<Expr> {
    let dim = |(i, dim): (usize, &Expr)| match axes.contains(&i) {
        true => Expr::i64(1),
        false => dim.clone(),
    };
    shape.iter().enumerate().map(dim).collect()
}

/// `shape` without the reduced axes.
pub(super) fn without(shape: &[Expr], axes: &[usize]) -> Vec<Expr> {
    let kept = shape.iter().enumerate().filter(|(i, _)| !axes.contains(i));
    kept.map(|(_, dim)| dim.clone()).collect()
}

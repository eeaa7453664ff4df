//! Convolutions, pools and resampling: operators over spatial axes.

use reflex_tir::{CmpOp, DType, Expr};

use super::{Inference, Inferred, at, canonical_dim, canonical_shape, float, number, same_type};
use crate::{ConvAttrs, PoolAttrs, PoolKind, ResizeAttrs, TensorType, dims};

impl<'a> Inference<'a> {
    /// Of the element type that `sum` gives for those of the operands.
    pub(super) fn conv(&mut self, conv: &ConvAttrs, sum: super::SumType) -> Inferred {
        let (dtype, [x, w]) = self.conv_operands(conv, sum)?;
        let channels = w.shape[1].clone() * conv.groups;
        self.require(0, 1, &dims::simplify(&channels))?;
        divisible(&w.shape[0], conv.groups)?;
        self.conv_bias(&w.shape[0])?;
        let mut shape = vec![x.shape[0].clone(), w.shape[0].clone()];
        for i in 0..conv.strides.len() {
            let kernel = spread(&w.shape[i + 2], conv.dilations[i]);
            let pads = conv.pads_begin[i].saturating_add(conv.pads_end[i]);
            let span = x.shape[i + 2].clone() + pads - kernel;
            shape.push(canonical_dim(&(span.floordiv(conv.strides[i]) + 1))?);
        }
        Ok(vec![TensorType::new(dtype, shape)])
    }

    pub(super) fn conv_transpose(&mut self, conv: &ConvAttrs, extra: &[i64]) -> Inferred {
        let (_, [x, w]) = self.conv_operands(conv, super::same_number)?;
        if extra.len() != conv.strides.len() {
            return Err("output_padding has one entry per spatial axis".into());
        }
        self.unify(at(0, 1), at(1, 0))?;
        divisible(&w.shape[0], conv.groups)?;
        let channels = dims::simplify(&(w.shape[1].clone() * conv.groups));
        self.conv_bias(&channels)?;
        let mut shape = vec![x.shape[0].clone(), channels];
        for (i, extra) in extra.iter().enumerate() {
            let pads = conv.pads_begin[i].saturating_add(conv.pads_end[i]);
            let steps = (x.shape[i + 2].clone() - 1) * conv.strides[i];
            let kernel = spread(&w.shape[i + 2], conv.dilations[i]);
            shape.push(canonical_dim(&(steps + *extra + kernel - pads))?);
        }
        Ok(vec![TensorType::new(x.dtype, shape)])
    }

    fn conv_operands(
        &self,
        conv: &ConvAttrs,
        sum: super::SumType,
    ) -> Inferred<(DType, [&'a TensorType; 2])> {
        let args = self.expect(2, 3)?;
        let (x, w) = (args[0], args[1]);
        let dtype = sum(x, w)?;
        let spatial = x.shape.len().checked_sub(2).ok_or("needs batch and channel axes")?;
        if w.shape.len() != x.shape.len() {
            return Err("input and weights have different ranks".into());
        }
        let lists = [&conv.strides, &conv.pads_begin, &conv.pads_end, &conv.dilations];
        if lists.iter().any(|list| list.len() != spatial) {
            return Err(format!("geometry has one entry for each of {spatial} spatial axes"));
        }
        positive(&conv.strides)?;
        positive(&conv.dilations)?;
        positive(&[conv.groups])?;
        Ok((dtype, [x, w]))
    }

    fn conv_bias(&mut self, channels: &Expr) -> Inferred<()> {
        let Some(bias) = self.args.get(2) else { return Ok(()) };
        same_type(self.args[0], bias)?;
        if bias.shape.len() != 1 {
            return Err("the bias has one axis".into());
        }
        self.require(2, 0, channels)
    }

    pub(super) fn pool(&mut self, pool: &PoolAttrs) -> Inferred {
        let x = self.one()?;
        let spatial = x.shape.len().checked_sub(2).ok_or("needs batch and channel axes")?;
        let lists =
            [&pool.kernel, &pool.strides, &pool.pads_begin, &pool.pads_end, &pool.dilations];
        if lists.iter().any(|list| list.len() != spatial) {
            return Err(format!("geometry has one entry for each of {spatial} spatial axes"));
        }
        positive(&pool.kernel)?;
        positive(&pool.strides)?;
        positive(&pool.dilations)?;
        match pool.kind {
            PoolKind::Max { .. } => number(x.dtype)?,
            PoolKind::Average { .. } | PoolKind::Lp(_) => float(x.dtype)?,
        }
        let mut shape = x.shape[..2].to_vec();
        for i in 0..spatial {
            shape.push(pooled_dim(&x.shape[i + 2], pool, i)?);
        }
        let mut types = vec![TensorType::new(x.dtype, shape.clone())];
        if pool.kind == (PoolKind::Max { indices: true }) {
            types.push(TensorType::new(DType::I64, shape));
        }
        Ok(types)
    }

    pub(super) fn resize(&self, resize: &ResizeAttrs) -> Inferred {
        let x = self.one()?;
        let shape = canonical_shape(&resize.shape)?;
        if shape.len() != x.shape.len() {
            return Err(format!("the shape has one entry for each of {} axes", x.shape.len()));
        }
        if resize.scales.as_ref().is_some_and(|scales| scales.len() != shape.len()) {
            return Err("one scale per axis".into());
        }
        Ok(vec![TensorType::new(x.dtype, shape)])
    }
}

/// Number of pooling windows along one axis. Rounding up never makes a window that starts past
/// the input and its leading padding.
fn pooled_dim(input: &Expr, pool: &PoolAttrs, axis: usize) -> Inferred<Expr> {
    let (before, after) = (pool.pads_begin[axis], pool.pads_end[axis]);
    let stride = pool.strides[axis];
    let window = spread(&Expr::i64(pool.kernel[axis]), pool.dilations[axis]);
    let span = input.clone() + before.saturating_add(after) - window;
    if dims::decide(CmpOp::Lt, &span, &Expr::i64(0)) == Some(true) && !pool.ceil {
        return Err(format!("the window is larger than axis {} and its padding", axis + 2));
    }
    if !pool.ceil {
        return canonical_dim(&(span.floordiv(stride) + 1));
    }
    let starts = (input.clone() + before).ceildiv(stride);
    canonical_dim(&(span.ceildiv(stride) + 1).min(starts))
}

/// Elements that a dilated kernel covers.
fn spread(kernel: &Expr, dilation: i64) -> Expr {
    (kernel.clone() - 1) * dilation + 1
}

fn positive(values: &[i64]) -> Inferred<()> {
    // Far below where products of dimensions overflow.
    match values.iter().find(|v| !(1..=1 << 31).contains(*v)) {
        None => Ok(()),
        Some(value) => Err(format!("strides, dilations, kernels and groups are positive: {value}")),
    }
}

fn divisible(dim: &Expr, groups: i64) -> Inferred<()> {
    match dim.as_int() {
        Some(value) if value % groups != 0 => {
            Err(format!("{value} channels do not divide into {groups} groups"))
        }
        _ => Ok(()),
    }
}

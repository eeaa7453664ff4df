//! Emitting primitive operators: one method for each, with the type of the result taken from the graph.

use reflex_graph::{Binary, GatherKind, Literal, Op, OutOfRange, ReduceKind, Unary, Value, dims};
use reflex_tir::{CmpOp, DType, Expr};

use crate::context::ImportContext;
use crate::dtype;
use crate::error::{Result, invalid, unsupported};
use crate::value::Number;

impl ImportContext<'_> {
    /// The shape of a tensor.
    pub(crate) fn shape(&self, x: Value) -> Vec<Expr> {
        self.b.tensor(self.b.refined(x)).shape.clone()
    }

    /// An extent of a tensor.
    pub(crate) fn dim(&self, x: Value, axis: usize) -> Result<Expr> {
        let shape = self.shape(x);
        let dim = shape.get(axis).cloned();
        dim.ok_or_else(|| invalid(format!("axis {axis} of a tensor of rank {}", shape.len())))
    }

    /// The number of axes of a tensor.
    pub(crate) fn rank(&self, x: Value) -> usize {
        self.b.tensor(self.b.refined(x)).shape.len()
    }

    /// The shape of a tensor whose extents are all numbers.
    pub(crate) fn const_shape(&self, x: Value) -> Option<Vec<i64>> {
        self.b.tensor(self.b.refined(x)).const_shape()
    }

    /// An operator of one result.
    pub(crate) fn op(&mut self, op: Op, args: &[Value]) -> Result<Value> {
        Ok(self.b.emit1(op, args)?)
    }

    /// An operator.
    pub(crate) fn ops(&mut self, op: Op, args: &[Value]) -> Result<Vec<Value>> {
        Ok(self.b.emit(op, args)?)
    }

    /// A unary function.
    pub(crate) fn unary(&mut self, f: Unary, x: Value) -> Result<Value> {
        self.op(Op::Unary(f), &[x])
    }

    /// A binary function with broadcasting.
    pub(crate) fn binary(&mut self, f: Binary, a: Value, b: Value) -> Result<Value> {
        self.op(Op::Binary(f), &[a, b])
    }

    /// A binary function with a number of the same type on the right.
    pub(crate) fn binary_num(&mut self, f: Binary, a: Value, b: f64) -> Result<Value> {
        let b = self.num(b, self.dtype(a))?;
        self.binary(f, a, b)
    }

    /// `a + b`
    pub(crate) fn add(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`
    pub(crate) fn sub(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(Binary::Sub, a, b)
    }

    /// `a * b`
    pub(crate) fn mul(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(Binary::Mul, a, b)
    }

    /// `a / b`
    pub(crate) fn div(&mut self, a: Value, b: Value) -> Result<Value> {
        self.binary(Binary::Div, a, b)
    }

    /// `a` where `cond`, else `b`.
    pub(crate) fn choose(&mut self, cond: Value, a: Value, b: Value) -> Result<Value> {
        self.op(Op::Where, &[cond, a, b])
    }

    /// A scalar constant.
    pub(crate) fn num(&mut self, value: f64, dtype: DType) -> Result<Value> {
        Ok(self.b.constant(dtype::scalar(value, dtype)?))
    }

    /// A number as a scalar tensor.
    pub(crate) fn number(&mut self, number: &Number, dtype: DType) -> Result<Value> {
        match number {
            Number::Int(value) => match value.as_int() {
                Some(value) => Ok(self.b.constant(dtype::integer(value, dtype)?)),
                None => self.dim_as(value, dtype),
            },
            Number::Float(value) => self.num(*value, dtype),
            Number::Bool(value) => self.num(f64::from(u8::from(*value)), dtype),
        }
    }

    /// A dimension as a scalar tensor.
    pub(crate) fn dim_as(&mut self, value: &Expr, dtype: DType) -> Result<Value> {
        let values = vec![dims::simplify(value)];
        let value = self.op(Op::Dims { values, scalar: true }, &[])?;
        self.cast(value, dtype)
    }

    /// Conversion; nothing when the type is right already.
    pub(crate) fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        if self.dtype(x) == dtype {
            return Ok(x);
        }
        self.op(Op::Cast(dtype), &[x])
    }

    /// Computes in float32 what PyTorch does for floats of 16 bits, and rounds the result once.
    pub(crate) fn widened(
        &mut self,
        x: Value,
        compute: impl FnOnce(&mut Self, Value) -> Result<Value>,
    ) -> Result<Value> {
        let own = self.dtype(x);
        let wide = self.wide(x)?;
        let y = compute(self, wide)?;
        self.cast(y, own)
    }

    /// A float of 16 bits as float32; others as they are.
    pub(crate) fn wide(&mut self, x: Value) -> Result<Value> {
        match self.dtype(x) {
            DType::F16 | DType::BF16 => self.cast(x, DType::F32),
            _ => Ok(x),
        }
    }

    /// Reduction; nothing when there are no axes.
    pub(crate) fn reduce(
        &mut self,
        kind: ReduceKind,
        x: Value,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<Value> {
        if axes.is_empty() {
            return Ok(x);
        }
        self.op(Op::Reduce { kind, axes: axes.to_vec(), keep_dims }, &[x])
    }

    /// Matrix multiplication.
    pub(crate) fn matmul(&mut self, a: Value, b: Value) -> Result<Value> {
        self.op(Op::MatMul, &[a, b])
    }

    /// Another shape; nothing when it is the same.
    pub(crate) fn reshape(&mut self, x: Value, shape: &[Expr]) -> Result<Value> {
        let shape: Vec<Expr> = shape.iter().map(dims::simplify).collect();
        if shape == self.shape(x) {
            return Ok(x);
        }
        self.op(Op::Reshape(shape), &[x])
    }

    /// Permuted axes; nothing when they stay.
    pub(crate) fn transpose(&mut self, x: Value, perm: &[usize]) -> Result<Value> {
        if perm.iter().copied().eq(0..self.rank(x)) {
            return Ok(x);
        }
        self.op(Op::Transpose(perm.to_vec()), &[x])
    }

    /// Two axes exchanged.
    pub(crate) fn swap(&mut self, x: Value, a: usize, b: usize) -> Result<Value> {
        let mut perm: Vec<usize> = (0..self.rank(x)).collect();
        if a < perm.len() && b < perm.len() {
            perm.swap(a, b);
        }
        self.transpose(x, &perm)
    }

    /// Broadcast to a shape; nothing when it has it.
    pub(crate) fn broadcast(&mut self, x: Value, shape: &[Expr]) -> Result<Value> {
        if shape == self.shape(x) {
            return Ok(x);
        }
        self.op(Op::Broadcast(shape.to_vec()), &[x])
    }

    /// Joined along an axis.
    pub(crate) fn concat(&mut self, parts: &[Value], axis: usize) -> Result<Value> {
        match parts {
            [only] => Ok(*only),
            _ => self.op(Op::Concat { axis }, parts),
        }
    }

    /// `count` elements along one axis from `begin`.
    pub(crate) fn slice(
        &mut self,
        x: Value,
        axis: usize,
        begin: &Expr,
        count: &Expr,
    ) -> Result<Value> {
        self.strided(x, axis, begin, count, 1)
    }

    /// `count` elements along one axis from `begin`, every `step`th; `x` itself when these are all.
    pub(crate) fn strided(
        &mut self,
        x: Value,
        axis: usize,
        begin: &Expr,
        count: &Expr,
        step: i64,
    ) -> Result<Value> {
        let mut starts = vec![Expr::i64(0); self.rank(x)];
        let mut shape = self.shape(x);
        let mut stride = vec![1; starts.len()];
        starts[axis] = dims::simplify(begin);
        shape[axis] = dims::simplify(count);
        stride[axis] = step;
        let whole = starts[axis].as_int() == Some(0) && shape == self.shape(x) && step == 1;
        if whole {
            return Ok(x);
        }
        self.op(Op::Slice { begin: starts, shape, stride }, &[x])
    }

    /// Elements or slices at indices, those out of range being an error of the run.
    pub(crate) fn gather(&mut self, kind: GatherKind, x: Value, indices: Value) -> Result<Value> {
        let indices = self.indices(indices)?;
        let extent = match kind {
            GatherKind::Axis(axis) | GatherKind::Elements(axis) => self.dim(x, axis)?.as_int(),
            GatherKind::Nd { .. } => None,
        };
        let known = self.b.as_constant(self.b.refined(indices)).and_then(Literal::to_i64);
        let inside = match (extent, known) {
            (Some(n), Some(known)) => known.iter().all(|i| (-n..n).contains(i)),
            _ => false,
        };
        let out_of_range = if inside { OutOfRange::Clamp } else { OutOfRange::Raise };
        self.op(Op::Gather { kind, out_of_range }, &[x, indices])
    }

    /// Indices in a type that the graph takes.
    pub(crate) fn indices(&mut self, indices: Value) -> Result<Value> {
        match self.dtype(indices) {
            DType::I64 | DType::I32 => Ok(indices),
            DType::BOOL => Err(unsupported("a mask as indices, whose count only a run knows")),
            dtype if dtype.is_float() => Err(invalid(format!("indices of type {dtype}"))),
            _ => self.cast(indices, DType::I64),
        }
    }

    /// New axes of size 1 at the given positions of the result.
    pub(crate) fn unsqueeze(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        let mut shape = self.shape(x);
        for axis in axes {
            shape.insert((*axis).min(shape.len()), Expr::i64(1));
        }
        self.reshape(x, &shape)
    }

    /// Without the given axes, which have size 1.
    pub(crate) fn squeeze(&mut self, x: Value, axes: &[usize]) -> Result<Value> {
        let kept = self.shape(x).into_iter().enumerate().filter(|(i, _)| !axes.contains(i));
        let shape: Vec<Expr> = kept.map(|(_, dim)| dim).collect();
        self.reshape(x, &shape)
    }

    /// A constant of integers.
    pub(crate) fn ints(&mut self, values: &[i64]) -> Value {
        self.b.constant(Literal::from_i64(vec![values.len() as i64], values))
    }

    /// `0..count` as int64.
    pub(crate) fn iota(&mut self, count: &Expr) -> Result<Value> {
        self.op(Op::Iota { count: dims::simplify(count) }, &[])
    }

    /// A vector along one axis of a tensor of some rank.
    pub(crate) fn along(&mut self, v: Value, axis: usize, rank: usize) -> Result<Value> {
        let mut shape = vec![Expr::i64(1); rank.saturating_sub(axis)];
        let first = shape.first_mut().ok_or_else(|| invalid(format!("no axis {axis}")))?;
        *first = self.dim(v, 0)?;
        self.reshape(v, &shape)
    }

    /// The shape that several broadcast to.
    pub(crate) fn broadcast_shape(&self, shapes: &[Vec<Expr>]) -> Result<Vec<Expr>> {
        let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
        let mut result = vec![Expr::i64(1); rank];
        for shape in shapes {
            for (kept, dim) in result[rank - shape.len()..].iter_mut().zip(shape) {
                let one = |dim: &Expr| dim.as_int() == Some(1);
                if one(kept) || (kept.as_int().is_none() && dim.as_int().is_some() && !one(dim)) {
                    *kept = dim.clone();
                } else if !one(dim) && dims::equal(kept, dim) == Some(false) {
                    return Err(invalid(format!("extents {kept:?} and {dim:?} differ")));
                }
            }
        }
        Ok(result)
    }

    /// Decides a comparison of dimensions by what is known of symbols: no export is for extents outside of its ranges,
    /// and what depends on it, a slice's bounds, is checked when it runs.
    pub(crate) fn decide(&self, op: CmpOp, a: &Expr, b: &Expr) -> Option<bool> {
        let shift = |var| self.minimum(var).map(|least| Expr::var(var) + least);
        dims::decide(op, &a.substitute(&shift), &b.substitute(&shift))
    }

    /// An index between 0 and an extent, as Python's slices clamp them; negative ones count from the end.
    pub(crate) fn bound(&self, index: &Expr, extent: &Expr) -> Expr {
        let zero = Expr::i64(0);
        let ended = match self.decide(CmpOp::Ge, index, &zero) {
            Some(true) => index.clone(),
            Some(false) => extent.clone() + index.clone(),
            None => {
                let back = extent.clone() + index.clone();
                Expr::select(index.clone().lt(0), back, index.clone())
            }
        };
        let low = match self.decide(CmpOp::Ge, &ended, &zero) {
            Some(true) => ended,
            _ => ended.max(zero),
        };
        let inside = match self.decide(CmpOp::Le, &low, extent) {
            Some(true) => low,
            Some(false) => extent.clone(),
            // The end of an axis as PyTorch writes it.
            None if low.as_int().is_some_and(|low| low >= 1 << 40) => extent.clone(),
            None => low.min(extent.clone()),
        };
        dims::simplify(&inside)
    }

    /// Elements from one bound to another in steps.
    pub(crate) fn count_between(&self, begin: &Expr, end: &Expr, step: i64) -> Expr {
        let span = dims::simplify(&(end.clone() - begin.clone()));
        let span = match self.decide(CmpOp::Ge, &span, &Expr::i64(0)) {
            Some(true) => span,
            _ => span.max(0),
        };
        dims::simplify(&span.ceildiv(step))
    }
}

//! Emitting primitive operators over [`Tensor`]s, folding what is known on the way.
//!
//! Every helper first tries to compute on literals or symbolic elements; only otherwise does it
//! append a binding to the graph. Operator files are written against these helpers alone.

use reflex_graph::{
    Binary, GatherKind, Literal, Node, Op, OutOfRange, ReduceKind, TensorType, Unary, Value, dims,
    eval_op, infer::infer_assuming,
};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::{Result, unsupported};
use crate::fold;
use crate::narrow::{self, Conversion};
use crate::value::{KnownElements, Tensor};

/// Results and operands of constant folding stay below this many bytes; larger ones are left
/// to the pipeline's own folding.
const FOLD_LIMIT: usize = 1 << 20;

impl ImportContext<'_> {
    /// The run-time value of a tensor.
    pub fn value(&mut self, tensor: &Tensor) -> Result<Value> {
        if let Some(value) = tensor.value {
            return Ok(self.b.refined(value));
        }
        match &tensor.known {
            KnownElements::Constant(literal) => Ok(self.b.constant(literal.clone())),
            KnownElements::Symbolic(elements) => {
                let (values, scalar) = (elements.to_vec(), tensor.rank() == 0);
                let mut value = self.b.emit1(Op::Dims { values, scalar }, &[])?;
                if tensor.rank() > 1 {
                    value = self.b.emit1(Op::Reshape(tensor.shape().to_vec()), &[value])?;
                }
                if tensor.dtype() != DType::I64 {
                    value = self.b.emit1(Op::Cast(tensor.dtype()), &[value])?;
                }
                Ok(value)
            }
            KnownElements::None => unreachable!("a tensor without knowledge has a value"),
        }
    }

    /// An operator of one result.
    pub fn op(&mut self, op: Op, args: &[&Tensor]) -> Result<Tensor> {
        Ok(self.ops(op, args)?.remove(0))
    }

    /// An operator.
    pub fn ops(&mut self, op: Op, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        if args.iter().any(|t| narrow::carrier(t.dtype()).is_some()) {
            return self.narrow_ops(op, args);
        }
        let types: Vec<&TensorType> = args.iter().map(|t| &t.ty).collect();
        let (results, assumptions) = infer_assuming(&op, &types)?;
        if assumptions.is_empty() {
            if let Some(folded) = fold_literals(&op, args, &results) {
                return Ok(folded);
            }
            if let Some(folded) = fold::symbolic(&op, args, &results) {
                return Ok(vec![folded]);
            }
        }
        let values = args.iter().map(|t| self.value(t)).collect::<Result<Vec<Value>>>()?;
        let outputs = self.b.emit(op, &values)?;
        Ok(outputs.into_iter().map(|v| self.tensor_of(v)).collect())
    }

    /// The tensor that a graph value is.
    pub fn tensor_of(&self, value: Value) -> Tensor {
        Tensor::value(value, self.b.tensor(value).clone())
    }

    /// Binds a node that is not an operator.
    pub fn bind(&mut self, node: Node, types: Vec<TensorType>) -> Vec<Tensor> {
        let values = self.b.bind(node, types);
        values.into_iter().map(|v| self.tensor_of(v)).collect()
    }

    /// A unary function.
    pub fn unary(&mut self, f: Unary, x: &Tensor) -> Result<Tensor> {
        self.op(Op::Unary(f), &[x])
    }

    /// A binary function with broadcasting.
    pub fn binary(&mut self, f: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.op(Op::Binary(f), &[a, b])
    }

    /// A binary function with a number of the same type on the right.
    pub fn binary_num(&mut self, f: Binary, a: &Tensor, b: f64) -> Result<Tensor> {
        let b = self.num(b, a.dtype())?;
        self.binary(f, a, &b)
    }

    /// `a + b`
    pub fn add(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`
    pub fn sub(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.binary(Binary::Sub, a, b)
    }

    /// `a * b`
    pub fn mul(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.binary(Binary::Mul, a, b)
    }

    /// `a / b`
    pub fn div(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.binary(Binary::Div, a, b)
    }

    /// `a` where `cond`, else `b`.
    pub fn choose(&mut self, cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.op(Op::Where, &[cond, a, b])
    }

    /// A scalar constant.
    pub fn num(&self, value: f64, dtype: DType) -> Result<Tensor> {
        Tensor::scalar(value, dtype)
            .ok_or_else(|| unsupported(format!("constants of type {dtype} such as {value}")))
    }

    /// Conversion; nothing when the type is right already.
    pub fn cast(&mut self, x: &Tensor, dtype: DType) -> Result<Tensor> {
        if x.dtype() == dtype {
            return Ok(x.clone());
        }
        if [x.dtype(), dtype].into_iter().any(|t| narrow::carrier(t).is_some()) {
            return self.narrow_cast(x, dtype, Conversion::DEFAULT);
        }
        self.op(Op::Cast(dtype), &[x])
    }

    /// Reduction that removes the axes; nothing when there are none.
    pub fn reduce(&mut self, kind: ReduceKind, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        self.op(Op::Reduce { kind, axes: axes.to_vec(), keep_dims: false }, &[x])
    }

    /// Reduction that keeps the axes with one element; nothing when there are none.
    pub fn reduce_keep_dims(
        &mut self,
        kind: ReduceKind,
        x: &Tensor,
        axes: &[usize],
    ) -> Result<Tensor> {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        self.op(Op::Reduce { kind, axes: axes.to_vec(), keep_dims: true }, &[x])
    }

    /// Matrix multiplication.
    pub fn matmul(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.op(Op::MatMul, &[a, b])
    }

    /// Another shape; nothing when it is the same.
    pub fn reshape(&mut self, x: &Tensor, shape: &[Expr]) -> Result<Tensor> {
        let shape: Vec<Expr> = shape.iter().map(dims::simplify).collect();
        if shape == x.shape() {
            return Ok(x.clone());
        }
        if let KnownElements::Constant(literal) = &x.known
            && let Some(fixed) = shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()
            && let Some(reshaped) = literal.reshaped(fixed)
        {
            let mut tensor = Tensor::literal(reshaped);
            tensor.ty.dtype = x.dtype();
            return Ok(tensor);
        }
        self.op(Op::Reshape(shape), &[x])
    }

    /// Permuted axes; nothing when they stay.
    pub fn transpose(&mut self, x: &Tensor, perm: &[usize]) -> Result<Tensor> {
        if perm.iter().copied().eq(0..x.rank()) {
            return Ok(x.clone());
        }
        self.op(Op::Transpose(perm.to_vec()), &[x])
    }

    /// Broadcast to a shape; nothing when it has it.
    pub fn broadcast(&mut self, x: &Tensor, shape: &[Expr]) -> Result<Tensor> {
        if shape == x.shape() {
            return Ok(x.clone());
        }
        self.op(Op::Broadcast(shape.to_vec()), &[x])
    }

    /// A tensor of one number.
    pub fn filled(&mut self, value: f64, dtype: DType, shape: &[Expr]) -> Result<Tensor> {
        let value = self.num(value, dtype)?;
        self.broadcast(&value, shape)
    }

    /// Joined along an axis.
    pub fn concat(&mut self, parts: &[Tensor], axis: usize) -> Result<Tensor> {
        match parts {
            [only] => Ok(only.clone()),
            _ => self.op(Op::Concat { axis }, &parts.iter().collect::<Vec<_>>()),
        }
    }

    /// `count` elements along one axis from `begin`.
    pub fn slice(&mut self, x: &Tensor, axis: usize, begin: &Expr, count: &Expr) -> Result<Tensor> {
        let mut starts = vec![Expr::i64(0); x.rank()];
        let mut shape = x.shape().to_vec();
        starts[axis] = dims::simplify(begin);
        shape[axis] = dims::simplify(count);
        self.strided(x, starts, shape, vec![1; x.rank()])
    }

    /// A strided slice; `x` itself when it takes every element.
    pub fn strided(
        &mut self,
        x: &Tensor,
        begin: Vec<Expr>,
        shape: Vec<Expr>,
        stride: Vec<i64>,
    ) -> Result<Tensor> {
        let whole = begin.iter().all(|b| b.as_int() == Some(0))
            && shape == x.shape()
            && stride.iter().all(|s| *s == 1);
        if whole {
            return Ok(x.clone());
        }
        self.op(Op::Slice { begin, shape, stride }, &[x])
    }

    /// Slices at `indices`, which are known to be in range, along an axis.
    pub fn take(&mut self, x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
        let (kind, out_of_range) = (GatherKind::Axis(axis), OutOfRange::Clamp);
        self.op(Op::Gather { kind, out_of_range }, &[x, indices])
    }

    /// Elements or slices along an axis at indices that may be out of range, which is an error.
    pub fn gather(&mut self, kind: GatherKind, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
        let extents = match kind {
            GatherKind::Axis(axis) | GatherKind::Elements(axis) => x.shape().get(axis..=axis),
            GatherKind::Nd { .. } => None,
        };
        let out_of_range = out_of_range(indices, extents.unwrap_or_default());
        self.op(Op::Gather { kind, out_of_range }, &[x, indices])
    }

    /// New axes of size 1 at the given positions of the result.
    pub fn unsqueeze(&mut self, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let mut shape = x.shape().to_vec();
        for axis in axes {
            shape.insert(*axis, Expr::i64(1));
        }
        self.reshape(x, &shape)
    }

    /// Without the given axes, which have size 1.
    pub fn squeeze(&mut self, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let kept = x.shape().iter().enumerate().filter(|(i, _)| !axes.contains(i));
        let shape: Vec<Expr> = kept.map(|(_, dim)| dim.clone()).collect();
        self.reshape(x, &shape)
    }

    /// A constant of small integers.
    pub fn ints(&self, values: &[i64]) -> Tensor {
        Tensor::literal(Literal::from_i64(vec![values.len() as i64], values))
    }

    /// `0..count` as int64.
    pub fn iota(&mut self, count: &Expr) -> Result<Tensor> {
        self.op(Op::Iota { count: dims::simplify(count) }, &[])
    }

    /// A dimension as a scalar of a type.
    pub fn dim_as(&mut self, value: &Expr, dtype: DType) -> Result<Tensor> {
        self.cast(&Tensor::dim(&dims::simplify(value)), dtype)
    }

    /// Checks at run time that two dimensions are equal.
    pub fn check_dim(&mut self, found: &Expr, wanted: &Expr) -> Result<()> {
        if dims::equal(found, wanted) == Some(true) {
            return Ok(());
        }
        let found = Tensor::dims(std::slice::from_ref(found));
        self.check_elements(&found, std::slice::from_ref(wanted))
    }

    /// Checks at run time that an int64 tensor has the given elements.
    pub fn check_elements(&mut self, x: &Tensor, wanted: &[Expr]) -> Result<()> {
        if x.as_elements().is_some_and(|found| found == wanted) {
            return Ok(());
        }
        let value = self.value(x)?;
        let ty = self.b.tensor(value).clone();
        self.b.bind(Node::MatchShape { value, dims: wanted.to_vec() }, vec![ty]);
        Ok(())
    }

    /// Integer elements of a tensor as symbols: known ones, or read at run time. What is read
    /// must be non-negative, as every symbol is.
    pub fn dims_of(&mut self, x: &Tensor, name: &str) -> Result<Vec<Expr>> {
        if let Some(elements) = x.as_elements() {
            return Ok(elements);
        }
        if x.rank() > 1 || x.count().is_none() {
            return Err(unsupported(format!("{} as dimensions", x.ty)));
        }
        let x = self.cast(x, DType::I64)?;
        let value = self.value(&x)?;
        Ok(self.b.match_shape(value, name))
    }
}

/// The check that indices into axes of these extents, in turn, need at run time: none where all
/// are known to be in range.
pub(crate) fn out_of_range(indices: &Tensor, extents: &[Expr]) -> OutOfRange {
    let extents = extents.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
    let known = indices.as_literal().and_then(Literal::to_i64);
    match (extents, known) {
        (Some(extents), Some(known)) => {
            let mut pairs = known.iter().zip(extents.iter().cycle());
            let inside = !extents.is_empty() && pairs.all(|(i, n)| (-n..*n).contains(i));
            if inside { OutOfRange::Clamp } else { OutOfRange::Raise }
        }
        _ => OutOfRange::Raise,
    }
}

/// Returns true if the work of an operator is in proportion to its operands and results, whatever
/// its attributes. A hostile model must not keep constant folding busy.
fn cheap(op: &Op) -> bool {
    !matches!(
        op,
        Op::MatMul
            | Op::MatMulInteger
            | Op::MatMulNBits(_)
            | Op::ConvInteger(_)
            | Op::Conv(_)
            | Op::ConvTranspose { .. }
            | Op::Pool(_)
            | Op::Resize(_)
            | Op::TopK { .. }
            | Op::Rnn(_)
    )
}

fn fold_literals(op: &Op, args: &[&Tensor], types: &[TensorType]) -> Option<Vec<Tensor>> {
    if !cheap(op) {
        return None;
    }
    let literals = args.iter().map(|t| t.as_literal()).collect::<Option<Vec<&Literal>>>()?;
    let size = |t: &TensorType| {
        let dims = t.const_shape()?;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d as usize))?;
        t.dtype.bytes_for(count)
    };
    let inputs: usize = literals.iter().map(|l| l.size()).sum();
    let outputs = types.iter().map(size).collect::<Option<Vec<usize>>>()?;
    if inputs > FOLD_LIMIT || outputs.iter().any(|bytes| *bytes > FOLD_LIMIT) {
        return None;
    }
    // An error of the evaluator (an index out of bounds) is left for run time.
    let results = eval_op(op, &literals, &|_| None).ok()?;
    Some(results.into_iter().map(Tensor::literal).collect())
}

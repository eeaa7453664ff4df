//! The reference evaluator of graph functions: the meaning of every operator, written plainly.
//!
//! It serves as the oracle of tests and as the engine of constant folding. Integer results
//! are exact. Floating-point results are computed in f64 and rounded once to the element
//! type, so they agree with any faithful implementation within tolerance, not bit for bit.
//! It does not plan, fuse or run kernels: `CallTir` and `CallPacked` are refused.

mod dim;
mod elementwise;
mod func;
mod index;
mod linear;
mod movement;
mod nums;
mod pool;
mod reduce;
mod resize;
mod rnn;
mod walk;

use reflex_tir::{DType, Expr, Var};

use crate::{Literal, Op};

pub use dim::eval_dim;
pub use func::{EvalValue, eval_func};
pub(crate) use walk::{gather_strided, strides};

/// Why an evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    message: String,
}

impl EvalError {
    pub(crate) fn new(message: impl Into<String>) -> EvalError {
        EvalError { message: message.into() }
    }

    fn at(self, place: &str) -> EvalError {
        EvalError { message: format!("{place}: {}", self.message) }
    }
}

type Result<T> = std::result::Result<T, EvalError>;

/// Values of symbolic dimensions; `None` for one that is not known.
pub type DimValues<'a> = &'a dyn Fn(Var) -> Option<i64>;

/// Applies one operator to concrete tensors. `dims` gives the symbolic dimensions that the
/// operator's attributes mention.
pub fn eval_op(op: &Op, args: &[&Literal], dims: DimValues<'_>) -> Result<Vec<Literal>> {
    check_arity(op, args.len())?;
    let one = |l: Result<Literal>| l.map(|l| vec![l]);
    let shape = |s: &[Expr]| eval_shape(s, dims);
    match op {
        Op::Unary(f) => one(elementwise::unary(*f, args[0])),
        Op::Binary(f) => one(elementwise::binary(*f, args[0], args[1])),
        Op::Where => one(elementwise::select(args[0], args[1], args[2])),
        Op::Cast(to) => one(elementwise::cast(args[0], *to)),
        Op::Reduce { kind, axes, keep_dims } => {
            one(reduce::reduce(*kind, args[0], axes, *keep_dims))
        }
        Op::ArgReduce { kind, axis, keep_dims, select_last } => {
            one(reduce::arg_reduce(*kind, args[0], *axis, *keep_dims, *select_last))
        }
        Op::CumSum { axis, exclusive, reverse } => {
            one(reduce::cumsum(args[0], *axis, *exclusive, *reverse))
        }
        Op::MatMul => one(linear::matmul(args[0], args[1])),
        Op::Conv(attrs) => one(linear::conv(attrs, args)),
        Op::ConvTranspose { conv, output_padding } => {
            one(linear::conv_transpose(conv, output_padding, args))
        }
        Op::Pool(attrs) => pool::pool(attrs, args[0]),
        Op::Softmax { axis, log } => one(reduce::softmax(args[0], *axis, *log)),
        Op::LayerNorm { axis, epsilon } => one(reduce::layer_norm(args, *axis, *epsilon)),
        Op::Reshape(to) => one(movement::reshape(args[0], shape(to)?)),
        Op::Transpose(perm) => one(movement::transpose(args[0], perm)),
        Op::Broadcast(to) => one(movement::broadcast(args[0], &shape(to)?)),
        Op::Concat { axis } => one(movement::concat(args, *axis)),
        Op::Slice { begin, shape: extent, stride } => {
            one(movement::slice(args[0], &shape(begin)?, &shape(extent)?, stride))
        }
        Op::Pad { mode, before, after } => {
            let (before, after) = (shape(before)?, shape(after)?);
            one(movement::pad(*mode, args[0], args.get(1).copied(), &before, &after))
        }
        Op::Gather(kind) => one(index::gather(kind, args[0], args[1])),
        Op::Scatter { kind, reduce } => {
            one(index::scatter(kind, *reduce, args[0], args[1], args[2]))
        }
        Op::Resize(attrs) => one(resize::resize(attrs, args[0], &shape(&attrs.shape)?)),
        Op::TopK { axis, k, largest } => {
            reduce::top_k(args[0], *axis, need_dim(k, dims)?, *largest)
        }
        Op::Iota { count } => one(movement::iota(need_dim(count, dims)?)),
        Op::Dims { values, scalar } => one(movement::dims(&shape(values)?, *scalar)),
        Op::Rnn(attrs) => rnn::rnn(attrs, args),
    }
}

/// Fewest and most operands of an operator.
pub(crate) fn arity(op: &Op) -> (usize, usize) {
    match op {
        Op::Iota { .. } | Op::Dims { .. } => (0, 0),
        Op::Unary(_)
        | Op::Cast(_)
        | Op::Reduce { .. }
        | Op::ArgReduce { .. }
        | Op::CumSum { .. }
        | Op::Pool(_)
        | Op::Softmax { .. }
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Broadcast(_)
        | Op::Slice { .. }
        | Op::Resize(_)
        | Op::TopK { .. } => (1, 1),
        Op::Pad { .. } => (1, 2),
        Op::Binary(_) | Op::MatMul | Op::Gather(_) => (2, 2),
        Op::LayerNorm { .. } | Op::Conv(_) | Op::ConvTranspose { .. } => (2, 3),
        Op::Where | Op::Scatter { .. } => (3, 3),
        Op::Rnn(_) => (3, 6),
        Op::Concat { .. } => (1, usize::MAX),
    }
}

fn check_arity(op: &Op, count: usize) -> Result<()> {
    let (fewest, most) = arity(op);
    if (fewest..=most).contains(&count) {
        return Ok(());
    }
    Err(EvalError::new(format!("{op:?} takes {fewest} to {most} operands, got {count}")))
}

fn need_dim(e: &Expr, dims: DimValues<'_>) -> Result<i64> {
    eval_dim(e, dims).ok_or_else(|| EvalError::new(format!("{e:?} has no value here")))
}

fn eval_shape(shape: &[Expr], dims: DimValues<'_>) -> Result<Vec<i64>> {
    shape.iter().map(|e| need_dim(e, dims)).collect()
}

/// A tensor of `shape` over bytes; an error where the shape does not fit.
fn literal(dtype: DType, shape: Vec<i64>, bytes: Vec<u8>) -> Result<Literal> {
    let text = format!("{dtype}{shape:?} from {} bytes", bytes.len());
    Literal::new(dtype, shape, std::sync::Arc::new(bytes)).ok_or_else(|| EvalError::new(text))
}

/// Number of elements of a shape without negative extents.
fn count(shape: &[i64]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
        .filter(|n| *n <= isize::MAX as usize / 16)
        .ok_or_else(|| EvalError::new(format!("{shape:?} is not the shape of a tensor")))
}

fn need_axis(axis: usize, rank: usize) -> Result<()> {
    if axis < rank {
        return Ok(());
    }
    Err(EvalError::new(format!("axis {axis} of a tensor of rank {rank}")))
}

#[cfg(test)]
mod tests;

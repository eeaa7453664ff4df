//! One operator on concrete tensors: the reference meaning of each row of the operator table.

use reflex_tir::{DType, Expr};

use super::dim::{DimValues, eval_dim};
use super::error::{EvalError, Result};
use super::reduce::{Scan, Ties, TopKOrder};
use super::{elementwise, index, linear, movement, nbits, pool, reduce, registered, resize, rnn};
use crate::literal::Literal;
use crate::op::Op;

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
            let kept = reduce::reduce(*kind, args[0], axes)?;
            one(if *keep_dims { Ok(kept) } else { movement::squeeze(&kept, axes) })
        }
        Op::ArgReduce { kind, axis, keep_dims, select_last } => {
            let ties = if *select_last { Ties::Last } else { Ties::First };
            let kept = reduce::arg_reduce(*kind, ties, args[0], *axis)?;
            one(if *keep_dims { Ok(kept) } else { movement::squeeze(&kept, &[*axis]) })
        }
        Op::Bitcast(to) => one(elementwise::bitcast(args[0], *to)),
        Op::Scan { kind, axis, exclusive, reverse } => {
            let (kind, axis) = (*kind, *axis);
            let scan = Scan { kind, axis, exclusive: *exclusive, reverse: *reverse };
            one(reduce::scan(args[0], &scan))
        }
        Op::MatMul => one(linear::matmul(args[0], args[1])),
        Op::MatMulInteger => {
            let [a, b] = wide(args)?;
            one(linear::matmul(&a, &b))
        }
        Op::MatMulNBits(codes) => one(nbits::matmul_nbits(*codes, args)),
        Op::Conv(attrs) => one(linear::conv(attrs, args)),
        Op::ConvInteger(attrs) => {
            let [x, w] = wide(args)?;
            one(linear::conv(attrs, &[&x, &w]))
        }
        Op::ConvTranspose { conv, output_padding } => {
            one(linear::conv_transpose(conv, output_padding, args))
        }
        Op::Pool(attrs) => pool::pool(attrs, args[0]),
        Op::Softmax { axis, log: false } => one(reduce::softmax(args[0], *axis)),
        Op::Softmax { axis, log: true } => one(reduce::log_softmax(args[0], *axis)),
        Op::LayerNorm { axis, epsilon } => one(reduce::layer_norm(args, *axis, *epsilon)),
        Op::Reshape(to) => one(movement::reshape(args[0], shape(to)?)),
        Op::Transpose(perm) => one(movement::transpose(args[0], perm)),
        Op::Broadcast(to) => one(movement::broadcast(args[0], &shape(to)?)),
        Op::Concat { axis } => one(movement::concat(args, *axis)),
        Op::Slice { begin, shape: to, stride } => {
            one(movement::slice(args[0], &shape(begin)?, &shape(to)?, stride))
        }
        Op::Pad { mode, before, after } => {
            let (before, after) = (shape(before)?, shape(after)?);
            one(movement::pad(*mode, args[0], args.get(1).copied(), &before, &after))
        }
        Op::Gather { kind, out_of_range } => {
            one(index::gather(kind, *out_of_range, args[0], args[1]))
        }
        Op::Scatter { kind, reduce, out_of_range } => {
            one(index::scatter(kind, *reduce, *out_of_range, args[0], args[1], args[2]))
        }
        Op::Resize(attrs) => one(resize::resize(attrs, args[0], &shape(&attrs.shape)?)),
        Op::TopK { axis, k, largest } => {
            let order = if *largest { TopKOrder::Largest } else { TopKOrder::Smallest };
            reduce::top_k(args[0], *axis, need_dim(k, dims)?, order)
        }
        Op::Iota { count } => one(movement::iota(need_dim(count, dims)?)),
        Op::Dims { values, scalar: true } => one(movement::dim(&shape(values)?)),
        Op::Dims { values, scalar: false } => one(movement::dims(&shape(values)?)),
        Op::Rnn(attrs) => rnn::rnn(attrs, args),
        Op::Registered(op) => registered::registered(op, args, dims),
    }
}

fn check_arity(op: &Op, count: usize) -> Result<()> {
    let (fewest, most) = op.arity();
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

/// Both operands in int32.
fn wide(args: &[&Literal]) -> Result<[Literal; 2]> {
    let [a, b] = [0, 1].map(|n| elementwise::cast(args[n], DType::I32));
    Ok([a?, b?])
}

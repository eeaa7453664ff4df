//! Shape and type inference: a column of the operator table.
//!
//! [`infer`] gives the output types of an [`Op`] from its argument types. It is strict: where
//! two dimensions have to agree they must be provably equal, so that a verified graph needs no
//! check in any kernel. A dimension that merely *may* agree (a symbol against a number or
//! another symbol) is an [`Assumption`] of [`infer_assuming`]; the caller makes it true with a
//! `match_cast`, as [`crate::builder::FuncBuilder`] does. The rules:
//!
//! - broadcasting: equal dimensions unify, 1 broadcasts, a number other than 1 against a symbol
//!   gives the number and assumes it of the symbol, two different symbols give the left one and
//!   assume it of the right one (a symbol that is 1 at run time does not broadcast);
//! - elsewhere (channels, the contracted dimension of a matrix multiplication): the number, else the
//!   left one;
//! - `Reshape` cannot always be proven to keep the element count, and `Slice`, `Gather` and
//!   `Scatter` not to leave bounds: those are run-time checks of their implementations.

mod elementwise;
mod index;
mod layout;
mod linear;
mod spatial;

use std::fmt;

use reflex_tir::{DType, Expr};

use crate::registered_op::RegisteredOp;
use crate::{Op, TensorType, dims};

/// An operator does not accept its arguments.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{op}({args}): {message}")]
pub struct InferError {
    op: String,
    args: String,
    message: String,
}

/// Dimension `axis` of argument `arg` has to be `dim` for the inferred types to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// Argument.
    pub arg: usize,
    /// Axis of it.
    pub axis: usize,
    /// The value that the dimension must have.
    pub dim: Expr,
}

/// Output types of `op`.
pub fn infer(op: &Op, args: &[&TensorType]) -> Result<Vec<TensorType>, InferError> {
    let (types, assumptions) = infer_assuming(op, args)?;
    match assumptions.first() {
        None => Ok(types),
        Some(Assumption { arg, axis, dim }) => {
            let message = format!(
                "dimension {axis} of argument {arg} is not known to be {dim:?}; match_cast it"
            );
            Err(error(op, args, message))
        }
    }
}

/// Output types of `op` and what has to hold for them.
pub fn infer_assuming(
    op: &Op,
    args: &[&TensorType],
) -> Result<(Vec<TensorType>, Vec<Assumption>), InferError> {
    let mut cx = Inference { args, assumptions: vec![] };
    match cx.types(op) {
        Ok(types) => Ok((types, cx.assumptions)),
        Err(message) => Err(error(op, args, message)),
    }
}

fn error(op: &Op, args: &[&TensorType], message: String) -> InferError {
    let args: Vec<String> = args.iter().map(|t| t.to_string()).collect();
    let op = match op {
        Op::Registered(op) => op.name.clone(),
        op => format!("{op:?}"),
    };
    InferError { op, args: args.join(", "), message }
}

/// Result of an inference rule: types, or the reason of the refusal.
type Inferred<T = Vec<TensorType>> = Result<T, String>;

/// An axis of an argument.
#[derive(Clone, Copy)]
struct ArgAxis {
    arg: usize,
    axis: usize,
}

fn at(arg: usize, axis: usize) -> ArgAxis {
    ArgAxis { arg, axis }
}

/// The inference of one operator.
struct Inference<'a> {
    args: &'a [&'a TensorType],
    assumptions: Vec<Assumption>,
}

impl<'a> Inference<'a> {
    fn types(&mut self, op: &Op) -> Inferred {
        match op {
            Op::Unary(f) => self.unary(*f),
            Op::Binary(f) => self.binary(*f),
            Op::Where => self.choose(),
            Op::Cast(dtype) => self.cast(*dtype),
            Op::Reduce { kind, axes, keep_dims: true } => {
                self.reduce(*kind, axes, elementwise::ones)
            }
            Op::Reduce { kind, axes, keep_dims: false } => {
                self.reduce(*kind, axes, elementwise::without)
            }
            Op::ArgReduce { axis, keep_dims: true, .. } => {
                self.arg_reduce(*axis, elementwise::ones)
            }
            Op::ArgReduce { axis, keep_dims: false, .. } => {
                self.arg_reduce(*axis, elementwise::without)
            }
            Op::Bitcast(dtype) => self.bitcast(*dtype),
            Op::Scan { axis, .. } => self.scan(*axis),
            Op::MatMul => self.matmul(same_number),
            Op::MatMulInteger => self.matmul(sum_of_bytes),
            Op::MatMulNBits(codes) => self.matmul_nbits(*codes),
            Op::Conv(conv) => self.conv(conv, same_number),
            Op::ConvInteger(conv) => self.conv(conv, sum_of_bytes),
            Op::ConvTranspose { conv, output_padding } => self.conv_transpose(conv, output_padding),
            Op::Pool(pool) => self.pool(pool),
            Op::Softmax { axis, .. } => self.softmax(*axis),
            Op::LayerNorm { axis, .. } => self.layer_norm(*axis),
            Op::Reshape(shape) => self.reshape(shape),
            Op::Transpose(perm) => self.transpose(perm),
            Op::Broadcast(shape) => self.broadcast_to(shape),
            Op::Concat { axis } => self.concat(*axis),
            Op::Slice { begin, shape: extent, stride } => self.slice(begin, extent, stride),
            Op::Pad { before, after, .. } => self.pad(before, after),
            Op::Gather { kind, .. } => self.gather(kind),
            Op::Scatter { kind, .. } => self.scatter(kind),
            Op::Resize(resize) => self.resize(resize),
            Op::TopK { axis, k, .. } => self.top_k(*axis, k),
            Op::Iota { count } => self.iota(count),
            Op::Dims { values, scalar: true } => self.dim(values),
            Op::Dims { values, scalar: false } => self.dims(values),
            Op::Rnn(rnn) => self.rnn(rnn),
            Op::Registered(op) => self.registered(op),
        }
    }

    /// The arguments, when there are between `least` and `most`.
    fn expect(&self, least: usize, most: usize) -> Inferred<&'a [&'a TensorType]> {
        let count = self.args.len();
        if (least..=most).contains(&count) {
            return Ok(self.args);
        }
        let range = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        Err(format!("takes {range} arguments, not {count}"))
    }

    /// The types that the operator's own rule gave when the call was made.
    fn registered(&mut self, op: &RegisteredOp) -> Inferred {
        self.expect(op.operands.len(), op.operands.len())?;
        for ((dtype, rank), arg) in op.operands.iter().zip(self.args) {
            if (*dtype, *rank) != (arg.dtype, arg.shape.len()) {
                return Err(format!("it was made for an operand of {dtype} and rank {rank}"));
            }
        }
        let ty = |(dtype, shape): &(DType, Vec<Expr>)| TensorType::new(*dtype, shape.clone());
        Ok(op.results.iter().map(ty).collect())
    }

    /// The only argument.
    fn one(&self) -> Inferred<&'a TensorType> {
        Ok(self.expect(1, 1)?[0])
    }

    /// Makes two dimensions agree: provably, or by assuming it of one of them.
    fn unify(&mut self, a: ArgAxis, b: ArgAxis) -> Inferred<Expr> {
        let dim = |at: ArgAxis| &self.args[at.arg].shape[at.axis];
        let (x, y) = (dim(a), dim(b));
        match dims::equal(x, y) {
            Some(true) => Ok(x.clone()),
            Some(false) => Err(format!("dimensions {x:?} and {y:?} differ")),
            None => {
                let (kept, assumed) = if y.as_int().is_some() { (y, a) } else { (x, b) };
                let kept = kept.clone();
                let ArgAxis { arg, axis } = assumed;
                self.assumptions.push(Assumption { arg, axis, dim: kept.clone() });
                Ok(kept)
            }
        }
    }

    /// Makes a dimension of an argument a given value.
    fn require(&mut self, arg: usize, axis: usize, dim: &Expr) -> Inferred<()> {
        let found = &self.args[arg].shape[axis];
        match dims::equal(found, dim) {
            Some(true) => Ok(()),
            Some(false) => {
                Err(format!("dimension {axis} of argument {arg} is {found:?}, not {dim:?}"))
            }
            None => {
                self.assumptions.push(Assumption { arg, axis, dim: dim.clone() });
                Ok(())
            }
        }
    }

    /// Broadcast of some arguments' shapes, each without its last `skip` axes.
    fn broadcast(&mut self, which: &[usize], skip: usize) -> Inferred<Vec<Expr>> {
        let rank_of = |arg: usize| self.args[arg].shape.len() - skip;
        let rank = which.iter().map(|arg| rank_of(*arg)).max().unwrap_or(0);
        let mut shape = Vec::with_capacity(rank);
        for axis in 0..rank {
            let mut kept: Option<ArgAxis> = None;
            for &arg in which {
                let own = self.args[arg].shape.len() - skip;
                let Some(own) = (axis + own).checked_sub(rank) else { continue };
                let dim = &self.args[arg].shape[own];
                let here = at(arg, own);
                kept = match kept {
                    None => Some(here),
                    Some(_) if dim.as_int() == Some(1) => kept,
                    Some(at) if self.args[at.arg].shape[at.axis].as_int() == Some(1) => Some(here),
                    Some(old) => {
                        self.unify(old, here)?;
                        let known = dim.as_int().is_some();
                        if known { Some(here) } else { Some(old) }
                    }
                };
            }
            let found = kept.expect("an argument has the axis");
            shape.push(self.args[found.arg].shape[found.axis].clone());
        }
        Ok(shape)
    }
}

fn float(dtype: DType) -> Inferred<()> {
    if dtype.is_float() { Ok(()) } else { Err(format!("needs a floating-point type, not {dtype}")) }
}

fn integer(dtype: DType) -> Inferred<()> {
    let fine = dtype.is_int() || dtype.is_uint();
    if fine { Ok(()) } else { Err(format!("needs an integer type, not {dtype}")) }
}

fn boolean(dtype: DType) -> Inferred<()> {
    if dtype.is_bool() { Ok(()) } else { Err(format!("needs bool, not {dtype}")) }
}

fn number(dtype: DType) -> Inferred<()> {
    let fine = dtype.is_float() || dtype.is_int() || dtype.is_uint();
    if fine { Ok(()) } else { Err(format!("needs a number type, not {dtype}")) }
}

fn index_type(dtype: DType) -> Inferred<()> {
    let fine = dtype == DType::I64 || dtype == DType::I32;
    if fine { Ok(()) } else { Err(format!("indices are int32 or int64, not {dtype}")) }
}

fn same_type(a: &TensorType, b: &TensorType) -> Inferred<DType> {
    if a.dtype == b.dtype {
        return Ok(a.dtype);
    }
    Err(format!("element types {} and {} differ", a.dtype, b.dtype))
}

/// The element type of sums over products of two operands.
type SumType = fn(&TensorType, &TensorType) -> Inferred<DType>;

/// That of both operands.
fn same_number(a: &TensorType, b: &TensorType) -> Inferred<DType> {
    let dtype = same_type(a, b)?;
    number(dtype).map(|()| dtype)
}

/// int32, of 8-bit integers.
fn sum_of_bytes(a: &TensorType, b: &TensorType) -> Inferred<DType> {
    match [a, b].into_iter().find(|t| !matches!(t.dtype, DType::U8 | DType::I8)) {
        Some(t) => Err(format!("needs 8-bit integers, not {}", t.dtype)),
        None => Ok(DType::I32),
    }
}

fn axis_of(t: &TensorType, axis: usize) -> Inferred<usize> {
    if axis < t.shape.len() {
        return Ok(axis);
    }
    Err(format!("axis {axis} of a tensor of rank {}", t.shape.len()))
}

/// A dimension in canonical form; a negative number is refused.
fn canonical_dim(dim: &Expr) -> Inferred<Expr> {
    let dim = dims::simplify(dim);
    match dim.as_int() {
        Some(value) if value < 0 => Err(format!("an extent would be {value}")),
        _ => Ok(dim),
    }
}

fn canonical_shape(shape: &[Expr]) -> Inferred<Vec<Expr>> {
    shape.iter().map(canonical_dim).collect()
}

impl fmt::Display for TensorType {
    /// `float32[2, v0]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests;

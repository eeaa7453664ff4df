//! Dynamic quantization (precision `int8`): matrix multiplications of float32 by constant weights as
//! products of 8-bit integers.
//!
//! ```text
//! most[.., 1] = max |x[.., k]|                        over a row
//! q[.., k] = uint8(round(x[.., k] * 127 / most) + 128)
//! y[.., n] = (int32(q w)[.., n] - 128 * total[n]) * (most * (scale[n] / 127))
//! ```
//! where `w` is int8 with a scale for each column, symmetric, and `total` the sum of a column. Rows have
//! a scale of their own, so that what a row means does not depend on others. Weights that are codes
//! already stay so, and only activations are rounded ([`Op::MatMulNBits`]).
//!
//! Source: Dettmers et al., "LLM.int8()" (2022), vector-wise quantization; the scheme is that of PyTorch's and ONNX Runtime's
//! dynamic quantization, with scales for rows as OpenVINO has them for groups.
//!
//! Decision: docs/decisions/0096-precision-int8.md

use std::collections::HashMap;
use std::sync::Arc;

use reflex_graph::{
    Activations, Binary, Binding, Body, CodeMeaning, Const, DepthAxis, Func, Literal, Module,
    NBits, Node, Op, Value,
};
use reflex_tir::DType;

use super::edit::{Emitter, constants, each_func};
use super::rounded_rows::{TINY, has_rows, rounded_rows};
use crate::LowerError;

/// Fewest columns and elements of a column: smaller products cost no more in float32.
const LEAST: [i64; 2] = [16, 32];
/// Most elements of a column, whose sum of products fits into an int32.
const MAX_DEPTH: i64 = 33_000;
/// The greatest magnitude of rounded elements.
const GREATEST: f32 = 127.0;
/// The zero point of rounded rows.
const ZERO_POINT: i32 = 128;

/// Rounds operands of matrix multiplications by constants to 8 bits.
pub fn quantize_dynamically(module: &mut Module) -> Result<(), LowerError> {
    let mut weights = HashMap::new();
    each_func(module, |module, func| {
        let body = std::mem::take(&mut func.body);
        let known = constants(&body);
        let mut pass = Pass { module, func, known, weights: &mut weights };
        let body = pass.body(body)?;
        func.body = body;
        Ok(())
    })
}

/// Weights as integers, `[k, n]`, and by column their scale over [`GREATEST`] and 128 times their sum.
type Quantized = [Literal; 3];

struct Pass<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    known: HashMap<Value, Const>,
    /// Weights by the constant that they were; `None` for those that stay.
    weights: &'a mut HashMap<Const, Option<Quantized>>,
}

/// Rows in integers, and the number that [`GREATEST`] stands for in each.
#[derive(Clone, Copy)]
struct RoundedRows {
    q: Value,
    most: Value,
}

impl Pass<'_> {
    fn body(&mut self, mut body: Body) -> Result<Body, LowerError> {
        let mut rounded = HashMap::new();
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                *nested = self.body(std::mem::take(nested))?;
            }
            match &mut binding.node {
                Node::Op { op: Op::MatMulNBits(codes), .. } => {
                    codes.activations = Activations::Int8;
                }
                Node::Op { op: Op::MatMul, args } => {
                    let [x, w] = args[..] else { unreachable!("a product has two operands") };
                    if let Some(constant) = self.known.get(&w).copied() {
                        let product = (binding.source.as_str(), [x, binding.outputs[0]]);
                        if self.codes(constant, product, &mut body)?
                            || self.integers(constant, product, &mut rounded, &mut body)?
                        {
                            continue;
                        }
                    }
                }
                _ => {}
            }
            body.bindings.push(binding);
        }
        Ok(body)
    }

    /// Writes the product of x by a constant of codes; false where it is none.
    fn codes(
        &mut self,
        constant: Const,
        (source, [x, y]): (&str, [Value; 2]),
        body: &mut Body,
    ) -> Result<bool, LowerError> {
        let parts = parts_of_codes(&self.module.consts[constant]);
        let Some((codes, parts)) = parts.filter(|_| has_rows(self.func, x)) else {
            return Ok(false);
        };
        let mut emit = Emitter { module: self.module, func: self.func, source, body };
        let mut args = vec![x];
        args.extend(parts.into_iter().map(|part| emit.constant(part)));
        let node = Node::Op { op: Op::MatMulNBits(codes), args };
        body.bindings.push(Binding { outputs: vec![y], node, source: source.to_owned() });
        Ok(true)
    }

    /// Writes the product of x by a constant of floats; false where it stays one of floats.
    fn integers(
        &mut self,
        constant: Const,
        (source, [x, y]): (&str, [Value; 2]),
        rounded: &mut HashMap<Value, RoundedRows>,
        body: &mut Body,
    ) -> Result<bool, LowerError> {
        if !has_rows(self.func, x) {
            return Ok(false);
        }
        let module = &*self.module;
        let weights =
            self.weights.entry(constant).or_insert_with(|| quantized(&module.consts[constant]));
        let Some([w, scale, total]) = weights.clone() else { return Ok(false) };
        let mut emit = Emitter { module: self.module, func: self.func, source, body };
        let rows = match rounded.get(&x) {
            Some(rows) => *rows,
            None => *rounded.entry(x).or_insert(round_rows(&mut emit, x)?),
        };
        let [w, scale, total] = [w, scale, total].map(|part| emit.constant(part));
        let sum = emit.op(Op::MatMulInteger, &[rows.q, w])?;
        let sum = emit.op(Op::Binary(Binary::Sub), &[sum, total])?;
        let sum = emit.op(Op::Cast(DType::F32), &[sum])?;
        let scale = emit.op(Op::Binary(Binary::Mul), &[rows.most, scale])?;
        let node = Node::Op { op: Op::Binary(Binary::Mul), args: vec![sum, scale] };
        body.bindings.push(Binding { outputs: vec![y], node, source: source.to_owned() });
        Ok(true)
    }
}

/// Rows of float32 as integers.
fn round_rows(emit: &mut Emitter<'_>, x: Value) -> Result<RoundedRows, LowerError> {
    let [moved, most] = rounded_rows(emit, x, [GREATEST, ZERO_POINT as f32])?;
    let q = emit.op(Op::Cast(DType::U8), &[moved])?;
    Ok(RoundedRows { q, most })
}

/// Weights `[k, n]` of float32 as integers; `None` for others, small ones, and those that are not finite.
fn quantized(weights: &Literal) -> Option<Quantized> {
    let &[depth, columns] = weights.shape() else { return None };
    let fits = columns >= LEAST[0] && (LEAST[1]..=MAX_DEPTH).contains(&depth);
    let codes = weights.as_block_quantized().is_some_and(|(codes, _)| !codes.is_by_columns());
    if weights.dtype() != DType::F32 || codes || !fits {
        return None;
    }
    let (elements, _) = weights.bytes().as_chunks::<4>();
    let width = usize::try_from(columns).ok()?;
    let rows =
        || elements.chunks_exact(width).map(|row| row.iter().map(|b| f32::from_le_bytes(*b)));
    let mut most = vec![0f32; width];
    for row in rows() {
        for (most, w) in most.iter_mut().zip(row) {
            if !w.is_finite() {
                return None;
            }
            *most = most.max(w.abs());
        }
    }
    let inverse: Vec<f32> = most.iter().map(|most| GREATEST / most.max(TINY)).collect();
    let scale: Vec<f32> = most.iter().map(|most| most.max(TINY) / GREATEST / GREATEST).collect();
    let mut bytes = Vec::with_capacity(elements.len());
    let mut total = vec![0i32; width];
    for row in rows() {
        for ((w, inverse), total) in row.zip(&inverse).zip(&mut total) {
            let q = (w * inverse).round_ties_even() as i8;
            *total += ZERO_POINT * i32::from(q);
            bytes.push(q.cast_unsigned());
        }
    }
    let total: Vec<u8> = total.iter().flat_map(|t| t.to_le_bytes()).collect();
    Some([
        Literal::new(DType::I8, vec![depth, columns], Arc::new(bytes))?,
        Literal::from_f32(vec![columns], &scale),
        Literal::new(DType::I32, vec![columns], Arc::new(total))?,
    ])
}

/// Weights `[k, n]` of codes as the operands of [`Op::MatMulNBits`]; `None` for others.
fn parts_of_codes(weights: &Literal) -> Option<(NBits, Vec<Literal>)> {
    let (matrix, DepthAxis::First) = weights.as_block_quantized()? else { return None };
    if matrix.is_by_columns() {
        return None;
    }
    let [columns, blocks, bits, block] =
        [matrix.columns, matrix.blocks(), matrix.bits, matrix.block].map(|n| n as i64);
    let codes = NBits { bits, block, activations: Activations::Int8 };
    let zero = |zero: &f32| {
        let whole = zero.trunc() == *zero && (0.0..256.0).contains(zero);
        whole.then_some(*zero as u8)
    };
    let zeros = match &matrix.meaning {
        CodeMeaning::Centred(z) => vec![zero(z)?; matrix.columns * matrix.blocks()],
        CodeMeaning::CentredByBlock(zeros) => zeros.iter().map(zero).collect::<Option<_>>()?,
        CodeMeaning::Table(_) => return None,
    };
    if !codes.is_valid() || matrix.dtype != DType::F32 {
        return None;
    }
    let shape = vec![columns, blocks];
    let parts = vec![
        matrix.codes.reshaped(vec![columns, blocks, codes.bytes()])?,
        Literal::from_f32(shape.clone(), &matrix.scales),
        Literal::new(DType::U8, shape, Arc::new(zeros))?,
    ];
    Some((codes, parts))
}

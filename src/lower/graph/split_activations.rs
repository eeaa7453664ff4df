//! Matrix multiplications of float32 by constant weights of 8-bit codes with a scale for each column, as
//! products of 8-bit integers that lose no more than float32's own do: the Ozaki scheme.
//!
//! ```text
//! most[.., 1] = max |x[.., k]|                         over a row
//! q[.., k] = round(x[.., k] * 2^23 / most) + 2^23      24 bits, in three slices of 8:
//! slice[p, .., k] = uint8(q[.., k] >> 8 p)
//! sum[p, .., n] = int32(slice[p] w)[.., n]             exact
//! y[.., n] = (sum[0] + sum[1] * 2^8 + (sum[2] - 2^7 total)[n] * 2^16) * (most / 2^23 * scale[n])
//! ```
//! where `w` are the codes without their zero point, as int8, and `total` the sum of a column. An element is
//! rounded to 2^-24 of its row's greatest magnitude; the products and their sums over the depth are exact. A row that
//! has an element that is not finite is NaN.
//!
//! Three products of integers are faster than one of floats where the CPU has dot products of 8-bit integers:
//! these take a fourth of the time, and those of AMX tiles a sixteenth.
//!
//! Source: Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix multiplication by using fast
//! routines of matrix multiplication" (2012); Ootomo, Ozaki and Yokota, "DGEMM on integer matrix multiplication
//! unit" (2024), for slices of integers.
//!
//! Decision: docs/decisions/0118-split-activations.md

use std::collections::HashMap;
use std::sync::Arc;

use reflex_graph::{
    Binary, BlockQuantized, Body, CodeMeaning, Const, DepthAxis, Func, Literal, Module, Node, Op,
    ReduceKind, Value,
};
use reflex_tir::DType;

use super::edit::{Emitter, constants, each_func};
use super::rounded_rows::{has_rows, rounded_rows};
use crate::LowerError;

/// Slices of an element.
const SLICES: usize = 3;
/// Bits of a slice.
const BITS: i32 = 8;
/// The number that is added so that none is negative.
const ZERO_POINT: f32 = (1 << 23) as f32;
/// The greatest magnitude of an element in integers. A scaled element is two roundings off, which is less than 2.
const GREATEST: f32 = ((1 << 23) - 2) as f32;
/// Most elements of a column: sums of products of uint8 by int8 fit into an int32.
const MAX_DEPTH: usize = 65_000;
/// Rows and columns of weights that change places at once.
const SQUARE: usize = 64;

/// Splits operands of matrix multiplications by constants of 8-bit codes.
pub fn split_activations(module: &mut Module) -> Result<(), LowerError> {
    let mut weights = HashMap::new();
    each_func(module, |module, func| {
        let body = std::mem::take(&mut func.body);
        let known = constants(&body);
        let mut pass = Pass { module, func, known, weights: &mut weights };
        func.body = pass.body(body)?;
        Ok(())
    })
}

/// Weights `[k, n]` as int8; what is taken off the sums of each slice, `[slices, n]`; and the scale of a column over
/// [`GREATEST`].
type Codes = [Literal; 3];

/// The slices of rows, and the number that [`GREATEST`] stands for in each row.
#[derive(Clone, Copy)]
struct Split {
    slices: Value,
    most: Value,
}

struct Pass<'a> {
    module: &'a mut Module,
    func: &'a mut Func,
    known: HashMap<Value, Const>,
    /// Weights by the constant that they were; `None` for those that stay.
    weights: &'a mut HashMap<Const, Option<Codes>>,
}

impl Pass<'_> {
    fn body(&mut self, mut body: Body) -> Result<Body, LowerError> {
        let mut split = HashMap::new();
        for mut binding in std::mem::take(&mut body.bindings) {
            for nested in binding.node.bodies_mut() {
                *nested = self.body(std::mem::take(nested))?;
            }
            if let Node::Op { op: Op::MatMul, args } = &binding.node {
                let [x, w] = args[..] else { unreachable!("a product has two operands") };
                if let Some(codes) = self.codes(x, w) {
                    let y = binding.outputs[0];
                    let source = &binding.source;
                    let last = self.product([x, y], codes, &mut split, source, &mut body)?;
                    binding.node = last;
                }
            }
            body.bindings.push(binding);
        }
        Ok(body)
    }

    /// The weights of a product that is one of integers.
    fn codes(&mut self, x: Value, w: Value) -> Option<Codes> {
        let constant = *self.known.get(&w).filter(|_| has_rows(self.func, x))?;
        let module = &*self.module;
        let codes = || signed_codes(module.consts[constant].as_block_quantized()?);
        self.weights.entry(constant).or_insert_with(codes).clone()
    }

    /// Writes the product, and returns its last operator.
    fn product(
        &mut self,
        [x, y]: [Value; 2],
        codes: Codes,
        split: &mut HashMap<Value, Split>,
        source: &str,
        body: &mut Body,
    ) -> Result<Node, LowerError> {
        let rank = self.func.tensor(y).shape.len();
        let mut emit = Emitter { module: self.module, func: self.func, source, body };
        let rows = match split.get(&x) {
            Some(rows) => *rows,
            None => *split.entry(x).or_insert(split_rows(&mut emit, x)?),
        };
        let [w, total, scale] = codes;
        let mut by_slice = vec![1; rank + 1];
        (by_slice[0], by_slice[rank]) = (SLICES as i64, total.shape()[1]);
        let total = total.reshaped(by_slice.clone()).expect("the same elements");
        by_slice[rank] = 1;
        let place: [f32; SLICES] = std::array::from_fn(|p| (1u32 << (BITS * p as i32)) as f32);
        let place = Literal::from_f32(by_slice, &place);
        let [w, total, scale, place] = [w, total, scale, place].map(|part| emit.constant(part));
        let sum = emit.op(Op::MatMulInteger, &[rows.slices, w])?;
        let sum = emit.op(Op::Binary(Binary::Sub), &[sum, total])?;
        let sum = emit.op(Op::Cast(DType::F32), &[sum])?;
        let sum = emit.op(Op::Binary(Binary::Mul), &[sum, place])?;
        let kind = ReduceKind::Sum;
        let sum = emit.op(Op::Reduce { kind, axes: vec![0], keep_dims: false }, &[sum])?;
        let scale = emit.op(Op::Binary(Binary::Mul), &[rows.most, scale])?;
        Ok(Node::Op { op: Op::Binary(Binary::Mul), args: vec![sum, scale] })
    }
}

/// Rows in slices, which are a new first axis.
fn split_rows(emit: &mut Emitter<'_>, x: Value) -> Result<Split, LowerError> {
    let rank = emit.func.tensor(x).shape.len();
    let [moved, most] = rounded_rows(emit, x, [GREATEST, ZERO_POINT])?;
    let shifts: Vec<u8> = (0..SLICES as i32).flat_map(|p| (BITS * p).to_le_bytes()).collect();
    let mut by_slice = vec![1; rank + 1];
    by_slice[0] = SLICES as i64;
    let shifts = Literal::new(DType::I32, by_slice, Arc::new(shifts)).expect("a shift for each");
    let shifts = emit.constant(shifts);
    let q = emit.op(Op::Cast(DType::I32), &[moved])?;
    let shifted = emit.op(Op::Binary(Binary::Shr), &[q, shifts])?;
    let slices = emit.op(Op::Cast(DType::U8), &[shifted])?;
    // Infinity less infinity is no number, and anything else stays as it is.
    let nothing = emit.op(Op::Binary(Binary::Sub), &[most, most])?;
    let most = emit.op(Op::Binary(Binary::Add), &[most, nothing])?;
    Ok(Split { slices, most })
}

/// Codes without their zero points as int8; `None` where one does not fit, and for other constants.
fn signed_codes((matrix, axis): (&BlockQuantized, DepthAxis)) -> Option<Codes> {
    let (columns, depth) = (matrix.columns, matrix.depth);
    let fits = matrix.is_by_columns() && matrix.dtype == DType::F32 && depth <= MAX_DEPTH;
    if !fits || axis != DepthAxis::First {
        return None;
    }
    // A column's codes lie one after the other, behind them those that fill up its block.
    let codes: Vec<&[u8]> =
        matrix.codes.bytes().chunks_exact(matrix.block).map(|column| &column[..depth]).collect();
    let mut zeros = Vec::with_capacity(columns);
    let mut total = vec![0i32; SLICES * columns];
    for (column, codes) in codes.iter().enumerate() {
        let zero = match &matrix.meaning {
            CodeMeaning::Centred(zero) => *zero,
            CodeMeaning::CentredByBlock(zeros) => zeros[column],
            CodeMeaning::Table(_) => return None,
        };
        let whole = zero as i32;
        let range = [codes.iter().min()?, codes.iter().max()?].map(|c| i32::from(*c) - whole);
        if whole as f32 != zero || range.iter().any(|n| i8::try_from(*n).is_err()) {
            return None;
        }
        zeros.push(whole as u8);
        let sum = codes.iter().map(|c| i32::from(*c)).sum::<i32>() - whole * depth as i32;
        total[(SLICES - 1) * columns + column] = sum << (BITS - 1);
    }
    let mut signed = vec![0u8; depth * columns];
    // Square by square: what is read and what is written stays in the first-level cache.
    for first in (0..columns).step_by(SQUARE) {
        let some = || codes.iter().zip(&zeros).skip(first).take(SQUARE).enumerate();
        for (part, rows) in signed.chunks_mut(SQUARE * columns).enumerate() {
            for (n, (codes, zero)) in some() {
                let codes = &codes[part * SQUARE..];
                for (row, code) in rows.chunks_exact_mut(columns).zip(codes) {
                    row[first + n] = code.wrapping_sub(*zero);
                }
            }
        }
    }
    let total: Vec<u8> = total.iter().flat_map(|t| t.to_le_bytes()).collect();
    let scale: Vec<f32> = matrix.scales.iter().map(|scale| scale / GREATEST).collect();
    let [depth, columns] = [depth, columns].map(|n| n as i64);
    Some([
        Literal::new(DType::I8, vec![depth, columns], Arc::new(signed))?,
        Literal::new(DType::I32, vec![SLICES as i64, columns], Arc::new(total))?,
        Literal::from_f32(vec![columns], &scale),
    ])
}

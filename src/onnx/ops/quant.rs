//! Quantisation: conversions, and integer matrix multiplication and convolution in exact int32
//! arithmetic.

use std::rc::Rc;

use reflex_graph::{Binary, ReduceKind, Unary, dims};
use reflex_tir::{DType, Expr};

use super::integer_products::{Quantised, int_conv, int_matmul};
use super::packed_weights::dequantized_blocks;
use super::table::{Table, all, one};
use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::moved_integers::quantised_again;
use crate::narrow::{Conversion, carrier};
use crate::tensor::{dtype, supported};
use crate::value::{Dequantised, OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize),
];

/// The range of an 8- or 16-bit integer type.
pub(super) fn range(to: DType) -> Result<(f64, f64)> {
    match to {
        DType::U8 => Ok((0.0, 255.0)),
        DType::I8 => Ok((-128.0, 127.0)),
        DType::U16 => Ok((0.0, 65535.0)),
        DType::I16 => Ok((-32768.0, 32767.0)),
        _ if carrier(to).is_some() && to.is_uint() => {
            Ok((0.0, 2f64.powi(i32::from(to.bits)) - 1.0))
        }
        _ if carrier(to).is_some() && to.is_int() => {
            let half = 2f64.powi(i32::from(to.bits) - 1);
            Ok((-half, half - 1.0))
        }
        other => Err(unsupported(format!("quantisation to {other}"))),
    }
}

/// A scale or zero point laid along the axes of `x`: one number, one per index of an axis, or
/// one per block of an axis.
fn laid_out(cx: &mut ImportContext, call: &Call, p: &Tensor, x: &Tensor) -> Result<Tensor> {
    let block = call.int("block_size", 0)?;
    let given = call.int("axis", 1)?;
    if p.rank() == 0 || p.rank() == 1 && p.count() == Some(1) {
        return cx.reshape(p, &[]);
    }
    let at = axis(given, x.rank())?;
    if p.rank() == 1 && block == 0 {
        let mut shape = vec![Expr::i64(1); x.rank()];
        shape[at] = p.shape()[0].clone();
        return cx.reshape(p, &shape);
    }
    if block <= 0 || p.rank() != x.rank() {
        return Err(invalid(format!("scale {} for {} with block_size {block}", p.ty, x.ty)));
    }
    by_blocks(cx, p, at, block, x)
}

/// Each number of an axis `block` times, as long as that axis of `like`.
pub(super) fn by_blocks(
    cx: &mut ImportContext,
    p: &Tensor,
    at: usize,
    block: i64,
    like: &Tensor,
) -> Result<Tensor> {
    let apart = cx.unsqueeze(p, &[at + 1])?;
    let mut wide = apart.shape().to_vec();
    wide[at + 1] = Expr::i64(block);
    let wide = cx.broadcast(&apart, &wide)?;
    let mut shape = p.shape().to_vec();
    shape[at] = dims::simplify(&(shape[at].clone() * block));
    let merged = cx.reshape(&wide, &shape)?;
    cx.slice(&merged, at, &Expr::i64(0), &like.shape()[at])
}

/// `(x - zero) * scale` in float32, of parameters that broadcast to `x`.
pub(super) fn scaled_steps(
    cx: &mut ImportContext,
    x: &Tensor,
    zero: Option<&Tensor>,
    scale: &Tensor,
) -> Result<Tensor> {
    let exact = if x.dtype().is_float() { DType::F32 } else { DType::I32 };
    let mut wide = cx.cast(x, exact)?;
    if let Some(zero) = zero {
        let zero = cx.cast(zero, exact)?;
        wide = cx.sub(&wide, &zero)?;
    }
    let steps = cx.cast(&wide, DType::F32)?;
    let scale = cx.cast(scale, DType::F32)?;
    cx.mul(&steps, &scale)
}

pub(super) fn dequantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let to = match call.int("output_dtype", 0)? {
        0 => scale.dtype(),
        code => dtype(i32::try_from(code).unwrap_or(0))?,
    };
    if let Some(packed) = packed_blocks(call, x, scale, to)? {
        return one(packed);
    }
    let zero = call.opt(2)?.map(|zero| laid_out(cx, call, zero, x)).transpose()?;
    let wide_scale = laid_out(cx, call, scale, x)?;
    let y = scaled_steps(cx, x, zero.as_ref(), &wide_scale)?;
    let mut y = cx.cast(&y, to)?;
    let bytes = matches!(x.dtype(), DType::U8 | DType::I8) && scale.rank() <= 1;
    if bytes && y.dtype() == DType::F32 && call.int("block_size", 0)? == 0 {
        let axis =
            if x.rank() == 0 { 0 } else { axis(call.int("axis", 1)?, x.rank()).unwrap_or(0) };
        let (x, scale, zero_point) = (x.clone(), scale.clone(), call.opt(2)?.cloned());
        y.dequantised = Some(Rc::new(Dequantised { x, scale, zero_point, axis }));
    }
    one(y)
}

/// A constant matrix in blocks, which stays packed.
fn packed_blocks(call: &Call, x: &Tensor, scale: &Tensor, to: DType) -> Result<Option<Tensor>> {
    let block = call.int("block_size", 0)?;
    if block <= 0 || x.rank() != 2 {
        return Ok(None);
    }
    let at = axis(call.int("axis", 1)?, x.rank())?;
    Ok(dequantized_blocks(x, [Some(scale), call.opt(2)?], at, block, to))
}

pub(super) fn quantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let saturate = call.flag_or_true("saturate")?;
    let declared = match call.int("output_dtype", 0)? {
        0 => DType::U8,
        code => dtype(i32::try_from(code).unwrap_or(0))?,
    };
    if call.int("precision", 0)? > 1 {
        return Err(unsupported("attribute `precision`"));
    }
    let zero = call.opt(2)?;
    let to = zero.map_or(declared, Tensor::dtype);
    if let Some(integers) = quantised_again(x, scale, zero, to) {
        return one(integers);
    }
    let scale = laid_out(cx, call, scale, x)?;
    let (x, scale) = (cx.cast(x, DType::F32)?, cx.cast(&scale, DType::F32)?);
    let steps = cx.div(&x, &scale)?;
    let zero = match zero {
        Some(zero) => Some(laid_out(cx, call, zero, &x)?),
        None => None,
    };
    if to.is_float() {
        // The zero point of an 8-bit float is zero.
        let steps = match zero.filter(|_| to.bits < 8) {
            Some(zero) => {
                let zero = cx.cast(&zero, steps.dtype())?;
                cx.add(&steps, &zero)?
            }
            None => steps,
        };
        let how = Conversion { saturate, ..Conversion::DEFAULT };
        return one(cx.narrow_cast(&steps, supported(to)?, how)?);
    }
    one(rounded(cx, &steps, zero.as_ref(), to)?)
}

/// `saturate(round(steps) + zero)`; sums of 16-bit numbers are exact in f32.
pub(super) fn rounded(
    cx: &mut ImportContext,
    steps: &Tensor,
    zero: Option<&Tensor>,
    to: DType,
) -> Result<Tensor> {
    let (low, high) = range(to)?;
    let mut y = cx.unary(Unary::Round, steps)?;
    if let Some(zero) = zero {
        let zero = cx.cast(zero, y.dtype())?;
        y = cx.add(&y, &zero)?;
    }
    let y = cx.binary_num(Binary::Max, &y, low)?;
    let y = cx.binary_num(Binary::Min, &y, high)?;
    cx.cast(&y, to)
}

fn dynamic_quantize(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    all(dynamically_quantized(cx, call.input(0)?)?.into())
}

/// A tensor in uint8 over its own range, with its scale and zero point.
pub(super) fn dynamically_quantized(cx: &mut ImportContext, x: &Tensor) -> Result<[Tensor; 3]> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    let most = cx.reduce(ReduceKind::Max, x, &axes)?;
    let least = cx.reduce(ReduceKind::Min, x, &axes)?;
    let most = cx.binary_num(Binary::Max, &most, 0.0)?;
    let least = cx.binary_num(Binary::Min, &least, 0.0)?;
    let span = cx.sub(&most, &least)?;
    let scale = cx.binary_num(Binary::Div, &span, 255.0)?;
    let offset = cx.div(&least, &scale)?;
    let offset = cx.unary(Unary::Neg, &offset)?;
    let zero = rounded(cx, &offset, None, DType::U8)?;
    let steps = cx.div(x, &scale)?;
    let y = rounded(cx, &steps, Some(&zero), DType::U8)?;
    Ok([y, scale, zero])
}

fn matmul_integer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let a = Quantised { x: call.input(0)?, zero_point: call.opt(2)? };
    let b = Quantised { x: call.input(1)?, zero_point: call.opt(3)? };
    one(int_matmul(cx, a, b)?)
}

fn conv_integer(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = Quantised { x: call.input(0)?, zero_point: call.opt(2)? };
    let w = Quantised { x: call.input(1)?, zero_point: call.opt(3)? };
    one(int_conv(cx, call, x, w, None)?)
}

/// An int32 accumulator in a new scale.
pub(super) fn requantized(
    cx: &mut ImportContext,
    sum: &Tensor,
    scales: [&Tensor; 3],
    zero: &Tensor,
) -> Result<Tensor> {
    let [a, b, y] = scales;
    let ratio = cx.mul(a, b)?;
    let ratio = cx.div(&ratio, y)?;
    let ratio = cx.cast(&ratio, DType::F32)?;
    let wide = cx.cast(sum, DType::F32)?;
    let steps = cx.mul(&wide, &ratio)?;
    rounded(cx, &steps, Some(zero), zero.dtype())
}

fn qlinear_matmul(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let [a, a_scale, a_zero] = [call.input(0)?, call.input(1)?, call.input(2)?];
    let [b, b_scale, b_zero] = [call.input(3)?, call.input(4)?, call.input(5)?];
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    if a_scale.rank() > 1 || a_scale.count() != Some(1) || y_scale.count() != Some(1) {
        return Err(unsupported("scales per row"));
    }
    let a_scale = cx.reshape(a_scale, &[])?;
    let y_scale = cx.reshape(y_scale, &[])?;
    let y_zero = cx.reshape(y_zero, &[])?;
    let a = Quantised { x: a, zero_point: Some(a_zero) };
    let b = Quantised { x: b, zero_point: Some(b_zero) };
    let sum = int_matmul(cx, a, b)?;
    one(requantized(cx, &sum, [&a_scale, b_scale, &y_scale], &y_zero)?)
}

fn qlinear_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    one(qlinear_conv_of(cx, call, call.input(0)?)?)
}

/// The call's convolution of `x`, which stands for its input 0.
pub(super) fn qlinear_conv_of(cx: &mut ImportContext, call: &Call, x: &Tensor) -> Result<Tensor> {
    let [x_scale, x_zero] = [call.input(1)?, call.input(2)?];
    let [w, w_scale, w_zero] = [call.input(3)?, call.input(4)?, call.input(5)?];
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    let inputs = Quantised { x, zero_point: Some(x_zero) };
    let weights = Quantised { x: w, zero_point: Some(w_zero) };
    let sum = int_conv(cx, call, inputs, weights, call.opt(8)?)?;
    let w_scale = match w_scale.count() {
        Some(1) => cx.reshape(w_scale, &[])?,
        _ => {
            let mut shape = vec![Expr::i64(1); x.rank() - 1];
            shape[0] = w_scale.shape()[0].clone();
            cx.reshape(w_scale, &shape)?
        }
    };
    let scalar = |cx: &mut ImportContext, t: &Tensor| cx.reshape(t, &[]);
    let (x_scale, y_scale) = (scalar(cx, x_scale)?, scalar(cx, y_scale)?);
    let y_zero = scalar(cx, y_zero)?;
    requantized(cx, &sum, [&x_scale, &w_scale, &y_scale], &y_zero)
}

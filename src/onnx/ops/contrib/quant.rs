//! Products of quantised operands with a float result, and conversions of 8 and 16 bits.

use reflex_graph::{Binary, PoolKind};
use reflex_tir::DType;

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::ops::integer_products::{Quantised, int_matmul};
use crate::ops::quant::{dequantize, dynamically_quantized, qlinear_conv_of, quantize, rounded};
use crate::ops::recurrent::dynamic_quantize_lstm;
use crate::ops::spatial::pool;
use crate::ops::table::{Table, all, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLSTM", dynamic_quantize_lstm),
    ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("MatMulInteger16", matmul_integer16),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("NhwcMaxPool", nhwc_max_pool),
    ("QGemm", qgemm),
    ("QLinearConv", qlinear_conv),
    ("QuantizeLinear", quantize),
];

/// `sum * (a scale * b scale) + bias`
fn scaled(
    cx: &mut ImportContext,
    sum: &Tensor,
    [a, b]: [&Tensor; 2],
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let scale = cx.mul(a, b)?;
    let wide = cx.cast(sum, scale.dtype())?;
    let y = cx.mul(&wide, &scale)?;
    match bias {
        Some(bias) => cx.add(&y, bias),
        None => Ok(y),
    }
}

fn dynamic_quantize_matmul(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let [x, scale, zero] = dynamically_quantized(cx, call.input(0)?)?;
    let a = Quantised { x: &x, zero_point: Some(&zero) };
    let b = Quantised { x: call.input(1)?, zero_point: call.opt(3)? };
    let sum = int_matmul(cx, a, b)?;
    one(scaled(cx, &sum, [&scale, call.input(2)?], call.opt(4)?)?)
}

fn matmul_integer_to_float(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let a = Quantised { x: call.input(0)?, zero_point: call.opt(4)? };
    let b = Quantised { x: call.input(1)?, zero_point: call.opt(5)? };
    let sum = int_matmul(cx, a, b)?;
    one(scaled(cx, &sum, [call.input(2)?, call.input(3)?], call.opt(6)?)?)
}

fn matmul_integer16(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let a = Quantised { x: call.input(0)?, zero_point: None };
    let b = Quantised { x: call.input(1)?, zero_point: None };
    let wide = int_matmul(cx, a, b)?;
    let both = call.input(0)?.dtype() == DType::U16 && call.input(1)?.dtype() == DType::U16;
    one(cx.cast(&wide, if both { DType::U32 } else { DType::I32 })?)
}

fn qgemm(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let alpha = call.float("alpha", 1.0)?;
    let mut operand = |index: usize, flag: &'static str| -> Result<Tensor> {
        let x = call.input(index)?;
        if x.rank() != 2 {
            return Err(invalid(format!("input {index} of type {}", x.ty)));
        }
        if call.flag(flag)? { cx.transpose(x, &[1, 0]) } else { Ok(x.clone()) }
    };
    let (a, b) = (operand(0, "transA")?, operand(3, "transB")?);
    let a = Quantised { x: &a, zero_point: Some(call.input(2)?) };
    let b = Quantised { x: &b, zero_point: Some(call.input(5)?) };
    let mut sum = int_matmul(cx, a, b)?;
    if let Some(c) = call.opt(6)? {
        sum = cx.add(&sum, c)?;
    }
    let mut scale = cx.mul(call.input(1)?, call.input(4)?)?;
    if alpha != 1.0 {
        scale = cx.binary_num(Binary::Mul, &scale, alpha)?;
    }
    let wide = cx.cast(&sum, DType::F32)?;
    let Some(y_scale) = call.opt(7)? else { return one(cx.mul(&wide, &scale)?) };
    let zero = call.input(8)?;
    let ratio = cx.div(&scale, y_scale)?;
    let steps = cx.mul(&wide, &ratio)?;
    one(rounded(cx, &steps, Some(zero), zero.dtype())?)
}

/// `x` with its channels moved from the last axis to the second.
pub(super) fn channels_first(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    if x.rank() < 3 {
        return Err(invalid(format!("spatial input of type {}", x.ty)));
    }
    let mut perm: Vec<usize> = (0..x.rank()).collect();
    perm[1..].rotate_right(1);
    cx.transpose(x, &perm)
}

/// `x` with its channels moved from the second axis to the last.
pub(super) fn channels_last(cx: &mut ImportContext, x: &Tensor) -> Result<Tensor> {
    let mut perm: Vec<usize> = (0..x.rank()).collect();
    perm[1..].rotate_left(1);
    cx.transpose(x, &perm)
}

fn nhwc_max_pool(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = channels_first(cx, call.input(0)?)?;
    let pooled = pool(cx, call, &x, PoolKind::Max { indices: false })?;
    let mut moved = vec![];
    for y in &pooled {
        moved.push(channels_last(cx, y)?);
    }
    all(moved)
}

fn qlinear_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    if !call.flag("channels_last")? {
        return one(qlinear_conv_of(cx, call, call.input(0)?)?);
    }
    let x = channels_first(cx, call.input(0)?)?;
    let y = qlinear_conv_of(cx, call, &x)?;
    one(channels_last(cx, &y)?)
}

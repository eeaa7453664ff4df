//! Convolutions.

use reflex_graph::{ConvAttrs, Op, Value};

use super::table::{Results, Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::TorchValue;

pub(super) const TABLE: Table = &[
    ("conv1d", |cx, call| conv(cx, call, 1)),
    ("conv2d", |cx, call| conv(cx, call, 2)),
    ("conv3d", |cx, call| conv(cx, call, 3)),
    ("conv_transpose1d", |cx, call| transposed(cx, call, 1)),
    ("conv_transpose2d", |cx, call| transposed(cx, call, 2)),
    ("conv_transpose3d", |cx, call| transposed(cx, call, 3)),
    ("convolution", any),
    ("_convolution", any),
];

fn any(cx: &mut ImportContext, call: &Call) -> Results {
    let axes = cx.rank(call.tensor("weight")?).checked_sub(2).filter(|axes| *axes > 0);
    let axes = axes.ok_or_else(|| invalid("weights without spatial axes"))?;
    call.ignore(&["benchmark", "deterministic", "cudnn_enabled", "allow_tf32"]);
    match call.flag("transposed", false)? {
        true => transposed(cx, call, axes),
        false => {
            call.ignore(&["output_padding"]);
            conv(cx, call, axes)
        }
    }
}

/// Steps, dilations and groups of a convolution without padding.
fn geometry(call: &Call, axes: usize) -> Result<ConvAttrs> {
    Ok(ConvAttrs {
        strides: call.spatial("stride", axes)?.unwrap_or(vec![1; axes]),
        pads_begin: vec![0; axes],
        pads_end: vec![0; axes],
        dilations: call.spatial("dilation", axes)?.unwrap_or(vec![1; axes]),
        groups: call.int("groups", 1)?,
    })
}

/// An input with an axis for the batch; true if it had none.
pub(super) fn batched(cx: &mut ImportContext, x: Value, axes: usize) -> Result<(Value, bool)> {
    match cx.rank(x).checked_sub(axes) {
        Some(2) => Ok((x, false)),
        Some(1) => Ok((cx.unsqueeze(x, &[0])?, true)),
        _ => Err(invalid(format!("an input of rank {} for {axes} spatial axes", cx.rank(x)))),
    }
}

fn operands(cx: &mut ImportContext, call: &Call, x: Value) -> Result<Vec<Value>> {
    let weight = call.tensor("weight")?;
    if cx.dtype(weight) != cx.dtype(x) {
        return Err(invalid("input and weights have different types"));
    }
    let mut args = vec![x, weight];
    args.extend(call.opt("bias")?);
    Ok(args)
}

fn conv(cx: &mut ImportContext, call: &Call, axes: usize) -> Results {
    let (x, alone) = batched(cx, call.tensor("input")?, axes)?;
    let mut attrs = geometry(call, axes)?;
    match call.get("padding") {
        Some(TorchValue::Text(word)) if word == "valid" => {}
        Some(TorchValue::Text(word)) if word == "same" => {
            let kernel =
                cx.const_shape(call.tensor("weight")?).filter(|shape| shape.len() == axes + 2);
            let kernel = kernel.ok_or_else(|| unsupported("a kernel of symbolic extents"))?;
            for i in 0..axes {
                let all = attrs.dilations[i].saturating_mul(kernel[i + 2] - 1);
                attrs.pads_begin[i] = all / 2;
                attrs.pads_end[i] = all - all / 2;
            }
        }
        Some(TorchValue::Text(other)) => return Err(invalid(format!("padding `{other}`"))),
        _ => {
            let pads = call.spatial("padding", axes)?.unwrap_or(vec![0; axes]);
            attrs.pads_begin.clone_from(&pads);
            attrs.pads_end = pads;
        }
    }
    let args = operands(cx, call, x)?;
    let y = cx.op(Op::Conv(attrs), &args)?;
    one(if alone { cx.squeeze(y, &[0])? } else { y })
}

fn transposed(cx: &mut ImportContext, call: &Call, axes: usize) -> Results {
    let (x, alone) = batched(cx, call.tensor("input")?, axes)?;
    let mut conv = geometry(call, axes)?;
    let pads = call.spatial("padding", axes)?.unwrap_or(vec![0; axes]);
    conv.pads_begin.clone_from(&pads);
    conv.pads_end = pads;
    let output_padding = call.spatial("output_padding", axes)?.unwrap_or(vec![0; axes]);
    let args = operands(cx, call, x)?;
    let y = cx.op(Op::ConvTranspose { conv, output_padding }, &args)?;
    one(if alone { cx.squeeze(y, &[0])? } else { y })
}

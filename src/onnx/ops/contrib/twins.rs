//! Operators that the standard has too, of the same name or nearly, and distances of rows.

use reflex_graph::{Binary, ReduceKind, Unary};

use crate::call::Call;
use crate::context::{ImportContext, Operator};
use crate::error::{Result, invalid, unsupported};
use crate::ops::data_dependent::unique_elements;
use crate::ops::grid::grid_sample;
use crate::ops::index::gather_nd;
use crate::ops::layout::{pad, trilu};
use crate::ops::linear_attention::{causal_conv, linear_attention};
use crate::ops::shape::range;
use crate::ops::table::{Table, one};
use crate::value::OnnxValue;

pub(super) const TABLE: Table = &[
    ("CDist", distances),
    ("CausalConvWithState", |cx, call| {
        let defaults = [("ndim", 1), ("dilation", 1), ("channels_last", 0), ("state_window", 0)];
        standard(cx, call, 27, &defaults, causal_conv)
    }),
    ("ExpandDims", expand_dims),
    ("GatherND", |cx, call| standard(cx, call, 12, &[], gather_nd)),
    ("GridSample", |cx, call| standard(cx, call, 16, &[], grid_sample)),
    ("LinearAttention", |cx, call| {
        standard(cx, call, 27, &[("state_window", 0)], linear_attention)
    }),
    ("Pad", |cx, call| standard(cx, call, 13, &[], pad)),
    ("Range", |cx, call| standard(cx, call, 11, &[], range)),
    ("Trilu", |cx, call| standard(cx, call, 14, &[], trilu)),
    ("Unique", |cx, call| {
        // The standard's second output, where each was first, is not among them.
        let mut results = unique_elements(cx, call.input(0)?, None, false)?;
        results.remove(1);
        Ok(results)
    }),
];

/// The standard's operator at a version. Attributes that it lacks must have their default.
fn standard(
    cx: &mut ImportContext,
    call: &Call,
    opset: i64,
    defaults: &[(&'static str, i64)],
    twin: Operator,
) -> Result<Vec<OnnxValue>> {
    for (name, default) in defaults {
        let given = call.int(name, *default)?;
        if given != *default {
            return Err(unsupported(format!("{name} {given}")));
        }
    }
    twin(cx, &call.at_opset(opset))
}

fn expand_dims(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let x = call.input(0)?;
    let axis = call.known_ints(1)?.unwrap_or_default();
    let ([axis], rank) = (axis.as_slice(), x.rank() as i64 + 1) else {
        return Err(invalid("`axis` is one number"));
    };
    if !(-rank..rank).contains(axis) {
        return Err(invalid(format!("axis {axis} of {rank}")));
    }
    one(cx.unsqueeze(x, &[axis.rem_euclid(rank) as usize])?)
}

/// The Euclidean distance, or its square, of each row of one matrix from each of another.
fn distances(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(invalid(format!("matrices {} and {}", a.ty, b.ty)));
    }
    let root = match call.text("metric", "sqeuclidean")? {
        "sqeuclidean" => false,
        "euclidean" => true,
        other => return Err(invalid(format!("metric `{other}`"))),
    };
    let a = cx.unsqueeze(a, &[1])?;
    let apart = cx.binary(Binary::Sub, &a, b)?;
    let square = cx.mul(&apart, &apart)?;
    let sum = cx.reduce(ReduceKind::Sum, &square, &[2])?;
    one(if root { cx.unary(Unary::Sqrt, &sum)? } else { sum })
}

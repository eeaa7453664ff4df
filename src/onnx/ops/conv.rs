//! Convolutions, which run on integers where both operands are dequantised ones.

use super::integer_products::dequantised_conv;
use super::spatial::convolve;
use super::table::{Table, one};
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::Result;
use crate::value::OnnxValue;

pub(super) const TABLE: Table = &[("Conv", conv)];

fn conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let bias = call.opt(2)?;
    match dequantised_conv(cx, call, x, w, bias)? {
        Some(result) => one(result),
        None => one(convolve(cx, call, x, w, bias)?),
    }
}

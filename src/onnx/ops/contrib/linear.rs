//! Matrix products and convolutions with transposed operands, scales and activations.

use reflex_graph::Binary;

use super::activation::activated;
use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid};
use crate::ops::linear::gemm_of;
use crate::ops::spatial::convolve;
use crate::ops::table::{Table, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", fused_matmul),
    ("TransposeMatMul", fused_matmul),
];

fn fused_matmul(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let alpha = call.float("alpha", 1.0)?;
    let a = operand(cx, call, 0, ["transA", "transBatchA"])?;
    let b = operand(cx, call, 1, ["transB", "transBatchB"])?;
    let product = cx.matmul(&a, &b)?;
    one(match alpha {
        1.0 => product,
        _ => cx.binary_num(Binary::Mul, &product, alpha)?,
    })
}

/// An operand as `[batch.., rows, columns]`. The second flag says that its first axis is the
/// rows', before the batch's.
fn operand(
    cx: &mut ImportContext,
    call: &Call,
    index: usize,
    [matrix, batch]: [&'static str; 2],
) -> Result<Tensor> {
    let x = call.input(index)?;
    let (matrix, batch) = (call.flag(matrix)?, call.flag(batch)?);
    let mut perm: Vec<usize> = (0..x.rank()).collect();
    if x.rank() < 2 {
        return Ok(x.clone());
    }
    if batch {
        if x.rank() < 3 {
            return Err(invalid(format!("a batch transposition of {}", x.ty)));
        }
        perm[..x.rank() - 1].rotate_left(1);
    }
    if matrix {
        perm.swap(x.rank() - 2, x.rank() - 1);
    }
    cx.transpose(x, &perm)
}

fn fused_gemm(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let result = gemm_of(cx, call)?;
    let parameters = [call.float_opt("activation_alpha")?, call.float_opt("activation_beta")?];
    call.ignore(&["activation_gamma"]);
    one(activated(cx, result, call.text("activation", "")?, parameters)?)
}

fn fused_conv(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let mut result = convolve(cx, call, call.input(0)?, call.input(1)?, call.opt(2)?)?;
    if let Some(sum) = call.opt(3)? {
        result = cx.add(&result, sum)?;
    }
    let given = call.floats("activation_params")?.unwrap_or_default();
    let parameter = |index: usize| given.get(index).copied().map(f64::from);
    let parameters = [parameter(0), parameter(1)];
    one(activated(cx, result, call.text("activation", "")?, parameters)?)
}

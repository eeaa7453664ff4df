//! Whether a kernel implements a call.

use std::collections::HashMap;

use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{Expr, IterKind, Param, PrimFunc, Stmt, Var};

use super::call::CallTypes;
use crate::registered_op::FusionKind;
use crate::{TensorType, dims};

/// Checks that a kernel takes the tensors of a call, and nothing else, and that what it declares of its fusion
/// is so.
pub(super) fn check(
    func: &PrimFunc,
    call: &CallTypes<'_>,
    results: &[TensorType],
    kind: FusionKind,
) -> Result<(), String> {
    let mut has_block = false;
    func.body.visit(&mut |s| has_block |= matches!(s, Stmt::Block(_)));
    let form = if has_block { IrForm::Scheduled } else { IrForm::Lowered };
    verify(func, form).map_err(|faults| faults[0].to_string())?;
    if func.params.iter().any(|param| matches!(param, Param::Scalar(_))) {
        return Err("it has a parameter that is no tensor".to_owned());
    }
    let buffers: Vec<_> = func.buffer_params().collect();
    if buffers.len() != call.args.len() + results.len() {
        return Err(format!(
            "it takes {} tensors, not {} operands and {} results",
            buffers.len(),
            call.args.len(),
            results.len()
        ));
    }
    if func.num_outputs != results.len() {
        return Err(format!("it writes {} tensors, not {}", func.num_outputs, results.len()));
    }
    let types: Vec<&TensorType> = call.args.iter().chain(results).collect();
    let mut known: HashMap<Var, Expr> = HashMap::new();
    for (buffer, ty) in buffers.iter().zip(&types) {
        let data = &func.buffers[*buffer];
        if data.dtype != ty.dtype || data.shape.len() != ty.shape.len() {
            return Err(format!(
                "its parameter {} is of {} and rank {}, the tensor of {} and rank {}",
                data.name,
                data.dtype,
                data.shape.len(),
                ty.dtype,
                ty.shape.len()
            ));
        }
        for (own, dim) in data.shape.iter().zip(&ty.shape) {
            if let Some(var) = own.as_var() {
                known.entry(var).or_insert_with(|| dim.clone());
            }
        }
    }
    for (buffer, ty) in buffers.iter().zip(&types) {
        let data = &func.buffers[*buffer];
        for (axis, (own, dim)) in data.shape.iter().zip(&ty.shape).enumerate() {
            let mut free = None;
            own.visit(&mut |e| free = free.or(e.as_var().filter(|var| !known.contains_key(var))));
            if let Some(var) = free {
                let name = &func.vars[var].name;
                return Err(format!("its dimension {name} is no dimension of a tensor"));
            }
            let own = dims::simplify(&own.substitute(&|var| known.get(&var).cloned()));
            if dims::equal(&own, dim) != Some(true) {
                return Err(format!(
                    "dimension {axis} of its parameter {} is {}, that of the tensor {}",
                    data.name,
                    call.dim_text(&own),
                    call.dim_text(dim)
                ));
            }
        }
    }
    fuses(func, kind)
}

/// Checks that the statements are those that an operator of such a kind has.
fn fuses(func: &PrimFunc, kind: FusionKind) -> Result<(), String> {
    if kind == FusionKind::Opaque {
        return Ok(());
    }
    let (mut blocks, mut reduces, mut other) = (0, false, false);
    func.body.visit(&mut |s| match s {
        Stmt::Block(block) => {
            blocks += 1;
            reduces |= block.iters.iter().any(|iter| iter.kind != IterKind::Spatial);
        }
        Stmt::While { .. }
        | Stmt::Tile(_)
        | Stmt::CallPacked(_)
        | Stmt::Barrier(_)
        | Stmt::Allocate { .. } => other = true,
        _ => {}
    });
    if blocks == 0 || other {
        return Err(format!("it is no loops around blocks, so it is opaque, not {kind}"));
    }
    match kind {
        FusionKind::Elementwise | FusionKind::Broadcast | FusionKind::Injective if reduces => {
            Err(format!("it has blocks that reduce, so it is not {kind}"))
        }
        _ => Ok(()),
    }
}

//! The rules for contractions, in the order in which they are tried.

use reflex_tir::{Expr, Stmt};

use crate::schedule::core::decision::{Decision, Refusal};
use crate::schedule::core::nest::{Nest, Parallel};
use crate::schedule::core::stage::Stage;
use crate::schedule::gemm::kernel::Gemm;
use crate::schedule::split_bf16::rule::{interleaved_vnni, is_allowed, split_bf16};
use crate::schedule::winograd::transform::winograd_transform;

/// The nest of a contraction by the first rule that takes it; `epilogue` is computed from each
/// result and stored instead.
pub fn contraction(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
    decisions: &mut Vec<Decision>,
) -> Result<Stmt, Refusal> {
    let Ruled { rule, refused, stmt } = first_rule(nest, stage, epilogue, threads)?;
    decisions.push(Decision { stage: stage.name.clone(), rule, refused });
    if let Some(epilogue) = epilogue {
        let rule = match rule {
            "gemm" => "epilogue of gemm",
            "split-bf16" => "epilogue of split-bf16",
            _ => "epilogue of winograd transform",
        };
        decisions.push(Decision { stage: epilogue.name.clone(), rule, refused: vec![] });
    }
    Ok(stmt)
}

/// A nest, the rule that wrote it, and the rules that did not take the stage.
struct Ruled {
    rule: &'static str,
    refused: Vec<(&'static str, Refusal)>,
    stmt: Stmt,
}

fn first_rule(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Ruled, Refusal> {
    let mut refused = vec![];
    match winograd_transform(nest, stage, epilogue, threads) {
        Ok(stmt) => return Ok(Ruled { rule: "winograd transform", refused, stmt }),
        Err(Refusal::NoConstantMatrix) => {}
        Err(why) => refused.push(("winograd transform", why)),
    }
    // Inside of a loop over other stages, threads may share that loop: split operands have no
    // buffers of their own there.
    if is_allowed(nest) && threads == Parallel::Yes {
        match split_bf16(nest, stage, epilogue, threads) {
            Ok(stmt) => return Ok(Ruled { rule: "split-bf16", refused, stmt }),
            Err(why) => refused.push(("split-bf16", why)),
        }
    }
    let stmt = gemm(nest, stage, epilogue, threads)?;
    Ok(Ruled { rule: "gemm", refused, stmt })
}

/// The nest of a contraction in the operands' own element type.
fn gemm(
    nest: &mut Nest<'_>,
    stage: &Stage,
    epilogue: Option<&Stage>,
    threads: Parallel,
) -> Result<Stmt, Refusal> {
    let kernel = Gemm::of(nest, stage, epilogue)?;
    if threads == Parallel::Yes
        && let Some((worth, interleaved)) = interleaved_vnni(nest, &kernel, threads)
    {
        if worth.as_int().is_some() {
            return Ok(interleaved);
        }
        let otherwise = Some(Box::new(in_place(nest, &kernel, threads)?));
        return Ok(Stmt::If { cond: worth, then: Box::new(interleaved), otherwise });
    }
    in_place(nest, &kernel, threads)
}

/// The nest of a contraction whose operands are read where they are.
fn in_place(nest: &mut Nest<'_>, kernel: &Gemm, threads: Parallel) -> Result<Stmt, Refusal> {
    // Loops over other stages divide rows by their extents, static or not; sums in order do not
    // depend on the division.
    if let Some(many) = kernel.expands_panels(nest.cpu()) {
        return codes(nest, kernel, threads, many);
    }
    let amx = if threads == Parallel::Yes { kernel.amx(nest) } else { None };
    if let Some(amx) = amx {
        match kernel.nest(nest, Some(&amx), threads) {
            Ok(stmt) => return Ok(amx.allocated(&stmt)),
            Err(why) => nest.steps.push(format!("{}: no AMX tiles: {why}", kernel.stage.name)),
        }
    }
    kernel.nest(nest, None, threads)
}

/// The nest of a contraction with weights of codes: of many rows over expanded panels, of others from the
/// codes.
fn codes(
    nest: &mut Nest<'_>,
    kernel: &Gemm,
    threads: Parallel,
    many: Expr,
) -> Result<Stmt, Refusal> {
    let expanded = Gemm { expanded: true, ..kernel.clone() };
    match many.as_int() {
        Some(0) => kernel.nest(nest, None, threads),
        Some(_) => expanded.nest(nest, None, threads),
        None => {
            let then = Box::new(expanded.nest(nest, None, threads)?);
            let otherwise = Some(Box::new(kernel.nest(nest, None, threads)?));
            Ok(Stmt::If { cond: many, then, otherwise })
        }
    }
}

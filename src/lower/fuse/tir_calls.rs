//! Calls of kernels that came as loop IR (`call_tir`) take part in fusion: while groups are found they are
//! operators, of the kind that the accesses of their blocks say (TVM: `AnnotateTIROpPattern`).
//!
//! A kernel that is scheduled already, by its text or by a trace, stays as it is, and so does one that reads
//! scalars or that is opaque. The attribute `op_pattern` of a kernel overrides what its accesses say, as in TVM.
//!
//! Decision: docs/decisions/0079-operators-from-outside.md

use std::collections::HashMap;

use reflex_graph::registered::{FusionKind, RegisteredOp};
use reflex_graph::{Body, Func, FuncData, Module, Node, Op, TensorType};
use reflex_tir::op_pattern::{OpPatternKind, op_pattern};
use reflex_tir::{ForKind, PrimFunc, Scope, Stmt};

/// The attribute that TVM leaves its finding in.
const PATTERN_ATTR: &str = "op_pattern";

/// Attributes of kernels that say nothing of their loops.
const PLAIN_ATTRS: [&str; 5] =
    [PATTERN_ATTR, "tirx.noalias", "tir.noalias", "private", "global_symbol"];

/// Replaces the calls that may fuse by operators; returns the calls by the number of the binding.
/// Kernels that `has_trace` names are left alone.
pub fn as_operators(
    module: &Module,
    func: &Func,
    body: &mut Body,
    has_trace: &dyn Fn(&str) -> bool,
) -> HashMap<usize, Node> {
    let mut calls = HashMap::new();
    for (at, binding) in body.bindings.iter_mut().enumerate() {
        let Node::CallTir { func: id, args, scalars } = &binding.node else { continue };
        let FuncData::Prim(kernel) = &module.funcs[*id] else { continue };
        if !scalars.is_empty() || has_trace(&kernel.name) || !is_plain(kernel) {
            continue;
        }
        let Some(kind) = fusion_kind(kernel) else { continue };
        let tensor = |v: &reflex_graph::Value| func.values[*v].ty.as_tensor().cloned();
        let operands: Option<Vec<TensorType>> = args.iter().map(tensor).collect();
        let results: Option<Vec<TensorType>> = binding.outputs.iter().map(tensor).collect();
        let (Some(operands), Some(results)) = (operands, results) else { continue };
        // What fuses has one result.
        if results.len() != 1 || operands.is_empty() {
            continue;
        }
        let Ok(op) = RegisteredOp::of_kernel(kernel, kind, &operands, &results, &func.syms) else {
            continue;
        };
        let op = Node::Op { op: Op::Registered(Box::new(op)), args: args.clone() };
        calls.insert(at, std::mem::replace(&mut binding.node, op));
    }
    calls
}

/// The kind by which a kernel fuses; `None` for one that does not.
fn fusion_kind(kernel: &PrimFunc) -> Option<FusionKind> {
    let given = kernel.attrs.get(PATTERN_ATTR).and_then(|number| number.parse().ok());
    match given.and_then(OpPatternKind::of_number).unwrap_or_else(|| op_pattern(kernel)) {
        OpPatternKind::ElemWise => Some(FusionKind::Elementwise),
        OpPatternKind::Broadcast => Some(FusionKind::Broadcast),
        OpPatternKind::Injective => Some(FusionKind::Injective),
        OpPatternKind::CommReduce => Some(FusionKind::Reduction),
        OpPatternKind::OutEWiseFusable => Some(FusionKind::OutFusable),
        OpPatternKind::Opaque => None,
    }
}

/// Whether a kernel is loops around blocks as operators have them: nothing says how they are to run.
fn is_plain(kernel: &PrimFunc) -> bool {
    let mut plain = kernel.attrs.keys().all(|key| PLAIN_ATTRS.contains(&key.as_str()))
        && kernel.buffers.values().all(|buffer| buffer.scope == Scope::Global);
    kernel.body.visit(&mut |s| match s {
        Stmt::For(l) => plain &= l.kind == ForKind::Serial && l.annotations.is_empty(),
        Stmt::Block(block) => {
            plain &= block.annotations.is_empty()
                && block.allocs.is_empty()
                && block.predicate.as_int() == Some(1)
                && block
                    .iters
                    .iter()
                    .all(|iter| iter.value.as_var().is_some() || iter.value.as_int().is_some());
        }
        _ => {}
    });
    plain
}

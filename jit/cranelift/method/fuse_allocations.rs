//! Fusion of allocations: a storage and the only tensor on it are made together.
//!
//! A storage whose register is overwritten before anything but its tensor reads it is seen by nothing
//! else. The tensor then owns its memory, and both are one free tensor. The two operations stay in the
//! code for the case that there is no memory, which the builtins tell.
//!
//! Traces do the same (`trace::optimise::fuse_allocations`).
//!
//! Decision: docs/decisions/0090-free-tensors.md

use std::collections::HashMap;

use reflex_runtime::abi::free_tensor_class;
use reflex_vm::decode::{FuncCode, Op};
use reflex_vm::program::Program;

use crate::facts::call_args::CallArgs;
use crate::facts::registers::RegFacts;
use crate::recycle::{FreeListEntry, ReusePlan, ReusePlans, written};

/// Most operations behind a tensor's that are looked at.
const REACH: usize = 16;

/// The allocations of storages that are fused, with the entries of the tensors.
pub(super) fn fused_allocations(
    program: &Program,
    func: &FuncCode,
    facts: &RegFacts,
    plans: &ReusePlans,
) -> HashMap<u32, FreeListEntry> {
    let fused = |pc: usize| {
        let entry = fused_at(program, func, plans, pc)?;
        let merges = (pc + 1..).take(2).any(|pc| facts.is_merge_point(pc));
        (!merges).then_some((pc as u32, entry))
    };
    (0..func.ops.len()).filter_map(fused).collect()
}

/// The entry for a tensor whose storage is allocated at `pc`.
fn fused_at(
    program: &Program,
    func: &FuncCode,
    plans: &ReusePlans,
    pc: usize,
) -> Option<FreeListEntry> {
    let &[Op::Builtin { args, dst: storage, .. }, Op::Builtin { dst, .. }, ..] =
        func.ops.get(pc..)?
    else {
        return None;
    };
    let ReusePlan::Storage { bytes, .. } = plans.get(pc as u32)?.plan else { return None };
    let tensor = plans.get(pc as u32 + 1)?;
    let ReusePlan::Tensor { storage: on, dims, .. } = &tensor.plan else { return None };
    free_tensor_class(dims.len(), bytes)?;
    if *on != storage || dst == storage || !is_dead(func, pc + 2, storage) {
        return None;
    }
    let device = CallArgs { program, func, args }.int(2)?;
    Some(FreeListEntry { entry: tensor.entry, plan: tensor.plan.with_storage(bytes, device)? })
}

/// Whether a register is written before it is read, from the operation `pc` on, within a few operations
/// without a branch.
fn is_dead(func: &FuncCode, pc: usize, reg: u32) -> bool {
    for op in func.ops[pc..].iter().take(REACH) {
        let reads = func.args_of(op).iter().any(|source| source.reg() == Some(reg));
        match *op {
            Op::Goto { .. } | Op::LoopBack { .. } | Op::Branch { .. } => return false,
            Op::Copy { src, .. } if src.reg() == Some(reg) => return false,
            Op::Ret { result } => return result.reg() != Some(reg),
            _ if reads => return false,
            _ if written(op) == Some(reg) => return true,
            _ => {}
        }
    }
    false
}

//! Fusion of allocations: a storage and the only tensor on it are made together.
//!
//! Where a storage is released right after a tensor was made on it, nothing can see it: the tensor owns
//! its memory instead. That is one object less to make and to release. If there is no memory, the trace
//! leaves before the storage was to be made, and the interpreter tells the error.
//!
//! It is the last pass: those before it look for single allocations.
//!
//! Decision: docs/decisions/0069-objects-in-machine-code.md

use reflex_runtime::abi::type_index;
use reflex_vm::program::Program;

use super::super::ir::{Arg, Ins, Scalar, Trace};
use crate::recycle::{FreeListEntry, ReusePlan};

/// Fuses the allocations of storages and their tensors.
pub(super) fn fuse_allocations(_: &Program, trace: &mut Trace) {
    if !trace.code.windows(3).any(|three| fused(&three[0], &three[1], &three[2]).is_some()) {
        return;
    }
    let old = std::mem::take(&mut trace.code);
    let mut code = Vec::with_capacity(old.len());
    let mut rest = &old[..];
    while let [first, others @ ..] = rest {
        match rest {
            [storage, tensor, release, behind @ ..]
                if let Some(fused) = fused(storage, tensor, release) =>
            {
                code.push(fused);
                rest = behind;
            }
            _ => {
                code.push(first.clone());
                rest = others;
            }
        }
    }
    trace.code = code;
    // Exits of the tensors alone are gone.
    trace.change_snapshots(|_, exit| exit.clone());
}

/// The allocation that replaces that of a storage, that of a tensor on it, and the release of the
/// storage.
fn fused(storage: &Ins, tensor: &Ins, release: &Ins) -> Option<Ins> {
    let Ins::Allocate { free_entry: of_storage, args, dst: Some(held), exit, .. } = storage else {
        return None;
    };
    let ReusePlan::Storage { bytes, .. } = of_storage.plan else { return None };
    let Some(&Arg::Scalar(Scalar::Const { tag: type_index::INT, bits: device })) = args.get(2)
    else {
        return None;
    };
    let Ins::Allocate { frame, builtin, free_entry, args, dst: Some(dst), .. } = tensor else {
        return None;
    };
    let plan = free_entry.plan.with_storage(bytes, device)?;
    let on_it = matches!(args.first(), Some(Arg::Reg(on, _)) if on == held) && dst != held;
    let (Ins::Recycle { vreg: released, .. } | Ins::Release { vreg: released, .. }) = release
    else {
        return None;
    };
    if !on_it || released != held {
        return None;
    }
    let mut args = args.clone();
    args[0] = Arg::Scalar(Scalar::NONE);
    let free_entry = FreeListEntry { entry: free_entry.entry, plan };
    let (frame, builtin, dst) = (*frame, *builtin, Some(*dst));
    Some(Ins::Allocate { frame, builtin, free_entry, args, dst, exit: *exit })
}

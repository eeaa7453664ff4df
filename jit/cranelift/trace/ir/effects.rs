//! Effects of instructions: their side exits, the registers they write, and the host code they run.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::Reentrancy;

use super::{BuiltinResult, ExitId, Ins, LoadMode, MAX_TAKEN, VReg};

/// Most registers that an instruction writes, parallel moves aside.
const MAX_WRITES: usize = 1 + MAX_TAKEN;

impl Ins {
    /// The side exit of the instruction.
    pub(crate) fn exit_mut(&mut self) -> Option<&mut ExitId> {
        match self {
            Ins::GuardType { exit, .. }
            | Ins::GuardFact { exit, .. }
            | Ins::GuardSameDim { exit, .. }
            | Ins::GuardShapeRank { exit, .. }
            | Ins::GuardViewFits { exit, .. }
            | Ins::GuardEqual { exit, .. }
            | Ins::CallKernel { exit, .. }
            | Ins::GuardTruth { exit, .. }
            | Ins::GuardClosure { exit, .. }
            | Ins::GuardCaller { exit, .. }
            | Ins::GuardCompiled { exit, .. }
            | Ins::CheckFuel { exit, .. }
            | Ins::CallPacked { exit, .. }
            | Ins::CallFunction { exit, .. }
            | Ins::CallBuiltin { exit, .. }
            | Ins::MakeView { exit, .. }
            | Ins::Allocate { exit, .. } => Some(exit),
            Ins::LoadPayload { .. }
            | Ins::Let { .. }
            | Ins::LoadDim { .. }
            | Ins::LoadShapeDim { .. }
            | Ins::LoadBool { .. }
            | Ins::LoadCaptured { .. }
            | Ins::Copy { .. }
            | Ins::Move { .. }
            | Ins::ParallelMove(_)
            | Ins::Store { .. }
            | Ins::Release { .. }
            | Ins::Forget { .. }
            | Ins::Recycle { .. }
            | Ins::EnterFrame { .. }
            | Ins::LeaveFrame { .. }
            | Ins::SetFrame { .. }
            | Ins::TakeResult { .. }
            | Ins::DropResult { .. }
            | Ins::LoadOwned { .. }
            | Ins::CopyOwned { .. }
            | Ins::StoreOwned { .. }
            | Ins::ReleaseOwned { .. } => None,
        }
    }

    /// The moves of a parallel move.
    pub(crate) fn moved(&self) -> &[(VReg, VReg)] {
        match self {
            Ins::ParallelMove(moves) => moves,
            _ => &[],
        }
    }

    /// Registers whose values change, except for those of parallel moves (see [`Ins::moved`]), which
    /// come last.
    pub(crate) fn writes(&self) -> [Option<VReg>; MAX_WRITES] {
        let mut all = [None; MAX_WRITES];
        match *self {
            Ins::CallBuiltin { result, ref taken, .. } => {
                all[0] = match result {
                    BuiltinResult::Reg(dst) => Some(dst),
                    BuiltinResult::Nothing | BuiltinResult::Var(..) | BuiltinResult::Slot => None,
                };
                for (place, &vreg) in all[1..].iter_mut().zip(taken) {
                    *place = Some(vreg);
                }
            }
            Ins::Move { dst, src } => (all[0], all[1]) = (Some(dst), Some(src)),
            Ins::LoadCaptured { dst, .. }
            | Ins::Copy { dst, .. }
            | Ins::Store { dst, .. }
            | Ins::StoreOwned { dst, .. }
            | Ins::TakeResult { dst, .. } => all[0] = Some(dst),
            Ins::Allocate { dst, .. }
            | Ins::CallPacked { dst, .. }
            | Ins::CallFunction { dst, .. } => all[0] = dst,
            Ins::Release { vreg, .. }
            | Ins::Forget { vreg }
            | Ins::Recycle { vreg, .. }
            | Ins::LoadOwned { src: vreg, mode: LoadMode::Move, .. } => all[0] = Some(vreg),
            Ins::GuardType { .. }
            | Ins::GuardFact { .. }
            | Ins::GuardSameDim { .. }
            | Ins::CallKernel { .. }
            | Ins::LoadPayload { .. }
            | Ins::Let { .. }
            | Ins::LoadDim { .. }
            | Ins::GuardShapeRank { .. }
            | Ins::LoadShapeDim { .. }
            | Ins::GuardViewFits { .. }
            | Ins::GuardEqual { .. }
            | Ins::LoadBool { .. }
            | Ins::GuardTruth { .. }
            | Ins::GuardClosure { .. }
            | Ins::GuardCaller { .. }
            | Ins::GuardCompiled { .. }
            | Ins::CheckFuel { .. }
            | Ins::ParallelMove(_)
            | Ins::MakeView { .. }
            | Ins::EnterFrame { .. }
            | Ins::LeaveFrame { .. }
            | Ins::SetFrame { .. }
            | Ins::LoadOwned { .. }
            | Ins::CopyOwned { .. }
            | Ins::ReleaseOwned { .. }
            | Ins::DropResult { .. } => {}
        }
        all
    }

    /// Returns true if host code may run that could enter the session: host functions, and
    /// destructors of their objects.
    pub(crate) fn may_run_host_code(&self) -> bool {
        match self {
            Ins::CallPacked { .. }
            | Ins::CallFunction { .. }
            | Ins::DropResult { .. }
            | Ins::ReleaseOwned { .. } => true,
            Ins::CallBuiltin { builtin, .. } => builtin.reentrancy() == Reentrancy::MayReenter,
            // A shape has no destructor that runs host code.
            Ins::Release { tag, .. } => *tag != Some(type_index::SHAPE),
            // The object was allocated by the trace, and owns only memory.
            Ins::Recycle { .. } | Ins::Allocate { .. } | Ins::MakeView { .. } => false,
            // Raw entries of kernels run no host code.
            Ins::CallKernel { .. } => false,
            Ins::GuardType { .. }
            | Ins::GuardFact { .. }
            | Ins::GuardSameDim { .. }
            | Ins::LoadPayload { .. }
            | Ins::Let { .. }
            | Ins::LoadDim { .. }
            | Ins::GuardShapeRank { .. }
            | Ins::LoadShapeDim { .. }
            | Ins::GuardViewFits { .. }
            | Ins::GuardEqual { .. }
            | Ins::LoadBool { .. }
            | Ins::GuardTruth { .. }
            | Ins::GuardClosure { .. }
            | Ins::GuardCaller { .. }
            | Ins::GuardCompiled { .. }
            | Ins::LoadCaptured { .. }
            | Ins::CheckFuel { .. }
            | Ins::Copy { .. }
            | Ins::Move { .. }
            | Ins::ParallelMove(_)
            | Ins::Store { .. }
            | Ins::Forget { .. }
            | Ins::EnterFrame { .. }
            | Ins::LeaveFrame { .. }
            | Ins::SetFrame { .. }
            | Ins::LoadOwned { .. }
            | Ins::CopyOwned { .. }
            | Ins::StoreOwned { .. }
            | Ins::TakeResult { .. } => false,
        }
    }
}

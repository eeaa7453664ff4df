//! Registers that instructions read.

use super::{Arg, Ins, VReg};

impl Ins {
    /// Returns true if the instruction may leave the trace.
    pub(crate) fn leaves(&self) -> bool {
        self.clone().exit_mut().is_some()
    }

    /// Registers that the instruction reads.
    pub(crate) fn reads(&self) -> Vec<VReg> {
        self.clone().reads_mut().into_iter().map(|vreg| *vreg).collect()
    }

    /// Registers that the instruction reads, for replacement by registers of the same value.
    pub(crate) fn reads_mut(&mut self) -> Vec<&mut VReg> {
        match self {
            Ins::GuardType { vreg, .. }
            | Ins::GuardFact { vreg, .. }
            | Ins::LoadPayload { vreg, .. }
            | Ins::LoadDim { vreg, .. }
            | Ins::GuardShapeRank { vreg, .. }
            | Ins::LoadShapeDim { vreg, .. }
            | Ins::LoadBool { vreg, .. }
            | Ins::GuardClosure { vreg, .. }
            | Ins::Release { vreg, .. }
            | Ins::Forget { vreg }
            | Ins::Recycle { vreg, .. }
            | Ins::LoadOwned { src: vreg, .. }
            | Ins::Move { src: vreg, .. } => vec![vreg],
            Ins::GuardSameDim { vreg, other, .. } => vec![vreg, other],
            Ins::ParallelMove(moves) => moves.iter_mut().map(|(_, src)| src).collect(),
            Ins::LoadCaptured { closure: arg, .. } | Ins::Copy { src: arg, .. } => {
                vreg(arg).into_iter().collect()
            }
            Ins::MakeView { src, shape, .. } => vreg(src).into_iter().chain(vreg(shape)).collect(),
            Ins::CallPacked { args, .. }
            | Ins::CallKernel { args, .. }
            | Ins::Allocate { args, .. } => args.iter_mut().filter_map(vreg).collect(),
            Ins::CallBuiltin { args, taken, .. } => {
                args.iter_mut().filter_map(vreg).chain(taken).collect()
            }
            Ins::CallFunction { callee, args, .. } => {
                vreg(callee).into_iter().chain(args.iter_mut().filter_map(vreg)).collect()
            }
            Ins::GuardTruth { .. }
            | Ins::Let { .. }
            | Ins::GuardEqual { .. }
            | Ins::GuardViewFits { .. }
            | Ins::GuardCaller { .. }
            | Ins::GuardCompiled { .. }
            | Ins::CheckFuel { .. }
            | Ins::Store { .. }
            | Ins::EnterFrame { .. }
            | Ins::LeaveFrame { .. }
            | Ins::SetFrame { .. }
            | Ins::TakeResult { .. }
            | Ins::CopyOwned { .. }
            | Ins::StoreOwned { .. }
            | Ins::ReleaseOwned { .. }
            | Ins::DropResult { .. } => Vec::new(),
        }
    }
}

fn vreg(arg: &mut Arg) -> Option<&mut VReg> {
    match arg {
        Arg::Reg(vreg, _) => Some(vreg),
        Arg::Scalar(_) | Arg::Const(_) | Arg::Vm | Arg::Object(_) => None,
    }
}

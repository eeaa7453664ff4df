//! What instructions do: where they leave, what they write, whose code they run.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::Reentrancy;

use super::{BuiltinResult, ExitId, Hold, Ins, Place};

impl Ins {
    /// Where the instruction may leave.
    pub(crate) fn exit_mut(&mut self) -> Option<&mut ExitId> {
        match self {
            Ins::Tag { exit, .. }
            | Ins::Is { exit, .. }
            | Ins::Alike { exit, .. }
            | Ins::Dims { exit, .. }
            | Ins::Fits { exit, .. }
            | Ins::Same { exit, .. }
            | Ins::Raw { exit, .. }
            | Ins::Truth { exit, .. }
            | Ins::Closure { exit, .. }
            | Ins::Below { exit, .. }
            | Ins::Native { exit, .. }
            | Ins::Charge { exit, .. }
            | Ins::Packed { exit, .. }
            | Ins::Invoke { exit, .. }
            | Ins::Builtin { exit, .. }
            | Ins::View { exit, .. }
            | Ins::Allocate { exit, .. } => Some(exit),
            Ins::Payload { .. }
            | Ins::Let { .. }
            | Ins::Extent { .. }
            | Ins::Number { .. }
            | Ins::Flag { .. }
            | Ins::Captured { .. }
            | Ins::Copy { .. }
            | Ins::Move { .. }
            | Ins::Moves(_)
            | Ins::Store { .. }
            | Ins::Release { .. }
            | Ins::Give { .. }
            | Ins::Enter { .. }
            | Ins::Leave { .. }
            | Ins::Current { .. }
            | Ins::Take { .. }
            | Ins::Drop { .. }
            | Ins::Hold { .. }
            | Ins::HoldAgain { .. }
            | Ins::Unhold { .. }
            | Ins::DropHeld { .. } => None,
        }
    }

    /// The moves of an instruction that makes several at once.
    pub(crate) fn moved(&self) -> &[(Place, Place)] {
        match self {
            Ins::Moves(moves) => moves,
            _ => &[],
        }
    }

    /// Places that hold something else afterwards; not of several moves (see [`Ins::moved`]), which
    /// come last.
    pub(crate) fn writes(&self) -> [Option<Place>; 2] {
        match *self {
            Ins::Captured { dst, .. }
            | Ins::Copy { dst, .. }
            | Ins::Store { dst, .. }
            | Ins::Unhold { dst, .. }
            | Ins::Take { dst, .. } => [Some(dst), None],
            Ins::Move { dst, src } => [Some(dst), Some(src)],
            Ins::Allocate { dst, .. } | Ins::Packed { dst, .. } | Ins::Invoke { dst, .. } => {
                [dst, None]
            }
            Ins::Builtin { result: BuiltinResult::Place(dst), .. } => [Some(dst), None],
            Ins::Release { place, .. }
            | Ins::Give { place, .. }
            | Ins::Hold { src: place, how: Hold::Move, .. } => [Some(place), None],
            Ins::Tag { .. }
            | Ins::Is { .. }
            | Ins::Alike { .. }
            | Ins::Raw { .. }
            | Ins::Payload { .. }
            | Ins::Let { .. }
            | Ins::Extent { .. }
            | Ins::Dims { .. }
            | Ins::Number { .. }
            | Ins::Fits { .. }
            | Ins::Same { .. }
            | Ins::Flag { .. }
            | Ins::Truth { .. }
            | Ins::Closure { .. }
            | Ins::Below { .. }
            | Ins::Native { .. }
            | Ins::Charge { .. }
            | Ins::Moves(_)
            | Ins::Builtin { .. }
            | Ins::View { .. }
            | Ins::Enter { .. }
            | Ins::Leave { .. }
            | Ins::Current { .. }
            | Ins::Hold { .. }
            | Ins::HoldAgain { .. }
            | Ins::DropHeld { .. }
            | Ins::Drop { .. } => [None, None],
        }
    }

    /// Whether code may run that could enter the session: host functions, and destructors of what
    /// they made.
    pub(crate) fn may_run_host_code(&self) -> bool {
        match self {
            Ins::Packed { .. } | Ins::Invoke { .. } | Ins::Drop { .. } | Ins::DropHeld { .. } => {
                true
            }
            Ins::Builtin { builtin, .. } => builtin.reentrancy() == Reentrancy::MayReenter,
            // Numbers of a shape die silently.
            Ins::Release { tag, .. } => *tag != Some(type_index::SHAPE),
            // What is given was made here, of memory alone.
            Ins::Give { .. } | Ins::Allocate { .. } | Ins::View { .. } => false,
            // By the contract of raw entries.
            Ins::Raw { .. } => false,
            Ins::Tag { .. }
            | Ins::Is { .. }
            | Ins::Alike { .. }
            | Ins::Payload { .. }
            | Ins::Let { .. }
            | Ins::Extent { .. }
            | Ins::Dims { .. }
            | Ins::Number { .. }
            | Ins::Fits { .. }
            | Ins::Same { .. }
            | Ins::Flag { .. }
            | Ins::Truth { .. }
            | Ins::Closure { .. }
            | Ins::Below { .. }
            | Ins::Native { .. }
            | Ins::Captured { .. }
            | Ins::Charge { .. }
            | Ins::Copy { .. }
            | Ins::Move { .. }
            | Ins::Moves(_)
            | Ins::Store { .. }
            | Ins::Enter { .. }
            | Ins::Leave { .. }
            | Ins::Current { .. }
            | Ins::Hold { .. }
            | Ins::HoldAgain { .. }
            | Ins::Unhold { .. }
            | Ins::Take { .. } => false,
        }
    }
}

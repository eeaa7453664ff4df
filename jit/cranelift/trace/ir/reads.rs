//! Registers that instructions look at, and whether they may leave.

use super::{Arg, Ins, Place};

impl Ins {
    /// Whether the instruction may leave the trace.
    pub(crate) fn leaves(&self) -> bool {
        self.clone().exit_mut().is_some()
    }

    /// Registers that the instruction looks at.
    pub(crate) fn reads(&self) -> Vec<Place> {
        self.clone().reads_mut().into_iter().map(|place| *place).collect()
    }

    /// The same, to be replaced by others that hold the same.
    pub(crate) fn reads_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Ins::Tag { place, .. }
            | Ins::Is { place, .. }
            | Ins::Payload { place, .. }
            | Ins::Extent { place, .. }
            | Ins::Dims { place, .. }
            | Ins::Number { place, .. }
            | Ins::Flag { place, .. }
            | Ins::Closure { place, .. }
            | Ins::Release { place, .. }
            | Ins::Give { place, .. }
            | Ins::Hold { src: place, .. }
            | Ins::Move { src: place, .. } => vec![place],
            Ins::Alike { place, other, .. } => vec![place, other],
            Ins::Moves(moves) => moves.iter_mut().map(|(_, src)| src).collect(),
            Ins::Captured { closure: arg, .. } | Ins::Copy { src: arg, .. } => {
                place(arg).into_iter().collect()
            }
            Ins::View { src, shape, .. } => place(src).into_iter().chain(place(shape)).collect(),
            Ins::Packed { args, .. }
            | Ins::Raw { args, .. }
            | Ins::Builtin { args, .. }
            | Ins::Allocate { args, .. } => args.iter_mut().filter_map(place).collect(),
            Ins::Invoke { callee, args, .. } => {
                place(callee).into_iter().chain(args.iter_mut().filter_map(place)).collect()
            }
            Ins::Truth { .. }
            | Ins::Let { .. }
            | Ins::Same { .. }
            | Ins::Fits { .. }
            | Ins::Below { .. }
            | Ins::Native { .. }
            | Ins::Charge { .. }
            | Ins::Store { .. }
            | Ins::Enter { .. }
            | Ins::Leave { .. }
            | Ins::Current { .. }
            | Ins::Take { .. }
            | Ins::HoldAgain { .. }
            | Ins::Unhold { .. }
            | Ins::DropHeld { .. }
            | Ins::Drop { .. } => Vec::new(),
        }
    }
}

fn place(arg: &mut Arg) -> Option<&mut Place> {
    match arg {
        Arg::Place(place, _) => Some(place),
        Arg::Plain(_) | Arg::Const(_) | Arg::Vm | Arg::Object(_) => None,
    }
}

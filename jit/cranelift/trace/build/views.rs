//! Views of tensors, behind guards that the tensor allows them.

use reflex_runtime::abi::type_index;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::{Tensor, byte_size};
use reflex_vm::decode::ArgRange;
use reflex_vm::kernel::{Dim, TensorParam};
use reflex_vm::tier::Step;

use super::{Builder, Content, observed};
use crate::raw::facts;
use crate::trace::ir::{Arg, ExitId, Ins, Place, Plain};

/// Most dimensions of a tensor and of its view, when the shape is known only while running.
const MAX_RANK: usize = 8;

impl Builder {
    /// Records a view of a tensor that allows it as it is now; `None` when there is no such view, and
    /// then nothing is recorded.
    pub(super) fn view(&mut self, step: &Step<'_>, range: ArgRange, dst: u32) -> Option<()> {
        let seen = observed(step, step.func.args(range));
        let tensor: &Tensor = seen.first()?.as_ref()?.downcast_ref()?;
        let wanted: &[i64] = seen.get(1)?.as_ref()?.downcast_ref::<Shape>()?;
        let bytes = byte_size(wanted, tensor.dtype()).ok()?;
        if bytes > tensor.nbytes() {
            return None;
        }
        let args = self.args(step, range);
        let exit = self.exit(step.pc);
        let extents = match args[..] {
            [src, Arg::Const(_)] => self.of_constant(tensor, (src, wanted), exit)?,
            [Arg::Place(src, _), Arg::Place(shape, _)] => {
                self.of_numbers(tensor, src, (shape, wanted.len()), exit)?
            }
            _ => return None,
        };
        // What was established shows in the operands.
        let args = self.args(step, range);
        let (frame, dtype) = (self.frame(), tensor.dtype());
        let [src, shape] = args[..] else { return None };
        self.code.push(Ins::View { frame, src, shape, extents, dtype, exit });
        self.take(dst, Content::Known(type_index::TENSOR));
        Some(())
    }

    /// Guards that a tensor has the extents it has now, so that a view of known extents fits.
    fn of_constant(
        &mut self,
        tensor: &Tensor,
        (src, wanted): (Arg, &[i64]),
        exit: ExitId,
    ) -> Option<Vec<Plain>> {
        let extents = tensor.shape().iter().copied().map(Dim::Static).collect();
        let param = TensorParam { dtype: tensor.dtype(), shape: extents };
        if !param.accepts(tensor) {
            return None;
        }
        match src {
            Arg::Place(place, _) => {
                self.establish(place, type_index::TENSOR, exit);
                for fact in facts(&param) {
                    self.ask(place, fact, exit);
                }
            }
            Arg::Const(_) => {}
            Arg::Plain(_) | Arg::Vm | Arg::Object(_) => return None,
        }
        Some(wanted.iter().copied().map(Plain::int).collect())
    }

    /// Guards that a view of the shape in a register, of so many numbers, fits a tensor.
    fn of_numbers(
        &mut self,
        tensor: &Tensor,
        src: Place,
        (shape, rank): (Place, usize),
        exit: ExitId,
    ) -> Option<Vec<Plain>> {
        let extents: Vec<Dim> = (0..tensor.shape().len() as u32).map(Dim::Symbolic).collect();
        let param = TensorParam { dtype: tensor.dtype(), shape: extents };
        if !param.accepts(tensor) || tensor.shape().len().max(rank) > MAX_RANK {
            return None;
        }
        self.establish(src, type_index::TENSOR, exit);
        for fact in facts(&param) {
            self.ask(src, fact, exit);
        }
        self.establish(shape, type_index::SHAPE, exit);
        self.code.push(Ins::Dims { place: shape, rank: rank as u32, exit });
        let (mut have, mut want) = (Vec::new(), Vec::new());
        for dim in 0..param.shape.len() as u32 {
            let var = self.var();
            self.code.push(Ins::Extent { var, place: src, dim });
            have.push(Plain::number(var));
        }
        for at in 0..rank as u32 {
            let var = self.var();
            self.code.push(Ins::Number { var, place: shape, at });
            want.push(Plain::number(var));
        }
        self.code.push(Ins::Fits { have, want: want.clone(), exit });
        Some(want)
    }
}

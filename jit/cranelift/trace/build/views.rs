//! Views of tensors, with guards that the tensor allows them.

use reflex_runtime::abi::type_index;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::{Tensor, byte_size};
use reflex_vm::decode::ArgRange;
use reflex_vm::kernel::{Dim, TensorParam};
use reflex_vm::tier::Step;

use super::{RegState, TraceBuilder, observed};
use crate::facts::tensor::param_facts;
use crate::trace::ir::{Arg, ExitId, Ins, Scalar, VReg};

/// Most dimensions of a tensor and of its view, if the shape is known only at run time.
const MAX_RANK: usize = 8;

/// A shape in a register, and its number of dimensions.
struct RankedShape {
    vreg: VReg,
    rank: usize,
}

impl TraceBuilder {
    /// Records a view, if the present tensor allows it. Otherwise returns `None` and records nothing.
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
        let dims = match args[..] {
            [src, Arg::Const(_)] => self.constant_view(tensor, src, wanted, exit)?,
            [Arg::Reg(src, _), Arg::Reg(shape, _)] => self.dynamic_view(
                tensor,
                src,
                RankedShape { vreg: shape, rank: wanted.len() },
                exit,
            )?,
            _ => return None,
        };
        // The guards refined the types of the operands.
        let args = self.args(step, range);
        let (frame, dtype) = (self.frame(), tensor.dtype());
        let [src, shape] = args[..] else { return None };
        self.code.push(Ins::MakeView { frame, src, shape, dims, dtype, exit });
        self.take_result(dst, RegState::Known(type_index::TENSOR));
        Some(())
    }

    /// Guards that a tensor has its present shape, so that a view of constant dimensions fits.
    fn constant_view(
        &mut self,
        tensor: &Tensor,
        src: Arg,
        wanted: &[i64],
        exit: ExitId,
    ) -> Option<Vec<Scalar>> {
        let shape = tensor.shape().iter().copied().map(Dim::Static).collect();
        let param = TensorParam { dtype: tensor.dtype(), shape };
        if !param.accepts(tensor) {
            return None;
        }
        match src {
            Arg::Reg(vreg, _) => {
                self.guard_type(vreg, type_index::TENSOR, exit);
                for fact in param_facts(&param) {
                    self.guard_fact(vreg, fact, exit);
                }
            }
            Arg::Const(_) => {}
            Arg::Scalar(_) | Arg::Vm | Arg::Object(_) => return None,
        }
        Some(wanted.iter().copied().map(Scalar::int).collect())
    }

    /// Guards that a view of the shape in a register fits a tensor.
    fn dynamic_view(
        &mut self,
        tensor: &Tensor,
        src: VReg,
        RankedShape { vreg: wanted, rank }: RankedShape,
        exit: ExitId,
    ) -> Option<Vec<Scalar>> {
        let shape: Vec<Dim> = (0..tensor.shape().len() as u32).map(Dim::Symbolic).collect();
        let param = TensorParam { dtype: tensor.dtype(), shape };
        if !param.accepts(tensor) || tensor.shape().len().max(rank) > MAX_RANK {
            return None;
        }
        self.guard_type(src, type_index::TENSOR, exit);
        for fact in param_facts(&param) {
            self.guard_fact(src, fact, exit);
        }
        self.guard_type(wanted, type_index::SHAPE, exit);
        self.code.push(Ins::GuardShapeRank { vreg: wanted, rank: rank as u32, exit });
        let (mut have, mut want) = (Vec::new(), Vec::new());
        for dim in 0..param.shape.len() as u32 {
            let var = self.var();
            self.code.push(Ins::LoadDim { var, vreg: src, dim });
            have.push(Scalar::number(var));
        }
        for at in 0..rank as u32 {
            let var = self.var();
            self.code.push(Ins::LoadShapeDim { var, vreg: wanted, at });
            want.push(Scalar::number(var));
        }
        self.code.push(Ins::GuardViewFits { have, want: want.clone(), exit });
        Some(want)
    }
}

//! Calls of kernels by their raw entries, with guards for the checks of the packed entry.

use reflex_runtime::abi::type_index;
use reflex_runtime::tensor::Tensor;
use reflex_vm::decode::ArgRange;
use reflex_vm::kernel::{Dim, RawKernel, SymbolSource};
use reflex_vm::tier::Step;

use super::{TraceBuilder, observed};
use crate::facts::tensor::{TensorFact, param_facts};
use crate::trace::ir::{Arg, ExitId, Ins, VReg};

impl TraceBuilder {
    /// Records a call of a kernel by its raw entry, if the present arguments allow that. Otherwise
    /// returns `None` and records nothing.
    pub(super) fn kernel(&mut self, step: &Step<'_>, callee: u32, range: ArgRange) -> Option<()> {
        let kernel = step.program.packed(callee)?.raw.as_ref()?;
        let sources = step.func.args(range);
        let seen = observed(step, sources);
        let tensors: Vec<&Tensor> =
            seen.iter().map(|seen| seen.as_ref()?.downcast_ref()).collect::<Option<_>>()?;
        let args = self.args(step, range);
        let usual = |arg: &Arg| matches!(arg, Arg::Reg(..) | Arg::Const(_));
        if !kernel.accepts(&tensors) || !args.iter().all(usual) {
            return None;
        }
        let exit = self.exit(step.pc);
        let mut unknown = false;
        for arg in &args {
            if let Arg::Reg(vreg, None) = *arg {
                unknown = true;
                self.guard_type(vreg, type_index::TENSOR, exit);
            }
        }
        for number in 0..args.len() {
            self.guard_parameter(kernel, &args, &tensors, number, exit);
        }
        let args = if unknown { self.args(step, range) } else { args };
        let frame = self.frame();
        self.code.push(Ins::CallKernel { frame, callee, args, exit });
        Some(())
    }

    /// Records a guard of a fact, unless the fact was guarded before.
    pub(super) fn guard_fact(&mut self, vreg: VReg, fact: TensorFact, exit: ExitId) {
        let guarded = self.guarded.entry(vreg).or_default();
        if !guarded.contains(&fact) {
            guarded.push(fact);
            self.code.push(Ins::GuardFact { vreg, fact, exit });
        }
    }

    /// Records the guards of one argument; constants need none.
    fn guard_parameter(
        &mut self,
        kernel: &RawKernel,
        args: &[Arg],
        tensors: &[&Tensor],
        number: usize,
        exit: ExitId,
    ) {
        let Arg::Reg(vreg, _) = args[number] else { return };
        let param = &kernel.params()[number];
        let mut alike: Vec<(u32, VReg, u32)> = Vec::new();
        for mut fact in param_facts(param) {
            if let TensorFact::NonNegative { dim } = fact {
                let extent = param.shape[dim as usize];
                let origin = match extent {
                    Dim::Symbolic(symbol) => Some(kernel.symbol_sources()[symbol as usize]),
                    Dim::Static(_) => None,
                };
                match (constant_dim(kernel, args, tensors, extent), origin) {
                    (Some(is), _) => fact = TensorFact::Dim { dim, is },
                    (None, Some(SymbolSource { param: at, dim: from }))
                        if (at, from) != (number, dim as usize) =>
                    {
                        if let Arg::Reg(other, _) = args[at] {
                            alike.push((dim, other, from as u32));
                        }
                    }
                    _ => {}
                }
            }
            self.guard_fact(vreg, fact, exit);
        }
        self.code.extend(alike.into_iter().map(|(dim, other, at)| Ins::GuardSameDim {
            vreg,
            dim,
            other,
            at,
            exit,
        }));
    }
}

/// The size of a symbolic dimension, if a constant tensor has that dimension.
fn constant_dim(kernel: &RawKernel, args: &[Arg], tensors: &[&Tensor], extent: Dim) -> Option<i64> {
    let mut constants = (0..args.len()).filter(|&at| matches!(args[at], Arg::Const(_)));
    constants.find_map(|at| {
        let dim = kernel.params()[at].shape.iter().position(|it| *it == extent)?;
        tensors[at].shape().get(dim).copied()
    })
}

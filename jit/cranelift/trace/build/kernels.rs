//! Calls of kernels by their raw entries, behind guards for what the packed entry would check.

use reflex_runtime::abi::type_index;
use reflex_runtime::tensor::Tensor;
use reflex_vm::decode::ArgRange;
use reflex_vm::kernel::{Dim, RawKernel, SymbolSource};
use reflex_vm::tier::Step;

use super::{Builder, observed};
use crate::raw::{Fact, facts};
use crate::trace::ir::{Arg, ExitId, Ins, Place};

impl Builder {
    /// Records a call of a kernel that may be called without its checks now; `None` when this is
    /// no such call, and then nothing is recorded.
    pub(super) fn kernel(&mut self, step: &Step<'_>, callee: u32, range: ArgRange) -> Option<()> {
        let kernel = step.program.packed(callee)?.raw.as_ref()?;
        let sources = step.func.args(range);
        let seen = observed(step, sources);
        let tensors: Vec<&Tensor> =
            seen.iter().map(|seen| seen.as_ref()?.downcast_ref()).collect::<Option<_>>()?;
        let args = self.args(step, range);
        let usual = |arg: &Arg| matches!(arg, Arg::Place(..) | Arg::Const(_));
        if !kernel.accepts(&tensors) || !args.iter().all(usual) {
            return None;
        }
        let exit = self.exit(step.pc);
        let mut unknown = false;
        for arg in &args {
            if let Arg::Place(place, None) = *arg {
                unknown = true;
                self.establish(place, type_index::TENSOR, exit);
            }
        }
        for number in 0..args.len() {
            self.guard_parameter(kernel, &args, &tensors, number, exit);
        }
        let args = if unknown { self.args(step, range) } else { args };
        let frame = self.frame();
        self.code.push(Ins::Raw { frame, callee, args, exit });
        Some(())
    }

    /// A guard for a fact, unless it has been asked for.
    pub(super) fn ask(&mut self, place: Place, fact: Fact, exit: ExitId) {
        let guarded = self.guarded.entry(place).or_default();
        if !guarded.contains(&fact) {
            guarded.push(fact);
            self.code.push(Ins::Is { place, fact, exit });
        }
    }

    /// Guards for one argument; constants need none.
    fn guard_parameter(
        &mut self,
        kernel: &RawKernel,
        args: &[Arg],
        tensors: &[&Tensor],
        number: usize,
        exit: ExitId,
    ) {
        let Arg::Place(place, _) = args[number] else { return };
        let param = &kernel.params()[number];
        let mut alike: Vec<(u32, Place, u32)> = Vec::new();
        for mut fact in facts(param) {
            if let Fact::Counts { dim } = fact {
                let extent = param.shape[dim as usize];
                let origin = match extent {
                    Dim::Symbolic(symbol) => Some(kernel.symbol_sources()[symbol as usize]),
                    Dim::Static(_) => None,
                };
                match (constant_extent(kernel, args, tensors, extent), origin) {
                    (Some(is), _) => fact = Fact::Extent { dim, is },
                    (None, Some(SymbolSource { param: at, dim: from }))
                        if (at, from) != (number, dim as usize) =>
                    {
                        if let Arg::Place(other, _) = args[at] {
                            alike.push((dim, other, from as u32));
                        }
                    }
                    _ => {}
                }
            }
            self.ask(place, fact, exit);
        }
        self.code.extend(alike.into_iter().map(|(dim, other, at)| Ins::Alike {
            place,
            dim,
            other,
            at,
            exit,
        }));
    }
}

/// What a symbol is when a constant tensor says so.
fn constant_extent(
    kernel: &RawKernel,
    args: &[Arg],
    tensors: &[&Tensor],
    extent: Dim,
) -> Option<i64> {
    let mut constants = (0..args.len()).filter(|&at| matches!(args[at], Arg::Const(_)));
    constants.find_map(|at| {
        let dim = kernel.params()[at].shape.iter().position(|it| *it == extent)?;
        tensors[at].shape().get(dim).copied()
    })
}

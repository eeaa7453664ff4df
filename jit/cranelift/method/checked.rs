//! Facts that earlier operations have checked. A check that passed and a kernel that ran prove facts
//! about their arguments, no matter which tier ran them. The facts hold until the register is written
//! or control flow merges.

use std::collections::HashMap;

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, match_code};
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op};
use reflex_vm::program::Program;

use crate::facts::call_args::CallArgs;
use crate::facts::registers::moved;
use crate::facts::tensor::{TensorFact, param_facts};

/// Facts about the tensors in registers; they say nothing if the value is no tensor.
#[derive(Default)]
pub(crate) struct CheckedTensors(HashMap<u32, Vec<TensorFact>>);

impl CheckedTensors {
    /// Returns true if a fact is known about the tensor in a register.
    pub(crate) fn holds(&self, reg: u32, fact: TensorFact) -> bool {
        self.0.get(&reg).is_some_and(|known| {
            let counts = |dim| {
                let extent =
                    |fact: &TensorFact| matches!(fact, TensorFact::Dim { dim: at, .. } if *at == dim);
                known.iter().any(extent)
            };
            known.contains(&fact) || matches!(fact, TensorFact::NonNegative { dim } if counts(dim))
        })
    }

    /// Updates the facts to those after the operation at `pc`.
    pub(crate) fn follow(&mut self, program: &Program, func: &FuncCode, pc: usize) {
        match func.ops[pc] {
            Op::CallPacked { callee, args, dst } => {
                self.kernel(program, func, callee, args);
                self.0.remove(&dst);
            }
            Op::Builtin { builtin, args, dst } => {
                self.check(&CallArgs { program, func, args }, builtin);
                if builtin == Builtin::MakeTuple {
                    for reg in moved(func, args) {
                        self.0.remove(&reg);
                    }
                }
                self.0.remove(&dst);
            }
            Op::CallVm { args, dst, .. } => {
                for reg in moved(func, args) {
                    self.0.remove(&reg);
                }
                self.0.remove(&dst);
            }
            Op::InvokeClosure { dst, .. } | Op::Kill { dst } => drop(self.0.remove(&dst)),
            Op::Copy { src, dst } => {
                self.0.remove(&dst);
                if let ArgSource::LastUse(reg) = src.get() {
                    self.0.remove(&reg);
                }
            }
            Op::Branch { .. } | Op::Goto { .. } | Op::LoopBack { .. } | Op::Ret { .. } => {}
        }
    }

    /// The packed entry of a kernel with a raw entry rejects arguments that the raw entry cannot take.
    fn kernel(&mut self, program: &Program, func: &FuncCode, callee: u32, args: ArgRange) {
        let Some(kernel) = program.packed(callee).and_then(|packed| packed.raw.as_ref()) else {
            return;
        };
        for (source, param) in func.args(args).iter().zip(kernel.params()) {
            if let Some(reg) = source.reg() {
                self.learn(reg, param_facts(param));
            }
        }
    }

    fn check(&mut self, args: &CallArgs<'_>, builtin: Builtin) {
        let Some(reg) = args.reg(0) else { return };
        match builtin {
            Builtin::CheckTensorInfo => {
                let rank = args.int(1).and_then(|rank| u32::try_from(rank).ok());
                let dtype = args.get(2).filter(|dtype| dtype.type_index() == type_index::DATA_TYPE);
                let dtype = dtype.and_then(|dtype| dtype.as_dtype());
                self.learn(reg, rank.map(TensorFact::Rank));
                self.learn(reg, dtype.map(|dtype| TensorFact::Dtype(dtype.to_bits())));
            }
            Builtin::MatchShape => {
                let Some(rank) = args.int(2).and_then(|rank| u32::try_from(rank).ok()) else {
                    return;
                };
                self.learn(reg, [TensorFact::Rank(rank)]);
                for dim in 0..rank {
                    let at = 3 + 2 * dim as usize;
                    if args.int(at) == Some(match_code::ASSERT_IMM)
                        && let Some(is) = args.int(at + 1)
                    {
                        self.learn(reg, [TensorFact::Dim { dim, is }]);
                    }
                }
            }
            _ => {}
        }
    }

    fn learn(&mut self, reg: u32, facts: impl IntoIterator<Item = TensorFact>) {
        let known = self.0.entry(reg).or_default();
        for fact in facts {
            if !known.contains(&fact) {
                known.push(fact);
            }
        }
    }
}

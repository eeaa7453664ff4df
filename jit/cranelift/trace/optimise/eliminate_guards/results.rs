//! Facts about the results of instructions.

use reflex_runtime::abi::type_index;
use reflex_runtime::shape::Shape;
use reflex_vm::builtins::Builtin;
use reflex_vm::program::Program;

use super::super::super::ir::{Arg, BuiltinResult, FrameId, Ins, Scalar, VReg};
use super::{KnownValues, ValueFacts, int};

/// The destination of a result.
pub(super) enum Destination {
    Reg(VReg),
    Result(FrameId),
}

impl KnownValues {
    /// The destination of an instruction's result, and the facts about it, before the effect of the
    /// instruction is tracked. `None` if it has no new result.
    pub(super) fn made(
        &self,
        program: &Program,
        ins: &Ins,
    ) -> Option<(Destination, Option<ValueFacts>)> {
        match ins {
            Ins::Allocate { frame, builtin, args, dst, .. } => {
                let left = dst.map_or(Destination::Result(*frame), Destination::Reg);
                Some((left, self.value(program, *builtin, args)))
            }
            Ins::CallBuiltin { frame, builtin, args, result: BuiltinResult::Slot, .. } => {
                Some((Destination::Result(*frame), self.value(program, *builtin, args)))
            }
            Ins::MakeView { frame, src, shape, dims, dtype, .. } => {
                let cpu = self.known(Some(src)).is_none_or(|from| from.cpu);
                let dtype = Some(i64::from(dtype.to_bits()));
                let rank = Some(dims.len() as i64);
                let known = self.tensor(program, Some(shape));
                Some((Destination::Result(*frame), Some(ValueFacts { cpu, dtype, rank, ..known })))
            }
            Ins::CallPacked { frame, .. } | Ins::CallFunction { frame, .. } => {
                Some((Destination::Result(*frame), None))
            }
            Ins::TakeResult { frame, dst } => {
                let known = self.results.get(frame).map(|&value| self.known[value].clone());
                Some((Destination::Reg(*dst), known))
            }
            _ => None,
        }
    }

    /// Stores a result and its facts.
    pub(super) fn put(&mut self, left: Destination, known: Option<ValueFacts>) {
        let value = known.map(|known| {
            self.known.push(known);
            self.known.len() - 1
        });
        match (left, value) {
            (Destination::Reg(vreg), Some(value)) => drop(self.at.insert(vreg, value)),
            (Destination::Reg(vreg), None) => drop(self.at.remove(&vreg)),
            (Destination::Result(frame), Some(value)) => drop(self.results.insert(frame, value)),
            (Destination::Result(frame), None) => drop(self.results.remove(&frame)),
        }
    }

    fn known(&self, arg: Option<&Arg>) -> Option<&ValueFacts> {
        match arg {
            Some(Arg::Reg(vreg, _)) => Some(&self.known[*self.at.get(vreg)?]),
            _ => None,
        }
    }

    /// The facts about the result of a builtin.
    fn value(&self, program: &Program, builtin: Builtin, args: &[Arg]) -> Option<ValueFacts> {
        match builtin {
            // All numbered devices are the host's, unless the program is for another one.
            Builtin::AllocStorage => {
                Some(ValueFacts { cpu: program.device().is_cpu(), ..ValueFacts::default() })
            }
            Builtin::AllocTensor => {
                let cpu = self.known(args.first()).is_some_and(|storage| storage.cpu);
                let dtype = match args.get(3) {
                    Some(Arg::Scalar(Scalar::Const { tag: type_index::DATA_TYPE, bits })) => {
                        Some(*bits)
                    }
                    _ => None,
                };
                Some(ValueFacts { cpu, dtype, ..self.tensor(program, args.get(2)) })
            }
            Builtin::Reshape => {
                let from = self.known(args.first());
                let (cpu, dtype) = from.map_or((false, None), |from| (from.cpu, from.dtype));
                Some(ValueFacts { cpu, dtype, ..self.tensor(program, args.get(1)) })
            }
            Builtin::MakeTuple => Some(ValueFacts {
                tag: Some(type_index::ARRAY),
                rank: Some(args.len() as i64),
                adt: int(args.first()),
                ..ValueFacts::default()
            }),
            Builtin::MakeShape => {
                let rank = int(args.get(1))?;
                Some(ValueFacts {
                    tag: Some(type_index::SHAPE),
                    rank: Some(rank),
                    ..ValueFacts::default()
                })
            }
            _ => None,
        }
    }

    /// The facts about a contiguous tensor of the dimensions of a shape.
    fn tensor(&self, program: &Program, shape: Option<&Arg>) -> ValueFacts {
        let mut made = ValueFacts { tag: Some(type_index::TENSOR), ..ValueFacts::default() };
        (made.dense, made.all_count) = (true, true);
        let constant = match shape {
            Some(Arg::Const(index)) => program.consts()[*index as usize].view(),
            _ => {
                if let Some(shape) = self.known(shape) {
                    (made.rank, made.dims) = (shape.rank, shape.dims.clone());
                }
                return made;
            }
        };
        if let Some(shape) = constant.downcast_ref::<Shape>() {
            made.rank = Some(shape.len() as i64);
            made.dims = shape.iter().copied().enumerate().collect();
        }
        made
    }
}

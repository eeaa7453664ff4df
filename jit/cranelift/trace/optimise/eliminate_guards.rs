//! Guard elimination: a guard whose outcome is known is removed.
//!
//! Values are tracked from register to register, through calls. The tracked facts never change: type,
//! rank, element type and dimensions of a tensor or shape, items of a tuple, device and contiguity of
//! a tensor. The results of allocations have known facts from the start (`results`); tests of tags
//! tell which constructor made a value (`tags`).

mod results;
mod tags;

use std::collections::HashMap;

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_vm::builtins::{Builtin, match_code};
use reflex_vm::program::Program;

use super::super::ir::{Arg, BuiltinResult, DimOf, FrameId, Ins, Scalar, Trace, VReg, Var};
use crate::facts::tensor::TensorFact;

/// Known facts about a value.
#[derive(Clone, Debug, Default, PartialEq)]
struct ValueFacts {
    tag: Option<i32>,
    /// Number of dimensions of a tensor or shape, or of items of a tuple.
    rank: Option<i64>,
    dtype: Option<i64>,
    dims: HashMap<usize, i64>,
    /// The function of a closure, and its number of captured values.
    closure: Option<(u32, u32)>,
    /// It is a tensor or storage in the host's memory.
    cpu: bool,
    /// It has data, in row-major order.
    dense: bool,
    /// Dimensions that are not negative.
    counts: Vec<u32>,
    all_count: bool,
    /// Dimensions that equal those of other values: the dimension, the value, its dimension.
    alike: Vec<(u32, usize, u32)>,
    /// The tag of an ADT value, and tags that it does not have.
    adt: Option<i64>,
    other_adts: Vec<i64>,
}

/// Values in registers, and the facts about them.
#[derive(Default)]
struct KnownValues {
    at: HashMap<VReg, usize>,
    /// Values in result slots, if known.
    results: HashMap<FrameId, usize>,
    known: Vec<ValueFacts>,
    /// Variables that say whether a value has a tag.
    tested: HashMap<Var, (usize, i64)>,
    /// Variables that are constants.
    constants: HashMap<Var, i64>,
}

impl KnownValues {
    fn of(&mut self, vreg: VReg) -> usize {
        let known = &mut self.known;
        *self.at.entry(vreg).or_insert_with(|| {
            known.push(ValueFacts::default());
            known.len() - 1
        })
    }

    /// Adds facts; returns true if all were known.
    fn learn(&mut self, vreg: VReg, learn: impl FnOnce(&mut ValueFacts)) -> bool {
        let value = self.of(vreg);
        let mut known = self.known[value].clone();
        learn(&mut known);
        let new = known != self.known[value];
        self.known[value] = known;
        !new
    }
}

/// Removes guards and checks whose outcome is known.
pub(super) fn eliminate_guards(program: &Program, trace: &mut Trace) {
    let mut values = KnownValues::default();
    trace.code.retain_mut(|ins| {
        let made = values.made(program, ins);
        values.simplify_condition(ins);
        values.fold_dim(ins);
        values.fold_tag_test(ins);
        let drop = values.is_redundant(ins);
        if let Some((vreg, known)) = made {
            values.put(vreg, known);
        }
        !drop
    });
}

fn int(arg: Option<&Arg>) -> Option<i64> {
    match arg {
        Some(Arg::Scalar(Scalar::Const { tag: type_index::INT, bits })) => Some(*bits),
        _ => None,
    }
}

impl KnownValues {
    /// Returns true if an instruction is a guard whose outcome is known; tracks its effect otherwise.
    fn is_redundant(&mut self, ins: &Ins) -> bool {
        self.forget_tags(ins);
        match ins {
            Ins::GuardType { vreg, tag, .. } => {
                return self.learn(*vreg, |known| known.tag = Some(*tag));
            }
            Ins::GuardFact { vreg, fact, .. } => return self.fact(*vreg, *fact),
            Ins::GuardClosure { vreg, func, captured, .. } => {
                return self.learn(*vreg, |known| known.closure = Some((*func, *captured)));
            }
            Ins::GuardShapeRank { vreg, rank, .. } => {
                return self.learn(*vreg, |known| known.rank = Some(i64::from(*rank)));
            }
            Ins::GuardSameDim { vreg, dim, other, at, .. } => {
                return self
                    .same_dim(DimOf { vreg: *vreg, dim: *dim }, DimOf { vreg: *other, dim: *at });
            }
            Ins::GuardTruth { var, expected, .. } => return self.truth(*var, *expected),
            Ins::Let { var, value: Scalar::Const { bits, .. } } => {
                self.constants.insert(*var, *bits);
                return false;
            }
            Ins::CallBuiltin { builtin: Builtin::RelayIs, args, result, .. } => {
                self.test_tag(args, *result);
                return false;
            }
            Ins::CallBuiltin { builtin, inline: true, args, .. } => {
                return self.check(*builtin, args).unwrap_or(false);
            }
            Ins::Move { dst, src } | Ins::Copy { dst, src: Arg::Reg(src, _), .. } => {
                let value = self.of(*src);
                self.at.insert(*dst, value);
                if matches!(ins, Ins::Move { .. }) {
                    self.at.remove(src);
                }
                return false;
            }
            _ => {}
        }
        for vreg in ins.writes().into_iter().flatten() {
            self.at.remove(&vreg);
        }
        false
    }

    /// Reads a condition without type checks, if the facts prove them.
    fn simplify_condition(&self, ins: &mut Ins) {
        let Ins::CallBuiltin { builtin: Builtin::ReadIfCond, args, result, .. } = ins else {
            return;
        };
        let (&[Arg::Reg(vreg, _)], BuiltinResult::Var(_, var)) = (&args[..], *result) else {
            return;
        };
        let known = self.at.get(&vreg).map(|&value| &self.known[value]);
        let bool = i64::from(DType::BOOL.to_bits());
        if known
            .is_some_and(|of| of.rank == Some(0) && of.dtype == Some(bool) && of.cpu && of.dense)
        {
            *ins = Ins::LoadBool { var, vreg };
        }
    }

    /// Replaces the load of a known dimension by a constant.
    fn fold_dim(&self, ins: &mut Ins) {
        let (Ins::LoadDim { var, vreg, dim: at } | Ins::LoadShapeDim { var, vreg, at }) = *ins
        else {
            return;
        };
        let known = self.at.get(&vreg).map(|&value| &self.known[value]);
        if let Some(&is) = known.and_then(|known| known.dims.get(&(at as usize))) {
            *ins = Ins::Let { var, value: Scalar::int(is) };
        }
    }

    /// Returns true if two dimensions are known to be equal; they are afterwards.
    fn same_dim(&mut self, ours: DimOf, theirs: DimOf) -> bool {
        let (left, right) = (self.of(ours.vreg), self.of(theirs.vreg));
        let (dim, at) = (ours.dim, theirs.dim);
        let extent = |value: usize, dim: u32| self.known[value].dims.get(&(dim as usize));
        let (ours, theirs) = (extent(left, dim).copied(), extent(right, at).copied());
        let same = self.known[left].alike.contains(&(dim, right, at));
        if same || ours.is_some() && ours == theirs || (left, dim) == (right, at) {
            return true;
        }
        for (value, dim, same) in [(left, dim, (right, at)), (right, at, (left, dim))] {
            let known = &mut self.known[value];
            known.alike.push((dim, same.0, same.1));
            known.dims.extend(ours.or(theirs).map(|extent| (dim as usize, extent)));
        }
        false
    }

    /// Returns true if a fact is known; it is known afterwards.
    fn fact(&mut self, vreg: VReg, fact: TensorFact) -> bool {
        self.learn(vreg, |known| match fact {
            TensorFact::Rank(rank) => known.rank = Some(i64::from(rank)),
            TensorFact::Dtype(bits) => known.dtype = Some(i64::from(bits as u32)),
            TensorFact::Cpu => known.cpu = true,
            TensorFact::Dim { dim, is } => {
                known.dims.insert(dim as usize, is);
            }
            TensorFact::NonNegative { dim } => {
                let counts = known.dims.get(&(dim as usize)).is_some_and(|&extent| extent >= 0);
                if !counts && !known.all_count && !known.counts.contains(&dim) {
                    known.counts.push(dim);
                }
            }
            TensorFact::Contiguous { .. } => known.dense = true,
        })
    }

    /// Returns if the outcome of a check is known; `None` if the builtin checks no register. The
    /// facts that it checks are known afterwards.
    fn check(&mut self, builtin: Builtin, args: &[Arg]) -> Option<bool> {
        let &Arg::Reg(vreg, tag) = args.first()? else { return None };
        match builtin {
            Builtin::CheckTensorInfo => {
                let (rank, dtype) = (int(args.get(1))?, element_type(args)?);
                tag.filter(|&tag| tag == type_index::TENSOR)?;
                Some(self.learn(vreg, |known| {
                    known.rank = Some(rank).filter(|&rank| rank >= 0).or(known.rank);
                    known.dtype = dtype.or(known.dtype);
                }))
            }
            Builtin::CheckShapeInfo | Builtin::CheckTupleInfo => {
                let rank = int(args.get(1))?;
                tag?;
                Some(self.learn(vreg, |known| {
                    known.rank = Some(rank).filter(|&rank| rank >= 0).or(known.rank);
                }))
            }
            Builtin::MatchShape => self.match_shape(vreg, tag?, args),
            _ => None,
        }
    }

    fn match_shape(&mut self, vreg: VReg, tag: i32, args: &[Arg]) -> Option<bool> {
        let [_, Arg::Scalar(Scalar::NONE), _, pairs @ .., _context] = args else { return None };
        let rank = int(args.get(2))?;
        let mut dims = HashMap::new();
        for (dim, pair) in pairs.chunks(2).enumerate() {
            match int(pair.first())? {
                match_code::ASSERT_IMM => {
                    dims.insert(dim, int(pair.get(1))?);
                }
                match_code::NO_OP => {}
                _ => return None,
            }
        }
        let usual = [type_index::TENSOR, type_index::SHAPE].contains(&tag);
        (usual && pairs.len() as i64 == 2 * rank).then(|| {
            self.learn(vreg, |known| {
                known.rank = Some(rank);
                known.dims.extend(dims);
            })
        })
    }
}

/// The element type that `check_tensor_info` checks; `None` if that is unknown.
fn element_type(args: &[Arg]) -> Option<Option<i64>> {
    match args {
        [_, _, _context] => Some(None),
        [_, _, Arg::Scalar(Scalar::Const { tag: type_index::DATA_TYPE, bits }), _context] => {
            Some(Some(*bits))
        }
        _ => None,
    }
}

//! Facts about VM registers at each operation of a function: a forward data-flow analysis.
//!
//! It lets generated code omit the test if a register holds an object that must be released. Facts
//! hold on every path to an operation, also where the interpreter or a trace runs the operations
//! before it.
//!
//! Not in this module: types that hold only after a check has passed (see `method::checked`).

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, ResultKind};
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op, Source};
use reflex_vm::program::Program;

/// Most facts for one function. In larger functions, no fact is known about any register.
const MAX_FACTS: usize = 1 << 22;

/// A fact about the value of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegFact {
    /// Nothing.
    Unknown,
    /// It is not an object.
    Scalar,
    /// It is of this type.
    Tag(i32),
    /// The operation at this index, which allocates, made it.
    Allocated(u32),
}

impl RegFact {
    pub(crate) const NONE: RegFact = RegFact::Tag(type_index::NONE);

    /// Whether the value is an object; `None` if that is unknown.
    pub(crate) fn is_object(self) -> Option<bool> {
        match self {
            RegFact::Unknown => None,
            RegFact::Scalar => Some(false),
            RegFact::Tag(tag) => Some(tag >= type_index::STATIC_OBJECT_BEGIN),
            RegFact::Allocated(_) => Some(true),
        }
    }

    fn join(self, other: RegFact) -> RegFact {
        match (self.is_object(), other.is_object()) {
            _ if self == other => self,
            (Some(false), Some(false)) => RegFact::Scalar,
            _ => RegFact::Unknown,
        }
    }
}

/// The facts where control flow merges; [`apply`] derives those in between.
pub(crate) struct RegFacts {
    /// By operation; `None` where control flow does not merge.
    at_merges: Vec<Option<Box<[RegFact]>>>,
    num_regs: usize,
}

impl RegFacts {
    /// Computes the facts of a function.
    pub(crate) fn of(program: &Program, func: &FuncCode) -> RegFacts {
        let num_regs = func.num_regs as usize;
        let mut facts = RegFacts { at_merges: vec![None; func.ops.len()], num_regs };
        let leaders = leaders(func);
        let count = leaders.iter().filter(|&&leader| leader).count();
        if count.saturating_mul(num_regs) > MAX_FACTS {
            facts.at_merges.fill_with(|| None);
            for (pc, _) in leaders.iter().enumerate().filter(|(_, leader)| **leader) {
                facts.at_merges[pc] = Some(Box::default());
            }
            return facts;
        }
        let mut entry = vec![RegFact::NONE; num_regs];
        entry[..func.num_args as usize].fill(RegFact::Unknown);
        facts.at_merges[0] = Some(entry.into());
        let mut work = vec![0];
        while let Some(start) = work.pop() {
            facts.block(program, func, &leaders, start, &mut work);
        }
        facts
    }

    fn block(
        &mut self,
        program: &Program,
        func: &FuncCode,
        leaders: &[bool],
        start: usize,
        work: &mut Vec<usize>,
    ) {
        let mut state = self.at_merges[start].clone().unwrap_or_default();
        for pc in start..func.ops.len() {
            apply(program, func, pc, &mut state);
            let (next, jump) = successors(&func.ops[pc], pc);
            if let Some(target) = jump {
                self.meet(target, &state, work);
            }
            match next {
                Some(next) if leaders[next] => return self.meet(next, &state, work),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn meet(&mut self, target: usize, state: &[RegFact], work: &mut Vec<usize>) {
        match &mut self.at_merges[target] {
            Some(known) => {
                let mut changed = false;
                for (known, new) in known.iter_mut().zip(state) {
                    let joined = known.join(*new);
                    changed |= joined != *known;
                    *known = joined;
                }
                if changed {
                    work.push(target);
                }
            }
            none => {
                *none = Some(state.into());
                work.push(target);
            }
        }
    }

    /// Calls `visit` with every reachable operation and the facts before it.
    pub(crate) fn for_each(
        &self,
        program: &Program,
        func: &FuncCode,
        mut visit: impl FnMut(usize, &[RegFact]),
    ) {
        let (mut state, mut reached) = (Vec::new(), Reached::FromBefore);
        for (pc, op) in func.ops.iter().enumerate() {
            self.enter(pc, reached, &mut state);
            visit(pc, &state);
            apply(program, func, pc, &mut state);
            reached = Reached::after(op);
        }
    }

    /// Returns true if control flow merges at operation `pc`.
    pub(crate) fn is_merge_point(&self, pc: usize) -> bool {
        self.at_merges[pc].is_some()
    }

    /// Updates `state` from the facts after the previous operation to those before operation `pc`.
    pub(crate) fn enter(&self, pc: usize, from: Reached, state: &mut Vec<RegFact>) {
        match &self.at_merges[pc] {
            Some(known) if known.len() == self.num_regs => {
                state.clear();
                state.extend_from_slice(known);
            }
            // The function has no facts, or the operation is unreachable.
            Some(_) => *state = vec![RegFact::Unknown; self.num_regs],
            None if from == Reached::ByJumps => *state = vec![RegFact::Unknown; self.num_regs],
            None => {}
        }
    }
}

/// The ways into an operation, as far as the one before it is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Control may fall through from the operation before.
    #[default]
    FromBefore,
    /// Only jumps lead to the operation.
    ByJumps,
}

impl Reached {
    /// The ways into the operation after `op`.
    pub(crate) fn after(op: &Op) -> Reached {
        match successors(op, 0).0 {
            Some(_) => Reached::FromBefore,
            None => Reached::ByJumps,
        }
    }
}

/// The operations that may run after the one at `pc`: the next one, and the target of a jump.
fn successors(op: &Op, pc: usize) -> (Option<usize>, Option<usize>) {
    match *op {
        Op::Goto { target } | Op::LoopBack { target, .. } => (None, Some(target as usize)),
        Op::Branch { otherwise, .. } => (Some(pc + 1), Some(otherwise as usize)),
        Op::Ret { .. } => (None, None),
        Op::CallPacked { .. }
        | Op::CallVm { .. }
        | Op::Builtin { .. }
        | Op::InvokeClosure { .. }
        | Op::Copy { .. }
        | Op::Kill { .. } => (Some(pc + 1), None),
    }
}

/// Marks the operations where control flow merges.
fn leaders(func: &FuncCode) -> Vec<bool> {
    let mut leaders = vec![false; func.ops.len()];
    leaders[0] = true;
    for (pc, op) in func.ops.iter().enumerate() {
        if let (_, Some(target)) = successors(op, pc) {
            leaders[target] = true;
        }
    }
    leaders
}

/// Updates facts from before an operation to after it.
pub(crate) fn apply(program: &Program, func: &FuncCode, pc: usize, state: &mut [RegFact]) {
    let mut set = |reg: u32, holds: RegFact| {
        // `DISCARD` is beyond every register.
        if let Some(fact) = state.get_mut(reg as usize) {
            *fact = holds;
        }
    };
    match func.ops[pc] {
        Op::CallPacked { dst, .. } | Op::InvokeClosure { dst, .. } => set(dst, RegFact::Unknown),
        Op::CallVm { args, dst, .. } => {
            for reg in moved(func, args) {
                set(reg, RegFact::NONE);
            }
            set(dst, RegFact::Unknown);
        }
        Op::Builtin { builtin, args, dst } => {
            if builtin == Builtin::MakeTuple {
                moved(func, args).for_each(|reg| set(reg, RegFact::NONE));
            }
            let made = builtin.lowering().recycles().then_some(RegFact::Allocated(pc as u32));
            set(dst, made.or(result_tag(builtin).map(RegFact::Tag)).unwrap_or(RegFact::Unknown));
        }
        Op::Copy { src, dst } => {
            let value = match src.reg() {
                Some(reg) => state.get(reg as usize).copied().unwrap_or(RegFact::Unknown),
                None => constant(program, src),
            };
            if let (ArgSource::LastUse(reg), Some(fact)) = (src.get(), src.reg()) {
                if let Some(moved) = state.get_mut(fact as usize) {
                    *moved = RegFact::NONE;
                }
                debug_assert_eq!(reg, fact);
            }
            if let Some(fact) = state.get_mut(dst as usize) {
                *fact = value;
            }
        }
        Op::Kill { dst } => set(dst, RegFact::NONE),
        Op::Branch { cond, .. } => {
            // A condition of another type raises an error.
            if state[cond as usize] == RegFact::Unknown {
                state[cond as usize] = RegFact::Scalar;
            }
        }
        Op::Goto { .. } | Op::LoopBack { .. } | Op::Ret { .. } => {}
    }
}

fn constant(program: &Program, source: Source) -> RegFact {
    match source.get() {
        ArgSource::Const(index) => RegFact::Tag(program.consts()[index as usize].type_index()),
        ArgSource::Vm => RegFact::Tag(type_index::OPAQUE_PTR),
        ArgSource::Reg(_) | ArgSource::LastUse(_) => RegFact::Unknown,
    }
}

/// Registers that a call or a tuple moves its arguments out of.
pub(crate) fn moved(func: &FuncCode, args: ArgRange) -> impl Iterator<Item = u32> {
    func.args(args).iter().filter_map(|source| source.last_use())
}

/// The type of the result of a builtin, if it always has the same one.
pub(crate) fn result_tag(builtin: Builtin) -> Option<i32> {
    match builtin.result_kind() {
        ResultKind::None => Some(type_index::NONE),
        ResultKind::Int => Some(type_index::INT),
        ResultKind::Bool => Some(type_index::BOOL),
        ResultKind::Tensor => Some(type_index::TENSOR),
        ResultKind::Shape => Some(type_index::SHAPE),
        ResultKind::Tuple => Some(type_index::ARRAY),
        ResultKind::Any => None,
    }
}

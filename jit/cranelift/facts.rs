//! What the registers of a function can hold at each operation, as far as the code tells.
//!
//! One forward pass over the decoded operations. It lets compiled code leave out the question
//! whether a register holds an object that must be released. Facts are true on every path to an
//! operation, whoever runs the operations before it: interpreter, trace or compiled code.
//!
//! Not here: types that only hold when a check has taken its usual path.

use reflex_runtime::abi::type_index;
use reflex_vm::builtins::{Builtin, ResultKind};
use reflex_vm::decode::{ArgRange, ArgSource, FuncCode, Op, Source};
use reflex_vm::program::Program;

/// Most facts kept for one function; beyond, every register holds anything.
const MAX_FACTS: usize = 1 << 22;

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// Nothing.
    Any,
    /// It is not an object.
    Plain,
    /// It is of this type.
    Tag(i32),
    /// The operation at this index, which allocates, made it.
    Made(u32),
}

impl Holds {
    pub(crate) const NONE: Holds = Holds::Tag(type_index::NONE);

    /// Whether this is an object; `None` when that is not known.
    pub(crate) fn is_object(self) -> Option<bool> {
        match self {
            Holds::Any => None,
            Holds::Plain => Some(false),
            Holds::Tag(tag) => Some(tag >= type_index::STATIC_OBJECT_BEGIN),
            Holds::Made(_) => Some(true),
        }
    }

    fn join(self, other: Holds) -> Holds {
        match (self.is_object(), other.is_object()) {
            _ if self == other => self,
            (Some(false), Some(false)) => Holds::Plain,
            _ => Holds::Any,
        }
    }
}

/// The facts where control flow meets; those in between follow by [`apply`].
pub(crate) struct Facts {
    /// By operation; `None` where the operation before is the only way in, or nothing is.
    meeting: Vec<Option<Box<[Holds]>>>,
    num_regs: usize,
}

impl Facts {
    /// Computes the facts of a function.
    pub(crate) fn of(program: &Program, func: &FuncCode) -> Facts {
        let num_regs = func.num_regs as usize;
        let mut facts = Facts { meeting: vec![None; func.ops.len()], num_regs };
        let leaders = leaders(func);
        let count = leaders.iter().filter(|&&leader| leader).count();
        if count.saturating_mul(num_regs) > MAX_FACTS {
            facts.meeting.fill_with(|| None);
            for (pc, _) in leaders.iter().enumerate().filter(|(_, leader)| **leader) {
                facts.meeting[pc] = Some(Box::default());
            }
            return facts;
        }
        let mut entry = vec![Holds::NONE; num_regs];
        entry[..func.num_args as usize].fill(Holds::Any);
        facts.meeting[0] = Some(entry.into());
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
        let mut state = self.meeting[start].clone().unwrap_or_default();
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

    fn meet(&mut self, target: usize, state: &[Holds], work: &mut Vec<usize>) {
        match &mut self.meeting[target] {
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

    /// Shows `visit` every operation that can be reached, with what holds before it.
    pub(crate) fn for_each(
        &self,
        program: &Program,
        func: &FuncCode,
        mut visit: impl FnMut(usize, &[Holds]),
    ) {
        let (mut state, mut reached) = (Vec::new(), true);
        for (pc, op) in func.ops.iter().enumerate() {
            self.enter(pc, reached, &mut state);
            visit(pc, &state);
            apply(program, func, pc, &mut state);
            reached = falls_through(op);
        }
    }

    /// Whether control flow meets at operation `pc`.
    pub(crate) fn meets(&self, pc: usize) -> bool {
        self.meeting[pc].is_some()
    }

    /// Brings `state` up to what holds before operation `pc`, given what holds after the
    /// operation before it.
    pub(crate) fn enter(&self, pc: usize, reached: bool, state: &mut Vec<Holds>) {
        match &self.meeting[pc] {
            Some(known) if known.len() == self.num_regs => {
                state.clear();
                state.extend_from_slice(known);
            }
            // Without facts, or where nothing leads.
            Some(_) => *state = vec![Holds::Any; self.num_regs],
            None if !reached => *state = vec![Holds::Any; self.num_regs],
            None => {}
        }
    }
}

/// Whether the operation after this one can be reached from it.
pub(crate) fn falls_through(op: &Op) -> bool {
    successors(op, 0).0.is_some()
}

/// The operations that may run after the one at `pc`: the next one, and where it jumps to.
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

/// Operations where control flow meets.
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

/// Replaces what holds before an operation by what holds after it.
pub(crate) fn apply(program: &Program, func: &FuncCode, pc: usize, state: &mut [Holds]) {
    let mut set = |reg: u32, holds: Holds| {
        // `DISCARD` is beyond every register.
        if let Some(fact) = state.get_mut(reg as usize) {
            *fact = holds;
        }
    };
    match func.ops[pc] {
        Op::CallPacked { dst, .. } | Op::InvokeClosure { dst, .. } => set(dst, Holds::Any),
        Op::CallVm { args, dst, .. } => {
            for reg in moved(func, args) {
                set(reg, Holds::NONE);
            }
            set(dst, Holds::Any);
        }
        Op::Builtin { builtin, dst, .. } => {
            let made = builtin.lowering().recycles().then_some(Holds::Made(pc as u32));
            set(dst, made.or(result_tag(builtin).map(Holds::Tag)).unwrap_or(Holds::Any));
        }
        Op::Copy { src, dst } => {
            let value = match src.reg() {
                Some(reg) => state.get(reg as usize).copied().unwrap_or(Holds::Any),
                None => constant(program, src),
            };
            if let (ArgSource::LastUse(reg), Some(fact)) = (src.get(), src.reg()) {
                if let Some(moved) = state.get_mut(fact as usize) {
                    *moved = Holds::NONE;
                }
                debug_assert_eq!(reg, fact);
            }
            if let Some(fact) = state.get_mut(dst as usize) {
                *fact = value;
            }
        }
        Op::Kill { dst } => set(dst, Holds::NONE),
        Op::Branch { cond, .. } => {
            // Anything else ends the run.
            if state[cond as usize] == Holds::Any {
                state[cond as usize] = Holds::Plain;
            }
        }
        Op::Goto { .. } | Op::LoopBack { .. } | Op::Ret { .. } => {}
    }
}

fn constant(program: &Program, source: Source) -> Holds {
    match source.get() {
        ArgSource::Const(index) => Holds::Tag(program.consts()[index as usize].type_index()),
        ArgSource::Vm => Holds::Tag(type_index::OPAQUE_PTR),
        ArgSource::Reg(_) | ArgSource::LastUse(_) => Holds::Any,
    }
}

/// Registers that a call moves its arguments out of.
pub(crate) fn moved(func: &FuncCode, args: ArgRange) -> impl Iterator<Item = u32> {
    func.args(args).iter().filter_map(|source| match source.get() {
        ArgSource::LastUse(reg) => Some(reg),
        ArgSource::Reg(_) | ArgSource::Const(_) | ArgSource::Vm => None,
    })
}

/// The type of every result of a builtin, where there is one such type.
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

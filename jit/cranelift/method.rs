//! Method compilation: whole VM functions to machine code.
//!
//! Compiled mode compiles every function ahead of time; tiered mode compiles those that traces do
//! not cover. A function becomes a body that works on its frame directly; a long function becomes
//! several bodies (`split`). A body keeps no state between operations: registers live in the frame,
//! so any call may leave the body and enter it again. VM functions are called by native calls while
//! few of them are nested, and by jumps beyond that. After a jump, the callee returns to a
//! *continuation*: a short function that enters the body at the operation after the call. Recursion
//! therefore grows the register stack only (`frames`).
//!
//! Rejected: one machine function per stretch between calls (duplicates every block that two
//! stretches reach); native frames for VM frames (recursion would use the native stack, and a side
//! exit would have to unwind it).

mod builtins;
mod checked;
mod closures;
mod dynamic;
mod entries;
mod frames;
mod fuse_allocations;
pub(crate) mod lowering;
mod packed;
mod split;
mod watched;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{FuncRef, InstBuilder};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_runtime::abi::type_index;
use reflex_vm::abi::{DISCARD, ERROR, libcall};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgSource, FuncCode, Op, SiteId, Source};
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use self::checked::CheckedTensors;
use self::entries::{EntryPoint, after_calls, body_signature, loops, thunk};
use self::fuse_allocations::fused_allocations;
use self::split::{BodyBlocks, MethodBodies};
use crate::assemble::abi::native_signature;
use crate::assemble::{CodeUnit, UnitFunc};
use crate::emit::{Emit, Slot};
use crate::facts::registers::{self, Reached, RegFact, RegFacts};
use crate::method::lowering::{InlineDecision, Lowered};
use crate::recycle::{FreeListEntry, ReusePlans};

/// A unit that holds one VM function, and its entry.
pub(crate) struct CompiledFunction {
    pub(crate) unit: CodeUnit,
    pub(crate) entry: UnitFunc,
    /// The entries of its loops.
    pub(crate) loops: Vec<(SiteId, UnitFunc)>,
    /// The lowering of its builtins.
    pub(crate) lowered: Vec<Lowered>,
}

/// The operations that code shows to the session's instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    Nothing,
    /// Every call, before and after it.
    Calls,
}

/// Compiles a VM function into an empty unit. The code counts its entries in `runs`, whose address it
/// contains.
pub(crate) fn compile(
    mut unit: CodeUnit,
    program: &Program,
    func: &FuncCode,
    runs: Option<&AtomicU64>,
    shown: Shown,
) -> Result<CompiledFunction, Bailout> {
    let mut context = FunctionBuilderContext::new();
    let entry = unit.declare();
    let most = unit.body_limit;
    let bodies = MethodBodies::declare(&mut unit, func, most);
    let (returns, loops) = (after_calls(func), loops(func));
    thunk(&mut unit, &mut context, entry, bodies.first(), EntryPoint::Start, runs);
    let mut at_pc = |wanted: bool, runs| {
        wanted.then(|| {
            let id = unit.declare();
            thunk(&mut unit, &mut context, id, bodies.first(), EntryPoint::Current, runs);
            id
        })
    };
    let resume = at_pc(!returns.is_empty(), None);
    let at_loop = at_pc(!loops.is_empty(), runs);
    let points = returns.into_iter().chain(loops.iter().map(|&(_, pc)| pc));
    let entered = bodies.entered(func, points);
    let facts = RegFacts::of(program, func);
    let plans = ReusePlans::of(program, func, &facts);
    let fused = match shown {
        Shown::Nothing => fused_allocations(program, func, &facts, &plans),
        Shown::Calls => HashMap::new(),
    };
    let mut state = BodyState::default();
    for (id, range) in bodies.iter() {
        let mut function = unit.function(id, body_signature());
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        let (session, regs, pc) =
            (b.block_params(start)[0], b.block_params(start)[1], b.block_params(start)[2]);
        let blocks = BodyBlocks::new(&mut b, &range);
        let resume = resume.map(|id| CodeUnit::import(b.func, id, native_signature()));
        let e = Emit::new(b, session, regs);
        let mut body = MethodBody {
            e,
            program,
            func,
            shown,
            blocks,
            resume,
            plans: &plans,
            fused: &fused,
            state,
        };
        body.dispatch(&bodies, pc, &entered);
        range.for_each(|pc| body.next(&facts, pc));
        body.jump_to_others(&bodies);
        let MethodBody { e: Emit { mut b, .. }, state: after, .. } = body;
        b.seal_all_blocks();
        b.finalize(unit.frontend);
        unit.define(id, function);
        state = after;
    }
    let loops = loops.into_iter().filter_map(|(site, _)| Some((site, at_loop?))).collect();
    Ok(CompiledFunction { unit, entry, loops, lowered: state.lowered })
}

/// The state of code generation at the current operation.
#[derive(Default)]
struct BodyState {
    /// Facts about the registers.
    registers: Vec<RegFact>,
    /// Facts about tensors that earlier operations of this block have checked.
    checked: CheckedTensors,
    /// The ways into the operation.
    reached: Reached,
    lowered: Vec<Lowered>,
}

/// Emits a body, one block per operation.
pub(crate) struct MethodBody<'f, 'p> {
    pub(crate) e: Emit<'f>,
    pub(crate) program: &'p Program,
    pub(crate) func: &'p FuncCode,
    shown: Shown,
    blocks: BodyBlocks,
    /// The continuation that callees resume if they do not return to native code.
    pub(crate) resume: Option<FuncRef>,
    plans: &'p ReusePlans,
    fused: &'p HashMap<u32, FreeListEntry>,
    state: BodyState,
}

impl MethodBody<'_, '_> {
    /// Emits the operation at `pc`, the next one in order.
    fn next(&mut self, facts: &RegFacts, pc: usize) {
        let (program, func) = (self.program, self.func);
        facts.enter(pc, self.state.reached, &mut self.state.registers);
        if facts.is_merge_point(pc) || self.state.reached == Reached::ByJumps {
            self.state.checked = CheckedTensors::default();
        }
        self.op(pc);
        registers::apply(program, func, pc, &mut self.state.registers);
        self.state.checked.follow(program, func, pc);
        self.state.reached = Reached::after(&func.ops[pc]);
    }

    /// Records the lowering of a builtin.
    pub(crate) fn note(&mut self, pc: u32, builtin: Builtin, how: InlineDecision) {
        self.state.lowered.push(Lowered { pc, builtin, how });
    }

    fn op(&mut self, pc: usize) {
        let block = self.block(pc);
        self.e.b.switch_to_block(block);
        let at = pc as u32;
        let op = self.func.ops[pc];
        let site = (self.shown == Shown::Calls)
            .then(|| self.program.call_site(self.func.index, at))
            .flatten();
        if site.is_some() && matches!(op, Op::CallVm { .. } | Op::InvokeClosure { .. }) {
            return self.leave_to_interpreter(at);
        }
        if let Some(site) = site {
            self.show_before(site, self.func.args_of(&op));
        }
        match op {
            Op::CallPacked { callee, args, dst } => self.call_packed(at, callee, args, dst),
            Op::CallVm { func, args, dst } => return self.call_function(pc, func, args, dst),
            Op::InvokeClosure { args, dst } => return self.invoke(pc, args, dst),
            Op::Builtin { builtin, args, dst } => self.builtin(at, builtin, args, dst),
            Op::Copy { src, dst } => self.copy(src, dst),
            Op::Kill { dst } => {
                if dst != DISCARD && self.holds(dst) != RegFact::NONE {
                    self.release(dst);
                    self.e.store_none(Slot::index(dst as usize));
                }
            }
            Op::Goto { target } => {
                let block = self.block(target as usize);
                self.e.b.ins().jump(block, &[]);
                return;
            }
            Op::LoopBack { target, .. } => return self.loop_back(at, target),
            Op::Branch { cond, otherwise } => return self.branch(pc, cond, otherwise),
            Op::Ret { result } => return self.return_value(pc, result),
        }
        if let Some(site) = site {
            self.show_after(site);
        }
        let next = self.block(pc + 1);
        self.e.b.ins().jump(next, &[]);
    }

    /// The fact about register `reg` at the current operation.
    pub(crate) fn holds(&self, reg: u32) -> RegFact {
        self.state.registers.get(reg as usize).copied().unwrap_or(RegFact::Unknown)
    }

    /// Releases the value of a register, which keeps its bits.
    pub(crate) fn release(&mut self, reg: u32) {
        let slot = Slot::index(reg as usize);
        if let RegFact::Allocated(pc) = self.holds(reg)
            && let Some(free_entry) = self.plans.get(pc)
        {
            if self.fused.contains_key(&pc) {
                // The register is empty if the storage was made together with its tensor.
                return self.e.release(slot);
            }
            return self.e.recycle(slot, free_entry.on_release());
        }
        match self.holds(reg).is_object() {
            Some(true) => self.e.release_object(slot),
            Some(false) => {}
            // Arguments, and parts of what others hold too, most often.
            None => self.e.release_shared(slot),
        }
    }

    fn copy(&mut self, src: Source, dst: u32) {
        if dst == DISCARD {
            if let ArgSource::LastUse(index) = src.get() {
                // Moved out and dropped.
                self.release(index);
                self.e.store_none(Slot::index(index as usize));
            }
            return;
        }
        if src.reg() == Some(dst) {
            return;
        }
        let to = Slot::index(dst as usize);
        match src.get() {
            ArgSource::LastUse(_) => {
                self.release(dst);
                self.pass(src, to);
            }
            // The old value may own the copied one, so retain first.
            ArgSource::Reg(reg) => {
                let from = Slot::index(reg as usize);
                self.retain(reg);
                match self.holds(dst) {
                    // The value of an earlier copy most likely has other references.
                    RegFact::Unknown => self.e.release_shared(to),
                    _ => self.release(dst),
                }
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
            }
            ArgSource::Const(_) | ArgSource::Vm => {
                self.release(dst);
                self.pass(src, to);
            }
        }
    }

    /// Adds a reference to the value of a register.
    pub(crate) fn retain(&mut self, reg: u32) {
        let slot = Slot::index(reg as usize);
        match self.holds(reg).is_object() {
            Some(true) => {
                let object = self.e.payload(slot);
                self.e.retain_object(object);
            }
            Some(false) => {}
            None => self.e.retain(slot),
        }
    }

    fn loop_back(&mut self, pc: u32, target: u32) {
        let fuel = self.e.charge();
        let wanted = self.e.interrupted();
        let spent = self.e.b.ins().icmp_imm_s(IntCC::SignedLessThan, fuel, 0);
        let wanted = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, wanted, 0);
        let either = self.e.b.ins().bor(spent, wanted);
        let poll = self.e.cold_block();
        let target = self.block(target as usize);
        self.e.b.ins().brif(either, poll, &[], target, &[]);
        self.e.b.switch_to_block(poll);
        self.e.call_or_fail(libcall::POLL, pc);
        self.e.b.ins().jump(target, &[]);
    }

    fn branch(&mut self, pc: usize, cond: u32, otherwise: u32) {
        let slot = Slot::index(cond as usize);
        let (then, otherwise) = (self.block(pc + 1), self.block(otherwise as usize));
        let tag = self.e.tag(slot);
        let above = self.e.b.ins().iadd_imm_s(tag, -i64::from(type_index::INT));
        let last = i64::from(type_index::BOOL - type_index::INT);
        let scalar = self.e.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, above, last);
        let odd = self.e.cold_block();
        self.e.require(scalar, odd);
        let payload = self.e.payload(slot);
        self.e.b.ins().brif(payload, then, &[], otherwise, &[]);
        self.e.b.switch_to_block(odd);
        // A condition of another type: the libcall raises the error.
        self.e.call_at(libcall::CONDITION, pc as u32);
        self.e.return_status(ERROR);
    }
}

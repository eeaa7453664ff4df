//! Compiled mode: whole VM functions to machine code, ahead of time.
//!
//! A function becomes a body that works on its frame directly; a long one becomes several (`parts`).
//! A body keeps no state of its own between operations: registers live in the frame, so any call may
//! leave the body and come back. A VM function is called by a native call while few of them are nested, and by a jump
//! beyond; then the call returns to a *continuation*: a short function that enters the body again
//! at the operation behind the call. Recursion therefore grows the register stack only (`frames`).
//!
//! Rejected: one machine function per stretch between calls (duplicates every block that two
//! stretches reach); native frames for VM frames (recursion would use the native stack, and an
//! exit would have to unwind it).

mod builtins;
mod checked;
mod closures;
mod dynamic;
mod entries;
mod packed;
mod parts;

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

use self::checked::Checked;
use self::entries::{Point, behind_calls, body_signature, loops, thunk};
use self::parts::{Blocks, Parts};
use crate::assemble::{Unit, UnitFunc};
use crate::emit::{Emit, Slot};
use crate::facts::{self, Facts, Holds};
use crate::glue::native_signature;
use crate::lowering::{Lowered, Lowering};
use crate::recycle::Plans;

/// A unit that holds one VM function, and its entry.
pub(crate) struct CompiledFunction {
    pub(crate) unit: Unit,
    pub(crate) entry: UnitFunc,
    /// Where its loops can be entered.
    pub(crate) loops: Vec<(SiteId, UnitFunc)>,
    /// What was made of its builtins.
    pub(crate) lowered: Vec<Lowered>,
}

/// Compiles a VM function into an empty unit. The code counts in `runs` how often it is entered, and
/// holds the address.
pub(crate) fn compile(
    mut unit: Unit,
    program: &Program,
    func: &FuncCode,
    runs: Option<&AtomicU64>,
) -> Result<CompiledFunction, Bailout> {
    let mut context = FunctionBuilderContext::new();
    let entry = unit.declare();
    let most = unit.body_limit;
    let parts = Parts::declare(&mut unit, func, most);
    let (behind, loops) = (behind_calls(func), loops(func));
    thunk(&mut unit, &mut context, entry, (parts.first(), Point::Start), runs);
    let mut at_pc = |wanted: bool, runs| {
        wanted.then(|| {
            let id = unit.declare();
            thunk(&mut unit, &mut context, id, (parts.first(), Point::Current), runs);
            id
        })
    };
    let resume = at_pc(!behind.is_empty(), None);
    let at_loop = at_pc(!loops.is_empty(), runs);
    let points = behind.into_iter().chain(loops.iter().map(|&(_, pc)| pc));
    let entered = parts.entered(func, points);
    let facts = Facts::of(program, func);
    let plans = Plans::of(program, func, &facts);
    let mut known = Known { reached: true, ..Known::default() };
    for (id, range) in parts.iter() {
        let mut function = unit.function(id, body_signature());
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        let (session, regs, pc) =
            (b.block_params(start)[0], b.block_params(start)[1], b.block_params(start)[2]);
        let blocks = Blocks::new(&mut b, &range);
        let resume = resume.map(|id| Unit::import(b.func, id, native_signature()));
        let e = Emit::new(b, session, regs);
        let mut body = Body { e, program, func, blocks, resume, plans: &plans, known };
        body.dispatch(&parts, pc, &entered);
        range.for_each(|pc| body.next(&facts, pc));
        body.leave_part(&parts);
        let Body { e: Emit { mut b, .. }, known: after, .. } = body;
        b.seal_all_blocks();
        b.finalize(unit.frontend);
        unit.define(id, function);
        known = after;
    }
    let loops = loops.into_iter().filter_map(|(site, _)| Some((site, at_loop?))).collect();
    Ok(CompiledFunction { unit, entry, loops, lowered: known.lowered })
}

/// What is known at the operation being written, and was done so far.
#[derive(Default)]
struct Known {
    /// What registers can hold.
    state: Vec<Holds>,
    /// What the operations before made sure of, in this stretch of code.
    checked: Checked,
    /// Whether the operation can be reached from the one before.
    reached: bool,
    lowered: Vec<Lowered>,
}

/// Writes the body, one block per operation.
pub(crate) struct Body<'f, 'p> {
    pub(crate) e: Emit<'f>,
    pub(crate) program: &'p Program,
    pub(crate) func: &'p FuncCode,
    blocks: Blocks,
    /// Where callees go on when they do not return to native code, if there are calls.
    pub(crate) resume: Option<FuncRef>,
    plans: &'p Plans,
    known: Known,
}

impl Body<'_, '_> {
    /// Writes the operation at `pc`, which follows on the one before.
    fn next(&mut self, facts: &Facts, pc: usize) {
        let (program, func) = (self.program, self.func);
        facts.enter(pc, self.known.reached, &mut self.known.state);
        if facts.meets(pc) || !self.known.reached {
            self.known.checked = Checked::default();
        }
        self.op(pc);
        facts::apply(program, func, pc, &mut self.known.state);
        self.known.checked.follow(program, func, pc);
        self.known.reached = facts::falls_through(&func.ops[pc]);
    }

    /// Notes how a builtin became machine code.
    pub(crate) fn note(&mut self, pc: u32, builtin: Builtin, how: Lowering) {
        self.known.lowered.push(Lowered { pc, builtin, how });
    }

    fn op(&mut self, pc: usize) {
        let block = self.block(pc);
        self.e.b.switch_to_block(block);
        let at = pc as u32;
        match self.func.ops[pc] {
            Op::CallPacked { callee, args, dst } => self.call_packed(at, callee, args, dst),
            Op::CallVm { func, args, dst } => return self.call_function(pc, func, args, dst),
            Op::InvokeClosure { args, dst } => return self.invoke(pc, args, dst),
            Op::Builtin { builtin, args, dst } => self.builtin(at, builtin, args, dst),
            Op::Copy { src, dst } => self.copy(src, dst),
            Op::Kill { dst } => {
                if dst != DISCARD && self.holds(dst) != Holds::NONE {
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
            Op::Ret { result } => return self.leave(pc, result),
        }
        let next = self.block(pc + 1);
        self.e.b.ins().jump(next, &[]);
    }

    /// What register `reg` can hold here.
    pub(crate) fn holds(&self, reg: u32) -> Holds {
        self.known.state.get(reg as usize).copied().unwrap_or(Holds::Any)
    }

    /// Gives up what a register holds; it keeps its bits.
    pub(crate) fn release(&mut self, reg: u32) {
        let slot = Slot::index(reg as usize);
        if let Holds::Made(pc) = self.holds(reg)
            && let Some(kept) = self.plans.get(pc)
        {
            return self.e.give(slot, kept.give());
        }
        match self.holds(reg).is_object() {
            Some(true) => self.e.release_object(slot),
            Some(false) => {}
            None => self.e.release(slot),
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
            // What is copied may be kept alive by what is replaced.
            ArgSource::Reg(reg) => {
                let from = Slot::index(reg as usize);
                self.retain(reg);
                match self.holds(dst) {
                    // What was copied here before has most likely other holders.
                    Holds::Any => self.e.release_shared(to),
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

    /// Adds a reference to what a register holds.
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
        // No condition is neither: this makes the error.
        self.e.call_at(libcall::CONDITION, pc as u32);
        self.e.return_status(ERROR);
    }
}

//! Calls through closures, devirtualised to calls of VM functions.
//!
//! The target is known if the function itself allocates the closure, or calls a constant. Any other
//! closure of the program is of a function that the program uses as a value. If these are few, the
//! call compares the closure with each of them (a polymorphic inline cache).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, types};
use reflex_runtime::abi::{ARRAY_DATA, ARRAY_SIZE};
use reflex_vm::abi::{CLOSURE_CAPTURED, CLOSURE_FUNC, CLOSURE_PROGRAM, SessionAbi};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgRange, ConstEntry, FuncCode, Op};

use super::MethodBody;
use super::frames::{CapturedValues, MAX_REGS};
use crate::assemble::relocation::Symbol;
use crate::emit::Slot;
use crate::facts::call_args::CallArgs;
use crate::facts::registers::RegFact;
use crate::method::lowering::InlineDecision;

/// Most targets that one call compares.
const MAX_TARGETS: usize = 4;

/// A function that a closure may call, and the number of values that the closure captured.
#[derive(Clone, Copy)]
struct Target<'p> {
    func: &'p FuncCode,
    captured: usize,
}

impl<'p> MethodBody<'_, 'p> {
    /// Calls the value that is the second of `args`.
    pub(super) fn invoke(&mut self, pc: usize, args: ArgRange, dst: u32) {
        let known = self.known_target(args);
        let targets = match known {
            Some(target) => vec![target],
            None => self.possible_targets(args),
        };
        let how = if targets.is_empty() { InlineDecision::Called } else { InlineDecision::Inline };
        self.note(pc as u32, Builtin::InvokeClosure, how);
        if targets.is_empty() {
            return self.call_by_libcall(pc, dst);
        }
        let rare = self.e.cold_block();
        let Some(reg) = self.func.args(args)[1].reg() else {
            // A function without captured values, which is a constant.
            self.require_frame(targets[0].func, rare);
            self.call_target(pc, args, targets[0].func, None, dst);
            return self.invoke_by_libcall(pc, dst, rare);
        };
        let slot = Slot::index(reg as usize);
        if known.is_none() {
            self.require_own_closure(slot, rare);
        }
        let closure = self.e.payload(slot);
        let array = self.e.load(types::I64, closure, CLOSURE_CAPTURED);
        for &Target { func: target, captured } in &targets {
            let other = self.e.b.create_block();
            if known.is_none() {
                let func = self.e.load(types::I32, closure, CLOSURE_FUNC);
                let same = self.e.b.ins().icmp_imm_s(IntCC::Equal, func, i64::from(target.index));
                self.e.require(same, other);
                let count = self.e.load(types::I64, array, ARRAY_SIZE);
                let all = self.e.b.ins().icmp_imm_s(IntCC::Equal, count, captured as i64);
                self.e.require(all, rare);
            }
            let items = (captured > 0).then(|| self.e.load(types::I64, array, ARRAY_DATA));
            let captured = items.map(|items| CapturedValues { items, count: captured });
            self.require_frame(target, rare);
            self.call_target(pc, args, target, captured, dst);
            self.e.b.switch_to_block(other);
        }
        self.e.b.ins().jump(rare, &[]);
        self.invoke_by_libcall(pc, dst, rare);
    }

    /// Calls a function with the arguments, then the captured values.
    fn call_target(
        &mut self,
        pc: usize,
        args: ArgRange,
        target: &FuncCode,
        captured: Option<CapturedValues>,
        dst: u32,
    ) {
        self.fill_frame(target, &self.func.args(args)[2..], captured);
        self.enter_callee(pc, target.index, dst);
    }

    fn invoke_by_libcall(&mut self, pc: usize, dst: u32, block: Block) {
        self.e.b.switch_to_block(block);
        self.call_by_libcall(pc, dst);
    }

    /// Jumps to `rare` unless a register holds a closure of the session's program.
    fn require_own_closure(&mut self, slot: Slot, rare: Block) {
        let tag = self.e.tag(slot);
        let wanted = self.e.symbol(Symbol::ClosureType);
        let wanted = self.e.b.ins().ireduce(types::I32, wanted);
        let is = self.e.b.ins().icmp(IntCC::Equal, tag, wanted);
        self.e.require(is, rare);
        let closure = self.e.payload(slot);
        let have = self.e.load(types::I64, closure, CLOSURE_PROGRAM);
        // The program is not a constant: saved code may be loaded for another program.
        let own = self.e.load(types::I64, self.e.session, offset_of!(SessionAbi, program));
        let own = self.e.b.ins().icmp(IntCC::Equal, have, own);
        self.e.require(own, rare);
    }

    /// The target of the call, if it is known.
    fn known_target(&self, args: ArgRange) -> Option<Target<'p>> {
        let sources = self.func.args(args);
        let Some(reg) = sources.get(1)?.reg() else {
            let called = CallArgs { program: self.program, func: self.func, args };
            return self
                .target(called.function(1)?, sources.len() - 2)
                .filter(|it| it.captured == 0);
        };
        let RegFact::Allocated(made) = self.holds(reg) else { return None };
        let Op::Builtin { builtin: Builtin::MakeClosure, args, .. } = self.func.ops[made as usize]
        else {
            return None;
        };
        let made = CallArgs { program: self.program, func: self.func, args };
        let captured = args.len as usize - 1;
        self.target(made.function(0)?, sources.len() - 2).filter(|it| it.captured == captured)
    }

    /// The possible targets; none if they are many, or if the callee is in no register.
    fn possible_targets(&self, args: ArgRange) -> Vec<Target<'p>> {
        let sources = self.func.args(args);
        if sources.get(1).is_none_or(|callee| callee.reg().is_none()) {
            return Vec::new();
        }
        let values = self.program.code().consts.iter().filter_map(|entry| match *entry {
            ConstEntry::Func(func) => self.target(func, sources.len() - 2),
            ConstEntry::None | ConstEntry::Int(_) | ConstEntry::Pool(_) => None,
        });
        let found: Vec<_> = values.take(MAX_TARGETS + 1).collect();
        if found.len() > MAX_TARGETS { Vec::new() } else { found }
    }

    /// A function as the target of a call with `given` arguments, whose other parameters are captured
    /// values. `None` if its frame cannot be pushed inline.
    fn target(&self, func: u32, given: usize) -> Option<Target<'p>> {
        let target = self.program.function(func)?;
        let captured = (target.num_args as usize).checked_sub(given)?;
        (!target.is_foreign && target.num_regs <= MAX_REGS)
            .then_some(Target { func: target, captured })
    }
}

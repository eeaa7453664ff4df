//! Trace IR to Cranelift: one straight function with cold exits.
//!
//! The function has the signature of all native code and is entered with the trace's first frame
//! current and every register of it in its place. Frames of inlined calls lie where the
//! interpreter would put them.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_runtime::abi::{ANY_PAYLOAD, ANY_SIZE, FUNCTION_SAFE_CALL, type_index};
use reflex_vm::abi::{
    ERROR, FRAME_HEADER_SIZE, FrameHeader, RESUME, SESSION_CELLS, SESSION_CONSTS, SESSION_REGS,
    SESSION_VM_VALUE, SessionAbi, callback,
};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::{ArgSource, FuncCode};
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use super::helpers;
use super::ir::{Arg, BuiltinResult, End, Exit, ExitId, FrameId, Ins, Place, Plain, Trace, Var};
use crate::assemble::{Unit, UnitFunc};
use crate::emit::{Emit, Slot, trusted};
use crate::engine::HotExit;
use crate::fast::{Fast, Operand, Produced};
use crate::force::ForcedExits;
use crate::glue::native_signature;
use crate::recycle::Kept;
use crate::symbol::Symbol;

/// What the generated code counts in and is disturbed by; it holds their addresses.
pub(crate) struct Attached {
    /// One counter per exit.
    pub(crate) taken: Arc<[AtomicU64]>,
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Told when an exit has been taken `exit_threshold` times.
    pub(crate) hot: Arc<HotExit>,
    pub(crate) exit_threshold: u64,
}

/// Translates a trace into an empty unit.
pub(crate) fn translate(
    unit: &mut Unit,
    program: &Program,
    trace: &Trace,
    attached: &Attached,
) -> Result<UnitFunc, Bailout> {
    let entry = unit.declare();
    let mut function = unit.function(entry, native_signature());
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let (session, regs) = (b.block_params(start)[0], b.block_params(start)[1]);
    let mut writer = Writer {
        e: Emit { b, session, regs },
        program,
        trace,
        attached,
        vars: vec![None; trace.vars as usize],
        exits: HashMap::new(),
        head: start,
    };
    writer.whole()?;
    writer.e.b.seal_all_blocks();
    writer.e.b.finalize(unit.frontend);
    unit.define(entry, function);
    Ok(entry)
}

/// Why control leaves by an exit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Leave {
    /// To the interpreter.
    Guard,
    /// To the interpreter, where the trace ends.
    End,
    /// A call failed; the error is in the thread's slot.
    Failed,
    /// A callback failed; the error is in the session.
    Raised,
}

struct Writer<'f, 't> {
    e: Emit<'f>,
    program: &'t Program,
    trace: &'t Trace,
    attached: &'t Attached,
    vars: Vec<Option<Value>>,
    exits: HashMap<(ExitId, Leave), Block>,
    /// Where a loop goes back to.
    head: Block,
}

fn internal(what: &str) -> Bailout {
    Bailout::Codegen { message: format!("trace IR: {what}") }
}

impl Writer<'_, '_> {
    fn whole(&mut self) -> Result<(), Bailout> {
        self.check_room();
        for ins in &self.trace.before {
            self.ins(ins)?;
        }
        self.head = self.e.b.create_block();
        self.e.b.ins().jump(self.head, &[]);
        self.e.b.switch_to_block(self.head);
        self.count(&raw const self.attached.hot.runs as usize);
        let trace = self.trace;
        for ins in &trace.code {
            self.ins(ins)?;
        }
        match trace.end {
            End::Loop => {
                self.e.b.ins().jump(self.head, &[]);
            }
            End::Return { pc } => {
                let pc = self.e.i32(i64::from(pc));
                let params = [types::I64, types::I32];
                let args = [self.e.session, pc];
                let call = self.e.call_back(callback::LEAVE, &params, Some(types::I64), &args);
                let code = self.e.b.inst_results(call)[0];
                self.e.tail_call(code);
            }
            End::Exit(exit) => {
                let block = self.exit(exit, Leave::End);
                self.e.b.ins().jump(block, &[]);
            }
            End::Into { func } => {
                let code = self.code_at(func);
                self.e.set_pc(0);
                self.e.tail_call(code);
            }
        }
        self.write_exits()
    }

    /// Leaves before anything has run when the frames of inlined calls would not fit.
    fn check_room(&mut self) {
        let trace = self.trace;
        let inlined = trace.frames.iter().skip(1);
        let Some(slots) = inlined.map(|frame| frame.base + frame.slots).max() else { return };
        let frames = (0..trace.frames.len() as u32).map(FrameId);
        let deepest = frames.map(|frame| trace.callers(frame).len()).max().unwrap_or(1);
        let deeper = deepest as i64 - 1;
        let full = self.e.cold_block();
        let limit = self.e.load(types::I64, self.e.session, offset_of!(SessionAbi, stack_limit));
        let end = self.e.slot_address(Slot::index(slots as usize));
        let room = self.e.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, limit);
        self.e.require(room, full);
        let depth = self.e.load(types::I32, self.e.session, offset_of!(SessionAbi, depth));
        let most = self.e.load(types::I32, self.e.session, offset_of!(SessionAbi, depth_limit));
        let (depth, most) =
            (self.e.b.ins().uextend(types::I64, depth), self.e.b.ins().uextend(types::I64, most));
        let depth = self.e.b.ins().iadd_imm_s(depth, deeper);
        let shallow = self.e.b.ins().icmp(IntCC::SignedLessThanOrEqual, depth, most);
        self.e.require(shallow, full);
        let next = self.e.b.create_block();
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(full);
        self.e.set_pc(trace.start_pc);
        self.e.return_status(RESUME);
        self.e.b.switch_to_block(next);
    }

    // --- places ---

    fn slot(&self, place: Place) -> Slot {
        Slot::index((self.trace.frame(place.frame).base + place.reg) as usize)
    }

    fn code_of(&self, frame: FrameId) -> Result<&FuncCode, Bailout> {
        let func = self.trace.frame(frame).func;
        self.program.function(func).ok_or_else(|| internal("a frame without a function"))
    }

    fn result_slot(&self, frame: FrameId) -> Result<Slot, Bailout> {
        let base = self.trace.frame(frame).base as usize;
        Ok(Slot::index(base + self.code_of(frame)?.result_slot()))
    }

    fn var(&self, Var(var): Var) -> Result<Value, Bailout> {
        self.vars[var as usize].ok_or_else(|| internal("a variable is read before it is written"))
    }

    fn plain_value(&mut self, plain: Plain) -> Result<(i32, Value), Bailout> {
        Ok(match plain {
            Plain::Const { tag, bits } => (tag, self.e.i64(bits)),
            Plain::Var { tag, var } => (tag, self.var(var)?),
        })
    }

    fn store(&mut self, place: Place, plain: Plain) -> Result<(), Bailout> {
        let slot = self.slot(place);
        let (tag, payload) = self.plain_value(plain)?;
        self.e.store_plain(slot, tag, payload);
        Ok(())
    }

    // --- exits ---

    fn exit(&mut self, exit: ExitId, leave: Leave) -> Block {
        if let Some(&block) = self.exits.get(&(exit, leave)) {
            return block;
        }
        let block = self.e.cold_block();
        self.exits.insert((exit, leave), block);
        block
    }

    /// A guard: leaves unless `condition` holds, or when tests force it to.
    fn guard(&mut self, condition: Value, exit: ExitId) {
        let block = self.exit(exit, Leave::Guard);
        self.force(block);
        self.e.require(condition, block);
    }

    /// Leaves to `block` at random when tests ask for it.
    fn force(&mut self, block: Block) {
        let Some(force) = self.attached.force.clone() else { return };
        let hook = self.e.i64(force.state_address() as i64);
        let state = self.e.load(types::I64, hook, 0);
        let state = self.e.b.ins().imul_imm_s(state, ForcedExits::MULTIPLIER);
        let state = self.e.b.ins().iadd_imm_s(state, ForcedExits::INCREMENT);
        self.e.b.ins().store(trusted(), state, hook, 0);
        let draw = self.e.b.ins().ushr_imm_u(state, 32);
        let odds = self.e.load(types::I64, hook, ForcedExits::ODDS_OFFSET);
        let spared = self.e.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, draw, odds);
        self.e.require(spared, block);
    }

    fn write_exits(&mut self) -> Result<(), Bailout> {
        let mut exits: Vec<_> = self.exits.iter().map(|(&key, &block)| (key, block)).collect();
        exits.sort_by_key(|&((exit, leave), _)| (exit.0, leave as u8));
        for ((exit, leave), block) in exits {
            self.e.b.switch_to_block(block);
            let taken = self.restore(exit)?;
            let at = &self.trace.exits[exit.0 as usize];
            match leave {
                Leave::Guard => self.leave(taken),
                Leave::End => self.e.return_status(RESUME),
                Leave::Raised => self.e.return_status(ERROR),
                Leave::Failed => {
                    let result = self.result_slot(at.frame)?;
                    let result = self.e.slot_address(result);
                    let pc = self.e.i32(i64::from(at.pc));
                    let params = [types::I64, types::I32, types::I64];
                    let args = [self.e.session, pc, result];
                    let ret = Some(types::I32);
                    let call = self.e.call_back(callback::PACKED_FAILED, &params, ret, &args);
                    let status = self.e.b.inst_results(call)[0];
                    self.e.b.ins().return_(&[status]);
                }
            }
        }
        Ok(())
    }

    /// Makes everything the interpreter needs real: registers, and where it is.
    fn restore(&mut self, exit: ExitId) -> Result<Value, Bailout> {
        let trace = self.trace;
        let at = &trace.exits[exit.0 as usize];
        for &(place, plain) in &at.plain {
            self.store(place, plain)?;
        }
        self.make_frames(at)?;
        if at.refund > 0 {
            let fuel_at = reflex_vm::abi::SESSION_FUEL;
            let fuel = self.e.load(types::I64, self.e.session, fuel_at);
            let fuel = self.e.b.ins().iadd_imm_s(fuel, i64::from(at.refund));
            self.e.b.ins().store(trusted(), fuel, self.e.session, fuel_at as i32);
        }
        let taken = self.count(&raw const self.attached.taken[exit.0 as usize] as usize);
        self.e.set_pc(at.pc);
        Ok(taken)
    }

    /// Adds one to a counter; the result is the new count.
    fn count(&mut self, counter: usize) -> Value {
        let counter = self.e.i64(counter as i64);
        let count = self.e.load(types::I64, counter, 0);
        let count = self.e.b.ins().iadd_imm_s(count, 1);
        self.e.b.ins().store(trusted(), count, counter, 0);
        count
    }

    /// Goes back to the interpreter by an exit that was taken `taken` times.
    fn leave(&mut self, taken: Value) {
        let rest = self.e.b.ins().band_imm_s(taken, self.attached.exit_threshold as i64 - 1);
        let (tell, cool) = (self.e.cold_block(), self.e.cold_block());
        self.e.b.ins().brif(rest, cool, &[], tell, &[]);
        self.e.b.switch_to_block(tell);
        let hook = self.e.i64(Arc::as_ptr(&self.attached.hot) as i64);
        let params = [types::I64, types::I64];
        let report = HotExit::report as *const () as usize;
        self.e.call_helper(report, &params, None, &[hook, taken]);
        self.e.b.ins().jump(cool, &[]);
        self.e.b.switch_to_block(cool);
        self.e.return_status(RESUME);
    }

    /// Makes `frame` the session's current one; `by` is how much deeper that is.
    fn set_frame(&mut self, frame: FrameId, by: i64) {
        let regs = self.e.slot_address(Slot::index(self.trace.frame(frame).base as usize));
        self.e.b.ins().store(trusted(), regs, self.e.session, SESSION_REGS as i32);
        let at = offset_of!(SessionAbi, depth);
        let depth = self.e.load(types::I32, self.e.session, at);
        let depth = self.e.b.ins().iadd_imm_s(depth, by);
        self.e.b.ins().store(trusted(), depth, self.e.session, at as i32);
    }

    /// Makes the frames real that an exit needs and the trace put off.
    fn make_frames(&mut self, at: &Exit) -> Result<(), Bailout> {
        let chain = self.trace.active(at);
        let real = chain.iter().position(|&frame| frame == at.entered);
        let real = real.ok_or_else(|| internal("an exit outside of its frames"))?;
        let made = &chain[real + 1..];
        for &frame in made {
            self.header(frame)?;
        }
        if !made.is_empty() {
            self.set_frame(at.frame, made.len() as i64);
        }
        Ok(())
    }

    fn enter(&mut self, frame: FrameId) -> Result<(), Bailout> {
        self.header(frame)?;
        self.set_frame(frame, 1);
        Ok(())
    }

    /// Writes the header of the frame of an inlined call.
    fn header(&mut self, frame: FrameId) -> Result<(), Bailout> {
        let data = self.trace.frame(frame);
        let called = data.called.ok_or_else(|| internal("the first frame is entered"))?;
        let (caller, return_pc, dst) = called;
        let header = data.base as i32 * ANY_SIZE as i32 - FRAME_HEADER_SIZE as i32;
        let caller = Slot::index(self.trace.frame(caller).base as usize);
        let (caller, resume) = (self.e.slot_address(caller), self.e.exit_address());
        let pointers =
            [(caller, offset_of!(FrameHeader, caller)), (resume, offset_of!(FrameHeader, resume))];
        let words = [
            ((data.func, return_pc), offset_of!(FrameHeader, func)),
            ((dst, 0), offset_of!(FrameHeader, dst)),
        ];
        for (value, field) in pointers {
            self.e.b.ins().store(trusted(), value, self.e.regs, header + field as i32);
        }
        for ((low, high), field) in words {
            let value = self.e.i64((u64::from(low) | u64::from(high) << 32) as i64);
            self.e.b.ins().store(trusted(), value, self.e.regs, header + field as i32);
        }
        Ok(())
    }

    // --- instructions ---

    fn ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::Tag { place, tag, exit } => {
                let slot = self.slot(*place);
                let fits = self.e.has_tag(slot, *tag);
                self.guard(fits, *exit);
            }
            Ins::Payload { var, place } => {
                let slot = self.slot(*place);
                self.vars[var.0 as usize] = Some(self.e.payload(slot));
            }
            Ins::Truth { var, expected, exit } => {
                let var = self.var(*var)?;
                let how = if *expected { IntCC::NotEqual } else { IntCC::Equal };
                let as_before = self.e.b.ins().icmp_imm_s(how, var, 0);
                self.guard(as_before, *exit);
            }
            Ins::Closure { place, func, captured, exit } => {
                self.closure(*place, *func, *captured, *exit);
            }
            Ins::Captured { dst, closure, index } => self.captured(*dst, *closure, *index)?,
            Ins::Charge { units, exit } => self.charge(*units, *exit),
            Ins::Native { func, exit } => {
                let (code, nothing) = (self.code_at(*func), self.e.exit_address());
                let there = self.e.b.ins().icmp(IntCC::NotEqual, code, nothing);
                self.guard(there, *exit);
            }
            Ins::Copy { dst, src } => self.copy(*dst, *src)?,
            Ins::Move { dst, src } => {
                let (dst, src) = (self.slot(*dst), self.slot(*src));
                let value = self.e.load_any(src);
                self.e.store_any(dst, value);
            }
            Ins::Store { dst, value } => self.store(*dst, *value)?,
            Ins::Release { place, tag } => {
                let slot = self.slot(*place);
                match tag {
                    Some(_) => self.e.release_object(slot),
                    None => self.e.release(slot),
                }
            }
            Ins::Packed { frame, callee, args, exit } => {
                self.packed(*frame, *callee, args, *exit)?;
            }
            Ins::Invoke { frame, callee, args, exit } => {
                self.invoke(*frame, *callee, args, *exit)?;
            }
            Ins::Builtin { frame, builtin, inline, args, result, exit } => {
                let produced = if *inline { self.inline(*builtin, args, *exit)? } else { None };
                match produced {
                    Some(produced) => self.keep(*frame, produced, *result)?,
                    None => self.builtin(*frame, *builtin, args, *result, *exit)?,
                }
            }
            Ins::Allocate { frame, builtin, kept, args, dst, exit } => {
                self.allocate((*frame, *builtin), kept, args, *dst, *exit)?;
            }
            Ins::Give { place, give } => {
                let slot = self.slot(*place);
                self.e.give(slot, *give);
            }
            Ins::Enter { frame } => self.enter(*frame)?,
            Ins::Leave { frame } => {
                let called = self.trace.frame(*frame).called;
                let (caller, ..) = called.ok_or_else(|| internal("the first frame is left"))?;
                self.set_frame(caller, -1);
            }
            Ins::Take { frame, dst } => {
                let (from, to) = (self.result_slot(*frame)?, self.slot(*dst));
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
            }
            Ins::Drop { frame } => {
                let slot = self.result_slot(*frame)?;
                self.e.release(slot);
            }
        }
        Ok(())
    }

    fn closure(&mut self, place: Place, func: u32, captured: u32, exit: ExitId) {
        let slot = self.slot(place);
        let value = self.e.slot_address(slot);
        let program = self.e.i64(self.program.id() as i64);
        let func = self.e.i32(i64::from(func));
        let captured = self.e.i32(i64::from(captured));
        let call = self.e.call_helper(
            helpers::closure_matches as *const () as usize,
            &[types::I64, types::I64, types::I32, types::I32],
            Some(types::I32),
            &[value, program, func, captured],
        );
        let matches = self.e.b.inst_results(call)[0];
        self.guard(matches, exit);
    }

    fn captured(&mut self, dst: Place, closure: Arg, index: u32) -> Result<(), Bailout> {
        let value = match closure {
            Arg::Place(place, _) => {
                let slot = self.slot(place);
                self.e.slot_address(slot)
            }
            Arg::Const(constant) => self.constant_address(constant),
            Arg::Plain(_) | Arg::Vm => return Err(internal("a closure that is no object")),
        };
        let out = self.slot(dst);
        let out = self.e.slot_address(out);
        let index = self.e.i32(i64::from(index));
        self.e.call_helper(
            helpers::captured_value as *const () as usize,
            &[types::I64, types::I32, types::I64],
            None,
            &[value, index, out],
        );
        Ok(())
    }

    fn constant_address(&mut self, index: u32) -> Value {
        let consts = self.e.load(types::I64, self.e.session, SESSION_CONSTS);
        self.e.b.ins().iadd_imm_s(consts, index as i64 * ANY_SIZE as i64)
    }

    /// The code in the cell of a function's entry.
    fn code_at(&mut self, func: u32) -> Value {
        let cells = self.e.load(types::I64, self.e.session, SESSION_CELLS);
        let cell = self.e.b.ins().iadd_imm_s(cells, i64::from(func) * size_of::<usize>() as i64);
        self.e.b.ins().atomic_load(types::I64, trusted(), cell)
    }

    fn charge(&mut self, units: u32, exit: ExitId) {
        let fuel_at = reflex_vm::abi::SESSION_FUEL;
        let units = i64::from(units);
        let fuel = self.e.load(types::I64, self.e.session, fuel_at);
        let some = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, fuel, units);
        self.guard(some, exit);
        let wanted = self.e.interrupted();
        let quiet = self.e.b.ins().icmp_imm_s(IntCC::Equal, wanted, 0);
        let block = self.exit(exit, Leave::Guard);
        self.e.require(quiet, block);
        let fuel = self.e.b.ins().iadd_imm_s(fuel, -units);
        self.e.b.ins().store(trusted(), fuel, self.e.session, fuel_at as i32);
    }

    fn copy(&mut self, dst: Place, src: Arg) -> Result<(), Bailout> {
        let to = self.slot(dst);
        match src {
            Arg::Place(place, tag) => {
                let from = self.slot(place);
                match tag {
                    Some(tag) if tag >= type_index::STATIC_OBJECT_BEGIN => {
                        let object = self.e.payload(from);
                        self.e.retain_object(object);
                    }
                    Some(_) => {}
                    None => self.e.retain(from),
                }
                let value = self.e.load_any(from);
                self.e.store_any(to, value);
            }
            Arg::Const(index) => {
                let constant = &self.program.consts()[index as usize];
                let at = self.constant_address(index);
                if constant.type_index() >= type_index::STATIC_OBJECT_BEGIN {
                    let object = self.e.load(types::I64, at, ANY_PAYLOAD);
                    self.e.retain_object(object);
                }
                let value = self.e.any_at(at, 0);
                self.e.store_any(to, value);
            }
            Arg::Vm => {
                let value = self.e.source(ArgSource::Vm);
                self.e.store_any(to, value);
            }
            Arg::Plain(plain) => self.store(dst, plain)?,
        }
        Ok(())
    }

    // --- calls ---

    /// Puts borrowed arguments into the frame's argument area; returns its address.
    fn arguments(&mut self, frame: FrameId, args: &[Arg]) -> Result<Value, Bailout> {
        let base = self.trace.frame(frame).base as usize;
        let area = base + self.code_of(frame)?.arg_area();
        for (at, arg) in args.iter().enumerate() {
            let slot = Slot::index(area + at);
            match *arg {
                Arg::Place(place, tag) => {
                    let from = self.slot(place);
                    let value = match tag {
                        Some(tag) => self.e.load_typed(from, tag),
                        None => self.e.load_any(from),
                    };
                    self.e.store_any(slot, value);
                }
                Arg::Plain(plain) => {
                    let (tag, payload) = self.plain_value(plain)?;
                    self.e.store_plain(slot, tag, payload);
                }
                Arg::Const(index) => {
                    let value = self.e.source(ArgSource::Const(index));
                    self.e.store_any(slot, value);
                }
                Arg::Vm => {
                    let value = self.e.source(ArgSource::Vm);
                    self.e.store_any(slot, value);
                }
            }
        }
        Ok(self.e.slot_address(Slot::index(area)))
    }

    fn check(&mut self, status: Value, exit: ExitId, leave: Leave) {
        let failed = self.exit(exit, leave);
        let fine = self.e.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.e.require(fine, failed);
    }

    /// Looks at interrupts, as every packed call does.
    fn poll(&mut self, exit: ExitId) {
        let wanted = self.e.interrupted();
        let (poll, next) = (self.e.cold_block(), self.e.b.create_block());
        self.e.b.ins().brif(wanted, poll, &[], next, &[]);
        self.e.b.switch_to_block(poll);
        let status = self.e.call_at(callback::POLL, self.trace.exits[exit.0 as usize].pc);
        self.check(status, exit, Leave::Raised);
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
    }

    /// Address of the result slot, which holds None.
    fn fresh_result(&mut self, frame: FrameId) -> Result<Value, Bailout> {
        let slot = self.result_slot(frame)?;
        self.e.store_none(slot);
        Ok(self.e.slot_address(slot))
    }

    fn packed(
        &mut self,
        frame: FrameId,
        callee: u32,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        self.program.packed(callee).ok_or_else(|| internal("no such function"))?;
        self.poll(exit);
        let area = self.arguments(frame, args)?;
        let result = self.fresh_result(frame)?;
        let code = self.e.symbol(Symbol::Code(callee));
        let this = self.e.symbol(Symbol::This(callee));
        let status = self.e.call_packed(code, this, area, args.len(), result);
        self.check(status, exit, Leave::Failed);
        Ok(())
    }

    fn invoke(
        &mut self,
        frame: FrameId,
        callee: Arg,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let function = match callee {
            Arg::Place(place, _) => {
                let slot = self.slot(place);
                self.e.payload(slot)
            }
            Arg::Const(index) => {
                let at = self.constant_address(index);
                self.e.load(types::I64, at, ANY_PAYLOAD)
            }
            Arg::Plain(_) | Arg::Vm => return Err(internal("a function that is no object")),
        };
        let area = self.arguments(frame, args)?;
        let result = self.fresh_result(frame)?;
        let code = self.e.load(types::I64, function, FUNCTION_SAFE_CALL);
        let status = self.e.call_packed(code, function, area, args.len(), result);
        self.check(status, exit, Leave::Failed);
        Ok(())
    }

    fn builtin(
        &mut self,
        frame: FrameId,
        builtin: Builtin,
        args: &[Arg],
        result: BuiltinResult,
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let index = Builtin::ALL.iter().position(|&row| row == builtin);
        let index = index.ok_or_else(|| internal("a builtin that is not in the table"))?;
        let area = self.arguments(frame, args)?;
        let slot = self.fresh_result(frame)?;
        let vm = self.e.load(types::I64, self.e.session, SESSION_VM_VALUE + ANY_PAYLOAD);
        let (index, count) = (self.e.i64(index as i64), self.e.i32(args.len() as i64));
        let call = self.e.call_helper(
            helpers::run_builtin as *const () as usize,
            &[types::I64, types::I64, types::I64, types::I32, types::I64],
            Some(types::I32),
            &[index, vm, area, count, slot],
        );
        let status = self.e.b.inst_results(call)[0];
        self.check(status, exit, Leave::Failed);
        if let BuiltinResult::Var(_, var) = result {
            let slot = self.result_slot(frame)?;
            self.vars[var.0 as usize] = Some(self.e.payload(slot));
        }
        Ok(())
    }

    fn operands(&self, args: &[Arg]) -> Result<Vec<Operand>, Bailout> {
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            operands.push(match *arg {
                Arg::Place(place, tag) => Operand::Slot(self.slot(place), tag),
                Arg::Plain(Plain::Const { tag, bits }) => Operand::Imm { tag, bits },
                Arg::Plain(Plain::Var { tag, var }) => {
                    Operand::Plain { tag, payload: self.var(var)? }
                }
                Arg::Const(_) => Operand::Const,
                Arg::Vm => Operand::Vm,
            });
        }
        Ok(operands)
    }

    /// An allocation that takes back its last object.
    fn allocate(
        &mut self,
        (frame, builtin): (FrameId, Builtin),
        kept: &Kept,
        args: &[Arg],
        dst: Option<Place>,
        exit: ExitId,
    ) -> Result<(), Bailout> {
        let (miss, next) = (self.e.cold_block(), self.e.b.create_block());
        let result = self.result_slot(frame)?;
        self.force(miss);
        let operands = self.operands(args)?;
        let base = self.trace.frame(frame).base;
        let place = |reg| Slot::index((base + reg) as usize);
        match kept.take(&mut self.e, &operands, place, result, miss) {
            Some(Produced::Object { tag, payload }) => {
                let to = dst.map_or(result, |dst| self.slot(dst));
                self.e.store_plain(to, tag, payload);
                self.e.b.ins().jump(next, &[]);
            }
            _ => {
                self.e.b.ins().jump(miss, &[]);
            }
        }
        self.e.b.switch_to_block(miss);
        self.builtin(frame, builtin, args, BuiltinResult::Slot, exit)?;
        if let Some(dst) = dst {
            let to = self.slot(dst);
            let value = self.e.load_any(result);
            self.e.store_any(to, value);
        }
        self.e.b.ins().jump(next, &[]);
        self.e.b.switch_to_block(next);
        Ok(())
    }

    /// Writes a builtin out, when that is possible.
    fn inline(
        &mut self,
        builtin: Builtin,
        args: &[Arg],
        exit: ExitId,
    ) -> Result<Option<Produced>, Bailout> {
        let operands = self.operands(args)?;
        let slow = self.exit(exit, Leave::Guard);
        self.force(slow);
        let produced = Fast { e: &mut self.e, slow }.builtin(builtin, &operands);
        Ok(produced)
    }

    /// Leaves what a written-out builtin produced where the trace expects it.
    fn keep(
        &mut self,
        frame: FrameId,
        produced: Produced,
        result: BuiltinResult,
    ) -> Result<(), Bailout> {
        match (produced, result) {
            (Produced::None, BuiltinResult::Nothing) => Ok(()),
            (Produced::Plain { payload, .. }, BuiltinResult::Var(_, var)) => {
                self.vars[var.0 as usize] = Some(payload);
                Ok(())
            }
            (Produced::Owned(value), BuiltinResult::Slot) => {
                let slot = self.result_slot(frame)?;
                self.e.store_any(slot, value);
                Ok(())
            }
            _ => Err(internal("a builtin produced another kind of result")),
        }
    }
}

//! Trace IR to Cranelift: one straight function with cold exits.
//!
//! The function has the signature of all native code and is entered with the trace's first frame
//! current and every register of it in its place. Frames of inlined calls lie where the
//! interpreter would put them.

mod arena;
mod calls;
mod exits;
mod held;
mod values;

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_vm::abi::{RESUME, SESSION_CELLS, SessionAbi, callback};
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::FuncCode;
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use super::ir::{Arg, BuiltinResult, End, ExitId, FrameId, Ins, Place, Plain, Trace, Var};
use super::materialise::Recipes;
use crate::assemble::{Unit, UnitFunc};
use crate::bridge::Exits;
use crate::emit::{Bits, Emit, Slot, trusted};
use crate::force::ForcedExits;
use crate::glue::native_signature;
use crate::raw::RawTensor;
use held::HeldBits;

/// What the generated code counts in and is disturbed by; it holds their addresses.
pub(crate) struct Attached {
    pub(crate) force: Option<Arc<ForcedExits>>,
    /// Told when an exit has been taken `exit_threshold` times.
    pub(crate) exits: Arc<Exits>,
    pub(crate) exit_threshold: u64,
    /// What exits make.
    pub(crate) recipes: Arc<Recipes>,
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
        e: Emit::new(b, session, regs),
        program,
        trace,
        attached,
        vars: vec![None; trace.vars as usize],
        exits: HashMap::new(),
        plain_exits: HashMap::new(),
        head: start,
        arena: None,
        held: vec![None; trace.held as usize],
        buffer: None,
        addresses: HashMap::new(),
        polled: None,
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
    /// The same, of a call that has no result slot.
    FailedRaw,
    /// A callback failed; the error is in the session.
    Raised,
}

struct Writer<'f, 't> {
    e: Emit<'f>,
    program: &'t Program,
    trace: &'t Trace,
    attached: &'t Attached,
    vars: Vec<Option<Value>>,
    /// By exit, reason, and register 0 of the first frame where it leaves.
    exits: HashMap<(ExitId, Leave, Value), Block>,
    /// Ways out that make nothing real; their blocks take the operation.
    plain_exits: HashMap<(FrameId, Leave, Value), Block>,
    /// Where a loop goes back to.
    head: Block,
    /// The storage that the trace's own storages lie in, while the session does not have it.
    arena: Option<Value>,
    /// Values in machine registers.
    held: Vec<Option<HeldBits>>,
    /// Where they are put for those who want addresses.
    buffer: Option<StackSlot>,
    /// Addresses of the data of tensors: what a register holds does not change under it.
    addresses: HashMap<Arg, Value>,
    /// Kernels called since somebody could last ask for attention and was looked at; `None` when that
    /// was not since code of the host ran.
    polled: Option<u32>,
}

fn internal(what: &str) -> Bailout {
    Bailout::Codegen { message: format!("trace IR: {what}") }
}

impl Writer<'_, '_> {
    fn whole(&mut self) -> Result<(), Bailout> {
        let shifts = matches!(self.trace.end, End::Shift { .. });
        if !shifts {
            self.check_room();
        }
        self.take_arena();
        for ins in &self.trace.before {
            self.ins(ins)?;
        }
        self.head = self.e.b.create_block();
        if shifts {
            let regs = self.e.b.append_block_param(self.head, types::I64);
            self.e.b.ins().jump(self.head, &[self.e.regs.into()]);
            self.e.b.switch_to_block(self.head);
            self.e.regs = regs;
            self.check_room();
        } else {
            self.e.b.ins().jump(self.head, &[]);
            self.e.b.switch_to_block(self.head);
        }
        // What was loaded before is not what the next iteration finds.
        self.addresses.clear();
        self.polled = None;
        self.count(&raw const self.attached.exits.usage.runs as usize);
        let trace = self.trace;
        for ins in &trace.code {
            self.ins(ins)?;
            for place in ins.writes().into_iter().flatten() {
                self.addresses.remove(&Arg::Place(place, None));
            }
            if ins.may_run_host_code() {
                self.polled = None;
            }
        }
        match trace.end {
            End::Loop => {
                self.e.b.ins().jump(self.head, &[]);
            }
            End::Shift { frame } => {
                let regs = self.e.slot_address(Slot::offset(trace.frame(frame).base));
                self.e.b.ins().jump(self.head, &[regs.into()]);
            }
            End::Return { pc, .. } => {
                self.put_arena();
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
                self.put_arena();
                let code = self.code_at(func);
                self.e.set_pc(0);
                self.e.tail_call(code);
            }
            End::Site { site, pc } => {
                self.put_arena();
                let code = self.code_at(site);
                self.e.set_pc(pc);
                self.e.tail_call(code);
            }
        }
        self.write_exits()
    }

    /// Leaves before anything has run when the frames of inlined calls would not fit.
    fn check_room(&mut self) {
        let trace = self.trace;
        let inlined = trace.frames.iter().filter(|frame| frame.base > 0);
        let Some(slots) = inlined.map(|frame| frame.base + frame.slots as i32).max() else {
            return;
        };
        let frames = (0..trace.frames.len() as u32).map(FrameId);
        let deepest = frames.map(|frame| trace.callers(frame).len()).max().unwrap_or(1);
        let deeper = deepest as i64 - trace.callers(FrameId(0)).len() as i64;
        let full = self.e.cold_block();
        let limit = self.e.load(types::I64, self.e.session, offset_of!(SessionAbi, stack_limit));
        let end = self.e.slot_address(Slot::offset(slots));
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
        self.put_arena();
        self.e.set_pc(trace.start_pc);
        self.e.return_status(RESUME);
        self.e.b.switch_to_block(next);
    }

    // --- places ---

    fn slot(&self, place: Place) -> Slot {
        Slot::offset(self.trace.slot(place))
    }

    fn code_of(&self, frame: FrameId) -> Result<&FuncCode, Bailout> {
        let func = self.trace.frame(frame).func;
        self.program.function(func).ok_or_else(|| internal("a frame without a function"))
    }

    fn result_slot(&self, frame: FrameId) -> Result<Slot, Bailout> {
        let reg = self.code_of(frame)?.result_slot() as u32;
        Ok(self.slot(Place { frame, reg }))
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
        if plain == Plain::NONE {
            self.e.store_none_whole(slot);
            return Ok(());
        }
        let (tag, payload) = self.plain_value(plain)?;
        self.e.store_plain(slot, tag, payload);
        Ok(())
    }

    fn ins(&mut self, ins: &Ins) -> Result<(), Bailout> {
        match ins {
            Ins::Tag { place, tag, exit } => {
                let slot = self.slot(*place);
                let fits = self.e.has_tag(slot, *tag);
                self.guard(fits, *exit);
            }
            Ins::Is { place, fact, exit } => {
                let slot = self.slot(*place);
                let tensor = self.e.payload(slot);
                let block = self.exit(*exit, Leave::Guard);
                self.force(block);
                self.e.require_fact(tensor, *fact, block);
            }
            Ins::Alike { place, dim, other, at, exit } => {
                let (slot, other) = (self.slot(*place), self.slot(*other));
                let (tensor, other) = (self.e.payload(slot), self.e.payload(other));
                let (have, want) =
                    (self.e.tensor_extent(tensor, *dim), self.e.tensor_extent(other, *at));
                let same = self.e.b.ins().icmp(IntCC::Equal, have, want);
                self.guard(same, *exit);
            }
            Ins::Payload { var, place } => {
                let slot = self.slot(*place);
                self.vars[var.0 as usize] = Some(self.e.payload(slot));
            }
            Ins::Let { var, value } => {
                self.vars[var.0 as usize] = Some(self.plain_value(*value)?.1);
            }
            Ins::Extent { var, place, dim } => {
                let slot = self.slot(*place);
                let tensor = self.e.payload(slot);
                self.vars[var.0 as usize] = Some(self.e.tensor_extent(tensor, *dim));
            }
            Ins::Same { left, right, exit } => {
                let (left, right) = (self.plain_value(*left)?.1, self.plain_value(*right)?.1);
                let equal = self.e.b.ins().icmp(IntCC::Equal, left, right);
                self.guard(equal, *exit);
            }
            Ins::Flag { var, place } => {
                let slot = self.slot(*place);
                let tensor = RawTensor::Object(self.e.payload(slot));
                let data = self.e.raw_data(&tensor);
                let byte = self.e.b.ins().uload8(types::I64, trusted(), data, 0);
                let truth = self.e.b.ins().icmp_imm_s(IntCC::NotEqual, byte, 0);
                self.vars[var.0 as usize] = Some(self.e.b.ins().uextend(types::I64, truth));
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
            Ins::Below { frame, exit } => self.below(*frame, *exit)?,
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
            Ins::Moves(moves) => {
                let values: Vec<_> = moves.iter().map(|&move_| self.moved(move_)).collect();
                for (slot, value) in values {
                    self.e.store_any(slot, value);
                }
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
            Ins::Raw { callee, args, exit, .. } => self.raw(*callee, args, *exit)?,
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
            Ins::View { frame, src, shape, exit, .. } => {
                let args = [*src, Arg::Const(*shape)];
                self.builtin(*frame, Builtin::Reshape, &args, BuiltinResult::Slot, *exit)?;
            }
            Ins::Allocate { frame, builtin, kept, args, dst, exit } => {
                self.allocate((*frame, *builtin), kept, args, *dst, *exit)?;
            }
            Ins::Give { place, give } => {
                let slot = self.slot(*place);
                self.e.give(slot, *give);
            }
            Ins::Current { frame, was } => self.make_current(*frame, *was)?,
            Ins::Enter { .. } | Ins::Leave { .. } => {
                return Err(internal("frames are entered and left one by one"));
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
            Ins::Hold { held, src, tag, how } => self.hold(*held, (*src, *tag), *how),
            Ins::HoldAgain { held, of } => self.hold_again(*held, *of)?,
            Ins::Unhold { dst, held } => {
                let held = self.held(*held)?;
                let slot = self.slot(*dst);
                self.e.store_any(slot, held.value);
            }
            Ins::DropHeld { held } => self.drop_held(*held)?,
        }
        Ok(())
    }

    /// The code in the cell of a site; the entries of functions come first.
    fn code_at(&mut self, site: u32) -> Value {
        let cells = self.e.load(types::I64, self.e.session, SESSION_CELLS);
        let cell = self.e.b.ins().iadd_imm_s(cells, i64::from(site) * size_of::<usize>() as i64);
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

    /// The value of a move, and where it goes.
    fn moved(&mut self, (dst, src): (Place, Place)) -> (Slot, Bits) {
        let (dst, src) = (self.slot(dst), self.slot(src));
        (dst, self.e.load_any(src))
    }
}

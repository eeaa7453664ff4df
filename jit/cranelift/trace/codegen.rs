//! Trace IR to Cranelift: one straight function with cold exits.
//!
//! The function has the signature of all native code and is entered with the trace's first frame
//! current and every register of it in its place. Frames of inlined calls lie where the
//! interpreter would put them.

mod arena;
mod calls;
mod exits;
mod held;
mod instructions;
mod values;

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, StackSlot, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_vm::abi::{RESUME, SESSION_CELLS, SessionAbi, libcall};
use reflex_vm::decode::FuncCode;
use reflex_vm::program::Program;
use reflex_vm::tier::Bailout;

use super::internal;
use super::ir::{Arg, End, ExitId, FrameId, Place, Plain, Trace, Var};
use super::materialise::Recipes;
use crate::assemble::{Unit, UnitFunc};
use crate::bridge::Exits;
use crate::emit::{Emit, Slot, trusted};
use crate::force::ForcedExits;
use crate::glue::native_signature;
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
        results: HashMap::new(),
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
    /// Registers that calls write themselves, by the exits of the calls.
    results: HashMap<ExitId, Place>,
    /// Kernels called since somebody could last ask for attention and was looked at; `None` when that
    /// was not since code of the host ran.
    polled: Option<u32>,
}

impl Writer<'_, '_> {
    fn whole(&mut self) -> Result<(), Bailout> {
        let shifts = matches!(self.trace.end, End::Shift { .. });
        if !shifts {
            self.check_room(false)?;
        }
        self.take_arena();
        for ins in &self.trace.before {
            self.ins(ins)?;
        }
        self.begin_round(shifts)?;
        // What was loaded before is not what the next iteration finds.
        self.addresses.clear();
        self.polled = None;
        self.count(&raw const self.attached.exits.usage.runs as usize);
        let trace = self.trace;
        for ins in &trace.code {
            self.ins(ins)?;
            let written = ins.writes().into_iter().flatten();
            for place in written.chain(ins.moved().iter().map(|&(dst, _)| dst)) {
                self.addresses.remove(&Arg::Place(place, None));
            }
            if ins.may_run_host_code() {
                self.polled = None;
            }
        }
        match trace.end {
            End::Loop => self.next_round(None)?,
            End::Shift { frame } => {
                let regs = self.e.slot_address(Slot::offset(trace.frame(frame).base));
                self.next_round(Some(regs))?;
            }
            End::Return { pc, .. } => {
                self.put_arena();
                let pc = self.e.i32(i64::from(pc));
                let params = [types::I64, types::I32];
                let args = [self.e.session, pc];
                let call = self.e.call_back(libcall::POP_FRAME, &params, Some(types::I64), &args);
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

    /// Begins the block that a loop goes back to; `shifts` when each round has another first frame.
    fn begin_round(&mut self, shifts: bool) -> Result<(), Bailout> {
        let trace = self.trace;
        self.head = self.e.b.create_block();
        let mut first = Vec::new();
        if shifts {
            first.push(self.e.regs.into());
        }
        for carried in &trace.carried {
            let value = carried.first.map(|first| self.var(first)).transpose()?;
            first.extend(value.map(BlockArg::from));
        }
        self.e.b.ins().jump(self.head, &first);
        let regs = shifts.then(|| self.e.b.append_block_param(self.head, types::I64));
        for carried in &trace.carried {
            if let Plain::Var { var, .. } = carried.inside {
                let value = self.e.b.append_block_param(self.head, types::I64);
                self.vars[var.0 as usize] = Some(value);
            }
        }
        self.e.b.switch_to_block(self.head);
        if let Some(regs) = regs {
            self.e.regs = regs;
            self.check_room(true)?;
        }
        Ok(())
    }

    /// Goes back to it, with another first frame's registers.
    fn next_round(&mut self, regs: Option<Value>) -> Result<(), Bailout> {
        let trace = self.trace;
        let mut again: Vec<BlockArg> = regs.into_iter().map(BlockArg::from).collect();
        for carried in trace.carried.iter().filter(|carried| carried.first.is_some()) {
            again.push(self.plain_value(carried.again)?.1.into());
        }
        self.e.b.ins().jump(self.head, &again);
        Ok(())
    }

    /// Leaves before anything of a round has run when the frames of inlined calls would not fit;
    /// `shifts` as above.
    fn check_room(&mut self, shifts: bool) -> Result<(), Bailout> {
        let trace = self.trace;
        let inlined = trace.frames.iter().filter(|frame| frame.base > 0);
        let Some(slots) = inlined.map(|frame| frame.base + frame.slots as i32).max() else {
            return Ok(());
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
        if shifts {
            for carried in &trace.carried {
                self.store(carried.place, carried.inside)?;
            }
        }
        self.put_arena();
        self.e.set_pc(trace.start_pc);
        self.e.return_status(RESUME);
        self.e.b.switch_to_block(next);
        Ok(())
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

    /// The code in the cell of a site; the entries of functions come first.
    fn code_at(&mut self, site: u32) -> Value {
        let cells = self.e.load(types::I64, self.e.session, SESSION_CELLS);
        let cell = self.e.b.ins().iadd_imm_s(cells, i64::from(site) * size_of::<usize>() as i64);
        self.e.b.ins().atomic_load(types::I64, trusted(), cell)
    }
}

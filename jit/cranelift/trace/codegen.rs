//! Code generation for traces: trace IR to one linear Cranelift function with cold side exits.
//!
//! The function has the signature of all native code. It is entered with frame 0 current and all
//! registers of that frame in memory. Frames of inlined calls lie where the interpreter would push
//! them.

mod arena;
mod calls;
mod exits;
mod instructions;
mod owned;
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
use super::ir::{Arg, End, ExitId, FrameId, Scalar, Trace, VReg, Var};
use super::materialise::VirtualObjects;
use crate::assemble::abi::native_signature;
use crate::assemble::{CodeUnit, UnitFunc};
use crate::emit::{Emit, Slot, trusted};
use crate::forced_exits::ForcedExits;
use crate::side_exits::SideExits;
use owned::OwnedBits;

/// The runtime data of a trace, whose addresses the generated code contains.
pub(crate) struct RuntimeHooks {
    pub(crate) forced_exits: Option<Arc<ForcedExits>>,
    /// Side exits; generated code reports an exit each time it was taken `exit_threshold` times.
    pub(crate) exits: Arc<SideExits>,
    pub(crate) exit_threshold: u64,
    /// The virtual objects that side exits materialise.
    pub(crate) virtual_objects: Arc<VirtualObjects>,
}

/// Translates a trace into an empty unit.
pub(crate) fn translate(
    unit: &mut CodeUnit,
    program: &Program,
    trace: &Trace,
    hooks: &RuntimeHooks,
) -> Result<UnitFunc, Bailout> {
    let entry = unit.declare();
    let mut function = unit.function(entry, native_signature());
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let (session, regs) = (b.block_params(start)[0], b.block_params(start)[1]);
    let mut codegen = TraceCodegen {
        e: Emit::new(b, session, regs),
        program,
        trace,
        hooks,
        vars: vec![None; trace.vars as usize],
        exit_blocks: HashMap::new(),
        failure_exits: HashMap::new(),
        head: start,
        arena: None,
        owned: vec![None; trace.owned_values as usize],
        buffer: None,
        addresses: HashMap::new(),
        results: HashMap::new(),
        polled: None,
    };
    codegen.body()?;
    codegen.e.b.seal_all_blocks();
    codegen.e.b.finalize(unit.frontend);
    unit.define(entry, function);
    Ok(entry)
}

/// The frame 0 of each iteration of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Iteration {
    /// It stays the same; traces without a loop have one iteration.
    SameFrame,
    /// It is another level of the recursion.
    OtherFrame,
}

/// The reason for a side exit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ExitReason {
    /// A guard failed: the interpreter or a side trace resumes.
    Guard,
    /// The trace ends: the interpreter resumes.
    End,
    /// A call failed; the error is in the thread's slot.
    Failed,
    /// As `Failed`, of a call without a result slot.
    FailedRaw,
    /// A libcall failed; the error is in the session.
    Raised,
}

struct TraceCodegen<'f, 't> {
    e: Emit<'f>,
    program: &'t Program,
    trace: &'t Trace,
    hooks: &'t RuntimeHooks,
    vars: Vec<Option<Value>>,
    /// Blocks by exit, reason, and register 0 of frame 0 at the exit.
    exit_blocks: HashMap<(ExitId, ExitReason, Value), Block>,
    /// Blocks of failures that restore nothing; the operation is their parameter.
    failure_exits: HashMap<(FrameId, ExitReason, Value), Block>,
    /// The block that a loop jumps back to.
    head: Block,
    /// The arena of the trace's storages, while the trace has taken it from the session.
    arena: Option<Value>,
    /// Values in machine registers.
    owned: Vec<Option<OwnedBits>>,
    /// The stack slot for values whose address is passed to a libcall.
    buffer: Option<StackSlot>,
    /// Addresses of the data of tensors, which do not change while a register holds the tensor.
    addresses: HashMap<Arg, Value>,
    /// Registers that calls write directly, by the exits of the calls.
    results: HashMap<ExitId, VReg>,
    /// Kernels called since the last poll of the interrupt word; `None` if host code ran since then.
    polled: Option<u32>,
}

impl TraceCodegen<'_, '_> {
    fn body(&mut self) -> Result<(), Bailout> {
        let iteration = match self.trace.end {
            End::Recursion { .. } => Iteration::OtherFrame,
            _ => Iteration::SameFrame,
        };
        if iteration == Iteration::SameFrame {
            self.check_stack(iteration)?;
        }
        self.take_arena();
        for ins in &self.trace.preheader {
            self.ins(ins)?;
        }
        self.begin_iteration(iteration)?;
        // Addresses loaded in the preheader do not hold in the next iteration.
        self.addresses.clear();
        self.polled = None;
        self.count(&raw const self.hooks.exits.usage.runs as usize);
        let trace = self.trace;
        for ins in &trace.code {
            self.ins(ins)?;
            let written = ins.writes().into_iter().flatten();
            for vreg in written.chain(ins.moved().iter().map(|&(dst, _)| dst)) {
                self.addresses.remove(&Arg::Reg(vreg, None));
            }
            if ins.may_run_host_code() {
                self.polled = None;
            }
        }
        self.end(trace.end)?;
        self.write_exits()
    }

    /// Emits the end of the trace: the jump to the code that runs next.
    fn end(&mut self, end: End) -> Result<(), Bailout> {
        match end {
            End::Loop => self.next_iteration(None)?,
            End::Recursion { frame } => {
                let regs = self.e.slot_address(Slot::offset(self.trace.frame(frame).base));
                self.next_iteration(Some(regs))?;
            }
            End::Return { pc, .. } => {
                self.put_arena();
                let pc = self.e.i32(i64::from(pc));
                let params = [types::I64, types::I32];
                let args = [self.e.session, pc];
                let call =
                    self.e.call_libcall(libcall::POP_FRAME, &params, Some(types::I64), &args);
                let code = self.e.b.inst_results(call)[0];
                self.e.tail_call(code);
            }
            End::Interpreter(exit) => {
                let block = self.exit(exit, ExitReason::End);
                self.e.b.ins().jump(block, &[]);
            }
            End::Function { func } => {
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
        Ok(())
    }

    /// Starts the block of an iteration, which a loop jumps back to.
    fn begin_iteration(&mut self, iteration: Iteration) -> Result<(), Bailout> {
        let trace = self.trace;
        self.head = self.e.b.create_block();
        let mut first = Vec::new();
        let other_frame = iteration == Iteration::OtherFrame;
        if other_frame {
            first.push(self.e.regs.into());
        }
        for carried in &trace.carried {
            let value = carried.first.map(|first| self.var(first)).transpose()?;
            first.extend(value.map(BlockArg::from));
        }
        self.e.b.ins().jump(self.head, &first);
        let regs = other_frame.then(|| self.e.b.append_block_param(self.head, types::I64));
        for carried in &trace.carried {
            if let Scalar::Var { var, .. } = carried.inside {
                let value = self.e.b.append_block_param(self.head, types::I64);
                self.vars[var.0 as usize] = Some(value);
            }
        }
        self.e.b.switch_to_block(self.head);
        if let Some(regs) = regs {
            self.e.regs = regs;
            self.check_stack(iteration)?;
        }
        Ok(())
    }

    /// Jumps back to that block; `regs` is register 0 of the next iteration's frame 0.
    fn next_iteration(&mut self, regs: Option<Value>) -> Result<(), Bailout> {
        let trace = self.trace;
        let mut again: Vec<BlockArg> = regs.into_iter().map(BlockArg::from).collect();
        for carried in trace.carried.iter().filter(|carried| carried.first.is_some()) {
            again.push(self.scalar_value(carried.next)?.1.into());
        }
        self.e.b.ins().jump(self.head, &again);
        Ok(())
    }

    /// Leaves before anything of an iteration has run if the frames of inlined calls do not fit in
    /// the register stack.
    fn check_stack(&mut self, iteration: Iteration) -> Result<(), Bailout> {
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
        let fits = self.e.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, limit);
        self.e.require(fits, full);
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
        if iteration == Iteration::OtherFrame {
            for carried in &trace.carried {
                self.store(carried.vreg, carried.inside)?;
            }
        }
        self.put_arena();
        self.e.set_pc(trace.start_pc);
        self.e.return_status(RESUME);
        self.e.b.switch_to_block(next);
        Ok(())
    }

    // --- slots ---

    fn slot(&self, vreg: VReg) -> Slot {
        Slot::offset(self.trace.slot(vreg))
    }

    fn code_of(&self, frame: FrameId) -> Result<&FuncCode, Bailout> {
        let func = self.trace.frame(frame).func;
        self.program.function(func).ok_or_else(|| internal("a frame without a function"))
    }

    fn result_slot(&self, frame: FrameId) -> Result<Slot, Bailout> {
        let reg = self.code_of(frame)?.result_slot() as u32;
        Ok(self.slot(VReg { frame, reg }))
    }

    fn var(&self, Var(var): Var) -> Result<Value, Bailout> {
        self.vars[var as usize].ok_or_else(|| internal("a variable is read before it is written"))
    }

    fn scalar_value(&mut self, scalar: Scalar) -> Result<(i32, Value), Bailout> {
        Ok(match scalar {
            Scalar::Const { tag, bits } => (tag, self.e.i64(bits)),
            Scalar::Var { tag, var } => (tag, self.var(var)?),
        })
    }

    /// The code in the cell of a site; the entries of functions come first.
    fn code_at(&mut self, site: u32) -> Value {
        let cells = self.e.load(types::I64, self.e.session, SESSION_CELLS);
        let cell = self.e.b.ins().iadd_imm_s(cells, i64::from(site) * size_of::<usize>() as i64);
        self.e.b.ins().atomic_load(types::I64, trusted(), cell)
    }
}

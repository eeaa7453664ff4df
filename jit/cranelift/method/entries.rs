//! Entries of a body: its first operation, the operations after calls, its loops.

use std::sync::atomic::AtomicU64;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_vm::abi::SESSION_PC;
use reflex_vm::decode::{FuncCode, Op, SiteId};

use crate::assemble::abi::native_signature;
use crate::assemble::{CodeUnit, UnitFunc};
use crate::emit::trusted;

/// The operations after calls of VM functions. The verifier ensures that there is one.
pub(super) fn after_calls(func: &FuncCode) -> Vec<usize> {
    let is_call = |op: &Op| matches!(op, Op::CallVm { .. } | Op::InvokeClosure { .. });
    let calls = func.ops.iter().enumerate().filter(|(_, op)| is_call(op));
    calls.map(|(pc, _)| pc + 1).collect()
}

/// The loops of a function: site and first operation, each once.
pub(super) fn loops(func: &FuncCode) -> Vec<(SiteId, usize)> {
    let mut loops: Vec<(SiteId, usize)> = func
        .ops
        .iter()
        .filter_map(|op| match *op {
            Op::LoopBack { target, site } => Some((site, target as usize)),
            _ => None,
        })
        .collect();
    loops.sort_unstable();
    loops.dedup();
    loops
}

pub(super) fn body_signature() -> Signature {
    let mut signature = native_signature();
    signature.params.push(AbiParam::new(types::I32));
    signature
}

/// The operation at which a body is entered.
pub(super) enum EntryPoint {
    /// Its first operation.
    Start,
    /// The current operation of the session: after a call, or at a loop.
    Current,
}

/// A function that enters the body, and counts the entry in `runs`.
pub(super) fn thunk(
    unit: &mut CodeUnit,
    context: &mut FunctionBuilderContext,
    id: UnitFunc,
    body: UnitFunc,
    point: EntryPoint,
    runs: Option<&AtomicU64>,
) {
    let mut function = unit.function(id, native_signature());
    let body = CodeUnit::import(&mut function, body, body_signature());
    let mut b = FunctionBuilder::new(&mut function, context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    if let Some(runs) = runs {
        let counter = b.ins().iconst(types::I64, runs.as_ptr() as i64);
        let count = b.ins().load(types::I64, trusted(), counter, 0);
        let count = b.ins().iadd_imm_s(count, 1);
        b.ins().store(trusted(), count, counter, 0);
    }
    let (session, regs) = (b.block_params(block)[0], b.block_params(block)[1]);
    let pc = match point {
        EntryPoint::Start => b.ins().iconst(types::I32, 0),
        EntryPoint::Current => b.ins().load(types::I32, trusted(), session, SESSION_PC as i32),
    };
    let args = [session, regs, pc];
    b.ins().return_call(body, &args);
    b.seal_all_blocks();
    b.finalize(unit.frontend);
    unit.define(id, function);
}

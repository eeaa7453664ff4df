//! The pieces of machine code that every session with native code needs.
//!
//! `enter` is how Rust calls code in the `tail` convention, which Rust cannot express; `exit` is
//! the address that stands wherever there is no native code to continue with, `returned` the one
//! that hands control back to native code that waits for it. All are compiled once per process and
//! never freed.

use std::sync::OnceLock;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_runtime::abi::TVMFFIAny;
use reflex_vm::abi::{CodePtr, Glue, RESUME, RETURNED, SessionAbi};

use crate::assemble::{Assembler, Published, Unit, UnitFunc};
use crate::error::JitError;

/// Signature of [`reflex_vm::abi::Native`].
pub(crate) fn native_signature() -> Signature {
    let mut signature = Signature::new(Assembler::NATIVE);
    signature.params = vec![AbiParam::new(types::I64); 2];
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// The glue of this process, compiled on first use.
pub(crate) fn glue() -> Result<Glue, JitError> {
    static GLUE: OnceLock<Kept> = OnceLock::new();
    if let Some(kept) = GLUE.get() {
        return Ok(kept.glue);
    }
    // It belongs to no tier, so no tier's limit counts it.
    let fresh = build(&Assembler::new(usize::MAX)?)?;
    Ok(GLUE.get_or_init(|| fresh).glue)
}

/// The type of [`Glue::enter`].
type Enter = unsafe extern "C" fn(*mut SessionAbi, *mut TVMFFIAny, CodePtr) -> i32;

struct Kept {
    glue: Glue,
    // Keeps the code behind `glue` alive.
    _code: Published,
}

fn build(assembler: &Assembler) -> Result<Kept, JitError> {
    let mut unit = assembler.unit("reflex");
    let mut context = FunctionBuilderContext::new();

    let enter = unit.declare();
    let mut signature = Signature::new(Assembler::C);
    signature.params = vec![AbiParam::new(types::I64); 3];
    signature.returns = vec![AbiParam::new(types::I32)];
    let mut function = unit.function(enter, signature);
    let native = function.import_signature(native_signature());
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let (session, regs, code) = match builder.block_params(block) {
        &[session, regs, code] => (session, regs, code),
        _ => return Err(JitError::backend("`enter` has three parameters")),
    };
    let call = builder.ins().call_indirect(native, code, &[session, regs]);
    let status = builder.inst_results(call)[0];
    builder.ins().return_(&[status]);
    builder.seal_all_blocks();
    builder.finalize(unit.frontend);
    unit.define(enter, function);

    let exit = returns(&mut unit, &mut context, RESUME);
    let returned = returns(&mut unit, &mut context, RETURNED);

    let code = assembler.publish(unit)?;
    // SAFETY: the code behind the address was just compiled with the signature of `enter`, and
    // `Kept` keeps it for the rest of the process.
    let enter = unsafe { std::mem::transmute::<CodePtr, Enter>(code.address(enter)) };
    let (exit, returned) = (code.address(exit), code.address(returned));
    let glue = Glue { enter: Some(enter), exit, returned };
    Ok(Kept { glue, _code: code })
}

/// A function in the `tail` convention that does nothing but return `status`.
fn returns(unit: &mut Unit, context: &mut FunctionBuilderContext, status: i32) -> UnitFunc {
    let id = unit.declare();
    let mut function = unit.function(id, native_signature());
    let mut builder = FunctionBuilder::new(&mut function, context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let status = builder.ins().iconst(types::I32, i64::from(status));
    builder.ins().return_(&[status]);
    builder.seal_all_blocks();
    builder.finalize(unit.frontend);
    unit.define(id, function);
    id
}

//! The pieces of machine code that every session with native code needs.
//!
//! `enter` is how Rust calls code in the `tail` convention, which Rust cannot express; `exit` is
//! the address that stands wherever there is no native code to continue with, `returned` the one
//! that hands control back to native code that waits for it. All are made once per process, by
//! Cranelift or from an image, and never freed.

use std::sync::OnceLock;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_runtime::abi::TVMFFIAny;
use reflex_vm::abi::{CodePtr, RESUME, RETURNED, SessionAbi, Trampolines};

use crate::assemble::{Assembled, Assembler, Published, Unit, UnitFunc};
use crate::error::JitError;
use crate::options::TierOptions;

/// Signature of [`reflex_vm::abi::NativeFn`].
pub(crate) fn native_signature() -> Signature {
    let mut signature = Signature::new(Assembler::NATIVE);
    signature.params = vec![AbiParam::new(types::I64); 2];
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// How many functions the glue has.
pub(crate) const FUNCTIONS: usize = 3;

static GLUE: OnceLock<Kept> = OnceLock::new();

/// The glue of this process, compiled on first use if none was adopted.
pub(crate) fn glue() -> Result<Trampolines, JitError> {
    kept().map(|kept| kept.glue)
}

/// The code of the glue, and where its functions are.
pub(crate) fn parts() -> Result<(&'static [u8], [u32; FUNCTIONS]), JitError> {
    kept().map(|kept| (kept.code.text(), kept.offsets))
}

/// Takes glue that was compiled before, by this version for this kind of processor. Where there is
/// glue already, that stays.
pub(crate) fn adopt(text: &[u8], offsets: [u32; FUNCTIONS]) -> Result<(), JitError> {
    if GLUE.get().is_none() {
        let at = offsets.map(|offset| offset as usize).to_vec();
        let code = Assembled::of_parts("reflex", text.to_vec(), Vec::new(), at);
        let fresh = Kept::new(assembler()?.place(code, None)?, offsets)?;
        GLUE.get_or_init(|| fresh);
    }
    Ok(())
}

fn kept() -> Result<&'static Kept, JitError> {
    if let Some(kept) = GLUE.get() {
        return Ok(kept);
    }
    let fresh = build(&assembler()?)?;
    Ok(GLUE.get_or_init(|| fresh))
}

/// What makes it: it belongs to no tier, so no tier's limit counts it.
fn assembler() -> Result<Assembler, JitError> {
    Assembler::new(&TierOptions { code_cache_limit: usize::MAX, ..TierOptions::default() })
}

/// The type of [`Trampolines::enter`].
type Enter = unsafe extern "C" fn(*mut SessionAbi, *mut TVMFFIAny, CodePtr) -> i32;

struct Kept {
    glue: Trampolines,
    // Keeps the code behind `glue` alive.
    code: Published,
    offsets: [u32; FUNCTIONS],
}

impl Kept {
    /// Trampolines whose functions, in the order that [`build`] gives them, are at `offsets` of `code`.
    fn new(code: Published, offsets: [u32; FUNCTIONS]) -> Result<Kept, JitError> {
        let [enter, exit, returned] = offsets.map(|offset| code.at(offset as usize));
        if [enter, exit, returned].iter().any(|address| address.is_null()) {
            return Err(JitError::backend("a part of the glue lies outside of it"));
        }
        // SAFETY: code of that signature was compiled at this offset, here or by the same version
        // of this crate, and `Kept` keeps it for the rest of the process.
        let enter = unsafe { std::mem::transmute::<CodePtr, Enter>(enter) };
        let glue = Trampolines { enter: Some(enter), exit, returned };
        Ok(Kept { glue, code, offsets })
    }
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

    let assembled = assembler.assemble(unit)?;
    let offsets = [enter, exit, returned].map(|function| assembled.offset(function) as u32);
    Kept::new(assembler.place(assembled, None)?, offsets)
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

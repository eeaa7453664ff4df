//! Trampolines between Rust and native code, which every session with native code needs.
//!
//! `enter` calls code in the `tail` convention, which Rust cannot express. `exit` is the address in
//! every cell without native code: it returns to the interpreter. `returned` returns control to
//! native code that waits for it. All are compiled or loaded once per process, and never freed.

use std::sync::OnceLock;

use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use reflex_runtime::abi::TVMFFIAny;
use reflex_vm::abi::{CodePtr, RESUME, RETURNED, SessionAbi, Trampolines};

use crate::assemble::abi::{self, native_signature};
use crate::assemble::{Assembler, CodeUnit, CompiledUnit, PublishedCode, UnitFunc};
use crate::error::JitError;
use crate::options::TierOptions;

/// Number of trampolines.
pub(crate) const FUNCTIONS: usize = 3;

static TRAMPOLINES: OnceLock<CompiledTrampolines> = OnceLock::new();

/// The trampolines of this process, compiled on first use unless saved ones were adopted.
pub(crate) fn trampolines() -> Result<Trampolines, JitError> {
    compiled().map(|trampolines| trampolines.addresses)
}

/// The code of the trampolines, and the offset of each.
pub(crate) fn text_and_offsets() -> Result<(&'static [u8], [u32; FUNCTIONS]), JitError> {
    compiled().map(|trampolines| (trampolines.code.text(), trampolines.offsets))
}

/// Adopts trampolines that this version compiled earlier for this kind of processor, unless the
/// process has trampolines already.
pub(crate) fn adopt(text: &[u8], offsets: [u32; FUNCTIONS]) -> Result<(), JitError> {
    if TRAMPOLINES.get().is_none() {
        let at = offsets.map(|offset| offset as usize).to_vec();
        let code = CompiledUnit::from_text("reflex", text.to_vec(), Vec::new(), at);
        let fresh = CompiledTrampolines::new(assembler()?.publish(code, None)?, offsets)?;
        TRAMPOLINES.get_or_init(|| fresh);
    }
    Ok(())
}

fn compiled() -> Result<&'static CompiledTrampolines, JitError> {
    if let Some(trampolines) = TRAMPOLINES.get() {
        return Ok(trampolines);
    }
    let fresh = build(&assembler()?)?;
    Ok(TRAMPOLINES.get_or_init(|| fresh))
}

/// An assembler without a limit: trampolines belong to no tier, so no budget counts them.
fn assembler() -> Result<Assembler, JitError> {
    Assembler::new(&TierOptions { code_cache_limit: usize::MAX, ..TierOptions::default() })
}

/// The type of [`Trampolines::enter`].
type Enter = unsafe extern "C" fn(*mut SessionAbi, *mut TVMFFIAny, CodePtr) -> i32;

struct CompiledTrampolines {
    addresses: Trampolines,
    // Keeps the code at `addresses` alive.
    code: PublishedCode,
    offsets: [u32; FUNCTIONS],
}

impl CompiledTrampolines {
    /// Trampolines at `offsets` of `code`, in the order of [`build`].
    fn new(
        code: PublishedCode,
        offsets: [u32; FUNCTIONS],
    ) -> Result<CompiledTrampolines, JitError> {
        let [enter, exit, returned] = offsets.map(|offset| code.at(offset as usize));
        if [enter, exit, returned].iter().any(|address| address.is_null()) {
            return Err(JitError::backend("a trampoline lies outside of its code"));
        }
        // SAFETY: this version of the crate compiled code of that signature at this offset, in this
        // process or for a saved file. The static `TRAMPOLINES` keeps it until the process ends.
        let enter = unsafe { std::mem::transmute::<CodePtr, Enter>(enter) };
        let addresses = Trampolines { enter: Some(enter), exit, returned };
        Ok(CompiledTrampolines { addresses, code, offsets })
    }
}

fn build(assembler: &Assembler) -> Result<CompiledTrampolines, JitError> {
    let mut unit = assembler.unit("reflex");
    let mut context = FunctionBuilderContext::new();

    let enter = unit.declare();
    let mut signature = Signature::new(abi::C);
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
    CompiledTrampolines::new(assembler.publish(assembled, None)?, offsets)
}

/// A function in the `tail` convention that only returns `status`.
fn returns(unit: &mut CodeUnit, context: &mut FunctionBuilderContext, status: i32) -> UnitFunc {
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

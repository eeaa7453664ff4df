//! The raw entry: data pointers and 64-bit values in, status out. Of its arguments only the
//! elements of index tensors are checked.

use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::FunctionValue;
use reflex_tir::codegen::CpuTarget;
use reflex_tir::{Buffer, PrimFunc, abi};

use crate::emit::Emitter;
use crate::emit::instructions::Instructions;
use crate::emit::value::LaneValue;
use crate::error::{CodegenError, Result};

/// Emits the raw entry, which holds the kernel's body.
pub fn build<'c>(
    context: &'c Context,
    module: &Module<'c>,
    func: &PrimFunc,
    target: &CpuTarget,
) -> Result<FunctionValue<'c>> {
    let buffers: Vec<Buffer> = func.buffer_params().collect();
    let vars = abi::scalar_vars(func);
    let pointer = context.ptr_type(inkwell::AddressSpace::default());
    let mut params: Vec<BasicMetadataTypeEnum<'c>> = vec![pointer.into(); buffers.len()];
    params.extend(vec![BasicMetadataTypeEnum::from(context.i64_type()); vars.len()]);
    let name = format!("{}{}", abi::RAW_PREFIX, func.name);
    let function = module.add_function(&name, context.i32_type().fn_type(&params, false), None);
    if func.calls_packed() {
        // A function that a kernel calls may call the session that runs it, which tiers that call raw
        // entries do not expect.
        function.set_linkage(Linkage::Internal);
    }

    let mut e = Emitter::new(context, module, func, function);
    e.instructions = Instructions::of(target);
    for (i, buffer) in buffers.iter().enumerate() {
        let value = function.get_nth_param(i as u32).ok_or_else(lost_parameter)?;
        e.buffers.insert(*buffer, value.into_pointer_value());
        if func.is_unaliased(*buffer) {
            e.ir.mark_parameter(function, i as u32, "noalias");
        }
    }
    for (i, var) in vars.iter().enumerate() {
        let index = (buffers.len() + i) as u32;
        let word = function.get_nth_param(index).ok_or_else(lost_parameter)?.into_int_value();
        let value = e.scalar_from_word(word, func.vars[*var].dtype)?;
        e.vars.insert(*var, LaneValue::Uniform(value));
    }
    for check in &func.checks {
        e.check_indices(check)?;
    }
    e.stmt(&func.body)?;
    e.ir.builder.build_return(Some(&e.ir.i32(0)))?;
    e.finish()?;
    Ok(function)
}

fn lost_parameter() -> CodegenError {
    CodegenError::new("the raw entry has fewer parameters than its signature")
}

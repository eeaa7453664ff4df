//! CPU kernels around their bodies: entry points, threads, workspaces.

mod index_checks;
mod packed_call;
mod packed_entry;
mod parallel;
mod raw_entry;
pub mod shared_code;
pub mod target_machine;
mod workspace;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::PointerValue;
use reflex_tir::codegen::{Arch, CpuTarget};
use reflex_tir::{DType, PrimFunc, Scope, lower};

use crate::emit::Emitter;
use crate::error::{CodegenError, Result};

/// The LLVM module of `func`, with its raw and packed entries.
pub fn build_module<'c>(
    context: &'c Context,
    func: &PrimFunc,
    target: &CpuTarget,
) -> Result<Module<'c>> {
    // Without these instructions LLVM would call functions that kernels may not import. Every AArch64 CPU
    // converts float16.
    let converts = match target.arch() {
        Some(Arch::Wasm32) => false,
        arch => arch == Some(Arch::Aarch64) || target.features.contains("f16c"),
    };
    if uses_float16(func) && !converts {
        return Err(CodegenError::new("float16 needs a CPU with F16C or NEON"));
    }
    let tiles = func.buffers.values().any(|b| b.scope == Scope::Tile);
    if tiles && !target.has_amx_bf16() && !target.has_amx_int8() {
        return Err(CodegenError::new("matrix registers need a CPU with AMX"));
    }
    let expanded;
    let func = match target.has_avx512_bf16() {
        true => func,
        false => {
            expanded = lower::lower_bf16_dots(func);
            &expanded
        }
    };
    let module = shared_code::module(context, &func.name, target)?;
    let raw = raw_entry::build(context, &module, func, target)?;
    packed_entry::build(context, &module, func, target, raw)?;
    for function in module.get_functions() {
        if function.count_basic_blocks() > 0 {
            target_machine::set_attributes(context, function, target);
        }
    }
    Ok(module)
}

fn uses_float16(func: &PrimFunc) -> bool {
    let mut found = func.buffers.values().any(|b| b.dtype == DType::F16)
        || func.vars.values().any(|v| v.dtype == DType::F16);
    func.body.visit_exprs(&mut |e| found |= e.dtype() == DType::F16);
    found
}

impl<'c> Emitter<'_, 'c> {
    /// The pointer in the data slot `name`, which the loader has filled.
    fn slot(&self, name: &str) -> Result<PointerValue<'c>> {
        let global = self
            .ir
            .module
            .get_global(name)
            .unwrap_or_else(|| self.ir.module.add_global(self.ir.ptr(), None, name));
        let address = global.as_pointer_value();
        Ok(self.ir.builder.build_load(self.ir.ptr(), address, "")?.into_pointer_value())
    }

    /// Leaves the function with `status`, releasing what it holds.
    fn leave(&self, status: inkwell::values::IntValue<'c>) -> Result<()> {
        self.release_registers()?;
        for workspace in self.workspaces.iter().rev() {
            self.free_workspace(*workspace)?;
        }
        self.ir.builder.build_return(Some(&status))?;
        Ok(())
    }

    /// Leaves with `status` unless it is 0.
    fn check_status(&self, status: inkwell::values::IntValue<'c>) -> Result<()> {
        let failed = self.ir.block(self.function, "failed");
        let after = self.ir.block(self.function, "ok");
        let zero = self.ir.i32(0);
        let ok = self.ir.builder.build_int_compare(inkwell::IntPredicate::EQ, status, zero, "")?;
        self.ir.builder.build_conditional_branch(ok, after, failed)?;
        self.ir.builder.position_at_end(failed);
        self.leave(status)?;
        self.ir.builder.position_at_end(after);
        Ok(())
    }
}

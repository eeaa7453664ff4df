//! The LLVM target machine for a CPU.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine,
    TargetTriple,
};
use inkwell::values::FunctionValue;
use reflex_tir::codegen::{Arch, CpuTarget, OptLevel};

use crate::error::{CodegenError, Result};

/// The machine of a target, which a thread keeps from kernel to kernel.
pub fn of(target: &CpuTarget, opt: OptLevel) -> Result<Rc<TargetMachine>> {
    type Last = Option<(CpuTarget, OptLevel, Rc<TargetMachine>)>;
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((known, level, machine)) = last
            && known == target
            && *level == opt
        {
            return Ok(machine.clone());
        }
        let machine = Rc::new(create(target, opt)?);
        *last = Some((target.clone(), opt, machine.clone()));
        Ok(machine)
    })
}

/// A machine that generates position-independent code for exactly the target's features. The
/// CPU's name is not used: in virtual machines LLVM guesses it wrong.
fn create(target: &CpuTarget, opt: OptLevel) -> Result<TargetMachine> {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        LlvmTarget::initialize_x86(&InitializationConfig::default());
        LlvmTarget::initialize_aarch64(&InitializationConfig::default());
        LlvmTarget::initialize_webassembly(&InitializationConfig::default());
    });
    let cpu = match target.arch() {
        Some(Arch::X86_64) => "x86-64",
        Some(Arch::Aarch64 | Arch::Wasm32) => "generic",
        None => {
            return Err(CodegenError::new(format!("no code generator for {}", target.triple)));
        }
    };
    let triple = TargetTriple::create(&target.triple);
    let features: Vec<String> = target.features.iter().map(|f| format!("+{f}")).collect();
    let level = match opt {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O3 => OptimizationLevel::Aggressive,
    };
    LlvmTarget::from_triple(&triple)?
        .create_target_machine(
            &triple,
            cpu,
            &features.join(","),
            level,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| CodegenError::new(format!("LLVM has no machine for {}", target.triple)))
}

/// A relocatable object: ELF, or WebAssembly.
pub fn object(module: &Module<'_>, machine: &TargetMachine) -> Result<Vec<u8>> {
    Ok(machine.write_to_memory_buffer(module, FileType::Object)?.as_slice().to_vec())
}

/// Gives a function the attributes of the target.
pub fn set_attributes(context: &Context, function: FunctionValue<'_>, target: &CpuTarget) {
    use inkwell::attributes::{Attribute, AttributeLoc::Function};
    let nounwind = Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(Function, context.create_enum_attribute(nounwind, 0));
    if target.arch() == Some(Arch::Wasm32) {
        return;
    }
    // Large frames touch every page, so that overflow hits the guard page.
    function.add_attribute(Function, context.create_string_attribute("probe-stack", "inline-asm"));
    let width = (target.vector_bytes * 8).to_string();
    for key in ["prefer-vector-width", "min-legal-vector-width"] {
        function.add_attribute(Function, context.create_string_attribute(key, &width));
    }
}

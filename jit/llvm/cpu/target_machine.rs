//! The LLVM target machine for a CPU, and the pass pipeline.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine,
    TargetTriple,
};
use reflex_tir::codegen::{CpuTarget, OptLevel};

use crate::error::{CodegenError, Result};

/// LLVM passes that make kernels faster and take little time. Loops come vectorized and unrolled from
/// the schedule, so LLVM's own loop and SLP vectorizers have nothing to add but time.
const PASSES: &str = "function(sroa<modify-cfg>,early-cse<memssa>,\
    instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm<allowspeculation>),gvn,dse,\
    instcombine<no-verify-fixpoint>,simplifycfg),globaldce";

/// A machine that generates position-independent code for exactly the target's features. The
/// CPU's name is not used: in virtual machines LLVM guesses it wrong.
pub fn create(target: &CpuTarget, opt: OptLevel) -> Result<TargetMachine> {
    static INIT: Once = Once::new();
    INIT.call_once(|| LlvmTarget::initialize_x86(&InitializationConfig::default()));
    if !target.triple.starts_with("x86_64") {
        return Err(CodegenError::new(format!("no code generator for {}", target.triple)));
    }
    let triple = TargetTriple::create(&target.triple);
    let features: Vec<String> = target.features.iter().map(|f| format!("+{f}")).collect();
    let level = match opt {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O3 => OptimizationLevel::Aggressive,
    };
    LlvmTarget::from_triple(&triple)?
        .create_target_machine(
            &triple,
            "x86-64",
            &features.join(","),
            level,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| CodegenError::new(format!("LLVM has no machine for {}", target.triple)))
}

/// Optimises `module` as `opt` says.
pub fn optimise(module: &Module<'_>, machine: &TargetMachine, opt: OptLevel) -> Result<()> {
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if let Err(fault) = module.verify() {
        let text = format!("LLVM rejects the module: {}", fault.to_string_lossy());
        return Err(CodegenError::new(text));
    }
    match opt {
        OptLevel::O0 => Ok(()),
        OptLevel::O3 => Ok(module.run_passes(PASSES, machine, PassBuilderOptions::create())?),
    }
}

/// A relocatable ELF object.
pub fn object(module: &Module<'_>, machine: &TargetMachine) -> Result<Vec<u8>> {
    Ok(machine.write_to_memory_buffer(module, FileType::Object)?.as_slice().to_vec())
}

/// Assembly text.
pub fn assembly(module: &Module<'_>, machine: &TargetMachine) -> Result<String> {
    let text = machine.write_to_memory_buffer(module, FileType::Assembly)?;
    let bytes = text.as_slice();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

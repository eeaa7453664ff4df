//! The LLVM target machine for a GPU.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};
use reflex_tir::codegen::{GpuTarget, OptLevel};

use crate::error::{CodegenError, Result};

const TRIPLE: &str = "nvptx64-nvidia-cuda";
/// The PTX version that is asked for: that of CUDA 12.0, which drivers from 525 on read.
const PTX: &str = "+ptx80";

/// A machine that writes PTX for the target's architecture, such as `sm_80`.
pub fn create(target: &GpuTarget, opt: OptLevel) -> Result<TargetMachine> {
    static INIT: Once = Once::new();
    INIT.call_once(|| LlvmTarget::initialize_nvptx(&InitializationConfig::default()));
    let none = || CodegenError::new(format!("no code generator for {}", target.name));
    let sm = target.name.strip_prefix("cuda:").ok_or_else(none)?;
    let level = match opt {
        OptLevel::O0 => OptimizationLevel::None,
        OptLevel::O3 => OptimizationLevel::Aggressive,
    };
    let triple = TargetTriple::create(TRIPLE);
    LlvmTarget::from_triple(&triple)?
        .create_target_machine(&triple, sm, PTX, level, RelocMode::Default, CodeModel::Default)
        .ok_or_else(none)
}

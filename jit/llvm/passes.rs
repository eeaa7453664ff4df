//! LLVM's passes over a module, and its text in assembly, for any target.

use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use reflex_tir::codegen::OptLevel;

use crate::error::{CodegenError, Result};

/// Passes that make kernels of CPUs faster and take little time. Loops come vectorized and unrolled from
/// the schedule, so LLVM's own loop and SLP vectorizers have nothing to add but time; nor have global value numbering,
/// dead-store elimination and a second round of instcombine, without which models run as fast.
pub const FOR_CPU: &str = "function(sroa<modify-cfg>,early-cse<memssa>,\
    instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm<allowspeculation>)),globaldce";
/// The same for GPUs, with what was not measured to be in vain there.
pub const FOR_GPU: &str = "function(sroa<modify-cfg>,early-cse<memssa>,\
    instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm<allowspeculation>),gvn,dse,\
    instcombine<no-verify-fixpoint>,simplifycfg),globaldce";

/// Optimises `module` by `passes`, as `opt` says.
pub fn optimise(
    module: &Module<'_>,
    machine: &TargetMachine,
    opt: OptLevel,
    passes: &str,
) -> Result<()> {
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if let Err(fault) = module.verify() {
        let text = format!("LLVM rejects the module: {}", fault.to_string_lossy());
        return Err(CodegenError::new(text));
    }
    match opt {
        OptLevel::O0 => Ok(()),
        OptLevel::O3 => Ok(module.run_passes(passes, machine, PassBuilderOptions::create())?),
    }
}

/// Assembly text.
pub fn assembly(module: &Module<'_>, machine: &TargetMachine) -> Result<String> {
    let text = machine.write_to_memory_buffer(module, FileType::Assembly)?;
    let bytes = text.as_slice();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

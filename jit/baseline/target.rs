//! The Cranelift target of a CPU.

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use reflex_tir::codegen::CpuTarget;

use crate::effort::Effort;
use crate::error::{BaselineError, Result};

/// LLVM's name of a feature, and Cranelift's.
const FEATURES: [(&str, &str); 11] = [
    ("sse3", "has_sse3"),
    ("ssse3", "has_ssse3"),
    ("sse4.1", "has_sse41"),
    ("sse4.2", "has_sse42"),
    ("popcnt", "has_popcnt"),
    ("avx", "has_avx"),
    ("avx2", "has_avx2"),
    ("fma", "has_fma"),
    ("bmi", "has_bmi1"),
    ("bmi2", "has_bmi2"),
    ("lzcnt", "has_lzcnt"),
];

/// The features that Cranelift is told of, one bit for each.
pub fn feature_bits(target: &CpuTarget) -> u16 {
    let bit =
        |(at, (llvm, _)): (usize, &(&str, &str))| u16::from(target.features.contains(*llvm)) << at;
    FEATURES.iter().enumerate().map(bit).sum()
}

/// Position-independent code for exactly the target's features. Where there is no fused multiply-add,
/// Cranelift calls the mathematics library's, which is exact.
pub fn create(target: &CpuTarget, effort: Effort) -> Result<OwnedTargetIsa> {
    let failed = |error: &dyn std::fmt::Display| BaselineError::new(format!("Cranelift: {error}"));
    if !target.triple.starts_with("x86_64") {
        return Err(BaselineError::new(format!("no code generator for {}", target.triple)));
    }
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    let allocator = match effort {
        Effort::Full => "backtracking",
        Effort::Quick => "single_pass",
    };
    let set = [
        // Without optimisation there is more code, which takes longer to allocate.
        ("opt_level", "speed"),
        ("regalloc_algorithm", allocator),
        ("is_pic", "true"),
        ("enable_verifier", verify),
        ("unwind_info", "false"),
        ("preserve_frame_pointers", "true"),
        // Large frames touch every page, so that overflow hits the guard page.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ];
    for (name, value) in set {
        flags.set(name, value).map_err(|e| failed(&e))?;
    }
    let mut builder = isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|e| failed(&e))?;
    for (llvm, cranelift) in FEATURES {
        let value = if target.features.contains(llvm) { "true" } else { "false" };
        builder.set(cranelift, value).map_err(|e| failed(&e))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| failed(&e))
}

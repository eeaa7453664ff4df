//! The Cranelift target of a CPU.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use reflex_tir::codegen::{Arch, CpuTarget};

use crate::effort::Effort;
use crate::error::{BaselineError, Result};

/// LLVM's name of a feature of x86-64, and Cranelift's. Of AArch64, Cranelift is told none: its vectors are
/// NEON's, which every target has.
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

/// Targets that were made, by [`feature_bits`] and effort: each kernel has one.
static MADE: Mutex<BTreeMap<(u16, Effort), OwnedTargetIsa>> = Mutex::new(BTreeMap::new());

/// [`create`], or what it made before.
pub fn of(target: &CpuTarget, effort: Effort) -> Result<OwnedTargetIsa> {
    let key = (feature_bits(target), effort);
    let known = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(isa) = known().get(&key).filter(|_| target.arch() == Some(Arch::HOST)) {
        return Ok(isa.clone());
    }
    let isa = create(target, effort)?;
    known().insert(key, isa.clone());
    Ok(isa)
}

/// Whether the CPU has what vectors of four lanes need: rounding and a fused multiply-add.
pub fn has_vectors(target: &CpuTarget) -> bool {
    let needed: &[&str] = match target.arch() {
        Some(Arch::Aarch64) => &["neon"],
        _ => &["sse4.1", "fma"],
    };
    needed.iter().all(|feature| target.features.contains(*feature))
}

/// Position-independent code for exactly the target's features. Where there is no fused multiply-add,
/// Cranelift calls the mathematics library's, which is exact.
fn create(target: &CpuTarget, effort: Effort) -> Result<OwnedTargetIsa> {
    let failed = |error: &dyn std::fmt::Display| BaselineError::new(format!("Cranelift: {error}"));
    // Cranelift is built with the code generator of this process's architecture alone.
    if target.arch() != Some(Arch::HOST) {
        let why = format!("no code generator for {}; LLVM has one", target.triple);
        return Err(BaselineError::new(why));
    }
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    // Indices are simplified, and moved out of loops, while they are emitted (`emit/index.rs`).
    let (optimisation, allocator) = match effort {
        Effort::Full => ("speed", "backtracking"),
        Effort::Quick => ("none", "single_pass"),
    };
    let set = [
        ("opt_level", optimisation),
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
    let mut builder = isa::lookup_by_name(Arch::HOST.triple()).map_err(|e| failed(&e))?;
    let features = if Arch::HOST == Arch::X86_64 { &FEATURES[..] } else { &[] };
    for (llvm, cranelift) in features {
        let value = if target.features.contains(*llvm) { "true" } else { "false" };
        builder.set(cranelift, value).map_err(|e| failed(&e))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| failed(&e))
}

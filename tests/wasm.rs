//! Programs that are compiled here for WebAssembly give there the bits that they give on x86-64-v3.
//!
//! `REFLEX_WASM` names the program `bits` of `tests/place`, compiled for WASI; Node.js runs it. `./x wasm` makes it.

#[path = "common/elsewhere.rs"]
mod elsewhere;
#[path = "place/noise.rs"]
mod noise;
#[path = "common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

use elsewhere::{MODELS, modules, rules};
use reflex::Level;

/// Node.js for a level, with the program `bits`.
fn node(level: Level, bits: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg("--no-warnings");
    if level == Level::WasmRelaxed {
        command.arg("--experimental-wasm-relaxed-simd");
    }
    command.arg("tests/wasm/run.mjs").arg(bits);
    command
}

/// Compiles each model for WebAssembly, each level on its own, and compares.
fn same_bits(models: &[PathBuf], levels: &[Level]) {
    let Some(bits) = skip::variable("REFLEX_WASM") else { return };
    for level in levels {
        elsewhere::same_bits(models, &[*level], "wasm", [(*level, node(*level, bits.as_ref()))]);
    }
}

#[test]
fn modules_of_operators_answer_as_on_x86() {
    same_bits(&modules(), &[Level::Wasm]);
}

/// Operators by the rules of schedules: each in a size that has whole vectors and what is left of them.
#[test]
fn every_rule_of_schedules_answers_as_on_x86() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rules = rules(folder.path());
    // float16 is refused.
    rules.retain(|path| !["gemm_f16.py", "half_softmax.py"].iter().any(|name| path.ends_with(name)));
    same_bits(&rules, &Level::WASM32);
}

#[test]
fn models_answer_as_on_x86() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let path = |name| Path::new(&models).join(format!("{name}.onnx"));
    same_bits(&MODELS.map(path), &Level::WASM32);
}

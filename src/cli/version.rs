//! `reflex --version`: what this build has, and what it does on this machine.

use reflex::{Engine, Level};

/// The features of this crate that the command is built with or without, by their names in `Cargo.toml`.
macro_rules! features {
    ($($name:literal),* $(,)?) => {
        [$(($name, cfg!(feature = $name))),*]
    };
}

/// Features of the build, the CPU's level and the kernels that a model gets, a line each.
pub fn details() -> String {
    let all = features![
        "onnx",
        "torch",
        "script",
        "cranelift",
        "llvm",
        "relay",
        "cuda",
        "rpc",
        "ir",
        "reflect",
        "python",
        "language-models",
        "disassembly",
        "ndarray",
    ];
    let built: Vec<&str> = all.into_iter().filter_map(|(name, on)| on.then_some(name)).collect();
    let features = built.join(", ");
    let level = Level::ALL.into_iter().rfind(|level| level.runs_on_host());
    let level = level.map_or("below every level".to_owned(), |level| level.to_string());
    let kernels = match Engine::new() {
        Ok(engine) => engine.kernels_note(),
        Err(error) => error.to_string(),
    };
    format!("features: {features}\ncpu: {level}\n{kernels}")
}

//! `reflex --version`: what this build has, and what it does on this machine.

use reflex::{Engine, Level};

/// Features of the build, the CPU's level and the kernels that a model gets, a line each.
pub fn details() -> String {
    let features = if cfg!(feature = "ndarray") { "ndarray" } else { "none" };
    let level = Level::ALL.into_iter().rfind(|level| level.runs_on_host());
    let level = level.map_or("below every level".to_owned(), |level| level.to_string());
    let kernels = match Engine::new() {
        Ok(engine) => engine.kernels_note(),
        Err(error) => error.to_string(),
    };
    format!("features: {features}\ncpu: {level}\n{kernels}")
}

//! Damaged models are refused, or load and run, through the façade.
//!
//! The folder `REFLEX_FUZZ_MODELS` has the models to start from (`.onnx`, `.py`, `.so`).
//! Run with `cargo fuzz run facade --features libfuzzer`.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use reflex_fuzz::facade::{Driver, Model};

fn models() -> &'static (Driver, Vec<Model>) {
    static MODELS: OnceLock<(Driver, Vec<Model>)> = OnceLock::new();
    MODELS.get_or_init(|| {
        let folder =
            std::env::var_os("REFLEX_FUZZ_MODELS").expect("REFLEX_FUZZ_MODELS is a folder");
        let entries = std::fs::read_dir(folder).expect("it can be read");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        let work = std::env::temp_dir().join(format!("reflex-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&work).expect("a folder");
        (
            Driver::new(&work),
            paths.iter().map(|path| Model::read(path).expect("readable")).collect(),
        )
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (driver, models) = models();
    let mut u = Unstructured::new(bytes);
    let Ok(model) = u.choose(models) else { return };
    if let Ok(case) = model.damaged(&mut u) {
        driver.model(&case);
    }
});

//! The modules that tests load.

use std::path::{Path, PathBuf};

use reflex_graph::{FuncData, Module, script};

/// The modules of all texts of the tests that are modules, by their paths.
pub fn modules() -> Vec<(String, Module)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![];
    for folder in ["tests/filetests", "examples", "tests/cuda_check", "src/tir/tests/corpus"] {
        texts(&root.join(folder), &mut found);
    }
    found.sort();
    let mut modules = vec![];
    for path in found {
        let text = std::fs::read_to_string(&path).expect("readable");
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        if let Ok(module) = script::parse(&text, &name) {
            modules.push((name, module));
        } else if let Ok(kernels) = reflex_tir::script::parse_module(&text) {
            // Before and after a schedule, under one name.
            for (number, kernel) in kernels.into_iter().enumerate() {
                let mut module = Module::default();
                module.funcs.push(FuncData::Prim(kernel));
                modules.push((format!("{name}.{number}"), module));
            }
        }
    }
    modules
}

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts(&path, found);
        } else if path.extension().is_some_and(|e| e == "py") {
            found.push(path);
        }
    }
}

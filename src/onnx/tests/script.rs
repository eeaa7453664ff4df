//! Imported models as script text: read back, the text is the same and so are the answers.
//!
//! Models are in `REFLEX_MODELS`, ONNX's node cases in `REFLEX_ONNX_CASES`, as `./x test` makes
//! them.

#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};

use reflex_graph::print::module_with_metadata;
use reflex_graph::script::parse;
use reflex_onnx::import;

/// Larger models are left out: their weights would be hundreds of megabytes of text.
const LARGEST_MODEL: u64 = 16 << 20;

fn files(folder: &Path, name: impl Fn(&Path) -> PathBuf) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| name(&entry.unwrap().path()))
        .filter(|p| p.extension().is_some_and(|e| e == "onnx") && p.is_file())
        .filter(|p| p.metadata().unwrap().len() <= LARGEST_MODEL)
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no models in {}", folder.display());
    files
}

fn round_trip(path: &Path) -> Result<bool, String> {
    let Ok(module) = import(path) else { return Ok(false) };
    let text = module_with_metadata(&module);
    let again = parse(&text, "printed").map_err(|e| format!("{}: {e}", path.display()))?;
    let second = module_with_metadata(&again);
    let differs = text.lines().zip(second.lines()).find(|(a, b)| a != b);
    match differs {
        Some((a, b)) => Err(format!("{}:\n{a:.300}\n{b:.300}", path.display())),
        None if text.len() != second.len() => Err(format!("{}: lengths differ", path.display())),
        None => Ok(true),
    }
}

fn all(files: &[PathBuf]) -> usize {
    let results: Vec<Result<bool, String>> = files.iter().map(|p| round_trip(p)).collect();
    let wrong: Vec<&String> = results.iter().filter_map(|r| r.as_ref().err()).collect();
    let first: Vec<&&String> = wrong.iter().take(8).collect();
    assert!(wrong.is_empty(), "{} texts are wrong:\n{first:#?}", wrong.len());
    results.iter().filter(|r| **r == Ok(true)).count()
}

#[test]
fn models_round_trip() {
    let Some(folder) = skip::variable("REFLEX_MODELS") else { return };
    let files = files(Path::new(&folder), Path::to_path_buf);
    assert_eq!(all(&files), files.len(), "a model is not imported");
}

#[test]
fn node_cases_round_trip() {
    let Some(folder) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let files = files(Path::new(&folder), |case| case.join("model.onnx"));
    eprintln!("{} of {} cases", all(&files), files.len());
}

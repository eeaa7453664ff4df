//! Every public function and method of the façade has an example in its documentation. Running the
//! examples is the part of `cargo test --doc`.

use std::path::{Path, PathBuf};

/// Folders below src that are crates of their own, or no part of the Rust interface.
const OTHERS: [&str; 15] = [
    "runtime", "vm", "relay", "tir", "graph", "onnx", "torch", "lower", "node", "reflect", "rpc",
    "cuda", "cli", "capi", "triton",
];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !OTHERS.contains(&name.as_str()) {
            sources(&path, files);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// The name of the public function that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["const ", "unsafe "].iter().fold(rest, |rest, word| rest.trim_start_matches(word));
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

/// Returns the public functions of a text that have no example, and the number of all.
fn without_example(text: &str) -> (Vec<String>, usize) {
    let (mut missing, mut count, mut example, mut private) = (vec![], 0, false, None);
    for line in text.lines() {
        let code = line.trim_start();
        // A private module, such as serde's helpers, is no interface.
        if line.starts_with("mod ") && line.ends_with('{') {
            private = Some("}");
        } else if private == Some(line) {
            private = None;
        }
        if code.starts_with("///") {
            example |= code.starts_with("/// ```");
        } else if !code.starts_with("#[") {
            if let Some(name) = declared(line).filter(|_| private.is_none()) {
                count += 1;
                missing.extend((!example).then(|| name.to_owned()));
            }
            example = false;
        }
    }
    (missing, count)
}

#[test]
fn every_public_function_has_an_example() {
    let mut files = vec![];
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut all = 0;
    for file in files {
        let (missing, count) = without_example(&std::fs::read_to_string(&file).expect("readable"));
        assert!(missing.is_empty(), "{}: no example for {missing:?}", file.display());
        all += count;
    }
    assert!(all > 95, "{all} functions");
}

#[test]
fn a_function_without_an_example_is_found() {
    let text = "/// Runs.\n///\n/// ```\n/// run();\n/// ```\n#[inline]\npub fn run() {}\n\
                /// Stops.\npub fn stop<T>() {}\npub(crate) fn inner() {}\n";
    assert_eq!(without_example(text), (vec!["stop".to_owned()], 2));
}

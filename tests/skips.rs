//! Every skip goes through tests/common/skip.rs, where `./x test` sees it, and tests/skips.txt
//! announces tests that exist.

use std::path::{Path, PathBuf};

/// Variables that `./x test` sets, without which tests do not run.
const DATA: [&str; 4] = ["TVM_PYTHON", "MODELS", "REFS", "ONNX_CASES"];

/// Path and text of every Rust file below some folders.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut queue: Vec<PathBuf> = ["tests", "src", "jit"].map(|f| root.join(f)).into();
    let mut files = vec![];
    while let Some(folder) = queue.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                queue.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                files.push((path, text));
            }
        }
    }
    assert!(files.len() > 300, "{} files", files.len());
    files
}

#[test]
fn tests_skip_through_the_helper_alone() {
    let mut found = vec![];
    for (path, text) in sources() {
        if path.ends_with("tests/skips.rs") {
            continue;
        }
        let reads = |name: &&str| {
            ["env::var_os", "env::var"]
                .iter()
                .any(|f| text.contains(&format!("{f}(\"REFLEX_{name}\"")))
        };
        let says = text.contains("!(\"skipped") || text.contains("!(\"SKIPPED");
        if DATA.iter().any(reads) || says && !path.ends_with("tests/common/skip.rs") {
            found.push(path);
        }
    }
    assert!(
        found.is_empty(),
        "use skip::skip or skip::variable of tests/common/skip.rs: {found:?}"
    );
}

/// A listed `CRATE::..::TEST[/PART]` has a file of tests called CRATE, or is of the library with
/// that name, and the file has the word TEST.
#[test]
fn announced_tests_exist() {
    let list = include_str!("skips.txt");
    let files = sources();
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (_, name) = line.split_once(' ').expect("a condition and a test");
        let path: Vec<&str> = name.split('/').next().expect("a test").split("::").collect();
        let (first, last) = (path[0], path[path.len() - 1]);
        let library = first.strip_prefix("reflex_").map(|name| format!("src/{name}"));
        let known = files.iter().any(|(file, text)| {
            let of_crate = file.ends_with(format!("tests/{first}.rs"))
                || library.as_ref().is_some_and(|l| file.to_string_lossy().contains(l));
            let mut words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
            of_crate && words.any(|word| word == last)
        });
        assert!(known, "tests/skips.txt: no test is called {name}");
    }
}

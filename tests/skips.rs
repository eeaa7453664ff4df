//! Every skip goes through tests/common/skip.rs, where `./x test` sees it.

use std::path::{Path, PathBuf};

/// Variables that `./x test` sets, without which tests do not run.
const DATA: [&str; 4] = ["TVM_PYTHON", "MODELS", "REFS", "ONNX_CASES"];

#[test]
fn tests_skip_through_the_helper_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut queue: Vec<PathBuf> = ["tests", "src", "jit"].map(|f| root.join(f)).into();
    let (mut files, mut found) = (0, vec![]);
    while let Some(folder) = queue.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                queue.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && !path.ends_with("tests/skips.rs")
            {
                files += 1;
                let text = std::fs::read_to_string(&path).expect("readable");
                let reads = |name| text.contains(&format!("env::var_os(\"REFLEX_{name}\""));
                let reads_text = |name| text.contains(&format!("env::var(\"REFLEX_{name}\""));
                let says = text.contains("!(\"skipped") || text.contains("!(\"SKIPPED");
                let helper = path.ends_with("tests/common/skip.rs");
                if DATA.iter().any(|name| reads(name) || reads_text(name)) || says && !helper {
                    found.push(path);
                }
            }
        }
    }
    assert!(files > 300, "{files} files");
    assert!(
        found.is_empty(),
        "use skip::skip or skip::variable of tests/common/skip.rs: {found:?}"
    );
}

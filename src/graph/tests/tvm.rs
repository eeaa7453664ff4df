//! What TVM prints of its modules, before and after its pipeline, is read here and printed
//! again as text that TVM reads to a structurally equal module.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the
//! test says so. The modules are in tests/tvm/subjects.py at the root.

use std::path::{Path, PathBuf};
use std::process::Command;

use reflex_graph::script::Script;

/// What TVM finds of every text but those it finds equal: name, its answer, and why.
const OTHERWISE: [(&str, &str, &str); 2] = [
    ("branches.after", "unread", "TVM's lowering uses a value that one branch leaves undefined"),
    ("index.after", "same", "TVM prints no layout of a parameter"),
];

fn script(python: &Path, args: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tvm/script.py");
    let output = Command::new(python).arg(script).args(args).output().expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "script.py {args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn scripts_of_tvm_print_to_structurally_equal_modules() {
    let Some(python) = std::env::var_os("REFLEX_TVM_PYTHON").map(PathBuf::from) else {
        println!("skipped: REFLEX_TVM_PYTHON is not set; ./x test sets it");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-scripts");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let out = folder.to_str().expect("UTF-8");
    script(&python, &["emit", out]);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the texts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    let mut faults = vec![];
    for path in &paths {
        let text = std::fs::read_to_string(path).expect("readable");
        let name = path.display().to_string();
        let read = Script::read(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        let printed = read.print();
        let again = Script::read(&printed, &name).unwrap_or_else(|e| panic!("printed {e}"));
        if again.print() != printed {
            faults.push(format!("{name}: printed twice, the texts differ"));
        }
        std::fs::write(path.with_extension("ours.py"), printed).expect("writes");
    }
    let said = script(&python, &["check", out]);
    for line in said.lines() {
        let (name, answer) = line.split_once(' ').expect("a name and an answer");
        let known = OTHERWISE.iter().find(|(n, _, _)| *n == name);
        let expected = known.map_or("equal", |(_, answer, _)| *answer);
        if answer.split(' ').next() != Some(expected) {
            faults.push(format!("{name}: {answer}, where {expected} is expected"));
        }
    }
    println!("{said}");
    let equal = said.lines().filter(|line| line.ends_with(" equal")).count();
    println!(
        "tvm: {equal} of {} texts printed here are structurally equal to TVM's modules",
        paths.len()
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(said.lines().count(), paths.len());
    assert!(paths.len() >= 80, "{} texts", paths.len());
}

//! Environment variables: those that the sources read, those that `reflex --help` lists and those in
//! docs/deploying.md are the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files of what is deployed, without tests and build scripts.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        if path.is_dir() && !["tests", "benches"].contains(&name) {
            sources(&path, found);
        } else if (name.ends_with(".rs") && name != "build.rs") || name.ends_with(".py") {
            found.push(path);
        }
    }
}

fn is_variable(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() >= 4 && text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(plain)
}

/// The variables that a file may read: where it asks the environment, every text in it that could be
/// a variable's name.
fn read_by(source: &str) -> BTreeSet<String> {
    let code = source.split("\n#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    if ["env::var", "from_env(", "os.environ", "getenv"].iter().any(|ask| code.contains(ask)) {
        // Between any two quotation marks, as strings may lie on several lines; not bytes, nor what
        // the build sets.
        let parts: Vec<&str> = code.split('"').collect();
        let read = |before: &str| !before.ends_with('b') && !before.ends_with("env!(");
        let quoted = parts.windows(2).filter(|pair| read(pair[0])).map(|pair| pair[1]);
        found.extend(quoted.filter(|text| is_variable(text)).map(str::to_owned));
    }
    if ["tempfile::tempfile()", "tempfile::tempdir()", "temp_dir()"]
        .iter()
        .any(|t| code.contains(t))
    {
        found.insert("TMPDIR".to_owned());
    }
    found
}

#[test]
fn variables_that_are_read_are_in_the_help_and_in_the_documentation() {
    let mut files = vec![];
    for folder in ["src", "jit", "python/reflex"] {
        sources(&root().join(folder), &mut files);
    }
    let text = |path: &Path| std::fs::read_to_string(path).expect("readable");
    let read: BTreeSet<String> = files
        .iter()
        .filter(|file| !file.ends_with("src/cli/environment.rs"))
        .flat_map(|file| read_by(&text(file)))
        .collect();
    assert!(read.contains("REFLEX_TIER") && read.contains("HOME"), "{read:?}");

    let help = Command::new(env!("CARGO_BIN_EXE_reflex")).arg("--help").output().expect("starts");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let listed = help.split("Environment:\n").nth(1).expect("a list");
    let listed: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, read, "`reflex --help` (left) and the sources");

    let page = text(&root().join("docs/deploying.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let described: BTreeSet<String> =
        rows.map(|(name, _)| name.to_owned()).filter(|name| is_variable(name)).collect();
    assert_eq!(described, read, "docs/deploying.md (left) and the sources");
}

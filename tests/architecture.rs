//! The arrows of ARCHITECTURE.md, between crates and between modules, and what must be absent.

#[path = "common/imports.rs"]
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use imports::Imports;

/// Crate, and the reflex crates it may depend on directly (outside tests).
const ARROWS: [(&str, &[&str]); 11] = [
    ("reflex-runtime", &[]),
    ("reflex-vm", &["reflex-runtime"]),
    ("reflex-tir", &["reflex-runtime"]),
    ("reflex-graph", &["reflex-tir", "reflex-runtime"]),
    ("reflex-onnx", &["reflex-graph", "reflex-tir", "reflex-runtime"]),
    ("reflex-lower", &["reflex-graph", "reflex-tir", "reflex-vm", "reflex-runtime"]),
    ("reflex-codemem", &[]),
    ("reflex-cranelift", &["reflex-vm", "reflex-runtime", "reflex-codemem"]),
    ("reflex-llvm", &["reflex-tir", "reflex-runtime", "reflex-codemem"]),
    (
        "reflex-fuzz",
        &[
            "reflex-cranelift",
            "reflex-vm",
            "reflex-lower",
            "reflex-graph",
            "reflex-tir",
            "reflex-runtime",
        ],
    ),
    (
        "reflex",
        &[
            "reflex-runtime",
            "reflex-vm",
            "reflex-tir",
            "reflex-graph",
            "reflex-onnx",
            "reflex-lower",
            "reflex-codemem",
            "reflex-cranelift",
        ],
    ),
];

/// Crates whose source may hold no `unsafe`.
const SAFE: [&str; 4] = ["src/tir", "src/graph", "src/onnx", "src/lower"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The only platform so far; packages of others need not be downloaded.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Normal dependencies of every package that cargo resolves, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", PLATFORM])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let name_of = |id: &serde_json::Value| {
        let packages = metadata["packages"].as_array().expect("packages");
        let package = packages.iter().find(|p| p["id"] == *id).expect("listed");
        package["name"].as_str().expect("a name").to_string()
    };
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let normal = |dep: &&serde_json::Value| {
        let kinds = dep["dep_kinds"].as_array().expect("kinds");
        kinds.iter().any(|k| k["kind"].is_null())
    };
    nodes
        .iter()
        .map(|node| {
            let deps = node["deps"].as_array().expect("deps");
            let names = deps.iter().filter(normal).map(|d| name_of(&d["pkg"])).collect();
            (name_of(&node["id"]), names)
        })
        .collect()
}

/// Everything reachable from a package.
fn closure(all: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut queue) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(name) = queue.pop() {
        for dep in &all[&name] {
            if seen.insert(dep.clone()) {
                queue.push(dep.clone());
            }
        }
    }
    seen
}

#[test]
fn arrows_point_left() {
    let all = dependencies();
    for (name, allowed) in ARROWS {
        let ours = all[name].iter().filter(|d| d.starts_with("reflex"));
        let extra: Vec<_> = ours.filter(|d| !allowed.contains(&d.as_str())).collect();
        assert!(extra.is_empty(), "{name} must not depend on {extra:?}");
    }
    let known: BTreeSet<_> = ARROWS.iter().map(|(name, _)| *name).collect();
    let ours = all.keys().filter(|n| *n == "reflex" || n.starts_with("reflex-"));
    let unlisted: Vec<_> = ours.filter(|n| !known.contains(n.as_str())).collect();
    assert!(unlisted.is_empty(), "crates without a row in ARROWS: {unlisted:?}");
}

#[test]
fn only_codegen_links_llvm() {
    let all = dependencies();
    for (name, _) in ARROWS {
        let links = closure(&all, name).iter().any(|d| d == "llvm-sys");
        assert_eq!(links, name == "reflex-llvm", "{name}");
    }
}

#[test]
fn deployable_crates_know_no_compiler() {
    let all = dependencies();
    let absent = ["reflex-tir", "reflex-graph", "reflex-onnx", "reflex-lower", "prost"];
    for name in ["reflex-runtime", "reflex-vm", "reflex-cranelift"] {
        let reach = closure(&all, name);
        let found: Vec<_> = absent.iter().filter(|a| reach.contains(**a)).collect();
        assert!(found.is_empty(), "{name} reaches {found:?}");
    }
    assert!(
        !closure(&all, "reflex-vm").iter().any(|d| d.starts_with("cranelift")),
        "vm emits code"
    );
}

#[test]
fn compiler_crates_forbid_unsafe() {
    for dir in SAFE {
        let lib = std::fs::read_to_string(root().join(dir).join("lib.rs")).expect("lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{dir}/lib.rs");
    }
}

/// The evaluators are oracles: nothing on the way of a run mentions them.
#[test]
fn running_never_reaches_the_evaluators() {
    for dir in ["src/runtime", "src/vm", "jit/cranelift"] {
        for file in rust_files(&root().join(dir)) {
            let text = std::fs::read_to_string(&file).expect("readable");
            assert!(!text.contains("tir::eval") && !text.contains("graph::eval"), "{file:?}");
        }
    }
}

fn rust_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = vec![];
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}

/// Folder of each crate, and the most files that may import each other in a circle.
///
/// Circles of `vm` (a session, its frames and its builtins), of `runtime` (values hold objects
/// that hold values) and of `onnx` (operators that hold graphs import them) are inherent.
const CIRCLES: [(&str, usize); 11] = [
    ("src/runtime", 14),
    ("src/vm", 24),
    ("src/tir", 12),
    ("src/graph", 12),
    ("src/onnx", 25),
    ("src/lower", 12),
    ("jit/codemem", 12),
    ("jit/cranelift", 12),
    ("jit/llvm", 12),
    ("src", 12),
    ("fuzz", 12),
];

fn imports_of(dir: &str) -> Imports {
    let others = CIRCLES.iter().filter(|(other, _)| *other != dir && other.starts_with(dir));
    let mut skip: Vec<_> = others.map(|(other, _)| root().join(other)).collect();
    skip.push(root().join(dir).join("fuzz_targets"));
    Imports::read(&root().join(dir), &skip)
}

#[test]
fn circles_of_imports_stay_small() {
    for (dir, most) in CIRCLES {
        let imports = imports_of(dir);
        assert!(imports.edges.len() > 3, "{dir} was not read");
        for circle in imports.circles() {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            let count = names.len();
            assert!(count <= most, "{dir}: {count} files import each other: {names:?}");
        }
    }
}

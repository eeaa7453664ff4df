//! TVM's IR as JSON: round trips of the corpus byte for byte, and structural equality, paths and hashes that
//! agree with tvm-ffi.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it these tests are
//! recorded as skipped. REFLEX_NODE_PAIRS is the number of pairs that are compared.

#[path = "common/tvm.rs"]
mod tvm;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use reflex::ir::{first_mismatch, load, save, structural_hash};
use serde_json::Value;
use tvm::{python, script};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that tests/tvm/nodes.py writes.
fn corpus() -> Option<&'static Path> {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    let python = python()?;
    let write = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-nodes");
        let pairs = std::env::var("REFLEX_NODE_PAIRS").unwrap_or_else(|_| "400".to_owned());
        script(&python, "nodes.py", &[folder.to_str().expect("UTF-8"), &pairs]);
        folder
    };
    Some(WRITTEN.get_or_init(write))
}

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("a list")
}

fn modules(folder: &Path) -> Vec<String> {
    let texts = read(&folder.join("modules.json"));
    texts.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn the_table_is_that_of_tvm() {
    let Some(python) = python() else { return };
    let table = std::fs::read_to_string(root().join("src/node/table.in")).expect("the table");
    assert!(script(&python, "node_table.py", &[]) == table, "run tests/tvm/node_table.py");
}

#[test]
fn modules_of_tvm_are_written_as_they_were_read() {
    let Some(folder) = corpus() else { return };
    let texts = modules(folder);
    assert!(texts.len() > 100, "{}", texts.len());
    for (number, text) in texts.iter().enumerate() {
        let graph = load(text).unwrap_or_else(|e| panic!("module {number}: {e}"));
        assert!(save(&graph) == *text, "module {number} is written otherwise");
        assert_eq!(first_mismatch(&graph, &graph), None);
    }
}

/// A path of tvm-ffi, which marks what one side lacks.
fn plain_path(path: &str) -> String {
    path.replace("<missing:", "").replace(">]", "]")
}

/// True if paths are the same, or ours goes on below tvm-ffi's: it stops above lists that it reads as a whole.
fn agrees(ours: Option<&str>, theirs: Option<&str>) -> bool {
    match (ours, theirs) {
        // It names no function whose name has changed.
        (Some(ours), Some("<root>.functions.name_hint")) => ours.starts_with("<root>.functions["),
        (Some(ours), Some(theirs)) => ours.starts_with(theirs),
        (ours, theirs) => ours == theirs,
    }
}

#[test]
fn equality_paths_and_hashes_agree_with_tvm() {
    let Some(folder) = corpus() else { return };
    let texts = modules(folder);
    let (mut faults, mut equal, mut differ) = (vec![], 0, 0);
    let pairs = read(&folder.join("pairs.json"));
    for (at, pair) in pairs.iter().enumerate() {
        let number = usize::try_from(pair[0].as_u64().expect("a number")).expect("a module");
        let original = load(&texts[number]).expect("a graph");
        let other = load(pair[2].as_str().expect("a text")).expect("a graph");
        let found = first_mismatch(&original, &other);
        let same_hash = structural_hash(&original) == structural_hash(&other);
        let expected = pair[3].as_str().map(plain_path);
        let path = found.as_ref().map(|mismatch| mismatch.path.to_string());
        if !agrees(path.as_deref(), expected.as_deref()) || same_hash != expected.is_none() {
            let what = found.map_or("equal".to_owned(), |mismatch| mismatch.to_string());
            faults.push(format!(
                "pair {at} (module {number}, a {}): {what}, hash {same_hash}; tvm-ffi: {expected:?}",
                pair[1]
            ));
        }
        if expected.is_none() { equal += 1 } else { differ += 1 }
    }
    let count = faults.len();
    faults.truncate(20);
    assert!(faults.is_empty(), "{count} of {} pairs:\n{}", pairs.len(), faults.join("\n"));
    println!("tvm: {equal} equal and {differ} different pairs of modules, as tvm-ffi has them");
    assert!(equal > pairs.len() / 10 && differ > pairs.len() / 4, "{equal} {differ}");
}

#[test]
fn hostile_texts_are_refused_within_bounds() {
    let deep = "[".repeat(200_000);
    let wide = format!(
        "{{\"root_index\":0,\"nodes\":[{{\"type\":\"mine\",\"data\":{{{}}}}}]}}",
        (0..300).map(|n| format!("\"f{n}\":1")).collect::<Vec<_>>().join(",")
    );
    let node = |data: &str| {
        format!(r#"{{"root_index":0,"nodes":[{{"type":"ffi.Array","data":{data}}}]}}"#)
    };
    let cases = [
        (String::new(), "`{` is missing"),
        (deep.clone(), "`{` is missing"),
        (format!("{{\"root_index\":{deep}"), "nested too deeply"),
        (node(&deep), "nested too deeply"),
        (node("[0]"), "refers to node 0, which is not before it"),
        (node("[-1]"), "refers to node -1"),
        (node("[99999999999999999999]"), "something else than a node"),
        (node("[null]"), "something else than a node"),
        (wide, "more than 256 members"),
        (r#"{"root_index":1,"nodes":[{"type":"None"}]}"#.to_owned(), "none of the 1 nodes"),
        (r#"{"root_index":0,"nodes":[]}"#.to_owned(), "none of the 0 nodes"),
        (r#"{"root_index":0,"nodes":[{"type":"None"}],"x":1}"#.to_owned(), "unexpected key `x`"),
        (r#"{"root_index":0,"nodes":[{"data":1}]}"#.to_owned(), "a node without `type`"),
        (r#"{"root_index":0,"nodes":[{"type":"ffi.Map","data":[0]}]}"#.to_owned(), "a key without"),
        (r#"{"root_index":0,"nodes":[{"type":"\ud800"}]}"#.to_owned(), "surrogate"),
    ];
    for (text, why) in cases {
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{error} is not {why}");
    }
}

/// A million nodes below each other, and 2^60 paths to one node: neither recursion nor time.
#[test]
fn depth_and_sharing_cost_nothing() {
    let graph = |count: usize, leaf: i64| {
        let mut text =
            format!("{{\"root_index\":{count},\"nodes\":[{{\"type\":\"int\",\"data\":{leaf}}}");
        for at in 0..count {
            text.push_str(&format!(",{{\"type\":\"ffi.Array\",\"data\":[{at},{at}]}}"));
        }
        load(&(text + "]}")).expect("a graph")
    };
    let (one, two) = (graph(100_000, 1), graph(100_000, 2));
    assert_eq!(first_mismatch(&one, &one.clone()), None);
    let mismatch = first_mismatch(&one, &two).expect("a difference");
    assert_eq!(mismatch.path.0.len(), 100_000);
    assert_ne!(structural_hash(&one), structural_hash(&two));
    let mut seen = 0;
    one.visit(&mut |_, _| seen += 1);
    assert_eq!(seen, 100_001);
}

#[test]
fn the_command_line_prints_the_first_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, leaf: &str| {
        let text = format!(
            r#"{{"root_index":1,"nodes":[{{"type":"int","data":{leaf}}},{{"type":"ffi.Array","data":[0]}}]}}"#
        );
        std::fs::write(folder.path().join(name), text).expect("writes");
    };
    write("a.json", "1");
    write("b.json", "2");
    write("c.json", "nul");
    let diff = |first: &str, second: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        let output = command.args(["diff", first, second]).current_dir(folder.path()).output();
        let output = output.expect("the command runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(diff("a.json", "a.json"), (Some(0), String::new(), String::new()));
    let (code, said, _) = diff("a.json", "b.json");
    assert_eq!((code, said.as_str()), (Some(1), "<root>[0]: 1 is not 2\n"));
    let (code, _, error) = diff("a.json", "c.json");
    assert!(code == Some(2) && error.contains("c.json: not the JSON of tvm.ir"), "{error}");
}

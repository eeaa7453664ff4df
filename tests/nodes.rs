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

use reflex::ir::{
    Builder, Given, Graph, Value as Plain, first_mismatch, load, of_module, save, structural_hash,
    to_module,
};
use reflex::{Engine, Level};
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

/// The difference after a module went through nodes, their JSON and back.
fn difference(graph: &Graph) -> Option<String> {
    let saved = load(&save(graph)).expect("what was saved is read");
    let module = match to_module(&saved) {
        Ok(module) => module,
        Err(why) => return Some(why.to_string()),
    };
    let again = of_module(&module).expect("nodes");
    assert_eq!(
        structural_hash(graph) == structural_hash(&again),
        first_mismatch(graph, &again).is_none()
    );
    first_mismatch(graph, &again).map(|mismatch| mismatch.to_string())
}

/// The texts of the tests, by name.
fn texts() -> Vec<PathBuf> {
    let folder = root().join("tests/filetests/relax");
    let found = std::fs::read_dir(&folder).expect("a folder");
    let mut paths: Vec<PathBuf> = found
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .collect();
    paths.sort();
    assert!(paths.len() > 20, "{}", paths.len());
    paths
}

fn stages() -> Vec<String> {
    let engine = Engine::new().expect("an engine");
    let error = engine.nodes_after("examples/softmax.py", "no_pass").unwrap_err().to_string();
    let (_, list) = error.split_once("there are ").expect("the passes");
    let names = list.split(", ").filter(|name| !["bytecode", "serialise_threads"].contains(name));
    names.map(str::to_owned).collect()
}

/// Modules with other regions from their nodes: what a block declares is computed anew where it does not name every
/// buffer that it reads, as from text.
const REGIONS: [&str; 7] = [
    "composed after fuse_operators",
    "detection after fuse_operators",
    "dynamic after fuse_operators",
    "multinomial after fuse_operators",
    "reduce after fuse_operators",
    "selections after fuse_operators",
    "suppression after fuse_operators",
];

/// The module of every text, at the start and after each pass, is the same from its nodes; TVM reads them all.
#[test]
fn modules_after_every_pass_are_the_same_from_their_nodes() {
    let engine = Engine::builder().levels([Level::V3]).build().expect("an engine");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-nodes-after");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).expect("a folder");
    let (stages, mut count, mut faults) = (stages(), 0, vec![]);
    assert!(stages.len() > 8 && stages.last().is_some_and(|name| name == "lower"), "{stages:?}");
    for path in texts() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // Texts that are refused are other tests'.
        let Ok(start) = Engine::nodes(&path) else { continue };
        let mut last = structural_hash(&start);
        faults.extend(difference(&start).map(|why| format!("{name}: {why}")));
        for stage in &stages {
            let graph = match engine.nodes_after(&path, stage) {
                Ok(graph) => graph,
                Err(why) if why.to_string().contains("leaves no module") => continue,
                Err(why) => panic!("{name} after {stage}: {why}"),
            };
            // Only what a pass has changed.
            if std::mem::replace(&mut last, structural_hash(&graph)) == last {
                continue;
            }
            count += 1;
            let at = format!("{name} after {stage}");
            match difference(&graph) {
                Some(why) if REGIONS.contains(&at.as_str()) && why.contains(".reads[") => {}
                Some(why) => faults.push(format!("{at}: {why}")),
                None => {}
            }
            let file = out.join(format!("{name}.{stage}.json"));
            std::fs::write(file, save(&graph)).expect("writes");
            std::fs::write(out.join(format!("{name}.{stage}.py")), "").expect("writes");
        }
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    println!("{count} modules after passes are the same from their nodes");
    assert!(count > 60, "{count}");
    let Some(python) = python() else { return };
    let said = script(&python, "own_nodes.py", &[out.to_str().expect("UTF-8")]);
    let unread: Vec<&str> = said.lines().filter(|line| !line.contains(" loaded")).collect();
    assert!(unread.is_empty(), "TVM does not load:\n{}", unread.join("\n"));
    assert_eq!(said.lines().count(), count);
    println!("tvm: loads all of them");
}

/// ONNX's own cases are the same from their nodes.
#[test]
fn models_of_onnx_are_the_same_from_their_nodes() {
    let Some(folder) = tvm::skip::variable("REFLEX_ONNX_CASES") else { return };
    let (mut count, mut faults) = (0, vec![]);
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // What is not imported is another test's.
        let Ok(graph) = Engine::nodes(path.join("model.onnx")) else { continue };
        count += 1;
        faults.extend(difference(&graph).map(|why| format!("{name}: {why}")));
    }
    faults.sort();
    let shown = faults.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {count}:\n{shown}", faults.len());
    println!("{count} models of ONNX's cases are the same from their nodes");
    assert!(count > 1500, "{count}");
}

/// The same answers from a model and from its nodes, also after a pass that ran alone.
#[test]
fn nodes_are_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mlp.json");
    let graph = Engine::nodes("tests/filetests/relax/mlp.py").expect("nodes");
    std::fs::write(&file, save(&graph)).expect("writes");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        let output = command.args(args).current_dir(root()).output().expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let path = file.to_str().expect("UTF-8");
    assert_eq!(run(&["diff", path, "tests/filetests/relax/mlp.py"]), "");
    assert_eq!(run(&["inspect", path, "--nodes"]).trim(), save(&graph));
    let after = run(&["inspect", path, "--nodes", "fuse_operators"]);
    let after = load(after.trim()).expect("nodes");
    let ours = Engine::new()
        .unwrap()
        .nodes_after("tests/filetests/relax/mlp.py", "fuse_operators")
        .unwrap();
    assert_eq!(first_mismatch(&after, &ours), None);
    let seed = |model: &str| run(&["run", model, "--seed", "3"]);
    assert_eq!(seed(path), seed("tests/filetests/relax/mlp.py"));
    assert!(run(&["info", path]).contains("nodes"), "{}", run(&["info", path]));
}

#[test]
fn hostile_nodes_are_no_modules_within_bounds() {
    let softmax = save(&Engine::nodes("examples/softmax.py").expect("nodes"));
    let refused = |text: &str| {
        let graph = load(text).unwrap_or_else(|e| panic!("{e}: {text:.200}"));
        to_module(&graph).map(drop).unwrap_err().to_string()
    };
    let cases = [
        ("relax.nn.softmax", "relax.nn.softmaxx", "softmaxx"),
        ("\"purity\":true", "\"purity\":7", ""),
        ("relax.TensorType", "relax.TensorTypes", "the type relax.TensorTypes"),
        ("\"dtype\":\"float32\"", "\"dtype\":\"float33\"", "the data type `float33`"),
        ("ir.IRModule", "ir.IRModules", "where ir.IRModule is expected"),
    ];
    for (from, to, why) in cases {
        let text = softmax.replace(from, to);
        assert_ne!(text, softmax, "{from}");
        let Ok(graph) = load(&text) else { continue };
        match to_module(&graph) {
            Ok(_) => assert_eq!(why, "", "{from}"),
            Err(error) => assert!(error.to_string().contains(why), "{from}: {error}"),
        }
    }
    // A tower of sums, shared twice at each floor, or deep: neither time nor stack.
    for (floors, why) in [(60, "shared too often"), (100_000, "nested too deeply")] {
        let mut b = Builder::new();
        let ty = b.object("ir.PrimType", &[("dtype", Given::DType("int64".into()))]);
        let one = [("ty", Given::Node(ty)), ("value", Given::Value(Plain::Int(1)))];
        let mut sum = b.object("ir.IntImm", &one);
        for _ in 0..floors {
            let fields =
                [("ty", Given::Node(ty)), ("a", Given::Node(sum)), ("b", Given::Node(sum))];
            sum = b.object("prim.Add", &fields);
        }
        let none = b.array(vec![]);
        let evaluate = b.object("tirx.Evaluate", &[("value", Given::Node(sum))]);
        let _ = evaluate;
        let store = [("condition", Given::Node(sum)), ("body", Given::Node(evaluate))];
        let body = b.object("tirx.While", &store);
        let ret = b.object("ir.TupleType", &[("fields", Given::Node(none))]);
        let fields = [
            ("params", Given::Node(none)),
            ("ret_type", Given::Node(ret)),
            ("body", Given::Node(body)),
        ];
        let kernel = b.object("tirx.PrimFunc", &fields);
        let name = b.string("k");
        let global = b.object("ir.GlobalVar", &[("name_hint", Given::Node(name))]);
        let functions = b.map(vec![global, kernel]);
        let root = b.object("ir.IRModule", &[("functions", Given::Node(functions))]);
        let error = refused(&save(&b.finish(root)));
        assert!(error.contains(why), "{floors}: {error}");
    }
}

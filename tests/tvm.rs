//! Each side runs what the other made: modules that TVM built, here in every mode, and what is
//! compiled here, in TVM's own virtual machine; values and kinds of errors are the same.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the
//! tests are recorded as skipped. The modules are in tests/tvm/subjects.py.

#[path = "common/tvm.rs"]
mod tvm;
#[path = "common/tvm_modules.rs"]
mod tvm_modules;
#[path = "tvm/values.rs"]
mod values;

use std::path::{Path, PathBuf};
use std::process::Command;

use reflex::{Any, Engine, Mode, Program, Session, Tensor};
use serde_json::Value;
use tvm::{python, script, skip};
use tvm_modules::modules;

fn read(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Where the kind of an error differs from TVM's on purpose: module, function, kind here, kind
/// in TVM, and why.
const KINDS: [(&str, &str, &str, &str, &str); 0] = [];

/// The answer of a call, in the form of the recorded ones.
fn answer(session: &mut Session, folder: &Path, call: &Value) -> Value {
    let func = call["func"].as_str().expect("a name");
    let args = call["args"].as_array().expect("a list").iter();
    let args: Vec<Any> = args.map(|arg| values::any(folder, arg)).collect();
    match session.call_values(func, &args) {
        Ok(value) => serde_json::json!({ "result": values::json(&value) }),
        Err(error) => serde_json::json!({ "error": error.to_object().kind() }),
    }
}

#[test]
fn modules_that_tvm_built_run_here_in_every_mode() {
    let Some(folder) = modules() else { return };
    let engine = Engine::builder().build().expect("an engine");
    let (mut subjects, mut libraries, mut calls_made) = (0, 0, 0);
    let mut faults = Vec::new();
    for subject in read(folder.join("all.json")).as_array().expect("a list") {
        let name = subject["name"].as_str().expect("a name");
        let calls = read(folder.join(format!("{name}.json")));
        subjects += 1;
        for built in subject["modes"].as_array().expect("a list") {
            let built = built.as_str().expect("a mode");
            libraries += 1;
            let program = engine.load(folder.join(format!("{name}.{built}.so"))).expect(name);
            for mode in Mode::ALL {
                let mut session = program.session(mode).expect(name);
                // Often enough for what is hot to be compiled; real models take too long.
                let turns = if subject["large"] == true { 2 } else { 40 };
                for turn in 0..turns {
                    for (at, call) in calls.as_array().expect("a list").iter().enumerate() {
                        calls_made += 1;
                        let (expected, found) =
                            (&call["answer"][built], answer(&mut session, folder, call));
                        if *expected != found && !excused(name, call, expected, &found) {
                            faults.push(format!(
                                "{name} built {built}, {mode}, turn {turn}, call {at}: {found} is not {expected}"
                            ));
                        }
                    }
                }
            }
        }
    }
    faults.dedup_by_key(|fault| fault.split(", turn").next().map(str::to_owned));
    let refused = std::fs::read_to_string(folder.join("refused.txt")).expect("written");
    refused.lines().for_each(|line| println!("tvm: {line}"));
    println!(
        "tvm: {subjects} modules that TVM built ({libraries} libraries of both its exec modes): {calls_made} \
         calls in bytecode, compiled and tiered, values bit by bit and kinds of errors"
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(subjects >= 40, "{subjects} modules");
}

#[test]
fn closures_that_functions_return_are_invoked() {
    let Some(folder) = modules() else { return };
    let engine = Engine::builder().build().expect("an engine");
    let tensor = |x: [f32; 2]| Any::from(Tensor::from_slice(&[2], &x).expect("a tensor"));
    for built in ["bytecode", "compiled"] {
        let load = || engine.load(folder.join(format!("closures.{built}.so"))).expect("loads");
        let (program, other) = (load(), load());
        for mode in Mode::ALL {
            let mut session = program.session(mode).expect("a session");
            for _ in 0..40 {
                let plus = session.call_values("plus", &[tensor([1.0, 2.0])]).expect("a closure");
                let sum = session.invoke_closure(&plus, &[tensor([10.0, 20.0]).view()]);
                let sum = Tensor::try_from(sum.expect("a tensor")).expect("a tensor");
                assert_eq!(sum.to_vec::<f32>().expect("floats"), [11.0, 22.0], "{built}, {mode}");
            }
            let plus = session.call_values("plus", &[tensor([1.0, 2.0])]).expect("a closure");
            let error = session.invoke_closure(&plus, &[]).expect_err("an argument is missing");
            assert_eq!(error.to_object().kind(), "InternalError", "{error}");
            let mut other = other.session(mode).expect("a session");
            let error = other.invoke_closure(&plus, &[tensor([1.0, 2.0]).view()]);
            assert!(error.expect_err("another program's").to_string().contains("another program"));
        }
    }
}

/// TVM's libraries do not say what their parameters are; the command line refuses what is no tensor.
#[test]
fn the_command_line_refuses_parameters_that_are_no_tensors() {
    let Some(folder) = modules() else { return };
    let cache = tempfile::tempdir().expect("a folder");
    for command in ["run", "bench", "inspect"] {
        let mut reflex = Command::new(env!("CARGO_BIN_EXE_reflex"));
        reflex.arg(command).arg(folder.join("prims.bytecode.so")).env("REFLEX_CACHE", cache.path());
        let output = reflex.output().expect("the command runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("panicked"), "{command}: {error}");
        if command == "run" {
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains("input n: the program does not say what it is"), "{error}");
        }
    }
}

fn excused(name: &str, call: &Value, expected: &Value, found: &Value) -> bool {
    KINDS.iter().any(|(module, func, here, there, _)| {
        name == *module
            && call["func"] == *func
            && found["error"] == *here
            && expected["error"] == *there
    })
}

/// Stages at which TVM prints: before its pipeline, after it, and after that for kernels, where
/// TVM reads it again.
const STAGES: [&str; 3] = ["before", "after", "lowered"];

/// Texts that are refused, with a part of the reason.
const REFUSED: [(&str, &str); 2] = [
    // TVM's own lowering gives it no value where one branch needs it.
    ("branches.after", "`storage: R.Any` is not supported"),
    ("branches.lowered", "`storage: R.Any` is not supported"),
];

/// Compiles the texts that TVM prints of its modules, before and after its pipelines.
#[test]
fn scripts_of_the_modules_compile_here_and_run_here_and_in_tvm() {
    let (Some(python), Some(theirs)) = (python(), modules()) else { return };
    let ours = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tvm-ours");
    let _ = std::fs::remove_dir_all(&ours);
    std::fs::create_dir_all(&ours).expect("a folder");
    let engine = Engine::builder().build().expect("an engine");
    let (mut faults, mut refused, mut compiled) = (Vec::new(), Vec::new(), 0);
    for subject in read(theirs.join("all.json")).as_array().expect("a list") {
        let name = subject["name"].as_str().expect("a name");
        let calls = read(theirs.join(format!("{name}.json")));
        for stage in STAGES.map(|stage| format!("{name}.{stage}")) {
            let path = theirs.join(format!("{stage}.py"));
            if !path.exists() {
                continue;
            }
            let program = match engine.load(&path) {
                Ok(program) => program,
                Err(error) => {
                    refused.push((stage, error.to_string()));
                    continue;
                }
            };
            compiled += 1;
            let module = reflex_graph::script::parse_file(&path).expect("it was loaded");
            if printable(&module) {
                let text = reflex_graph::print::module_with_metadata(&module);
                std::fs::write(ours.join(format!("{stage}.py")), text).expect("writes");
            }
            program.save(ours.join(format!("{stage}.so"))).expect(name);
            faults.extend(wrong_answers(&stage, &program, theirs, &calls));
        }
    }
    faults.extend(refused.iter().filter_map(|(name, error)| {
        let known = REFUSED.iter().any(|(n, part)| n == name && error.contains(part));
        (!known).then(|| format!("{name} is refused: {error}"))
    }));
    let stale = REFUSED.iter().filter(|(name, _)| !refused.iter().any(|(n, _)| n == name));
    faults.extend(stale.map(|(name, _)| format!("{name} is refused no more")));
    let folders = [ours.as_path(), theirs].map(|path| path.to_str().expect("UTF-8"));
    faults.extend(checked(&python, &folders));
    println!(
        "tvm: {compiled} texts of modules before and after TVM's pipelines ({}), compiled here: run in \
         all modes, and in TVM's VirtualMachine; {} refused by name",
        STAGES.join(", "),
        refused.len()
    );
    for (name, error) in &refused {
        println!("tvm: {name} is refused: {error}");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(compiled >= 120, "{compiled} texts");
}

/// Whether Relax has words for all that a graph holds: for values that are not tensors it does not
/// (a script is printed as it was written, in reflex-graph's tests).
fn printable(module: &reflex_graph::Module) -> bool {
    let mut plain = true;
    for func in module.funcs.values() {
        let reflex_graph::FuncData::Graph(func) = func else { continue };
        func.body.walk(&mut |b| plain &= !matches!(b.node, reflex_graph::Node::Leaf(_)));
    }
    plain
}

fn wrong_answers(name: &str, program: &Program, folder: &Path, calls: &Value) -> Vec<String> {
    let mut faults = vec![];
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect(name);
        for (at, call) in calls.as_array().expect("a list").iter().enumerate() {
            let expected = &call["answer"].as_object().expect("by mode").values().next();
            let (expected, found) = (expected.expect("a mode"), answer(&mut session, folder, call));
            if !values::close(&found, expected) {
                faults.push(format!("{name}, {mode}, call {at}: {found} is not {expected}"));
            }
        }
    }
    faults
}

/// TVM's verdicts on modules that were compiled and printed here.
fn checked(python: &Path, folders: &[&str]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tvm/check.py");
    let output = Command::new(python).arg(script).args(folders).output().expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let mut faults: Vec<String> =
        said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if !output.status.success() && faults.is_empty() {
        faults.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    faults
}

#[test]
fn a_model_compiled_here_runs_in_tvm() {
    let Some(python) = python() else { return };
    let folders = (skip::variable("REFLEX_MODELS"), skip::variable("REFLEX_REFS"));
    let (Some(models), Some(refs)) = folders else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let library = dir.path().join("magika.so");
    let engine = Engine::builder().build().expect("an engine");
    let program = engine.load(PathBuf::from(models).join("magika.onnx")).expect("loads");
    program.save(&library).expect("saves");
    let reference = PathBuf::from(refs).join("magika.batch.npz");
    let paths = [library.to_str().expect("UTF-8"), reference.to_str().expect("UTF-8")];
    script(&python, "run.py", &[paths[0], paths[1], "bytes", "target_label"]);
    println!("tvm: magika compiled here gives ONNX Runtime's answer in TVM's VirtualMachine");
}

//! Each side loads what the other made: TVM's libraries run here, ours run in TVM's VM.
//!
//! Needs REFLEX_TVM_PYTHON, a Python with apache-tvm (`./x test` sets it up); without it the
//! tests say so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use reflex::stats::Difference;
use reflex::{Engine, Mode, npz};

fn python() -> Option<PathBuf> {
    let python = std::env::var_os("REFLEX_TVM_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: REFLEX_TVM_PYTHON is not set; ./x test sets it");
    }
    python
}

fn script(python: &Path, name: &str, args: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tvm").join(name);
    let output = Command::new(python).arg(script).args(args).output().expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {error}");
}

#[test]
fn libraries_that_tvm_exported_run_here_in_every_mode() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    script(&python, "export.py", &[dir.path().to_str().expect("UTF-8")]);
    let engine = Engine::builder().build().expect("an engine");
    for name in ["add1", "mlp", "branch"] {
        let program = engine.load(&dir.path().join(name).with_extension("so")).expect(name);
        let cases = npz::read_cases(&dir.path().join(name).with_extension("npz")).expect(name);
        for mode in Mode::ALL {
            let mut session = program.session(mode).expect(name);
            for (k, case) in cases.iter().cycle().take(3 * cases.len()).enumerate() {
                let at = format!("{name} feed {k} {mode}");
                let prepared = program.prepare("main", &case.inputs).expect(&at);
                let outputs = session.call(&prepared).expect(&at).arrays().expect(&at);
                let outputs: BTreeMap<_, _> = outputs.into_iter().collect();
                for (output, expected) in &case.outputs {
                    let d = Difference::of(&outputs[output], expected, 0.0, 1e-6).expect(&at);
                    assert!(d.matches(), "{at}: {d:?}");
                }
            }
        }
    }
}

#[test]
fn a_model_compiled_here_runs_in_tvm() {
    let (Some(python), Some(models), Some(refs)) =
        (python(), std::env::var_os("REFLEX_MODELS"), std::env::var_os("REFLEX_REFS"))
    else {
        println!("skipped: REFLEX_MODELS and REFLEX_REFS are not set; ./x test sets them");
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let library = dir.path().join("magika.so");
    let engine = Engine::builder().build().expect("an engine");
    let program = engine.load(&PathBuf::from(models).join("magika.onnx")).expect("loads");
    program.save(&library).expect("saves");
    let reference = PathBuf::from(refs).join("magika.batch.npz");
    let paths = [library.to_str().expect("UTF-8"), reference.to_str().expect("UTF-8")];
    script(&python, "run.py", &[paths[0], paths[1], "bytes", "target_label"]);
}

//! Programs that are stored: a later start lowers nothing, and no start takes an entry that is not its own.

mod common;
#[path = "common/torch_case.rs"]
mod torch_case;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reflex::{
    Any, Array, Engine, Feed, Function, Mode, ModelFormat, ModelSource, Pipeline, Program,
};
use reflex_onnx::proto::*;
use tempfile::TempDir;

/// Elements of the constant, enough for bytes that no sample of the file has.
const WIDTH: usize = 300_000;

/// `y = x + b`; the constant `b` is in the file itself, or in another one.
fn model(bias: &[f32], external: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = bias.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut b = TensorProto {
        name: "b".into(),
        data_type: data_type::FLOAT,
        dims: vec![bias.len() as i64],
        ..Default::default()
    };
    match external {
        None => b.raw_data = Some(data.clone().into()),
        Some(file) => {
            b.data_location = 1;
            let (key, value) = ("location".into(), file.into());
            b.external_data = vec![StringStringEntryProto { key, value }];
        }
    }
    let node = NodeProto {
        input: vec!["x".into(), "b".into()],
        output: vec!["y".into()],
        op_type: "Add".into(),
        ..Default::default()
    };
    let width = bias.len().to_string();
    let dims: &[&str] = &["n", &width];
    let [x, y] = ["x", "y"].map(|name| common::tensor(name, data_type::FLOAT, dims));
    (common::model_with(17, vec![node], vec![x], y, vec![b]), data)
}

/// A start of the command: whether the program was stored before, and the outputs.
fn start(dir: &Path, policy: &str, args: &[&str]) -> (bool, serde_json::Value) {
    start_of(Path::new("m.onnx"), dir, policy, args)
}

fn start_of(model: &Path, dir: &Path, policy: &str, args: &[&str]) -> (bool, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.arg("run").arg(model).args(["--seed", "5", "--json", "-v"]).args(args);
    command.current_dir(dir).env("REFLEX_CACHE", dir.join("cache")).env("REFLEX_TIER", policy);
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(said.contains("stored="), "{said}");
    (said.contains("stored=true"), json["outputs"].clone())
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let Ok(list) = fs::read_dir(cache) else { return vec![] };
    let paths = list.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "program")).collect()
}

fn folder(bias: &[f32], external: Option<&str>) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let (model, data) = model(bias, external);
    fs::write(dir.path().join("m.onnx"), model).expect("writes");
    if let Some(name) = external {
        fs::write(dir.path().join(name), data).expect("writes");
    }
    dir
}

const SHAPE: [&str; 2] = ["--shape", "x=1x300000"];

#[test]
fn later_starts_lower_nothing_and_answer_the_same() {
    for external in [None, Some("weights.bin")] {
        let dir = folder(&vec![2.0; WIDTH], external);
        let (stored, expected) = start(dir.path(), "kernels=cranelift", &SHAPE);
        assert!(!stored && entries(&dir.path().join("cache")).is_empty(), "it compiled kernels");
        assert_eq!(start(dir.path(), "kernels=cranelift", &SHAPE), (false, expected.clone()));
        assert_eq!(entries(&dir.path().join("cache")).len(), 1);
        // Of any generator: kernels that the cache lacks are compiled.
        for policy in ["kernels=cranelift", "kernels=llvm", "kernels=auto"] {
            assert_eq!(start(dir.path(), policy, &SHAPE), (true, expected.clone()), "{policy}");
        }
        assert_eq!(entries(&dir.path().join("cache")).len(), 1);
        // Other options have entries of their own, and `off` has none.
        let other = [&SHAPE[..], &["--pipeline=minimal"]].concat();
        assert!(!start(dir.path(), "kernels=llvm", &other).0);
        assert!(start(dir.path(), "kernels=llvm", &other).0);
        assert_eq!(entries(&dir.path().join("cache")).len(), 2);
    }
}

/// The library that `compile` writes has all that a stored program would.
#[test]
fn compile_stores_no_second_copy() {
    let dir = folder(&vec![2.0; WIDTH], None);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["compile", "m.onnx", "-o", "m.so"]).current_dir(dir.path());
    let output = command.env("REFLEX_CACHE", dir.path().join("cache")).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(entries(&dir.path().join("cache")).is_empty());
    // A start that compiles no kernel does store it.
    assert!(!start(dir.path(), "kernels=llvm", &SHAPE).0);
    assert_eq!(entries(&dir.path().join("cache")).len(), 1);
}

/// Programs of PyTorch are stored as models of ONNX are; another one has an entry of its own.
#[test]
fn later_starts_of_a_pytorch_program_lower_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let start = |name: &str| {
        let model = torch_case::folder().join(name);
        start_of(&model, dir.path(), "kernels=cranelift", &["--shape", "x=5x4"])
    };
    let expected = start("mlp_dynamic.pt2").1;
    assert_eq!(start("mlp_dynamic.pt2"), (false, expected.clone()), "now its kernels are cached");
    assert_eq!(start("mlp_dynamic.pt2"), (true, expected));
    assert!(!start("mlp_core.pt2").0);
}

/// A byte that no sample has, and a file beside the model.
#[test]
fn other_contents_are_another_program() {
    let mut bias = vec![2.0; WIDTH];
    let dir = folder(&bias, None);
    let first = start(dir.path(), "kernels=llvm", &SHAPE).1;
    assert!(start(dir.path(), "kernels=llvm", &SHAPE).0);
    // The first elements are what is printed.
    bias[2500] = 7.0;
    bias[3] = 7.0;
    let (bytes, _) = model(&bias, None);
    fs::write(dir.path().join("m.onnx"), &bytes).expect("writes");
    let (stored, second) = start(dir.path(), "kernels=llvm", &SHAPE);
    assert!(!stored && second != first);
    // The element at 2500 alone is between the first two samples, so that the entry has the same name.
    let entries_before = entries(&dir.path().join("cache")).len();
    bias[2500] = 8.0;
    fs::write(dir.path().join("m.onnx"), model(&bias, None).0).expect("writes");
    assert!(!start(dir.path(), "kernels=llvm", &SHAPE).0);
    assert!(start(dir.path(), "kernels=llvm", &SHAPE).0, "it took the place of the other");
    assert_eq!(entries(&dir.path().join("cache")).len(), entries_before);

    let dir = folder(&vec![2.0; 64], Some("weights.bin"));
    let shape = ["--shape", "x=1x64"];
    let first = start(dir.path(), "kernels=llvm", &shape).1;
    assert!(start(dir.path(), "kernels=llvm", &shape).0);
    fs::write(dir.path().join("weights.bin"), model(&[3.0; 64], None).1).expect("writes");
    let (stored, second) = start(dir.path(), "kernels=llvm", &shape);
    assert!(!stored && second != first);
}

#[test]
fn damaged_entries_are_made_again() {
    let dir = folder(&vec![2.0; WIDTH], None);
    let cache = dir.path().join("cache");
    let expected = start(dir.path(), "kernels=llvm", &SHAPE).1;
    let whole = fs::read(&entries(&cache)[0]).expect("reads");
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damages = [
        vec![],
        whole[..100].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        flipped(0),
        flipped(20),
        flipped(4096),
        flipped(whole.len() - 1),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        fs::write(&entries(&cache)[0], damage).expect("writes");
        let again = start(dir.path(), "kernels=llvm", &SHAPE);
        assert_eq!(again, (false, expected.clone()), "damage {number}");
        assert_eq!(start(dir.path(), "kernels=llvm", &SHAPE), (true, expected.clone()));
    }
    assert_eq!(fs::read(&entries(&cache)[0]).expect("reads"), whole);
}

fn answer(program: &Program, width: usize) -> Vec<f32> {
    let x = Array::of(&[1, width as i64], &vec![1.0_f32; width]).expect("fits");
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("fits");
    let mut session = program.session(Mode::Tiered).expect("a session");
    let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    outputs[0].1.to_vec::<f32>().expect("floats")
}

/// LLVM's kernels replace Cranelift's in a program that was stored too, and the thread that replaces them
/// stores.
#[test]
fn the_background_stores_and_goes_on_with_what_is_stored() {
    let dir = folder(&[2.0; 64], None);
    let cache = dir.path().join("cache");
    let load = |policy: &str| {
        let engine = Engine::builder().tier(policy.parse().expect("a policy")).cache(&cache);
        engine.build().and_then(|engine| engine.load(dir.path().join("m.onnx"))).expect("loads")
    };
    let program = load("kernels=tiered,shapes=0");
    assert!(!program.kernel_states().is_empty(), "kernels are to be replaced");
    assert_eq!(answer(&program, 64), [3.0; 64]);
    while entries(&cache).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Only the program is left.
    for entry in fs::read_dir(&cache).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "kernel" || e == "kernels") {
            fs::remove_file(path).expect("removes");
        }
    }
    let again = load("kernels=tiered,shapes=0");
    assert!(!again.kernel_states().is_empty(), "kernels are compiled again");
    assert_eq!(answer(&again, 64), [3.0; 64]);
    again.wait_for_kernels();
    let states = again.kernel_states();
    assert!(states.iter().all(|kernel| kernel.reason.starts_with("replaced")), "{states:?}");
    assert_eq!(answer(&again, 64), [3.0; 64]);
    let path = dir.path().join("m.so");
    again.save(&path).expect("a stored program is saved as any other");
    assert_eq!(answer(&load_library(&path), 64), [3.0; 64]);
}

fn load_library(path: &Path) -> Program {
    Engine::new().and_then(|engine| engine.load(path)).expect("loads")
}

/// Programs that code of the caller's decides are not stored.
#[test]
fn programs_of_the_callers_code_are_not_stored() {
    let dir = folder(&[2.0; 64], None);
    let cache = dir.path().join("cache");
    let same = Function::new(|args| Ok(Any::from(args[0].as_str().expect("a text"))));
    let pipeline = Pipeline::default().pass("before:fold_constants", "same", same).expect("fits");
    let builder =
        || Engine::builder().cache(&cache).tier("kernels=llvm".parse().expect("a policy"));
    let operator = builder().onnx_operator("com.example", "Plus", |_, _| Err("unused".to_owned()));
    for builder in [builder().pipeline(pipeline), operator] {
        let engine = builder.build().expect("an engine");
        for _ in 0..2 {
            let program = engine.load(dir.path().join("m.onnx")).expect("loads");
            assert_eq!(answer(&program, 64), [3.0; 64]);
        }
    }
    assert!(entries(&cache).is_empty());
    // The same model in memory is another source, of the same contents.
    let bytes = fs::read(dir.path().join("m.onnx")).expect("reads");
    let in_memory = || ModelSource::bytes(ModelFormat::Onnx, bytes.clone());
    let engine = builder().build().expect("an engine");
    assert_eq!(answer(&engine.load(in_memory()).expect("loads"), 64), [3.0; 64]);
    assert_eq!(entries(&cache).len(), 1);
    assert_eq!(answer(&engine.load(in_memory()).expect("loads"), 64), [3.0; 64]);
    assert_eq!(answer(&engine.load(dir.path().join("m.onnx")).expect("loads"), 64), [3.0; 64]);
    assert_eq!(entries(&cache).len(), 1);
}

/// An entry is found for the same bound dimensions alone.
#[test]
fn bound_dimensions_have_entries_of_their_own() {
    let dir = folder(&[1.0, 2.0], None);
    let of = |rows: &str| start(dir.path(), "kernels=best", &["--dim", rows]);
    let (stored, two) = of("n=2");
    assert!(!stored, "nothing was there");
    let (stored, three) = of("n=3");
    assert!(!stored, "the entry is of other dimensions");
    assert_ne!(two, three, "the inputs have two and three rows");
    assert_eq!(of("n=2"), (true, two));
    assert_eq!(of("n=3"), (true, three));
    let (stored, _) = start(dir.path(), "kernels=best", &[]);
    assert!(!stored, "the entries are of bound dimensions");
    assert_eq!(entries(&dir.path().join("cache")).len(), 3);
}

//! Relay text, end to end: every case of `tests/relay_text/cases` compiles, and gives TVM's answers in
//! every mode; so do the networks of `tests/relay_text/zoo`, from TVM's own collection. `record.py` in
//! that folder records them. With REFLEX_RELAY_PYTHON and HHB_TVM, which `./x test --relay` sets, every network of
//! the collection runs, and the prelude that Relay's modules carry.

#[path = "common/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reflex::stats::Difference;
use reflex::{
    Any, Array, DType, Engine, ErrorKind, Feed, Mode, ModelFormat, ModelSource, Tensor, Tuple,
};
use serde_json::Value as Json;

const RTOL: f64 = 1e-4;
const ATOL: f64 = 1e-5;

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the cases");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "relay")).collect();
    files.sort();
    files
}

fn array(json: &Json) -> Array {
    let dtype: DType = json["dtype"].as_str().expect("a type").parse().expect("a type");
    let dims = json["shape"].as_array().expect("a shape");
    let shape = dims.iter().map(|d| d.as_i64().expect("a dimension")).collect();
    let bytes = |value: &Json| match dtype {
        DType::F32 => (value.as_f64().expect("a number") as f32).to_le_bytes().to_vec(),
        DType::I64 => value.as_i64().expect("an integer").to_le_bytes().to_vec(),
        DType::I32 => (value.as_i64().expect("an integer") as i32).to_le_bytes().to_vec(),
        DType::BOOL => vec![u8::from(value.as_bool().expect("a bool"))],
        _ => panic!("{dtype} in a case"),
    };
    let values = json["values"].as_array().expect("values");
    Array { dtype, shape, data: values.iter().flat_map(bytes).collect() }
}

/// Input number `at` of a network: numbers between bounds, as `generated` of `record.py` has them.
fn generated(at: u64, json: &Json) -> Array {
    let dims = json["shape"].as_array().expect("a shape");
    let shape: Vec<i64> = dims.iter().map(|d| d.as_i64().expect("a dimension")).collect();
    let bound = |key: &str| json[key].as_f64().expect("a bound");
    let (low, high) = (bound("from"), bound("to"));
    let start = (at + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = |i: u64| {
        let x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(start);
        let x = (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (low + (high - low) * ((x >> 40) as f64 / f64::from(1 << 24))) as f32
    };
    let count = shape.iter().product::<i64>() as u64;
    let data = (1..=count).flat_map(|i| number(i).to_le_bytes()).collect();
    Array { dtype: DType::F32, shape, data }
}

#[test]
fn networks_of_tvms_collection_give_its_answers() {
    let count = networks_answer_as_in_tvm("tests/relay_text/zoo");
    assert!(count >= 6, "only {count} networks were run");
}

/// A folder of what `record.py` writes, if its TVM is there.
fn recorded(what: &str) -> Option<tempfile::TempDir> {
    let python = skip::variable("REFLEX_RELAY_PYTHON")?;
    let folder = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relay_text/record.py");
    let mut command = Command::new(python);
    let output = command.arg(script).arg(what).arg(folder.path()).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

#[test]
fn all_networks_of_tvms_collection_give_its_answers() {
    let Some(folder) = recorded("--networks") else { return };
    let count = networks_answer_as_in_tvm(folder.path().to_str().expect("UTF-8"));
    println!("relay: {count} networks of tvm.relay.testing in three modes");
    assert!(count >= 17, "only {count} networks were run");
}

/// The text of a module with Relay's whole prelude is read, printed back as it was, and gives TVM's answers.
#[test]
fn the_whole_prelude_is_read_and_run() {
    let Some(folder) = recorded("--prelude") else { return };
    let path = folder.path().join("prelude.relay");
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.matches("\ndef @").count() > 200, "{} bytes", text.len());
    assert_eq!(Engine::script(&path).expect("a text"), text);
    for mode in Mode::ALL {
        check(&path, mode).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Functions of the prelude that TVM's compiler for its virtual machine fails on, and operators that are passed on.
#[test]
fn constructors_and_operators_are_values() {
    let prelude = fs::read_to_string("tests/relay_text/cases/prelude.relay").expect("a text");
    let prelude = prelude.replace("def @main", "def @unused");
    let main = "def @main(%n: int32) -> (int32, int32, int32, int32, float32, int32) {
  let %down = fn (%i: int32) -> Option[(int32, int32)] {
    if (greater(%i, 0)) { Some((subtract(%i, 1), %i)) } else { None }
  };
  let %xs = Cons(%n, Cons(add(%n, 3), Cons(2, Nil)));
  let %both = @concat(%xs, @unfoldl(%down, %n));
  let %roots = @map(sqrt, Cons(4f, Cons(9f, Nil)));
  (@foldl(subtract, 0, @rev(%both)), @nth(@rev(%xs), 1), @length(%both), @foldr1(maximum, %xs), @hd(@rev(%roots)),
   @sum(@map(fn (%p: (int32, int32)) -> int32 { multiply(%p.0, %p.1) }, @zip(%xs, %both))))
}
";
    let program = ModelSource::bytes(ModelFormat::Relay, format!("{prelude}{main}"));
    let program = Engine::new().and_then(|e| e.load(program)).expect("a program");
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for n in [0, 1, 5, 5, 5] {
            let given = Tensor::from_slice(&[], &[n]).expect("a tensor");
            let outputs = session.call_values("main", &[given.into()]).expect("answers");
            let outputs = outputs.downcast_ref::<Tuple>().expect("a tuple").to_vec();
            let tensor = |at: usize| outputs[at].downcast_ref::<Tensor>().expect("a tensor");
            let whole = |at: usize| tensor(at).to_vec::<i32>().expect("integers")[0];
            let sum = 2 * n + 5 + n * (n + 1) / 2;
            let products = n * n + (n + 3) * (n + 3) + 4;
            let expected = [-sum, n + 3, 3 + n, n + 3, products];
            assert_eq!([0, 1, 2, 3, 5].map(whole), expected, "{mode}");
            assert_eq!(tensor(4).to_vec::<f32>().expect("a number"), [3.0], "{mode}");
        }
    }
}

/// Runs the networks of a folder, which have their parameters as inputs. All modes run the same program.
fn networks_answer_as_in_tvm(folder: &str) -> usize {
    let files = files(folder);
    for path in &files {
        let text = fs::read_to_string(path.with_extension("json")).expect("the answers");
        let case: Json = serde_json::from_str(&text).expect("JSON");
        let program = Engine::new().and_then(|e| e.load(path)).expect("a program");
        let inputs = program.signature("main").expect("a signature").inputs;
        let values = (0..).zip(case["inputs"].as_array().expect("inputs"));
        let names = inputs.iter().map(|port| port.name.clone());
        let feed: Feed = names.zip(values.map(|(at, value)| generated(at, value))).collect();
        let prepared = program.prepare("main", &feed).expect("inputs that fit");
        let expected: Vec<Array> =
            case["outputs"].as_array().expect("outputs").iter().map(array).collect();
        for mode in Mode::ALL {
            let mut session = program.session(mode).expect("a session");
            let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("answers");
            assert_eq!(outputs.len(), expected.len(), "{}", path.display());
            for ((name, found), expected) in outputs.iter().zip(&expected) {
                let difference = Difference::of(found, expected, RTOL, ATOL).expect("numbers");
                assert!(difference.matches(), "{}, {mode}, {name}: {difference:?}", path.display());
            }
        }
    }
    files.len()
}

/// Programs answer the same where nothing is inlined.
#[test]
fn answers_do_not_depend_on_inlining() {
    let pipeline = "-inline_functions".parse().expect("a pipeline");
    let engine = Engine::builder().pipeline(pipeline).build().expect("an engine");
    for path in files("tests/relay_text/cases") {
        for mode in Mode::ALL {
            check_in(&engine, &path, mode).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

fn check(path: &Path, mode: Mode) -> Result<(), String> {
    check_in(&Engine::new().expect("an engine"), path, mode)
}

fn check_in(engine: &Engine, path: &Path, mode: Mode) -> Result<(), String> {
    let text = fs::read_to_string(path.with_extension("json")).expect("the answers");
    let case: Json = serde_json::from_str(&text).expect("JSON");
    let told = |e: reflex::Error| format!("{}, {mode}: {e}", path.display());
    let program = engine.load(path).map_err(told)?;
    let inputs = program.signature("main").map_err(told)?.inputs;
    let values = case["inputs"].as_array().expect("inputs").iter().map(array);
    let feed: Feed = inputs.iter().map(|port| port.name.clone()).zip(values).collect();
    let prepared = program.prepare("main", &feed).map_err(told)?;
    let mut session = program.session(mode).map_err(told)?;
    // Hot enough for traces.
    for _ in 0..3 {
        let outputs = session.call(&prepared).and_then(|o| o.arrays());
        if case["fails"].as_bool() == Some(true) {
            let error = outputs.err().map(|e| e.to_string()).unwrap_or_default();
            let expected = "no arm of a `match` in `hd` handles `Nil`";
            return match error.contains(expected) {
                true => Ok(()),
                false => Err(format!("{}, {mode}: {error:?}", path.display())),
            };
        }
        let expected: Vec<Array> =
            case["outputs"].as_array().expect("outputs").iter().map(array).collect();
        let outputs = outputs.map_err(told)?;
        assert_eq!(outputs.len(), expected.len(), "{}", path.display());
        for ((name, found), expected) in outputs.iter().zip(&expected) {
            let difference = Difference::of(found, expected, RTOL, ATOL)?;
            if !difference.matches() {
                return Err(format!("{}, {mode}, {name}: {difference:?}", path.display()));
            }
        }
    }
    Ok(())
}

#[test]
fn compiled_texts_give_the_answers_of_tvm() {
    let (files, mut wrong) = (files("tests/relay_text/cases"), vec![]);
    for path in &files {
        for mode in Mode::ALL {
            wrong.extend(check(path, mode).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() >= 17, "only {} cases were run", files.len());
}

/// `@doubled` maps over a list, `@weigh` folds a tree and takes a tuple with it.
const DATA: &str = r#"#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}
type Tree[A] {
  Leaf(A),
  Node(Tree[A], Tree[A]),
}

def @doubled(%xs: List[Tensor[(2), float32]]) -> List[Tensor[(2), float32]] {
  match (%xs) {
    Cons(%x: Tensor[(2), float32], %rest: List[Tensor[(2), float32]]) => {
      %0 = add(%x, %x);
      %1 = @doubled(%rest);
      Cons(%0, %1)
    },
    Nil => {
      Nil
    },
  }
}

def @sum(%t: Tree[Tensor[(2), float32]]) -> Tensor[(2), float32] {
  match (%t) {
    Leaf(%x1: Tensor[(2), float32]) => {
      %x1
    },
    Node(%left: Tree[Tensor[(2), float32]], %right: Tree[Tensor[(2), float32]]) => {
      %2 = @sum(%left);
      %3 = @sum(%right);
      add(%2, %3)
    },
  }
}

def @main(%given: (Tree[Tensor[(2), float32]], List[Tensor[(2), float32]])) {
  %4 = %given.0;
  %5 = %given.1;
  %6 = @sum(%4);
  %7 = @doubled(%5);
  (%6, %7)
}
"#;

/// Values of data types nest in values of callers, both ways: tuples of the constructor's number and the
/// fields.
#[test]
fn values_of_data_types_pass_between_caller_and_program() {
    let value = |tag: i64, fields: Vec<Any>| -> Any {
        let tag = std::iter::once(Any::from(tag));
        Tuple::new(tag.chain(fields).collect::<Vec<_>>()).into()
    };
    let pair = |x: f32| Any::from(Tensor::from_slice(&[2], &[x, x]).expect("a tensor"));
    let list = |numbers: &[f32]| {
        numbers.iter().rev().fold(value(1, vec![]), |rest, x| value(0, vec![pair(*x), rest]))
    };
    let leaf = |x: f32| value(0, vec![pair(x)]);
    let tree = value(1, vec![value(1, vec![leaf(1.0), leaf(2.0)]), leaf(4.0)]);
    let program = Engine::new().expect("an engine");
    let program = program.load(ModelSource::bytes(ModelFormat::Relay, DATA)).expect("a program");
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("a session");
        for numbers in [&[][..], &[3.0], &[1.0, -2.0, 5.0]] {
            let given = Tuple::new([tree.clone(), list(numbers)]);
            let answer = session.call_values("main", &[given.into()]).expect("an answer");
            let answer = answer.downcast_ref::<Tuple>().expect("a tuple").to_vec();
            assert_eq!(answer.len(), 2, "{mode}: a tuple has no number in front");
            assert_eq!(shown(&answer[0]), "[7.0, 7.0]", "{mode}");
            let doubled: Vec<f32> = numbers.iter().map(|x| 2.0 * x).collect();
            assert_eq!(shown(&answer[1]), shown(&list(&doubled)), "{mode}");
        }
        let error = session.call_values("main", &[pair(0.0)]).expect_err("a tensor").to_string();
        assert!(error.contains("ffi.Array"), "{mode}: {error}");
    }
}

fn shown(value: &Any) -> String {
    if let Some(items) = value.downcast_ref::<Tuple>() {
        return format!("({})", items.iter().map(shown).collect::<Vec<_>>().join(", "));
    }
    match value.downcast_ref::<Tensor>() {
        Some(tensor) => format!("{:?}", tensor.to_vec::<f32>().expect("floats")),
        None => value.view().as_int().map_or("?".to_owned(), |tag| tag.to_string()),
    }
}

const TEXT: &str = "#[version = \"0.0.5\"]\n\
                    def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {\n  nn.relu(%x)\n}\n";

#[test]
fn a_text_is_known_by_its_name_or_its_first_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["model.relay", "model.txt", "model"] {
        let path = folder.path().join(name);
        fs::write(&path, TEXT).expect("written");
        let info = Engine::info(&path).expect("a model");
        assert_eq!(
            (info.kind.as_str(), info.inputs[0].to_string()),
            ("Relay module", "x: float32[2]".to_string())
        );
        assert_eq!(Engine::script(&path).expect("a text"), TEXT);
    }
    let source = ModelSource::bytes(ModelFormat::Relay, TEXT);
    assert!(Engine::info(source).is_ok());
}

#[test]
fn errors_name_file_line_and_column() {
    let text = TEXT.replace("nn.relu(%x)", "nn.relu(%y)");
    let error = Engine::info(ModelSource::bytes(ModelFormat::Relay, text).named("m.relay"));
    let error = error.expect_err("an unknown variable");
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().contains("m.relay:3:11: `%y` is not defined here"), "{error}");
    let bytes = ModelSource::bytes(ModelFormat::Relay, vec![0xFF, 0xFE]);
    assert!(Engine::info(bytes).expect_err("not text").to_string().contains("not UTF-8"));
}

//! Maps, sequences and optionals as arguments and results of ONNX models: from Rust, from C and on the command
//! line. Python's are in `tests/python_interface.py`, the answers of ONNX Runtime in `tests/onnx/ml_cases.py`.

#![allow(clippy::duplicate_mod, reason = "two helpers record skips")]

mod common;
#[path = "common/programs.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod programs;

use std::path::Path;
use std::process::{Command, Output};

use reflex::{Any, Array, Engine, Map, Mode, Program, Tensor};
use reflex_onnx::proto::*;
use serde_json::{Value as Json, json};

const MODES: [Mode; 3] = [Mode::Bytecode, Mode::Compiled, Mode::Tiered];

fn map_type(key_type: i32, elem_type: i32) -> TypeProto {
    let tensor = Some(TensorTypeProto { elem_type, shape: Some(TensorShapeProto::default()) });
    let value = TypeProto { tensor_type: tensor, ..TypeProto::default() };
    let map = MapTypeProto { key_type, value_type: Some(Box::new(value)) };
    TypeProto { map_type: Some(Box::new(map)), ..TypeProto::default() }
}

fn named(name: &str, ty: TypeProto) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), r#type: Some(ty) }
}

fn texts(name: &str, words: &[&str]) -> AttributeProto {
    let strings = words.iter().map(|w| w.as_bytes().to_vec().into()).collect();
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRINGS,
        strings,
        ..Default::default()
    }
}

fn text(name: &str, word: &str) -> AttributeProto {
    let s = word.as_bytes().to_vec().into();
    AttributeProto { name: name.into(), r#type: attribute_type::STRING, s, ..Default::default() }
}

/// A model of one operator of ai.onnx.ml, whose input is a map.
fn of_map(op: &str, ty: TypeProto, attribute: Vec<AttributeProto>) -> Vec<u8> {
    let node = NodeProto {
        input: vec!["x".into()],
        output: vec!["y".into()],
        op_type: op.into(),
        domain: "ai.onnx.ml".into(),
        attribute,
        ..NodeProto::default()
    };
    let untyped = ValueInfoProto { name: "y".into(), r#type: None };
    let bytes = common::model(18, vec![node], vec![named("x", ty)], untyped);
    let mut model = ModelProto::decode(bytes.as_slice()).expect("a model");
    model.opset_import.push(OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 3 });
    model.encode_to_vec()
}

fn vectorizer(elem_type: i32) -> Vec<u8> {
    let words = texts("string_vocabulary", &["b", "a", "c"]);
    of_map("DictVectorizer", map_type(data_type::STRING, elem_type), vec![words])
}

/// `y` is the sequence `s` with the tensor `x` at its end.
fn inserter() -> Vec<u8> {
    let node = NodeProto {
        input: vec!["s".into(), "x".into()],
        output: vec!["y".into()],
        op_type: "SequenceInsert".into(),
        ..NodeProto::default()
    };
    let x = common::tensor("x", data_type::FLOAT, &["2"]);
    let element = ElementTypeProto { elem_type: x.r#type.clone().map(Box::new) };
    let list = TypeProto { sequence_type: Some(Box::new(element)), ..TypeProto::default() };
    common::model(18, vec![node], vec![named("s", list.clone()), x], named("y", list))
}

fn load(bytes: Vec<u8>) -> Program {
    let source = reflex::ModelSource::bytes(reflex::ModelFormat::Onnx, bytes);
    Engine::new().and_then(|engine| engine.load(source)).expect("loads")
}

fn call(program: &Program, mode: Mode, map: &[(Any, Any)]) -> Result<Array, String> {
    let map = Any::from(Map::new(map.iter().cloned()).expect("a map"));
    let mut session = program.session(mode).expect("opens");
    let y = session.call_values("main", &[map]).map_err(|e| e.to_string())?;
    Array::of_tensor(&Tensor::try_from(y).expect("a tensor")).map_err(|e| e.to_string())
}

/// The types that ONNX Runtime's Python module cannot pass: the answers are those of ONNX's text.
#[test]
fn maps_of_every_type_become_tensors() {
    use data_type::{DOUBLE, INT64, STRING};
    let (whole, exact) = (load(vectorizer(INT64)), load(vectorizer(DOUBLE)));
    let keys = ints("int64_vocabulary", &[7, -1]);
    let spelled = load(of_map("DictVectorizer", map_type(INT64, STRING), vec![keys]));
    let cast = |to| load(of_map("CastMap", map_type(INT64, STRING), vec![text("cast_to", to)]));
    let (floats, wholes, kept) = (cast("TO_FLOAT"), cast("TO_INT64"), cast("TO_STRING"));
    for mode in MODES {
        let large = (1_i64 << 53) + 1;
        let y = call(&whole, mode, &[("a".into(), large.into()), ("z".into(), 1_i64.into())]);
        assert_eq!(y.unwrap().to_vec::<i64>().unwrap(), [0, large, 0]);
        let error = call(&whole, mode, &[("a".into(), 1.5_f64.into())]).unwrap_err();
        assert!(error.contains("a map to integers"), "{error}");
        let y = call(&exact, mode, &[("c".into(), 0.1_f64.into())]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [0.0, 0.0, 0.1]);
        let y = call(&spelled, mode, &[((-1_i64).into(), "über".into())]).unwrap();
        assert_eq!(
            (y.to_strings().unwrap(), &y.shape[..2]),
            (vec![String::new(), "über".into()], &[1, 2][..])
        );
        let entries = [(5_i64.into(), " 2".into()), (1_i64.into(), "-3".into())];
        let y = call(&floats, mode, &entries).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [-3.0, 2.0]);
        assert_eq!(call(&wholes, mode, &entries).unwrap().to_vec::<i64>().unwrap(), [-3, 2]);
        assert_eq!(call(&kept, mode, &entries).unwrap().to_strings().unwrap(), ["-3", " 2"]);
        let error = call(&floats, mode, &[(0_i64.into(), "x".into())]).unwrap_err();
        assert!(error.contains("\"x\""), "{error}");
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let (name, ints) = (name.into(), ints.to_vec());
    AttributeProto { name, r#type: attribute_type::INTS, ints, ..Default::default() }
}

#[test]
fn maps_that_do_not_fit_are_refused_by_name() {
    let refused = |bytes: Vec<u8>| {
        let source = reflex::ModelSource::bytes(reflex::ModelFormat::Onnx, bytes);
        Engine::new().and_then(|engine| engine.load(source)).err().expect("refused").to_string()
    };
    let half = refused(vectorizer(data_type::FLOAT16));
    assert!(half.contains("DictVectorizer") && half.contains("maps to float16"), "{half}");
    let keys = map_type(data_type::STRING, data_type::FLOAT);
    let cast = refused(of_map("CastMap", keys, vec![]));
    assert!(cast.contains("CastMap") && cast.contains("keys are strings"), "{cast}");
    let keys = map_type(data_type::INT64, data_type::FLOAT);
    let words = vec![texts("string_vocabulary", &["a"])];
    let other = refused(of_map("DictVectorizer", keys.clone(), words));
    assert!(other.contains("another type than the keys"), "{other}");
    let dense = refused(of_map("CastMap", keys, vec![text("map_form", "LOOSE")]));
    assert!(dense.contains("LOOSE"), "{dense}");
}

const C_CALLER: &str = r#"
#include <reflex.h>
#include <stdio.h>

#define TRY(call) do { if (call) { printf("%s\n", reflex_error_message()); return 1; } } while (0)

int main(int argc, char **argv) {
  ReflexEngine *engine;
  ReflexProgram *program;
  ReflexSession *session;
  ReflexValue make, map, y, entries[4];
  if (argc != 2) return 2;
  TRY(reflex_engine_new(NULL, &engine));
  TRY(reflex_engine_load(engine, argv[1], &program));
  TRY(reflex_session_new(program, REFLEX_MODE_TIERED, &session));
  TRY(reflex_get_global_func("ffi.Map", &make));
  entries[0] = reflex_string_view("a");
  entries[1] = reflex_float(1.5);
  entries[2] = reflex_string_view("c");
  entries[3] = reflex_int(2);
  TRY(reflex_call_function(&make, entries, 4, &map));
  TRY(reflex_call(session, "main", &map, 1, &y));
  const ReflexTensor *tensor = reflex_as_tensor(&y);
  const float *data = (const float *)((const char *)tensor->data + tensor->byte_offset);
  printf("%g %g %g\n", data[0], data[1], data[2]);
  reflex_free(&y);
  reflex_free(&map);
  reflex_free(&make);
  reflex_session_free(session);
  reflex_program_free(program);
  reflex_engine_free(engine);
  return 0;
}
"#;

#[test]
fn c_makes_maps_and_passes_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    std::fs::write(place("map.onnx"), vectorizer(data_type::FLOAT)).expect("writes");
    std::fs::write(place("caller.c"), C_CALLER).expect("writes");
    let said = programs::run_c(&place("caller.c"), &place("caller"), &[&place("map.onnx")]);
    assert_eq!(said, "0 1.5 2\n");
}

fn reflex(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(args).current_dir(folder).env("REFLEX_CACHE", folder.join("cache"));
    command.output().expect("the command runs")
}

fn printed(folder: &Path, args: &[&str]) -> Json {
    let output = reflex(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn refused(folder: &Path, args: &[&str], part: &str) {
    let output = reflex(folder, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains(part), "{args:?}: {error}");
}

#[test]
fn the_command_line_passes_and_prints_values() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path();
    let write = |name: &str, data: &[u8]| std::fs::write(folder.join(name), data).expect("writes");
    write("map.onnx", &vectorizer(data_type::FLOAT));
    write("map.json", br#"{"map": [["a", 1.5], ["z", 2]]}"#);
    write("list.onnx", &inserter());
    write("list.json", br#"["x.npy", {"tensor": "float32", "data": [3, "NaN"]}]"#);
    let x = Array::of(&[2], &[1.0_f32, 2.0]).expect("an array");
    reflex::numpy::write_npy(&folder.join("x.npy"), &x).expect("writes");
    let info = printed(folder, &["info", "list.onnx", "--json"]);
    assert_eq!(info["inputs"][0]["dtype"], "sequence(float32[2])");
    assert_eq!(
        printed(folder, &["info", "map.onnx", "--json"])["inputs"][0]["dtype"],
        "map(string, float32)"
    );
    for model in ["map", "list"] {
        let (onnx, so) = (format!("{model}.onnx"), format!("{model}.so"));
        let compiled = reflex(folder, &["compile", &onnx, "-o", &so]);
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
    assert_eq!(printed(folder, &["info", "list.so", "--json"])["inputs"][1]["name"], "x");
    for model in ["map.onnx", "map.so"] {
        for mode in ["bytecode", "compiled", "tiered"] {
            let args = ["run", model, "--input", "map.json", "--json", "--mode", mode];
            let head = &printed(folder, &args)["outputs"][0]["head"];
            assert_eq!(head, &json!([0.0, 1.5, 0.0]), "{model} {mode}");
        }
    }
    let wanted = json!([
        { "tensor": "float32", "shape": [2], "data": [1.0, 2.0] },
        { "tensor": "float32", "shape": [2], "data": [3.0, "NaN"] },
        { "tensor": "float32", "shape": [2], "data": [0.0, 0.0] },
    ]);
    for model in ["list.onnx", "list.so"] {
        let args =
            ["run", model, "--input", "s=list.json", "--input", "x=zeros.npy", "--out", "out"];
        reflex::numpy::write_npy(
            &folder.join("zeros.npy"),
            &Array { data: vec![0; 8], ..x.clone() },
        )
        .expect("writes");
        let found = printed(folder, &[&args[..], &["--json", "--warm-up"]].concat());
        assert_eq!(found["outputs"][0]["value"], wanted, "{model}");
        let name = if model == "list.onnx" { "y" } else { "output0" };
        let saved =
            std::fs::read_to_string(folder.join(format!("out/{name}.json"))).expect("a file");
        assert_eq!(serde_json::from_str::<Json>(&saved).expect("JSON"), wanted);
        // What was saved is an input.
        let args = ["run", model, "--input", "x=x.npy", "--input"];
        let again =
            printed(folder, &[&args[..], &[&format!("s=out/{name}.json"), "--json"]].concat());
        assert_eq!(again["outputs"][0]["value"].as_array().expect("a list").len(), 4);
    }
    refused(folder, &["run", "map.onnx"], "x: map(string, float32), as in --input x=FILE.json");
    refused(folder, &["run", "map.onnx", "--input", "x=none.json"], "none.json");
    write("number.json", b"true");
    refused(folder, &["run", "map.onnx", "--input", "number.json"], "true is no value");
}

/// References as ONNX's backend tests have them.
#[test]
fn check_compares_values_with_data_sets() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path();
    let write = |name: &str, data: &[u8]| std::fs::write(folder.join(name), data).expect("writes");
    let pair = |a: f32, b: f32| TensorProto {
        data_type: data_type::FLOAT,
        dims: vec![2],
        float_data: vec![a, b],
        ..TensorProto::default()
    };
    let sequence = |items: Vec<TensorProto>| {
        SequenceProto { elem_type: 1, tensor_values: items, ..SequenceProto::default() }
            .encode_to_vec()
    };
    write("list.onnx", &inserter());
    for (set, last) in [("right", 5.0), ("wrong", 6.0)] {
        std::fs::create_dir(folder.join(set)).expect("a folder");
        write(&format!("{set}/input_0.pb"), &sequence(vec![pair(1.0, 2.0)]));
        write(&format!("{set}/input_1.pb"), &pair(4.0, 5.0).encode_to_vec());
        write(&format!("{set}/output_0.pb"), &sequence(vec![pair(1.0, 2.0), pair(4.0, last)]));
    }
    let compiled = reflex(folder, &["compile", "list.onnx", "-o", "list.so"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for model in [&["list.onnx"][..], &["list.so", "--types", "list.onnx"]] {
        let args = [&["check"][..], model, &["--data", "right", "--json"]].concat();
        let right = printed(folder, &args);
        assert_eq!(
            (&right["matches"], &right["outputs"]["y"]["matches"]),
            (&json!(true), &json!(true))
        );
        let wrong = reflex(folder, &[&args[..], &["--data", "wrong"]].concat());
        assert_eq!(wrong.status.code(), Some(1));
        let said = String::from_utf8_lossy(&wrong.stdout);
        assert!(said.contains("wrong: element 1: element 1: 5 instead of 6"), "{said}");
    }
    refused(folder, &["check", "list.so", "--data", "right"], "--types");
    refused(folder, &["check", "list.onnx", "--data", "none"], "none");
}

#[test]
fn the_operators_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = reflex(folder.path(), &["info", "--operators"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.lines().any(|line| line == "ai.onnx::Relu (1, 6, 13, 14): imported"), "{text}");
    let lines = reflex(folder.path(), &["info", "--operators", "--json"]);
    let lines = String::from_utf8(lines.stdout).expect("text");
    let all: Vec<Json> = lines.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(all.len(), text.lines().count());
    let find = |name: &str| all.iter().find(|o| o["name"] == name).expect("an operator");
    assert_eq!(find("ImageDecoder")["imported"], json!(false));
    assert!(find("Det")["refused"].as_str().expect("a limit").contains("64 rows"));
    assert_eq!(find("DictVectorizer")["types"].as_array().expect("types").len(), 6);
}

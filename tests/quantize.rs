//! `reflex quantize`: models whose answers are ONNX Runtime's, and near the float32 model's; reports;
//! refusals.

#![allow(clippy::duplicate_mod, reason = "two helpers record skips")]

mod common;
#[path = "common/programs.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod programs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::skip;
use reflex::quantize::{Method, QuantizeOptions, Quantizer};
use reflex::{Array, Engine, ErrorKind, Feed, Mode};
use reflex_onnx::proto::*;
use reflex_tir::codegen::CpuTarget;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx/quantize_cases.py");

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quantize").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn python(args: &[&str]) -> Option<()> {
    let output = Command::new(skip::variable("REFLEX_ORT_PYTHON")?).arg(SCRIPT).args(args).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

fn reflex(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reflex")).current_dir(folder).args(args).output().unwrap()
}

fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = reflex(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// 7-bit weights where the CPU has no instruction for dot products of 8-bit integers: ONNX Runtime's sums
/// of two products saturate there (`pmaddubsw`), and are no reference.
fn weights_for_onnx_runtime() -> &'static [&'static str] {
    match CpuTarget::host().has_int8_dots() {
        true => &[],
        false => &["--reduce-range"],
    }
}

/// Models with and without external data, of opsets before and after blocked DequantizeLinear, by each
/// method: onnx.checker takes what is written, ONNX Runtime and Reflex give one answer for it.
#[test]
fn quantized_models_answer_as_onnx_runtime_does() {
    let folder = folder("answers");
    if python(&["make", &folder.display().to_string()]).is_none() {
        return;
    }
    // Decibels between the model's result and that of the quantized model.
    let methods = [("dynamic", 30.0), ("static", 30.0), ("weights4", 12.0)];
    for model in ["dense13", "dense21", "convolutions13", "convolutions21"] {
        for (method, least) in methods {
            let file = |ending: &str| format!("{model}.{ending}");
            let (onnx, runs) = (file("onnx"), file("npz"));
            let (quantized, answers) =
                (file(&format!("{method}.onnx")), file(&format!("{method}.npz")));
            let args = ["quantize", &onnx, "-o", &quantized, "--method", method, "--json"];
            let calibration = ["--calibration", &runs];
            let report =
                json(&folder, &[&args[..], &calibration, weights_for_onnx_runtime()].concat());
            let path = |name: &str| folder.join(name).display().to_string();
            python(&["answer", &path(&quantized), &path(&runs), &path(&answers)]).unwrap();
            for mode in ["bytecode", "compiled", "tiered"] {
                let args = ["check", &quantized, "--npz", &answers, "--mode", mode];
                let check = reflex(&folder, &args);
                let said = String::from_utf8_lossy(&check.stdout);
                assert!(check.status.success(), "{model} {method} {mode}: {said}");
            }
            let db = report["outputs"][0]["sqnr_db"].as_f64().expect("it is rounded");
            assert!(db > least, "{model} {method}: {db} dB");
            let layers = report["layers"].as_array().unwrap();
            let convolutions = model.starts_with("convolutions");
            assert_eq!(layers.len(), if convolutions && method == "weights4" { 1 } else { 5 });
            for layer in layers {
                assert!(layer["weight_sqnr_db"].as_f64().unwrap() > 12.0, "{layer}");
                assert!(layer["output"]["sqnr_db"].as_f64().unwrap() > 10.0, "{layer}");
            }
            assert!(report["bytes"].as_u64() < report["bytes_before"].as_u64(), "{report}");
        }
    }
}

/// Python gives the file and the report of the command, which is held to ONNX Runtime's answers above.
#[test]
fn python_quantizes_as_the_command_does() {
    let folder = folder("python");
    if python(&["make", &folder.display().to_string()]).is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_quantize.py");
    for (model, method) in
        [("dense13", "dynamic"), ("dense21", "weights4"), ("convolutions13", "static")]
    {
        let (onnx, runs) = (format!("{model}.onnx"), format!("{model}.npz"));
        let args = ["quantize", &onnx, "-o", "q.onnx", "--method", method, "--calibration", &runs];
        let report = reflex(&folder, &[&args[..], &["--json"]].concat());
        assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
        std::fs::write(folder.join("report.json"), report.stdout).unwrap();
        let [onnx, runs, file, report] =
            [&*onnx, &*runs, "q.onnx", "report.json"].map(|name| folder.join(name));
        let said =
            programs::run_python(&[&script, &onnx, &runs, Path::new(method), &file, &report]);
        let Some(said) = said else { return };
        assert!(said.ends_with("done\n"), "{model} {method}: {said}");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quantize.py");
    let [onnx, runs] = ["dense13.onnx", "dense13.npz"].map(|name| folder.join(name));
    let Some(said) = programs::run_python(&[&example, &onnx, &runs]) else { return };
    let measured = said.lines().filter(|line| line.starts_with("  output y: ")).count();
    assert!(measured == 3 && said.contains("first: weights"), "{said}");
    assert!(folder.join("dense13.weights4.onnx").exists());
}

/// `y = x · w + b` and a product of two values that are computed.
fn dense(opset: i64) -> Vec<u8> {
    let node = |op: &str, inputs: &[&str], output: &str, name: &str| NodeProto {
        input: inputs.iter().map(|i| (*i).to_owned()).collect(),
        output: vec![output.into()],
        name: name.into(),
        op_type: op.into(),
        ..Default::default()
    };
    let weights: Vec<f32> = (0..64 * 16).map(|k| ((k * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let constant = TensorProto {
        dims: vec![64, 16],
        data_type: data_type::FLOAT,
        name: "w".into(),
        float_data: weights,
        ..Default::default()
    };
    let nodes = vec![
        node("MatMul", &["x", "w"], "h", "dense"),
        node("Transpose", &["h"], "t", ""),
        node("MatMul", &["h", "t"], "y", ""),
    ];
    let tensor = |name: &str, dims: &[&str]| common::tensor(name, data_type::FLOAT, dims);
    let (x, y) = (tensor("x", &["n", "64"]), tensor("y", &["n", "n"]));
    common::model_with(opset, nodes, vec![x], y, vec![constant])
}

fn written(name: &str, opset: i64) -> PathBuf {
    let path = folder(name).join("model.onnx");
    std::fs::write(&path, dense(opset)).unwrap();
    path
}

#[test]
fn refusals_say_what_to_do() {
    let path = written("refusals", 10);
    let engine = Engine::new().unwrap();
    let quantizer = Quantizer::open(&engine, &path).unwrap();
    let refused = |options: QuantizeOptions| {
        let error = quantizer.quantize(options, &[]).err().expect("an error");
        (error.kind(), error.to_string())
    };
    let dynamic = QuantizeOptions::new(Method::Dynamic);
    let (kind, message) = refused(dynamic.clone());
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("opset 10") && message.contains("version_converter"), "{message}");
    let four = QuantizeOptions::new(Method::Weights4(24));
    assert!(refused(four.clone()).1.contains("a power of two from 16"));
    let four = QuantizeOptions { method: Method::Weights4(32), ..four };
    let missing = QuantizeOptions { exclude: BTreeSet::from(["head".to_owned()]), ..four.clone() };
    assert!(refused(missing).1.contains("node `head`"));
    let none = QuantizeOptions { exclude: BTreeSet::from(["dense".to_owned()]), ..four.clone() };
    let message = refused(none).1;
    assert!(message.contains("nothing to quantize") && message.contains("excluded"), "{message}");
    let operators = BTreeSet::from(["LSTM".to_owned()]);
    assert!(refused(QuantizeOptions { operators, ..four }).1.contains("LSTM"));
    let calibrated = QuantizeOptions::new(Method::Static(Default::default()));
    assert!(refused(calibrated).1.contains("calibrate"));
}

#[test]
fn the_command_refuses_to_overwrite_the_model_and_asks_for_calibration() {
    let path = written("command", 17);
    let folder = path.parent().unwrap();
    let said = |args: &[&str]| {
        let output = reflex(folder, args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["quantize", "model.onnx", "-o", "./model.onnx"]).contains("another file"));
    let calibrate = said(&["quantize", "model.onnx", "-o", "q.onnx", "--method", "static"]);
    assert!(calibrate.contains("--calibration"), "{calibrate}");
    let report = json(folder, &["quantize", "model.onnx", "-o", "q.onnx", "--json"]);
    assert_eq!(report["layers"][0]["node"], "dense");
    assert_eq!(report["kept"][0]["reason"], "its second operand is not a constant");
    assert!(report["layers"][0]["output"].is_null() && report["feeds"] == 0);
    let info = json(folder, &["info", "q.onnx", "--json"]);
    assert!(info["operators"].to_string().contains(r#"["MatMulInteger",1]"#), "{info}");
}

/// Every bit of a small model changed, one at a time: an error, or a model that is written.
#[test]
fn damaged_models_are_refused_or_quantized() {
    let whole = dense(21);
    let header = whole.len() - 64 * 16 * 4;
    for method in [Method::Dynamic, Method::Weights4(16)] {
        let options = QuantizeOptions::new(method);
        for bit in (0..whole.len() * 8).filter(|bit| bit / 8 < header || bit % 4001 == 0) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let model = reflex_onnx::quantize::FloatModel::of_bytes(bytes);
            if let Ok(quantized) = model.and_then(|model| model.quantize(&options)) {
                assert!(!quantized.layers.is_empty() && !quantized.bytes.is_empty());
            }
        }
    }
}

/// Ranges of activations that are given, and weights of seven bits.
#[test]
fn ranges_and_seven_bits() {
    let path = written("ranges", 13);
    let engine = Engine::new().unwrap();
    let quantizer = Quantizer::open(&engine, &path).unwrap();
    let ranges = [("x", (-1.0, 3.0)), ("h", (0.0, 0.0))];
    let ranges = ranges.map(|(name, range)| (name.to_owned(), range)).into();
    let options = QuantizeOptions::new(Method::Static(ranges));
    let eight = quantizer.quantize(options.clone(), &[]).unwrap();
    let seven = QuantizeOptions { reduce_range: true, ..options.clone() };
    let seven = quantizer.quantize(seven, &[]).unwrap();
    let db = |q: &reflex::quantize::Quantized| q.layers[0].weight_sqnr_db.unwrap();
    assert!((5.0..7.0).contains(&(db(&eight) - db(&seven))), "a bit is six decibels");
    let model = ModelProto::decode(&eight.bytes[..]).unwrap();
    let constants = model.graph.unwrap().initializer;
    let find = |name: &str| constants.iter().find(|t| t.name == name).unwrap().raw_data.clone();
    assert_eq!(find("x_zero_point").unwrap()[..], [64]);
    assert_eq!(find("x_scale").unwrap()[..], (4f32 / 255.0).to_le_bytes());
    let infinite =
        Method::Static([("x".into(), (0.0, f32::INFINITY)), ("h".into(), (0.0, 1.0))].into());
    let error = quantizer.quantize(QuantizeOptions::new(infinite), &[]).err().unwrap();
    assert!(error.to_string().contains("`x` is not finite"), "{error}");
    let none = Method::Static([("x".into(), (0.0, 1.0))].into());
    let error = quantizer.quantize(QuantizeOptions::new(none), &[]).err().unwrap();
    assert!(error.to_string().contains("`h` has no range"), "{error}");
}

/// A resize that takes the nearest elements takes the nearest codes: no float is computed.
#[test]
fn the_nearest_elements_of_codes_are_codes() {
    let node = |op: &str, input: &[&str], output: &str| NodeProto {
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.into()],
        op_type: op.into(),
        ..NodeProto::default()
    };
    let constant = |name: &str, data_type, dims: &[i64], bytes: Vec<u8>| TensorProto {
        name: name.into(),
        data_type,
        dims: dims.to_vec(),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    };
    let floats = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let nodes = vec![
        node("DequantizeLinear", &["x", "scale", "zero"], "wide"),
        node("Resize", &["wide", "", "factors"], "large"),
        node("QuantizeLinear", &["large", "scale", "zero"], "y"),
    ];
    let constants = vec![
        constant("scale", data_type::FLOAT, &[], floats(&[0.3])),
        constant("zero", data_type::UINT8, &[], vec![7]),
        constant("factors", data_type::FLOAT, &[4], floats(&[1.0, 1.0, 2.0, 1.0])),
    ];
    let [x, y] = [("x", "2"), ("y", "4")]
        .map(|(name, rows)| common::tensor(name, data_type::UINT8, &["1", "1", rows, "3"]));
    let model = common::model_with(17, nodes, vec![x], y, constants);
    let path = folder("nearest").join("m.onnx");
    std::fs::write(&path, model).unwrap();
    let text = Engine::new().unwrap().dump_after(&path, "eliminate_dead_code").unwrap();
    assert!(text.contains("resize") && !text.contains("float32"), "{text}");
    let program = Engine::new().unwrap().load(&path).unwrap();
    let x = Array::of(&[1, 1, 2, 3], &[0_u8, 9, 255, 7, 100, 6]).unwrap();
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).unwrap();
    let mut session = program.session(Mode::Tiered).unwrap();
    let outputs = session.call(&prepared).and_then(|outputs| outputs.arrays()).unwrap();
    assert_eq!(outputs[0].1.to_vec::<u8>().unwrap(), [0, 9, 255, 0, 9, 255, 7, 100, 6, 7, 100, 6]);
}

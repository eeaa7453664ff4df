//! The command line's fixed forms, and what bad input gets: exit code 2, a message that names
//! the file and the reason, no panic, no partial file.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn reflex(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reflex"))
        .args(args)
        .current_dir(dir)
        .env("REFLEX_CACHE", dir.join("cache"))
        .output()
        .expect("the command runs")
}

/// A folder with `add.onnx`.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("add.onnx"), common::add()).expect("writes");
    dir
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Exit code 2, and a message with every one of `parts`.
fn refused(output: &Output, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn info_describes_the_interface() {
    let dir = folder();
    let info = json(&reflex(dir.path(), &["info", "add.onnx", "--json"]));
    assert_eq!(info["inputs"][0]["name"], "x");
    assert_eq!(info["inputs"][0]["dtype"], "float32");
    assert_eq!(info["inputs"][0]["shape"], serde_json::json!(["n", 3]));
    assert_eq!(info["symbols"], serde_json::json!(["n"]));
    assert_eq!(info["operators"], serde_json::json!([["Add", 1]]));
    assert_eq!(info["unsupported"], serde_json::json!([]));
    assert_eq!(info["metadata"], serde_json::json!([]));
    assert_eq!(info["file_bytes"], common::add().len());
}

#[test]
fn info_prints_metadata_and_parameters() {
    use reflex_onnx::proto::*;
    let dir = folder();
    let property =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let weights = TensorProto {
        name: "b".into(),
        data_type: data_type::FLOAT,
        dims: vec![2, 3],
        data_location: 1,
        external_data: vec![property("location", "weights.bin")],
        ..Default::default()
    };
    let node = NodeProto {
        input: vec!["x".into(), "b".into()],
        output: vec!["y".into()],
        op_type: "Add".into(),
        ..Default::default()
    };
    let [x, y] = ["x", "y"].map(|name| common::tensor(name, data_type::FLOAT, &["2", "3"]));
    let graph = Some(GraphProto {
        node: vec![node],
        initializer: vec![weights],
        input: vec![x],
        output: vec![y],
        ..Default::default()
    });
    let model = ModelProto {
        ir_version: 8,
        producer_name: "a tool".into(),
        producer_version: "1.2".into(),
        domain: "org.example".into(),
        model_version: 7,
        doc_string: "Adds.".into(),
        metadata_props: vec![property("labels", "cat,dog"), property("author", "Ada")],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph,
        ..Default::default()
    };
    let bytes = model.encode_to_vec();
    std::fs::write(dir.path().join("b.onnx"), &bytes).expect("writes");
    std::fs::write(dir.path().join("weights.bin"), [0; 24]).expect("writes");
    let info = json(&reflex(dir.path(), &["info", "b.onnx", "--json"]));
    let expected = serde_json::json!([
        ["domain", "org.example"],
        ["version", "7"],
        ["description", "Adds."],
        ["labels", "cat,dog"],
        ["author", "Ada"]
    ]);
    assert_eq!(info["metadata"], expected);
    assert_eq!((&info["parameters"], &info["parameter_bytes"]), (&6.into(), &24.into()));
    assert_eq!(info["file_bytes"], bytes.len() + 24);
    assert!(info["kind"].as_str().expect("text").contains("written by a tool 1.2"), "{info}");
    let text = reflex(dir.path(), &["info", "b.onnx"]);
    let text = String::from_utf8_lossy(&text.stdout);
    for line in ["parameters: 6 (0.0 MB)", "metadata:", "  labels: cat,dog"] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in {text}");
    }
    // What is compiled from it has the same constants.
    assert!(reflex(dir.path(), &["compile", "b.onnx", "-o", "b.so"]).status.success());
    let library = json(&reflex(dir.path(), &["info", "b.so", "--json"]));
    assert_eq!((&library["parameters"], &library["parameter_bytes"]), (&6.into(), &24.into()));
}

#[test]
fn a_function_whose_parameter_is_no_tensor_is_refused_by_name() {
    let dir = folder();
    let text = "
@I.ir_module
class Module:
    @R.function
    def main(s: R.Shape([\"n\"])) -> R.Shape([\"n\"]):
        return s
";
    std::fs::write(dir.path().join("shape.py"), text).expect("writes");
    let reasons = ["shape.py", "`main`", "not tensors"];
    refused(&reflex(dir.path(), &["run", "shape.py"]), &reasons[1..]);
    let compiled = reflex(dir.path(), &["compile", "shape.py", "-o", "shape.so"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    refused(&reflex(dir.path(), &["run", "shape.so"]), &reasons[1..]);
}

#[test]
fn run_gives_the_same_answer_in_every_mode_and_from_a_library() {
    let dir = folder();
    refused(&reflex(dir.path(), &["compile", "nothing.onnx", "-o", "add.so"]), &["nothing.onnx"]);
    assert!(!dir.path().join("add.so").exists());
    let compiled = reflex(dir.path(), &["compile", "add.onnx", "-o", "add.so"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut answers = vec![];
    for model in ["add.onnx", "add.so"] {
        for mode in ["bytecode", "compiled", "tiered"] {
            let args = ["run", model, "--shape", "x=2x3", "--seed", "5", "--mode", mode, "--json"];
            let answer = json(&reflex(dir.path(), &args));
            assert_eq!(answer["outputs"][0]["name"], "y");
            assert_eq!(answer["outputs"][0]["shape"], serde_json::json!([2, 3]));
            answers.push(answer["outputs"].clone());
        }
    }
    assert!(answers.iter().all(|a| *a == answers[0]), "{answers:?}");
}

#[test]
fn a_compiled_library_runs_without_a_compiler() {
    let dir = folder();
    assert!(reflex(dir.path(), &["compile", "add.onnx", "-o", "add.so"]).status.success());
    let run = Command::new(env!("CARGO_BIN_EXE_reflex"))
        .args(["run", "add.so", "--shape", "x=1x3"])
        .current_dir(dir.path())
        .env("REFLEX_CODEGEN", "/nonexistent/reflex-codegen")
        .output()
        .expect("the command runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Cranelift's kernels have the bits of LLVM's; `info`, `bench` and `inspect` say whose they are.
#[test]
fn baseline_kernels_need_no_compiler() {
    let dir = folder();
    let command = |args: &[&str], policy: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(args).current_dir(dir.path()).env("REFLEX_TIER", policy);
        command.env("REFLEX_CACHE", dir.path().join("cache")).output().expect("the command runs")
    };
    let call = ["run", "add.onnx", "--shape", "x=1x3", "--seed", "5", "--json"];
    let answers = ["kernels=cranelift", "kernels=llvm"].map(|policy| json(&command(&call, policy)));
    assert_eq!(answers[0]["outputs"], answers[1]["outputs"]);
    let kernels = ["inspect", "add.onnx", "--kernel-tiers"];
    for (policy, generator) in [("kernels=cranelift", "cranelift"), ("kernels=llvm", "llvm")] {
        let output = command(&kernels, policy);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.lines().count() > 0, "no kernels");
        assert!(text.lines().all(|line| line.starts_with(generator)), "{text}");
    }
    let note = |args: &[&str], policy: &str| {
        let said = String::from_utf8_lossy(&command(args, policy).stderr).into_owned();
        said.matches("reflex: note: kernels are baseline").count()
    };
    let bench = ["bench", "add.onnx", "--min-time", "0.01"];
    for args in [&["info", "add.onnx"][..], &bench] {
        assert_eq!(
            [note(args, "kernels=cranelift"), note(args, "kernels=llvm")],
            [1, 0],
            "{args:?}"
        );
    }
}

/// By default Cranelift's kernels come first and LLVM's replace them, but where programs are saved or
/// measured.
#[test]
fn kernels_are_tiered_by_default() {
    let dir = folder();
    let said = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(args).current_dir(dir.path()).env_remove("REFLEX_TIER");
        let output = command.env("REFLEX_CACHE", "off").output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let first = "kernels are tiered: Cranelift's first";
    for args in [&["info", "add.onnx"][..], &["--version"]] {
        assert!(said(args).concat().contains(first), "{args:?}");
    }
    assert!(said(&["--version"])[0].contains("\ncpu: "));
    assert!(said(&["--version"])[0].contains("\nfeatures: onnx, torch, script, cranelift, llvm, "));
    for args in [
        &["bench", "add.onnx", "--min-time", "0.01", "--modes", "bytecode"][..],
        &["compile", "add.onnx", "-o", "add.so"],
    ] {
        assert!(said(args)[1].contains("kernels are LLVM's from the first call on"), "{args:?}");
    }
    assert!(said(&["inspect", "add.onnx", "--kernel-tiers"])[0].contains("replaced after"));
}

#[test]
fn bench_reports_one_object_a_mode() {
    let dir = folder();
    let zeros = json(&reflex(dir.path(), &["run", "add.onnx", "--input", "zeros", "--json"]));
    assert_eq!(zeros["outputs"][0]["head"], serde_json::json!([0.0, 0.0, 0.0]));
    let args = ["bench", "add.onnx", "--modes", "bytecode,tiered", "--min-time", "0.05", "--json"];
    let output = reflex(dir.path(), &args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<serde_json::Value> =
        text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let modes: Vec<_> = rows.iter().map(|r| r["mode"].as_str().expect("a mode")).collect();
    assert_eq!(modes, ["bytecode", "tiered"]);
    for key in [
        "p50_us",
        "p90_us",
        "p99_us",
        "min_us",
        "mean_us",
        "n",
        "load_ms",
        "first_ms",
        "rss_peak_mb",
    ] {
        assert!(rows.iter().all(|r| r[key].is_number()), "{key}: {rows:?}");
    }
}

#[test]
fn ab_reports_a_ratio_with_its_interval() {
    let dir = folder();
    let args = ["bench", "add.onnx", "--ab", "bytecode,compiled", "--min-time", "0.02"];
    let report = json(&reflex(dir.path(), &[&args[..], &["--json", "--svg", "ab.svg"]].concat()));
    let number = |key: &str| report[key].as_f64().expect("a number");
    assert!(number("low") <= number("ratio") && number("ratio") <= number("high"), "{report}");
    for (side, name) in [("a", "bytecode"), ("b", "compiled"), ("control", "spin loop")] {
        assert_eq!(report[side]["name"], name);
        assert!(report[side]["p999_us"].as_f64() >= report[side]["p50_us"].as_f64(), "{report}");
    }
    assert!(std::fs::read_to_string(dir.path().join("ab.svg")).expect("drawn").contains("<path"));
    let text = reflex(dir.path(), &args);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("compiled / bytecode: ") && text.contains('█'), "{text}");
    let generators = "kernels=cranelift,kernels=llvm";
    let args = ["bench", "add.onnx", "--ab", generators, "--min-time", "0.02", "--json"];
    let compared = json(&reflex(dir.path(), &args));
    assert_eq!(
        (&compared["a"]["name"], &compared["b"]["name"]),
        (&serde_json::json!("kernels=cranelift"), &serde_json::json!("kernels=llvm"))
    );
    refused(&reflex(dir.path(), &["bench", "add.onnx", "--ab", "tiered"]), &["--ab", "two modes"]);
}

#[test]
fn runs_are_profiled() {
    let dir = folder();
    let saved = reflex(dir.path(), &["compile", "add.onnx", "-o", "add.so"]);
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    for model in ["add.onnx", "add.so"] {
        let done = reflex(dir.path(), &["run", model, "--profile", "--trace", "calls.json"]);
        let table = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && table.contains("add"), "{table}");
        let trace = std::fs::read_to_string(dir.path().join("calls.json")).expect("was written");
        // An addition for each of the elements, of which there are two rows of three.
        let call = trace.lines().find(|line| line.contains("\"operations\":")).expect("a kernel");
        assert!(call.contains("add") && call.contains("\"GFLOP/s\":"), "{trace}");
    }
    refused(&reflex(dir.path(), &["run", "add.onnx", "--trace", "calls.json"]), &["--profile"]);
}

/// `--warm-up` calls until what is hot is compiled, and answers what one call would.
#[test]
fn runs_are_warmed_up() {
    let dir = folder();
    let run =
        |args: &[&str]| json(&reflex(dir.path(), &[&["run", "add.onnx", "--json"], args].concat()));
    let cold = run(&[]);
    assert!(cold.get("warm_up_calls").is_none(), "{cold}");
    let warm = run(&["--warm-up", "--tier", "threshold=5"]);
    assert!(warm["warm_up_calls"].as_u64() > Some(5), "{warm}");
    assert_eq!(warm["outputs"], cold["outputs"]);
    assert_eq!(run(&["--warm-up", "--tier", "off"])["warm_up_calls"], 1);
    let both = ["run", "add.onnx", "--warm-up", "--profile"];
    refused(&reflex(dir.path(), &both), &["--warm-up", "--profile"]);
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let dir = folder();
    let run = |args: &[&str]| reflex(dir.path(), &[&["run", "add.onnx"], args].concat());
    refused(&run(&["--device", "tpu:0"]), &["tpu:0", "there is cpu"]);
    refused(&run(&["--precision", "int4"]), &["int4", "f32-fast, bf16 or int8"]);
    // No level has AVX512_BF16.
    refused(&run(&["--precision", "bf16", "--levels", "v4"]), &["AVX512_BF16", "x86-64-v4"]);
    refused(&run(&["--mode", "fast"]), &["fast", "bytecode"]);
    refused(&run(&["--shape", "z=1x3"]), &["\"z\"", "x, b"]);
    refused(&run(&["--shape", "x=1x4"]), &["x", "4", "3"]);
    refused(&run(&["--shape", "x=1"]), &["x=1", "2 dimensions"]);
    refused(&run(&["--input", "x=missing.npy"]), &["missing.npy"]);
    refused(&run(&["--func", "other"]), &["other", "main"]);
    refused(&run(&["--shape", "x=1000000000000x3"]), &["x", "memory"]);
    refused(&run(&["--input", "zero"]), &["zero", "NAME=VALUE"]);
    std::fs::write(dir.path().join("short.npy"), b"\x93NUMPY\x01\x00\xff").expect("writes");
    refused(&run(&["--input", "x=short.npy"]), &["short.npy"]);
}

#[test]
fn bad_models_are_refused_with_their_name() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let run = |name: &str| reflex(dir.path(), &["run", name]);
    refused(&run("missing.onnx"), &["missing.onnx"]);
    refused(&run("model.txt"), &["model.txt", ".onnx"]);
    std::fs::write(path("empty.onnx"), b"").expect("writes");
    refused(&run("empty.onnx"), &["empty.onnx"]);
    std::fs::write(path("text.so"), b"not a library").expect("writes");
    refused(&run("text.so"), &["text.so"]);
    // A whole library, cut short: the system's loader would take it, and crash.
    let compiled = reflex(dir.path(), &["compile", "add.onnx", "-o", "whole.so"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let library = std::fs::read(path("whole.so")).expect("was written");
    for part in 1..8 {
        std::fs::write(path("cut.so"), &library[..library.len() * part / 8]).expect("writes");
        refused(&run("cut.so"), &["cut.so"]);
    }
    let unknown = common::one_node("NoSuchOp", &[("x", &["2"])], ("y", &["2"]));
    std::fs::write(path("unknown.onnx"), unknown).expect("writes");
    refused(&run("unknown.onnx"), &["unknown.onnx", "NoSuchOp", "the_node"]);
}

#[test]
fn messages_name_a_file_once_and_what_is_expected() {
    let dir = folder();
    let run = |args: &[&str]| reflex(dir.path(), &[&["run"], args].concat());
    let missing = run(&["missing.onnx"]);
    let error = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(error.matches("missing.onnx").count(), 1, "{error}");
    refused(&run(&["add.onnx", "--shape", "x=1x4"]), &["float32[1, 4]", "dimension 1 must be 3"]);
    refused(&run(&["add.onnx", "--threads", "100000"]), &["100000 threads", "1 to 128"]);
    refused(&run(&["add.onnx", "--threads", "0"]), &["0 threads"]);
    let dll = reflex(dir.path(), &["compile", "add.onnx", "-o", "add.dll"]);
    refused(&dll, &["add.dll", ".so"]);
    assert!(!dir.path().join("add.dll").exists());
    let help = reflex(dir.path(), &["run", "--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("cpu|cuda[:N]"));
}

/// Where the program chose the extents that a model does not take, the error says how to give
/// others.
#[test]
fn extents_that_a_model_does_not_take_are_explained() {
    let dir = folder();
    let inputs: [(&str, &[&str]); 2] = [("x", &["n", "k"]), ("w", &["3", "2"])];
    let product = common::one_node("MatMul", &inputs, ("y", &["n", "2"]));
    std::fs::write(dir.path().join("product.onnx"), product).expect("writes");
    for command in ["run", "bench"] {
        let chosen = reflex(dir.path(), &[command, "product.onnx"]);
        refused(&chosen, &["product.onnx", "x: float32[n, k]", "--shape x="]);
        let given = reflex(dir.path(), &[command, "product.onnx", "--shape", "x=1x1"]);
        refused(&given, &["product.onnx"]);
        assert!(!String::from_utf8_lossy(&given.stderr).contains("--shape"));
    }
    assert!(reflex(dir.path(), &["run", "product.onnx", "--shape", "x=1x3"]).status.success());
}

#[test]
fn the_only_input_needs_no_name() {
    let dir = folder();
    let one = common::one_node("Neg", &[("x", &["2"])], ("y", &["2"]));
    std::fs::write(dir.path().join("NEG.ONNX"), one).expect("writes");
    let array = reflex::Array::of(&[2], &[1.5_f32, -2.0]).expect("two elements");
    reflex::numpy::write_npy(&dir.path().join("x.npy"), &array).expect("writes");
    let answer = json(&reflex(dir.path(), &["run", "NEG.ONNX", "--input", "x.npy", "--json"]));
    assert_eq!(answer["outputs"][0]["head"], serde_json::json!([-1.5, 2.0]));
    refused(&reflex(dir.path(), &["run", "add.onnx", "--input", "x.npy"]), &["x.npy", "x, b"]);
}

#[test]
fn integers_are_printed_as_such() {
    let dir = folder();
    let shape = common::one_node("Shape", &[("x", &["2", "7"])], ("y", &["2"]));
    std::fs::write(dir.path().join("shape.onnx"), shape).expect("writes");
    let output = reflex(dir.path(), &["run", "shape.onnx"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("y: int64 [2] = [2, 7]"), "{text}");
}

/// The command with variables of its own.
fn reflex_with(dir: &Path, args: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(args).current_dir(dir).env("REFLEX_CACHE", dir.join("cache"));
    command.envs(variables.iter().copied()).output().expect("the command runs")
}

/// A cache in which nothing can be stored is said to be so, once; it stops nothing. Nor does a
/// missing folder for temporary files.
#[test]
fn a_cache_that_cannot_be_written_is_announced() {
    let dir = folder();
    let cache = dir.path().join("add.onnx/cache");
    let shape = ["--shape", "x=1x3"];
    let commands: [&[&str]; 4] =
        [&["run"], &["info"], &["bench", "--min-time", "0"], &["compile", "-o", "add.so"]];
    for command in commands {
        let shape = if matches!(command[0], "run" | "bench") { &shape[..] } else { &[] };
        let args = [command, &["add.onnx"], shape].concat();
        let output = reflex_with(dir.path(), &args, &[("REFLEX_CACHE", &cache)]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(error.matches("warning").count(), 1, "{command:?}: {error}");
        assert!(!error.contains("WARN"), "said twice: {error}");
        assert!(error.contains("add.onnx/cache: ") && error.contains("REFLEX_CACHE"), "{error}");
        for value in ["off", "writable"] {
            let output = reflex_with(dir.path(), &args, &[("REFLEX_CACHE", Path::new(value))]);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !error.contains("warning"), "{error}");
        }
    }
    let library = reflex_with(dir.path(), &["info", "add.so"], &[("REFLEX_CACHE", &cache)]);
    assert!(!String::from_utf8_lossy(&library.stderr).contains("warning"));
    let nowhere = Path::new("/nonexistent/tmp");
    let args = ["run", "add.onnx", "--shape", "x=1x3"];
    let output = reflex_with(dir.path(), &args, &[("TMPDIR", nowhere)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_code_generator_that_hangs_is_ended() {
    let dir = folder();
    let hangs = dir.path().join("hangs");
    std::fs::write(&hangs, "#!/bin/sh\nexec sleep 3600\n").expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hangs, mode).expect("an executable file");
    let limit = Path::new("0.1");
    let variables = [("REFLEX_CODEGEN", hangs.as_path()), ("REFLEX_CODEGEN_TIMEOUT", limit)];
    let llvm = [&variables[..], &[("REFLEX_TIER", Path::new("kernels=llvm"))]].concat();
    let output = reflex_with(dir.path(), &["run", "add.onnx"], &llvm);
    refused(&output, &["kernel add", "no answer within 0.1 s", "REFLEX_CODEGEN_TIMEOUT"]);
    // Where Cranelift's kernels come first, they stay.
    let output = reflex_with(dir.path(), &["run", "add.onnx", "--warm-up"], &variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no answer within 0.1 s"), "{said}");
}

/// Every prefix of a model is refused or runs; none crashes.
#[test]
fn truncated_models_never_crash() {
    let dir = folder();
    let bytes = common::add();
    for length in (0..bytes.len()).step_by(7) {
        std::fs::write(dir.path().join("cut.onnx"), &bytes[..length]).expect("writes");
        let output = reflex(dir.path(), &["info", "cut.onnx"]);
        let code = output.status.code().expect("no signal");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(code == 0 || (code == 2 && error.contains("cut.onnx")), "{length}: {error}");
    }
}

#[test]
fn inspect_shows_every_form() {
    let dir = folder();
    let shown = |args: &[&str]| {
        let output = reflex(dir.path(), &[&["inspect", "add.onnx"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(shown(&["--text"]).contains("@main:"));
    assert!(shown(&["--python"]).contains("ExecBuilder"));
    assert!(shown(&["--stats"]).contains("main"));
    assert!(shown(&["--script"]).contains("R.add("));
    assert!(shown(&["--after", "simplify"]).contains("R.add(x, b)"));
    assert!(shown(&["--after", "lower"]).contains("T.vectorized"));
    assert!(shown(&["--schedule", "add"]).contains(": elementwise"));
    assert!(shown(&["--asm", "add"]).contains("vaddps"));
    let tiers = shown(&["--tiers"]);
    assert!(tiers.contains("main: ") && tiers.contains("entry: recorded 1 times"), "{tiers}");
    let compiled = reflex(dir.path(), &["compile", "add.onnx", "-o", "add.so"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = reflex(dir.path(), &["inspect", "add.so", "--asm", "add"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("vaddps"));
    refused(&reflex(dir.path(), &["inspect", "add.so", "--asm", "sub"]), &["add.so", "sub", "add"]);
    refused(&reflex(dir.path(), &["inspect", "add.onnx", "--after", "magic"]), &["magic", "fuse"]);
    refused(&reflex(dir.path(), &["inspect", "add.onnx", "--asm", "sub"]), &["sub", "add"]);
    refused(&reflex(dir.path(), &["inspect", "add.onnx", "--schedule", "sub"]), &["sub", "add"]);
}

/// `--tiers` says per function what was counted, traced, left, compiled, evicted and why not, as
/// text and as JSON; `--tiers-code` adds traces and assembly.
#[test]
fn inspect_shows_what_tiers_do() {
    let dir = folder();
    let shown = |args: &[&str], tier: &str| {
        let always = ["inspect", "add.onnx", "--runs", "40", "--tier", tier];
        let output = reflex(dir.path(), &[&always, args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let json = |args: &[&str], tier: &str| -> serde_json::Value {
        serde_json::from_str(&shown(&[args, &["--json"]].concat(), tier)).expect("JSON")
    };
    let site = |tiers: &serde_json::Value| tiers["code"]["functions"][0]["sites"][0].clone();
    let counted = site(&json(&["--tiers"], "threshold=50"));
    assert_eq!(counted["arrivals"], serde_json::json!([40, 50]));

    let eager = "threshold=5,compile=sync";
    let text = shown(&["--tiers-code"], eager);
    let lines =
        ["entry: trace with", "guards, ", " bytes, ran ", "trace main@0", "exit0: main@", "ret"];
    for part in lines.iter().chain(&["code: 4096 bytes of at most 67108864, 0 pieces evicted"]) {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!shown(&["--tiers"], eager).contains("trace main@0"));
    let traced = site(&json(&["--tiers-code"], eager));
    let trace = &traced["traces"][0];
    assert!(trace["assembly"].as_str().is_some_and(|code| code.contains("ret")), "{trace}");
    assert!(trace["exits"].as_array().is_some_and(|exits| !exits.is_empty()), "{trace}");
    let texts = |key: &str| trace[key].as_array().map_or(0, Vec::len);
    assert!(trace["recorded"].as_str().is_some_and(|text| text.contains("main@0")), "{trace}");
    assert!(texts("passes") > 0, "{trace}");
    assert!(trace["runs"].as_u64() > Some(30) && trace["code_bytes"].as_u64() > Some(0), "{trace}");
    assert_eq!((&traced["recorded"], &traced["evicted"]), (&1.into(), &0.into()));
    assert!(
        json(&["--tiers"], eager)["code"]["functions"][0]["sites"][0]["traces"][0]
            .get("assembly")
            .is_none()
    );

    let full = site(&json(&["--tiers"], "threshold=5,compile=sync,code-cache=0"));
    assert!(full["not_compiled"]["code-memory-full"].as_u64() > Some(0), "{full}");
    let methods = json(&["--tiers-code", "--mode", "compiled"], eager);
    let method = &methods["code"]["functions"][0]["methods"][0];
    assert!(method["assembly"].as_str().is_some_and(|code| code.contains("ret")), "{method}");
    assert_eq!(json(&["--tiers"], "off")["off"], true);
    refused(&reflex(dir.path(), &["inspect", "add.onnx", "--json"]), &["--json", "--tiers"]);
}

/// When code is compiled is up to the policy: a flag, or the environment.
#[test]
fn tier_policies_are_followed() {
    let dir = folder();
    let inspect = |args: &[&str], variable: &str| {
        let all = [&["inspect", "add.onnx", "--tiers", "--runs", "40"], args].concat();
        Command::new(env!("CARGO_BIN_EXE_reflex"))
            .args(all)
            .current_dir(dir.path())
            .env("REFLEX_CACHE", dir.path().join("cache"))
            .env("REFLEX_TIER", variable)
            .output()
            .expect("the command runs")
    };
    let text = |output: &Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let usual = text(&inspect(&[], ""));
    assert!(usual.contains("entry: hot counter at 40 of 50"), "{usual}");
    let eager = "threshold=5,compile=sync";
    for eager in [inspect(&["--tier", eager], ""), inspect(&[], eager)] {
        let eager = text(&eager);
        assert!(eager.contains("entry: trace with") && eager.contains("guards"), "{eager}");
    }
    let off = text(&inspect(&["--tier", "off"], eager));
    assert!(off.contains("tiering is off") && !off.contains("trace"), "{off}");
    let full = text(&inspect(&["--tier", "threshold=5,compile=sync,code-cache=0"], ""));
    assert!(full.contains("not compiled: code-memory-full"), "{full}");
    refused(&inspect(&["--tier", "speed=9"], ""), &["--tier", "speed"]);
    refused(&inspect(&[], "code-cache=9X"), &["REFLEX_TIER", "9X"]);
}

/// A deployed program starts compiled: the code of its functions is in the library.
#[test]
fn a_compiled_library_brings_its_machine_code() {
    let dir = folder();
    assert!(reflex(dir.path(), &["compile", "add.onnx", "-o", "add.so"]).status.success());
    let inspect = |file: &str, args: &[&str]| {
        let output = reflex(dir.path(), &[&["inspect", file], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let stats = inspect("add.so", &["--stats"]);
    assert!(stats.contains("Machine code of VM functions"), "{stats}");
    assert!(stats.contains(": 1 functions"), "{stats}");
    for mode in ["compiled", "tiered"] {
        let tiers = inspect("add.so", &["--tiers", "--mode", mode, "--runs", "200"]);
        assert!(tiers.contains("  saved code"), "{tiers}");
        assert!(tiers.contains("translated: 0 machine functions"), "{tiers}");
        let sync = ["--tiers", "--mode", mode, "--runs", "200", "--tier", "compile=sync"];
        let made = inspect("add.onnx", &sync);
        assert!(!made.contains("saved code") && !made.contains("translated: 0"), "{made}");
    }
    // Other code in its place is not run: the program is compiled as any other, and says why.
    let mut library = std::fs::read(dir.path().join("add.so")).expect("was written");
    let level = library.windows(6).position(|bytes| bytes == b"x86-64").expect("a level");
    library[level..level + 6].copy_from_slice(b"riscv9");
    std::fs::write(dir.path().join("other.so"), &library).expect("writes");
    let tiers = inspect("other.so", &["--tiers", "--mode", "compiled", "--runs", "2"]);
    assert!(tiers.contains("not used, since it was made for riscv9"), "{tiers}");
    assert!(tiers.contains("  method, ") && !tiers.contains("  saved code"), "{tiers}");
    assert!(inspect("other.so", &["--stats"]).contains("not used, since"), "stats");
}

#[test]
fn a_reader_that_has_enough_ends_the_command_quietly() {
    let dir = folder();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["info", "add.onnx"]).current_dir(dir.path()).stdout(writer);
    let output =
        command.stderr(std::process::Stdio::piped()).spawn().and_then(|c| c.wait_with_output());
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Shapes that are named at compile time get functions of their own in the library.
#[test]
fn known_shapes_are_compiled_ahead_of_time() {
    let dir = folder();
    let shapes = ["--shape", "x=2x3,b=3", "--shape", "x=8x3"];
    let compiled =
        reflex(dir.path(), &[&["compile", "add.onnx", "-o", "add.so"][..], &shapes[..]].concat());
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let info = json(&reflex(dir.path(), &["info", "add.so", "--json"]));
    assert_eq!(info["variants"], serde_json::json!(["main([2, 3], [3])", "main([8, 3], [3])"]));
    for (shape, why) in [("x=2", "2 dimensions"), ("x=2x4", "not 4"), ("y=2x3", "no function")] {
        let args = ["compile", "add.onnx", "-o", "other.so", "--shape", shape];
        refused(&reflex(dir.path(), &args), &["add.onnx", why]);
    }
    let malformed = reflex(dir.path(), &["compile", "add.onnx", "-o", "o.so", "--shape", "x=2,3"]);
    refused(&malformed, &["NAME=1x3x224x224"]);
}

#[test]
fn verbose_commands_say_what_they_compile() {
    let dir = folder();
    let said = |args: &[&str]| {
        let output = reflex(dir.path(), args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let compile = ["compile", "add.onnx", "-o", "add.so"];
    assert!(!said(&compile).contains("INFO"));
    let cached = said(&[&["-v"], &compile[..]].concat());
    assert!(cached.contains("INFO compiled kernels=1 cached=1"), "{cached}");
    let shape = ["--shape", "x=5x3"];
    let generated = said(&[&compile[..], &shape[..], &["-vv"]].concat());
    assert!(generated.contains("DEBUG kernel generated kernel="), "{generated}");
}

#[test]
fn filters_of_logs_select_levels_and_mistakes_in_them_are_said() {
    let dir = folder();
    let said = |filters: &str| {
        let compile = ["compile", "add.onnx", "-o", "add.so"];
        let output = reflex_with(dir.path(), &compile, &[("REFLEX_LOG", Path::new(filters))]);
        assert!(output.status.success(), "{filters}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(said("warn,reflex=debug").contains("DEBUG kernel generated"));
    assert!(said("info").contains("INFO compiled"));
    assert!(!said("reflex=warn,debug").contains("INFO compiled"));
    let wrong = said("reflex=loud");
    assert!(
        wrong.starts_with("REFLEX_LOG=reflex=loud: ") && wrong.contains("such as `debug`"),
        "{wrong}"
    );
}

/// The code generator is needed by the first kernel that is not in the cache, and by none before.
#[test]
fn a_model_whose_kernels_are_cached_needs_no_compiler() {
    let dir = folder();
    let run = |codegen: Option<&str>, cache: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(["run", "add.onnx", "--shape", "x=1x3", "--seed", "5", "--json"]);
        command.current_dir(dir.path()).env("REFLEX_CACHE", dir.path().join(cache));
        codegen.map(|path| command.env("REFLEX_CODEGEN", path));
        command.output().expect("the command runs")
    };
    let missing = Some("/nonexistent/reflex-codegen");
    let answers = [None, missing].map(|codegen| json(&run(codegen, "cache"))["outputs"].clone());
    assert_eq!(answers[0], answers[1]);
    let refused = run(missing, "empty");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("/nonexistent/reflex-codegen: No such file"), "{said}");
}

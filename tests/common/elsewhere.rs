//! Programs that are compiled here and run elsewhere: the cases, and the comparison with what x86-64-v3 answers, bit for
//! bit. Of the C library's functions (sin, pow, ...) that kernels call, each system has its own, so what calls them is not
//! among the cases.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use reflex::{Engine, EngineBuilder, KernelGenerator, Level, Mode, TierPolicy};

use crate::noise;

pub fn builder() -> EngineBuilder {
    let mut policy = TierPolicy::default();
    policy.kernels = KernelGenerator::Best;
    Engine::builder().tier(policy)
}

pub fn engine(levels: &[Level]) -> Engine {
    builder().levels(levels.iter().copied()).build().expect("an engine")
}

/// The lines that `bits` prints for each library. The command ends where its arguments are to follow.
pub fn run(mut bits: Command, libraries: &[PathBuf]) -> Vec<Vec<String>> {
    let output = bits.arg("bytecode").args(libraries).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{bits:?}: {}\n{text}\n{error}", output.status);
    let mut all = vec![];
    for line in text.lines() {
        match line.strip_prefix("library ") {
            Some(_) => all.push(vec![]),
            None => all.last_mut().expect("a library first").push(line.to_owned()),
        }
    }
    assert_eq!(all.len(), libraries.len(), "{text}");
    all
}

pub fn made<T>(model: &Path, result: reflex::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}: {error}", model.display()))
}

/// Compiles each model for x86-64-v3, whose answers are the expected ones, and for other levels into one library. Compares
/// what `bits` answers by each command, which is of the level beside it.
pub fn same_bits(
    models: &[PathBuf],
    levels: &[Level],
    extension: &str,
    commands: impl IntoIterator<Item = (Level, Command)>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut libraries, mut expected) = (vec![], vec![]);
    for (n, model) in models.iter().enumerate() {
        let here = made(model, engine(&[Level::V3]).load(model.as_path()));
        expected.push(noise::lines(&here, Mode::Bytecode));
        let path = folder.path().join(format!("{n}.{extension}"));
        let there = made(model, engine(levels).load(model.as_path()));
        made(model, there.save(&path));
        libraries.push(path);
    }
    for (level, command) in commands {
        let answers = run(command, &libraries);
        for ((model, expected), answer) in models.iter().zip(&expected).zip(&answers) {
            assert_eq!(answer, expected, "{} for {level}", model.display());
            all_are_outputs(model, expected);
        }
    }
}

/// The line of an output ends in its bits, where that of an error has text.
pub fn all_are_outputs(model: &Path, lines: &[String]) {
    let is_output = |line: &String| {
        line.rsplit(' ').next().is_some_and(|bits| u64::from_str_radix(bits, 16).is_ok())
    };
    assert!(!lines.is_empty() && lines.iter().all(is_output), "{}: {lines:#?}", model.display());
}

pub fn of_folder(folder: &Path, extension: &str) -> BTreeMap<String, PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path());
    let wanted = files.filter(|path| path.extension().is_some_and(|e| e == extension));
    wanted.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

/// Text tests that need others' help to load, inputs that are not made here (one asserts what its input is), or
/// the C library.
const LEFT_OUT: [&str; 5] = ["allocations", "casts", "generate", "kernels", "unary"];

/// The modules of operators among the text tests.
pub fn modules() -> Vec<PathBuf> {
    let mut modules = of_folder(Path::new("tests/filetests/relax"), "py");
    modules.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    modules.into_values().collect()
}

/// Writes the modules of [`RULES`].
pub fn rules(folder: &Path) -> Vec<PathBuf> {
    let write = |(name, arguments, body): &(&str, &str, &str)| {
        let text = format!(
            "from tvm.script import ir as I\nfrom tvm.script import relax as R\n\n@I.ir_module\n\
             class Module:\n    @R.function\n    def main({arguments}):\n        y = {body}\n        return y\n"
        );
        let path = folder.join(format!("{name}.py"));
        std::fs::write(&path, text).expect("writable");
        path
    };
    RULES.iter().map(write).collect()
}

const RULES: [(&str, &str, &str); 15] = [
    (
        "gemm",
        r#"a: R.Tensor((37, 129), "float32"), b: R.Tensor((129, 70), "float32")"#,
        "R.nn.relu(R.matmul(a, b))",
    ),
    (
        "gemm_f64",
        r#"a: R.Tensor((9, 33), "float64"), b: R.Tensor((33, 17), "float64")"#,
        "R.matmul(a, b)",
    ),
    (
        "gemm_f16",
        r#"a: R.Tensor((21, 65), "float16"), b: R.Tensor((65, 34), "float16")"#,
        "R.matmul(a, b)",
    ),
    (
        "gemm_bf16",
        r#"a: R.Tensor((21, 65), "bfloat16"), b: R.Tensor((65, 34), "bfloat16")"#,
        "R.matmul(a, b)",
    ),
    (
        "conv",
        r#"x: R.Tensor((1, 19, 17, 15), "float32"), w: R.Tensor((40, 19, 3, 3), "float32")"#,
        "R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])",
    ),
    (
        "winograd",
        r#"x: R.Tensor((1, 64, 26, 26), "float32"), w: R.Tensor((64, 64, 3, 3), "float32")"#,
        "R.nn.conv2d(x, w, padding=[1, 1, 1, 1])",
    ),
    (
        "depthwise",
        r#"x: R.Tensor((1, 48, 21, 21), "float32"), w: R.Tensor((48, 1, 3, 3), "float32")"#,
        "R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=48)",
    ),
    ("softmax", r#"x: R.Tensor((7, 131), "float32")"#, "R.nn.softmax(x, axis=-1)"),
    ("rows", r#"x: R.Tensor((5, 1027), "float32")"#, "R.sum(x, axis=[-1])"),
    ("columns", r#"x: R.Tensor((103, 71), "float32")"#, "R.mean(x, axis=[0])"),
    ("greatest", r#"x: R.Tensor((9, 83), "float32")"#, "R.max(x, axis=[-1])"),
    ("gelu", r#"x: R.Tensor((11, 77), "float32")"#, "R.nn.gelu(R.tanh(R.exp(x)))"),
    ("half_softmax", r#"x: R.Tensor((7, 131), "float16")"#, "R.nn.softmax(x, axis=-1)"),
    (
        "bytes",
        r#"a: R.Tensor((13, 68), "int8"), b: R.Tensor((68, 35), "int8")"#,
        r#"R.matmul(a, b, out_dtype="int32")"#,
    ),
    (
        "unsigned_bytes",
        r#"a: R.Tensor((13, 68), "uint8"), b: R.Tensor((68, 35), "uint8")"#,
        r#"R.matmul(R.astype(a, "int32"), R.astype(b, "int32"))"#,
    ),
];

pub const MODELS: [&str; 5] =
    ["magika", "oww_hey_jarvis", "ppocr_cls", "surfaces_mlp", "surfaces_tree"];

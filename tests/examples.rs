//! The examples build and run: in C with the system's compiler, in Rust, and in Python. Those with
//! a model give the same answers in each language, and ONNX Runtime's. Needs REFLEX_MODELS and the
//! Pythons that `./x test` sets up; what is missing is recorded as skipped.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use programs::{run, run_c, run_python, skip};
use reflex::{Engine, EngineBuilder};

#[path = "common/programs.rs"]
mod programs;

macro_rules! examples { ($($name:ident $path:literal)*) => { $(
    #[allow(dead_code)] // its `main`
    #[path = $path]
    mod $name;
)* } }
examples! {
    classify "../examples/classify.rs"
    embed "../examples/embed.rs"
    mlp "../examples/mlp.rs"
    ocr "../examples/ocr.rs"
    vad "../examples/vad.rs"
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The model of the examples as a library, so that they need no compiler.
fn model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-mlp.so");
        let engine = Engine::builder().build().expect("an engine");
        let script = root().join("tests/filetests/relax/mlp.py");
        engine.load(&script).expect("compiles").save(&path).expect("saves");
        path
    })
}

#[test]
fn the_c_example_builds_and_runs() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-mlp-c");
    let said = run_c(&root().join("examples/mlp.c"), &program, &[model()]);
    assert!(said.contains("InternalError: `main` expects 2 arguments"), "{said}");
    assert!(said.contains("warm after 21 calls"), "{said}");
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn the_header_is_c_plus_plus_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        return programs::skip::skip("a C++ compiler");
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.cc");
    std::fs::write(&source, "#include \"reflex.h\"\nReflexValue v = reflex_int(1);\n")
        .expect("writes");
    run(Command::new("c++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(source));
}

#[test]
fn the_rust_example_runs() {
    mlp::run(model()).expect("the example runs");
}

#[test]
fn the_python_example_runs() {
    let example = root().join("examples/mlp.py");
    let Some(said) = run_python(&[&example, model()]) else { return };
    assert!(said.ends_with("done\n"), "{said}");
}

/// An example in Rust, called with the arguments of its command line.
type Example = fn(&[String], &mut dyn Write) -> Result<(), Box<dyn Error>>;

/// The files and programs that an example with a model needs.
struct Setting {
    name: &'static str,
    model: PathBuf,
    /// The model compiled.
    library: PathBuf,
    /// The files that `tests/examples/media.py` wrote.
    folder: PathBuf,
}

impl Setting {
    fn new(name: &'static str, model: &str, builder: EngineBuilder) -> Option<Setting> {
        let models = PathBuf::from(skip::variable("REFLEX_MODELS")?);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("examples-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        run(Command::new("python3").arg(root().join("tests/examples/media.py")).arg(&folder));
        let model = models.join(format!("{model}.onnx"));
        let library = folder.join("model.so");
        let program = builder.build().and_then(|engine| engine.load(&model)).expect("compiles");
        program.save(&library).expect("saves");
        let info = Engine::info(&model).expect("a model");
        for (_, lines) in info.metadata.iter().filter(|(key, _)| key == "character") {
            std::fs::write(folder.join("character.txt"), lines).expect("writes");
        }
        Some(Setting { name, model, library, folder })
    }

    /// The answers in Rust, which those in Python and in C (where there is an example) equal to the
    /// letter, and those of ONNX Runtime but for rounding.
    fn answers(&self, rust: Example, args: &[&str]) -> String {
        let library = self.library.display().to_string();
        let args: Vec<String> = args.iter().map(|arg| self.argument(arg)).collect();
        let mut out = vec![];
        rust(&[&[library], &args[..]].concat(), &mut out).expect("the example in Rust runs");
        let answers = String::from_utf8(out).expect("UTF-8");

        let paths: Vec<&Path> = args.iter().map(Path::new).collect();
        let [python, c] = ["py", "c"].map(|e| root().join(format!("examples/{}.{e}", self.name)));
        let of = |model| [&[model], &paths[..]].concat();
        if let Some(said) = run_python(&[&[python.as_path()], &of(&self.library)[..]].concat()) {
            assert_eq!(said, answers, "Python and Rust");
        }
        if c.exists() {
            let said = run_c(&c, &self.folder.join("program"), &of(&self.library));
            assert_eq!(said, answers, "C and Rust");
        }
        if let Some(reference) = skip::variable("REFLEX_ORT_PYTHON") {
            let mut command = Command::new(reference);
            command.arg(python).args(of(&self.model));
            assert_close(&answers, &run(command.env("PYTHONPATH", root().join("tests/examples"))));
        }
        answers
    }

    /// An argument, which is a file where there is one of that name.
    fn argument(&self, text: &str) -> String {
        let file = self.folder.join(text);
        if file.exists() { file.display().to_string() } else { text.to_owned() }
    }
}

/// Answers are the same words, with numbers that differ by a thousandth at most.
fn assert_close(answers: &str, expected: &str) {
    assert_eq!(answers.lines().count(), expected.lines().count(), "{answers}{expected}");
    for (answer, expected) in answers.split_whitespace().zip(expected.split_whitespace()) {
        let close = match (answer.parse::<f64>(), expected.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 0.001_000_1,
            _ => answer == expected,
        };
        assert!(close, "{answer} is not {expected}");
    }
}

#[test]
fn speech_is_found_where_the_voice_is() {
    let Some(setting) = Setting::new("vad", "silero_vad", Engine::builder()) else { return };
    let said = setting.answers(vad::run, &["voice.wav"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    for (line, from, to) in [(0, 1.0, 2.5), (1, 4.0, 5.0)] {
        let line = said.lines().nth(line).expect("two lines");
        let found: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!((found[0] - from).abs() < 0.2 && (found[1] - to).abs() < 0.2, "{line}");
    }
}

#[test]
fn sentences_that_mean_the_same_are_close() {
    let builder = Engine::builder();
    let Some(setting) = Setting::new("embed", "minilm_l3_fp32", builder) else { return };
    let sentences = [
        "vocab.txt",
        "That is a happy person.",
        "That is a very happy person.",
        "That is a happy dog!",
        "Today is a sunny day",
        "Persons, unknown",
    ];
    let said = setting.answers(embed::run, &sentences);
    let same = setting.answers(embed::run, &[&["tokenizer.json"], &sentences[1..]].concat());
    assert_eq!(same, said);
    let cosines: Vec<f64> = said.lines().map(|line| line[..5].parse().expect("a number")).collect();
    assert!(cosines[0] > 0.9 && cosines[0] > cosines[1] && cosines[1] > cosines[2], "{said}");
}

#[test]
fn digits_are_read_at_every_width() {
    let builder = Engine::builder().shapes([("x", vec![1, 3, 48, 64])]);
    let Some(setting) = Setting::new("ocr", "ppocr4_rec", builder) else { return };
    let said = setting.answers(ocr::run, &["character.txt", "line.ppm"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 50);
    assert!(lines[49].starts_with("464: 0741852963074185296"), "{said}");
}

#[test]
fn pages_are_told_from_turned_ones() {
    let builder = Engine::builder();
    let Some(setting) = Setting::new("classify", "pplcnet_orient", builder) else { return };
    for (page, class) in [("page.ppm", "0"), ("turned.ppm", "180")] {
        let said = setting.answers(classify::run, &["character.txt", page]);
        let best = said.lines().next().expect("an answer");
        assert!(best.starts_with("0.9") && best.ends_with(&format!(" {class}")), "{said}");
    }
}

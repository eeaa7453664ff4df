//! Programs that are compiled here for AArch64 give there the bits that they give on x86-64-v3.
//!
//! `REFLEX_AARCH64` names the program `bits` of `tests/place`, cross-compiled; qemu runs it, as each CPU
//! that a level is for. `REFLEX_AARCH64_COMMAND` names the command `reflex` for there, whose server takes
//! what clients here compile for it. `./x aarch64` makes both.

#[path = "common/elsewhere.rs"]
mod elsewhere;
#[path = "place/noise.rs"]
mod noise;
#[path = "common/skip.rs"]
mod skip;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use elsewhere::{MODELS, all_are_outputs, builder, engine, made, modules, of_folder, rules, run};
use reflex::remote::{Endpoint, Server};
use reflex::{Engine, Level, Mode};

/// A CPU of each level that has no more than that.
const CPUS: [(Level, &str); 3] =
    [(Level::Armv8, "cortex-a53"), (Level::Armv8Dot, "cortex-a76"), (Level::Armv8I8mm, "max")];

/// Names the command `reflex`, and a static one.
const COMMAND: &str = "REFLEX_AARCH64_COMMAND";
const STATIC: &str = "REFLEX_AARCH64_STATIC";

/// Where the C library for AArch64 is.
fn root() -> OsString {
    std::env::var_os("REFLEX_AARCH64_ROOT").unwrap_or("/usr/aarch64-linux-gnu".into())
}

/// A program for AArch64 on a CPU of qemu's.
fn emulated(cpu: &str, program: &Path) -> Command {
    let mut command = Command::new("qemu-aarch64");
    command.args(["-cpu", cpu]).arg("-L").arg(root()).arg(program);
    command
}

/// Compiles each model for both architectures, and compares.
fn same_bits(models: &[PathBuf], levels: &[Level]) {
    let Some(bits) = skip::variable("REFLEX_AARCH64") else { return };
    let cpus = CPUS.iter().filter(|(level, _)| levels.contains(level));
    let commands = cpus.map(|(level, cpu)| (*level, emulated(cpu, bits.as_ref())));
    elsewhere::same_bits(models, levels, "so", commands);
}

/// `reflex serve` on AArch64, ended with the test.
struct Serving {
    process: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

/// The starter of the sessions of a server.
enum Start {
    /// The emulator, as it starts the server.
    ByEmulator,
    /// This system, which starts no programs for AArch64 unless binfmt_misc has the emulator.
    ByThisSystem,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Serving {
    /// A server on a CPU of qemu's; none without the command.
    fn start(cpu: &str, start: Start, args: &[&str]) -> Option<Serving> {
        Serving::of(COMMAND, cpu, start, args)
    }

    /// A server by the command that an environment variable names.
    fn of(variable: &str, cpu: &str, start: Start, args: &[&str]) -> Option<Serving> {
        let reflex = PathBuf::from(skip::variable(variable)?);
        let mut command = emulated(cpu, &reflex);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]).args(args);
        if let Start::ByEmulator = start {
            let runner = format!("qemu-aarch64 -cpu {cpu} -L {}", root().to_string_lossy());
            command.args(["--runner", &runner]);
        }
        command.env("REFLEX_CACHE", "off").env_remove("REFLEX_CODEGEN");
        let mut process = command.stdout(Stdio::piped()).spawn().expect("qemu-aarch64 starts");
        let lines = BufReader::new(process.stdout.take().expect("piped"));
        let mut serving = Serving { process, address: String::new(), lines };
        serving.address = serving.report()["listening"].as_str().expect("an address").to_owned();
        Some(serving)
    }

    /// The next line that it prints.
    fn report(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn connect(&self) -> Server {
        let (address, key) = (self.address.clone(), String::new());
        Server::connect(&Endpoint::Server { address, key }).expect("a session")
    }
}

#[test]
fn modules_of_operators_answer_as_on_x86() {
    same_bits(&modules(), &[Level::Armv8]);
}

/// Operators by the rules of schedules: each in a size that has whole vectors and what is left of them.
#[test]
fn every_rule_of_schedules_answers_as_on_x86() {
    let folder = tempfile::tempdir().expect("a folder");
    same_bits(&rules(folder.path()), &Level::AARCH64);
}

#[test]
fn models_answer_as_on_x86() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let path = |name| Path::new(&models).join(format!("{name}.onnx"));
    same_bits(&MODELS.map(path), &[Level::Armv8]);
}

/// ONNX's node cases with integer products in 8 bits, which levels multiply by different instructions.
#[test]
fn integer_products_answer_as_on_x86() {
    let Some(cases) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let names = [
        "test_matmulinteger",
        "test_convinteger_with_padding",
        "test_qlinearmatmul_2D_uint8_float32",
    ];
    let path = |name| Path::new(&cases).join(name).join("model.onnx");
    same_bits(&names.map(path), &Level::AARCH64);
}

/// Compiled here for the CPU of the server, uploaded, run there in every mode.
fn same_bits_at_a_server(variable: &str, models: &[PathBuf], cpus: &[&str]) {
    for cpu in cpus {
        let serving = Serving::of(variable, cpu, Start::ByEmulator, &["--allow-code"]);
        let Some(serving) = serving else { return };
        let server = serving.connect();
        for model in models {
            let here = made(model, engine(&[Level::V3]).load(model.as_path()));
            let expected = noise::lines(&here, Mode::Bytecode);
            all_are_outputs(model, &expected);
            let there = made(model, server.open(builder(), model));
            for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
                let machine = made(model, there.virtual_machine(mode));
                let answer =
                    noise::lines_by(there.program(), |func, call| machine.call(func, call));
                assert_eq!(answer, expected, "{} by {mode} on {cpu}", model.display());
            }
        }
    }
}

#[test]
fn a_server_there_answers_as_on_x86() {
    let folder = tempfile::tempdir().expect("a folder");
    same_bits_at_a_server(COMMAND, &rules(folder.path()), &["cortex-a53", "max"]);
}

#[test]
fn models_at_a_server_there_answer_as_on_x86() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let path = |name| Path::new(&models).join(format!("{name}.onnx"));
    same_bits_at_a_server(COMMAND, &MODELS.map(path), &["cortex-a53"]);
}

/// One file that needs no library of the system, as Android's shell starts it: kernels that call the C library's
/// functions are refused there.
#[test]
fn a_static_server_there_answers_as_on_x86() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rules = rules(folder.path());
    rules.retain(|path| !path.ends_with("gelu.py"));
    same_bits_at_a_server(STATIC, &rules, &["cortex-a53"]);
}

/// `reflex run --remote`, whose files of outputs are those of a run here.
#[test]
fn the_command_runs_models_at_a_server_there() {
    let Some(serving) = Serving::start("max", Start::ByEmulator, &["--allow-code"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let model = rules(folder.path()).into_iter().find(|path| path.ends_with("conv.py"));
    let model = model.expect("a convolution");
    let run = |name: &str, args: &[&str]| {
        let out = folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.arg("run").arg(&model).args([
            "--mode",
            "bytecode",
            "--tier",
            "kernels=best",
            "--out",
        ]);
        let output = command.arg(&out).args(args).output().expect("the command runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {error}");
        let files = of_folder(&out, "npy").into_values();
        files.map(|file| std::fs::read(file).expect("readable")).collect::<Vec<_>>()
    };
    let expected = run("here", &["--levels", "v3"]);
    assert_eq!(expected.len(), 1);
    assert_eq!(run("there", &["--remote", &serving.address]), expected);
}

/// The command there compiles models itself: kernels and VM functions by Cranelift. With the caches of the
/// level the schedules are those of x86-64-v3, so the bits are too.
#[test]
fn kernels_and_functions_that_are_compiled_there_answer_as_on_x86() {
    let Some(reflex) = skip::variable(COMMAND) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // NumPy's files have no bfloat16.
    for model in rules(folder.path()).into_iter().filter(|path| !path.ends_with("gemm_bf16.py")) {
        let run = |mut command: Command, level: &str| {
            let out = model.with_extension(level);
            command.args(["run", "-vv", "--mode", "compiled", "--tier", "kernels=cranelift"]);
            command.args(["--levels", level, "--out"]).arg(&out).arg(&model);
            command.env("REFLEX_CACHE", "off").env_remove("REFLEX_LOG");
            let output = command.output().expect("the command runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{} for {level}: {said}", model.display());
            (
                of_folder(&out, "npy")
                    .into_values()
                    .map(std::fs::read)
                    .map(Result::unwrap)
                    .collect(),
                said,
            )
        };
        let (expected, _): (Vec<Vec<u8>>, _) =
            run(Command::new(env!("CARGO_BIN_EXE_reflex")), "v3");
        let (answer, said) = run(emulated("cortex-a53", reflex.as_ref()), "armv8-a");
        assert!(expected.len() == 1 && answer == expected, "{}", model.display());
        for done in ["kernel generated", "function compiled"] {
            assert!(said.contains(done), "{}: no `{done}` in {said}", model.display());
        }
    }
}

/// ONNX's node cases by Cranelift's kernels in the tiers there.
#[test]
fn node_cases_pass_by_what_is_compiled_there() {
    let Some(cases) = skip::variable("REFLEX_ONNX_CASES") else { return };
    let Some(reflex) = skip::variable(COMMAND) else { return };
    for filter in
        ["test_gemm", "test_conv_", "test_softmax", "test_lstm", "test_qlinear", "test_loop"]
    {
        let mut command = emulated("cortex-a53", reflex.as_ref());
        command.arg("conformance").arg(&cases).args([
            "--tier",
            "kernels=cranelift",
            "--filter",
            filter,
        ]);
        let output = command.env("REFLEX_CACHE", "off").output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains(" pass, 0 fail, "),
            "{filter}: {said}{error}"
        );
    }
}

/// A system that starts no programs for AArch64 by itself starts no sessions either: the report names the remedy.
#[test]
fn a_session_that_is_not_started_is_reported_with_the_remedy() {
    let Some(mut serving) = Serving::start("max", Start::ByThisSystem, &[]) else { return };
    // Where binfmt_misc has the emulator, this system does start them.
    let (address, key) = (serving.address.clone(), String::new());
    let session = Server::connect(&Endpoint::Server { address, key });
    let started = session.is_ok();
    drop(session);
    let report = serving.report();
    let end = report["end"].as_str().expect("how it ended");
    assert!(
        started && end == "ended" || end.contains("--runner COMMAND names what starts it"),
        "{end}"
    );
}

const SMALL: &str = "examples/softmax.py";

/// A library with a program for one level.
fn library(folder: &Path, level: Level) -> PathBuf {
    let path = folder.join(format!("{level}.so"));
    engine(&[level]).load(SMALL).and_then(|program| program.save(&path)).expect("saves");
    path
}

#[test]
fn what_is_for_aarch64_is_saved_here_and_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = engine(&[Level::Armv8]).load(SMALL).expect("compiles");
    let error = there.session(Mode::Bytecode).err().expect("refused").to_string();
    assert!(error.contains("compiled for AArch64, and this process is one for x86-64"), "{error}");
    let path = library(folder.path(), Level::Armv8);
    let bytes = std::fs::read(&path).expect("readable");
    // The machine's number in ELF.
    assert_eq!(bytes[18..20], [183, 0]);
    let error = Engine::new().unwrap().load(&path).err().expect("refused").to_string();
    assert!(error.contains("a library for AArch64, and this process is one for x86-64"), "{error}");
    let error = Engine::new().unwrap().assembly(&path, "softmax").expect_err("refused");
    assert!(error.to_string().contains("assembly of Aarch64 is not shown"), "{error}");
    let error = Engine::builder().levels([Level::V3, Level::Armv8]).build().err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("x86-64-v3 and armv8-a are of two architectures"), "{error}");
}

#[test]
fn what_is_for_x86_is_refused_there_by_name() {
    let Some(bits) = skip::variable("REFLEX_AARCH64") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let libraries = [library(folder.path(), Level::V3)];
    let answers = run(emulated("max", bits.as_ref()), &libraries).concat().join("\n");
    let expected = "a library for x86-64, and this process is one for AArch64";
    assert!(answers.contains(expected), "{answers}");
}

#[test]
fn levels_are_chosen_by_what_the_cpu_has() {
    let Some(bits) = skip::variable("REFLEX_AARCH64") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [library(folder.path(), Level::Armv8Dot)];
    let answers = run(emulated("cortex-a53", bits.as_ref()), &paths).concat().join("\n");
    assert!(answers.contains("compiled for CPUs with dotprod, which this one lacks"), "{answers}");
    let answers = run(emulated("cortex-a76", bits.as_ref()), &paths).concat().join("\n");
    assert!(answers.contains("float32[3, 3]"), "{answers}");
}

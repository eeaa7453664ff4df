//! Programs that are compiled here for WebAssembly give there the bits that they give on x86-64-v3.
//!
//! `REFLEX_WASM` names the program `bits` of `tests/place`, compiled for WASI; Node.js runs it. `REFLEX_WASM_RUNTIME` names
//! the runtime for browsers, which the package in `bindings/web` is over; Chromium shows its page. `./x wasm` makes both.

#[path = "common/elsewhere.rs"]
mod elsewhere;
#[path = "place/noise.rs"]
mod noise;
#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use elsewhere::{MODELS, all_are_outputs, builder, engine, made, modules, rules};
use programs::skip;
use reflex::remote::{Endpoint, Server};
use reflex::{Engine, Level, Mode};

/// Node.js for a level, with the program `bits`.
fn node(level: Level, bits: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg("--no-warnings");
    if level == Level::WasmRelaxed {
        command.arg("--experimental-wasm-relaxed-simd");
    }
    command.arg("tests/wasm/run.mjs").arg(bits);
    command
}

/// Compiles each model for WebAssembly, each level on its own, and compares.
fn same_bits(models: &[PathBuf], levels: &[Level]) {
    let Some(bits) = skip::variable("REFLEX_WASM") else { return };
    for level in levels {
        elsewhere::same_bits(models, &[*level], "wasm", [(*level, node(*level, bits.as_ref()))]);
    }
}

/// Kernels' C functions stand once for objects here and once for the host of a module. The module's code has some of them as
/// instructions, and one more for products of 128 bits.
#[test]
fn modules_may_import_the_functions_that_objects_may() {
    let listed = |text: &'static str| -> BTreeSet<&str> {
        let (_, list) = text.rsplit_once("\nfunctions! {").expect("a list");
        let (list, _) = list.split_once("\n}").expect("its end");
        let before =
            list.match_indices('(').filter_map(|(at, _)| list[..at].rsplit([' ', '\n']).next());
        before
            .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))
            .collect()
    };
    let mut module = listed(include_str!("../src/runtime/library/wasm_code.rs"));
    let mut object = listed(include_str!("../jit/codemem/imports.rs"));
    assert!(module.remove("__multi3") && object.remove("bcmp"));
    for name in
        ["ceil", "copysign", "fabs", "floor", "nearbyint", "rint", "roundeven", "sqrt", "trunc"]
    {
        assert!(object.remove(name) && object.remove(format!("{name}f").as_str()), "{name}");
    }
    assert_eq!(module, object);
}

#[test]
fn artifacts_are_for_one_level_and_are_not_run_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |result: reflex::Result<()>| result.expect_err("refused").to_string();
    let of_two = builder().levels(Level::WASM32).build().map(drop);
    assert!(refused(of_two).contains("an artifact for WebAssembly has one level"));
    let program = engine(&[Level::Wasm]).load("examples/softmax.py").expect("compiles");
    let why = refused(program.save(folder.path().join("softmax.so")).map(drop));
    assert!(why.contains("an artifact for WebAssembly has a name that ends in .wasm"), "{why}");
    let here = engine(&[Level::V3]).load("examples/softmax.py").expect("compiles");
    let why = refused(here.save(folder.path().join("softmax.wasm")).map(drop));
    assert!(why.contains("an artifact for x86-64 has a name that ends in .so"), "{why}");
    let module = folder.path().join("module.wasm");
    std::fs::write(&module, b"\0asm\x01\0\0\0 and more").expect("writes");
    let why = refused(Engine::new().expect("an engine").load(module.as_path()).map(drop));
    assert!(why.contains("a module for WebAssembly, and this process is one for"), "{why}");
    let models = rules(folder.path());
    let half = models.iter().find(|path| path.ends_with("gemm_f16.py")).expect("a model");
    let why = refused(engine(&[Level::Wasm]).load(half.as_path()).map(drop));
    assert!(why.contains("float16 needs a CPU with F16C or NEON"), "{why}");
}

#[test]
fn modules_of_operators_answer_as_on_x86() {
    same_bits(&modules(), &[Level::Wasm]);
}

/// Operators by the rules of schedules: each in a size that has whole vectors and what is left of them.
#[test]
fn every_rule_of_schedules_answers_as_on_x86() {
    let folder = tempfile::tempdir().expect("a folder");
    same_bits(&supported_rules(folder.path()), &Level::WASM32);
}

/// The modules but those of float16, which is refused.
fn supported_rules(folder: &Path) -> Vec<PathBuf> {
    let mut rules = rules(folder);
    rules
        .retain(|path| !["gemm_f16.py", "half_softmax.py"].iter().any(|name| path.ends_with(name)));
    rules
}

#[test]
fn models_answer_as_on_x86() {
    let Some(models) = skip::variable("REFLEX_MODELS") else { return };
    let path = |name| Path::new(&models).join(format!("{name}.onnx"));
    same_bits(&MODELS.map(path), &Level::WASM32);
}

/// The runtime for browsers and the packages that it needs, in a folder that a web server may show.
fn site() -> Option<tempfile::TempDir> {
    let runtime = skip::variable("REFLEX_WASM_RUNTIME")?;
    let (site, package) = (tempfile::tempdir().expect("a folder"), Path::new("bindings/web"));
    for file in ["package.json", "reflex.mjs", "host.mjs", "example.html"] {
        std::fs::copy(package.join(file), site.path().join(file)).expect("copies");
    }
    std::fs::copy(runtime, site.path().join("reflex.wasm")).expect("copies");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock"]).current_dir(site.path());
    programs::run(&mut npm);
    Some(site)
}

/// Compiles a model for a level of WebAssembly.
fn compile(model: &str, level: Level, to: &Path) {
    let program = engine(&[level]).load(model).expect("compiles");
    program.save(to).expect("saves");
}

#[test]
fn the_package_passes_its_tests() {
    let Some(site) = site() else { return };
    let tests = site.path().join("test");
    std::fs::create_dir(&tests).expect("a folder");
    let file = "bindings/web/test/reflex.test.mjs";
    std::fs::copy(file, tests.join("reflex.test.mjs")).expect("copies");
    compile("bindings/web/test/values.py", Level::Wasm, &site.path().join("values.wasm"));
    let mut node = Command::new("node");
    node.args(["--test", "test/"]).current_dir(site.path());
    node.env("REFLEX_WASM_RUNTIME", site.path().join("reflex.wasm"));
    let said = programs::run(node.env("REFLEX_WASM_MODELS", site.path()));
    print!("{said}");
    assert!(said.contains("# fail 0"), "{said}");
}

/// A process that ends with the test, and the first line that it printed.
struct Started {
    process: Child,
    line: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Started {
    fn new(command: &mut Command) -> Started {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        Started { process, line }
    }

    /// Python's web server for a folder, and its address.
    fn web_server(folder: &Path) -> (Started, String) {
        let mut python = Command::new("python3");
        python.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]);
        let server = Started::new(python.arg(folder).stderr(Stdio::null()));
        // Serving HTTP on 127.0.0.1 port 40001 (http://127.0.0.1:40001/) ...
        let address = server.line.split(['(', ')']).nth(1).expect("an address").to_owned();
        (server, address)
    }
}

/// Chromium without a window.
fn chromium(profile: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display())).stderr(Stdio::null());
    command
}

#[test]
fn a_page_runs_an_artifact() {
    let Some(site) = site() else { return };
    let (_server, address) = Started::web_server(site.path());
    let profile = tempfile::tempdir().expect("a folder");
    for level in Level::WASM32 {
        compile("examples/softmax.py", level, &site.path().join("model.wasm"));
        let mut browser = chromium(profile.path());
        browser.args(["--virtual-time-budget=20000", "--dump-dom"]);
        let page = programs::run(browser.arg(format!("{address}example.html?model=model.wasm")));
        let expected = "[2,3] 0.705385 0.259496 0.035119 0.090031 0.244728 0.665241";
        assert!(page.contains(expected), "{level}: {page}");
    }
}

/// A page as a server: our client compiles for it, uploads, calls, and gets the bits of x86-64-v3.
#[test]
fn a_page_serves_clients() {
    let Some(site) = site() else { return };
    let (_server, address) = Started::web_server(site.path());
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_reflex"));
    proxy.args(["rpc-proxy", "--json", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"]);
    let proxy = Started::new(&mut proxy);
    let said: serde_json::Value = serde_json::from_str(&proxy.line).expect("JSON");
    let (clients, web) = (said["listening"].as_str().unwrap(), said["web"].as_str().unwrap());
    let port = web.trim_end_matches("/ws").rsplit(':').next().expect("a port");
    let profile = tempfile::tempdir().expect("a folder");
    let mut browser = chromium(profile.path());
    browser.arg(format!("{address}example.html?serve={port}&key=page")).stdout(Stdio::null());
    let _browser = Ended(browser.spawn().expect("starts"));
    let connect = || {
        let endpoint = Endpoint::Server { address: clients.to_owned(), key: "page".to_owned() };
        Server::connect(&endpoint).expect("a session")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let server = connect();
    for model in supported_rules(folder.path()) {
        let here = made(&model, engine(&[Level::V3]).load(model.as_path()));
        let expected = noise::lines(&here, Mode::Bytecode);
        all_are_outputs(&model, &expected);
        let there = made(&model, server.open(builder(), &model));
        let machine = made(&model, there.virtual_machine(Mode::Bytecode));
        let answer = noise::lines_by(there.program(), |func, call| machine.call(func, call));
        assert_eq!(answer, expected, "{}", model.display());
    }
    drop(server);
    // The page serves the next client, with a session of its own.
    let error = connect().open(builder(), "no/such.py".as_ref()).err().expect("no file");
    assert!(error.to_string().contains("no/such.py"), "{error}");
    if let Some(python) = skip::variable("REFLEX_TVM_PYTHON") {
        let artifact = folder.path().join("softmax.wasm");
        compile("examples/softmax.py", Level::Wasm, &artifact);
        let mut client = Command::new(python);
        client.args(["tests/wasm/client.py", clients, "page"]).arg(artifact);
        assert_eq!(programs::run(&mut client), "near\n");
    }
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

//! `reflex serve` and `reflex tracker` as processes: what TVM's server lets happen does not happen, a
//! session that dies ends alone, and each side works with TVM's.

#![allow(clippy::duplicate_mod, reason = "two helpers record skips")]

#[path = "common/programs.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod programs;
#[path = "rpc/secure.rs"]
mod secure;
#[path = "common/tvm.rs"]
mod tvm;
#[path = "common/tvm_modules.rs"]
mod tvm_modules;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reflex::{DType, Tensor};
use reflex_rpc::client::{RemoteModule, RemoteSession, RemoteValue};
use reflex_rpc::handshake::{self, Greeting};
use reflex_rpc::tracker::client::TrackerClient;
use reflex_rpc::wire::item::{Item, TensorRef};
use reflex_runtime::abi::DLDevice;
use serde_json::Value;

/// A process that listens, ended with the test.
struct Listening {
    process: Child,
    address: String,
    lines: BufReader<std::process::ChildStdout>,
    _cache: tempfile::TempDir,
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Listening {
    fn start(args: &[&str]) -> Listening {
        let cache = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        command.args(args).arg("--json");
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.env("REFLEX_CACHE", cache.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the command runs");
        let lines = BufReader::new(process.stdout.take().expect("piped"));
        let mut listening = Listening { process, address: String::new(), lines, _cache: cache };
        let first = listening.report();
        listening.address = first["listening"].as_str().expect("an address").to_owned();
        listening
    }

    /// The next line that it prints: the end of a session.
    fn report(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn connect(&self) -> RemoteSession {
        connect(&self.address, None)
    }

    /// The processes of its sessions.
    fn sessions(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("tasks");
        let children = tasks.map(|task| task.expect("a task").path().join("children"));
        let read = children.map(|file| std::fs::read_to_string(file).unwrap_or_default());
        let ids: Vec<String> = read.collect();
        ids.join(" ").split_whitespace().map(str::to_owned).collect()
    }
}

fn connect(address: &str, timeout: Option<Duration>) -> RemoteSession {
    let greeting = Greeting { key: String::new(), timeout };
    RemoteSession::connect(address, &greeting).expect("a session")
}

/// The virtual machine of a program of the session.
fn virtual_machine(session: &RemoteSession, name: &str) -> RemoteModule {
    let program = session.load_module(name).expect("a program");
    let load = program.require("vm_load_executable").expect("a function");
    load.call(&[]).expect("a session").module().expect("a module")
}

fn x() -> Tensor {
    Tensor::from_slice(&[2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]).expect("a tensor")
}

fn script() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/softmax.py"))
}

#[test]
fn an_uploaded_model_is_compiled_and_run_there() {
    let server = Listening::start(&["serve"]);
    let session = server.connect();
    assert_eq!(
        session.upload(script(), "softmax.py").expect("uploads").size,
        script().metadata().expect("a file").len()
    );
    let vm = virtual_machine(&session, "softmax.py");
    let remote = session.to_remote(&Tensor::from_slice(&[1, 2], &[8.0_f32, 8.0]).expect("two"));
    let remote = remote.expect("a tensor");
    let main = vm.require("main").expect("a function");
    let RemoteValue::Tensor(y) = main.call(&[remote.item()]).expect("a result") else {
        panic!("not a tensor")
    };
    let y = y.to_local().expect("a tensor").to_vec::<f32>().expect("floats");
    assert_eq!(y, [0.5, 0.5]);
    // Stored inputs and outputs, in one round trip.
    let functions = ["set_input", "invoke_stateful", "get_output"]
        .map(|name| vm.require(name).expect("a function"));
    let name = || Item::text("main");
    let calls = [
        (&functions[0], vec![name(), remote.item()]),
        (&functions[1], vec![name()]),
        (&functions[2], vec![name()]),
    ];
    let mut results = session.pipeline(&calls).expect("answers");
    let Some(Ok(RemoteValue::Tensor(y))) = results.pop() else { panic!("not a tensor") };
    assert_eq!(y.to_local().expect("here").to_vec::<f32>().expect("floats"), [0.5, 0.5]);
    // A wrong argument is an error with the frames of the program; the session goes on.
    let error = main.call(&[Item::Int(3)]).err().expect("a wrong argument");
    assert!(error.backtrace().contains("main"), "{error}\n{}", error.backtrace());
    assert!(main.call(&[remote.item()]).is_ok());
}

#[test]
fn uploaded_machine_code_needs_leave() {
    let server = Listening::start(&["serve"]);
    let session = server.connect();
    session.upload_bytes("m.so", b"\x7fELF").expect("uploads");
    let error = session.load_module("m.so").err().expect("refused");
    assert_eq!(error.kind(), "PermissionError");
    assert!(error.message().contains("--allow-code"), "{error}");
    assert!(session.global("runtime.Anything").expect("an answer").is_none());
}

/// `upload("../x")`, memory at an address, a call of an address, a wrong version, a second start.
#[test]
fn what_tvms_server_lets_happen_does_not() {
    let server = Listening::start(&["serve"]);
    let session = server.connect();
    for name in ["../escape", "/tmp/escape", "a/../../escape", "..", ""] {
        let error = session.upload_bytes(name, b"x").expect_err("refused");
        assert!(error.message().contains("is no name of a file"), "{error}");
    }
    let echo = session.require("tvm.rpc.server.listdir").expect("a function");
    let Item::Function(handle) = echo.item() else { panic!("a function's handle") };
    let (device, dtype, shape) = (DLDevice::CPU, DType::U8, vec![16]);
    for data in [handle, 0x1234, 0x7fff_0000_0000, u64::MAX] {
        let at = TensorRef { data, device, dtype, shape: shape.clone(), byte_offset: 0 };
        let error = echo.call(&[Item::Tensor(at)]).err().expect("refused");
        let known = ["is no handle of this session", "is of a function, not of a tensor"];
        assert!(known.iter().any(|text| error.message().contains(text)), "{error}");
    }
    // Inside of an allocation, and past it.
    let there = session.empty(&[16], DType::U8).expect("a tensor");
    let Item::Tensor(at) = there.item() else { panic!("a tensor") };
    for (byte_offset, shape) in [(1, vec![16]), (u64::MAX, vec![1]), (0, vec![17])] {
        let at = TensorRef { byte_offset, shape, ..at.clone() };
        let error = echo.call(&[Item::Tensor(at)]).err().expect("refused");
        assert!(error.message().contains("do not fit"), "{error}");
    }
    // The same session and the listener are still there.
    session.upload_bytes("x", b"x").expect("uploads");
    assert_eq!(server.connect().download("x").expect_err("another folder").kind(), "OSError");
}

/// Signals from outside, and a call without end: the listener says so and serves the next.
#[test]
fn a_session_that_dies_ends_alone() {
    let mut server = Listening::start(&["serve"]);
    let other = server.connect();
    for (signal, told) in [("SEGV", "signal 11"), ("KILL", "signal 9"), ("ABRT", "signal 6")] {
        let before = server.sessions();
        let session = server.connect();
        let mut new = server.sessions();
        new.retain(|id| !before.contains(id));
        assert_eq!(new.len(), 1, "{new:?}");
        // Rust's handler of stack overflows takes a first SIGSEGV from outside for none of its own.
        let sent = |_| {
            let status = Command::new("kill").args([&format!("-{signal}"), &new[0]]).status();
            std::thread::sleep(Duration::from_millis(100));
            status.expect("kill runs").success()
        };
        assert!((0..if signal == "SEGV" { 2 } else { 1 }).all(sent));
        let report = server.report();
        assert!(report["end"].as_str().expect("text").contains(told), "{report}");
        let error = session.download("x").expect_err("the session is gone");
        assert_eq!(error.kind(), "ConnectionError", "{error}");
    }
    let session = connect(&server.address, Some(Duration::from_secs(1)));
    session.upload(script(), "softmax.py").expect("uploads");
    let vm = virtual_machine(&session, "softmax.py");
    // Large enough for the most calls that a measurement makes to outlast the session's second.
    let large = Tensor::from_slice(&[512, 1024], &vec![0.5_f32; 512 * 1024]).expect("a tensor");
    let remote = session.to_remote(&large).expect("a tensor");
    let forever = [Item::text("main"), Item::Float(3600.0), remote.item()];
    let start = Instant::now();
    let bench = vm.require("reflex.bench").expect("a function");
    let error = bench.call(&forever).err().expect("it takes too long");
    assert_eq!(error.kind(), "RPCSessionTimeoutError", "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(server.report()["end"], "ended by its timeout");
    other.upload_bytes("x", b"x").expect("another session goes on");
    server.connect().upload_bytes("x", b"x").expect("the next one is served");
}

#[test]
fn limits_are_refusals_that_name_them() {
    let server = Listening::start(&[
        "serve",
        "--max-sessions",
        "2",
        "--max-tensors",
        "1000000000000000",
        "--max-memory",
        "6000000000",
        "--max-files",
        "1000",
    ]);
    let session = server.connect();
    let error = session.empty(&[1 << 34], DType::U8).err().expect("too much memory");
    assert_eq!(error.kind(), "MemoryError", "{error}");
    let error = session.upload_bytes("x", &[0; 1001]).expect_err("too long");
    assert!(error.message().contains("the limit `file bytes` is 1000"), "{error}");
    let _second = server.connect();
    let greeting = Greeting { key: String::new(), timeout: None };
    assert!(RemoteSession::connect(&server.address, &greeting).is_err(), "a third one");
    drop(session);
}

#[test]
fn strangers_are_sent_away() {
    let server = Listening::start(&["serve", "--key", "secret"]);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x71, 0xf2, 0x0f, 0, 0xff, 0xff, 0xff, 0x7f]] {
        let mut stream = TcpStream::connect(&server.address).expect("a connection");
        stream.write_all(bytes).expect("writes");
        drop(stream.read_to_end(&mut vec![]));
    }
    let greeting = |key: &str| Greeting { key: key.to_owned(), timeout: None };
    let wrong = RemoteSession::connect(&server.address, &greeting("guess"));
    assert!(wrong.err().expect("refused").message().contains("no key \"guess\""));
    assert!(RemoteSession::connect(&server.address, &greeting("secret")).is_ok());
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    assert_eq!(handshake::greet(&mut stream, &greeting("secret")).expect("greets"), "secret");
    drop(stream);
}

/// The niceness of a process.
fn niceness(process: &str) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    // Field 19 of proc(5), where the first that is left is field 3.
    fields.split(' ').nth(16).expect("a field").parse().expect("a number")
}

#[test]
fn a_command_starts_the_sessions() {
    let server = Listening::start(&["serve", "--runner", "nice -n 3"]);
    let session = server.connect();
    assert!(session.upload_bytes("x", b"x").is_ok());
    let processes = server.sessions();
    assert_eq!(processes.len(), 1);
    assert_eq!(niceness(&processes[0]), (niceness("self") + 3).min(19));
    let mut server = Listening::start(&["serve", "--runner", "false"]);
    let none = Greeting { key: String::new(), timeout: None };
    assert!(RemoteSession::connect(&server.address, &none).is_err());
    assert_eq!(server.report()["end"], "failed with exit code 1");
    let mut reflex = Command::new(env!("CARGO_BIN_EXE_reflex"));
    let output = reflex.args(["serve", "--listen", "127.0.0.1:0", "--runner", " "]).output();
    let error = String::from_utf8_lossy(&output.expect("runs").stderr).into_owned();
    assert!(error.contains("--runner: no command"), "{error}");
}

#[test]
fn only_this_machine_is_listened_to() {
    for command in ["serve", "tracker"] {
        let mut reflex = Command::new(env!("CARGO_BIN_EXE_reflex"));
        let output = reflex.args([command, "--listen", "0.0.0.0:0"]).output().expect("runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("neither encrypted nor authenticated"), "{error}");
    }
}

#[test]
fn a_tracker_hands_out_a_server_one_session_at_a_time() {
    let tracker = Listening::start(&["tracker"]);
    let _server = Listening::start(&["serve", "--tracker", &tracker.address, "--key", "k"]);
    for _ in 0..2 {
        let mut client = TrackerClient::connect(&tracker.address).expect("a tracker");
        let found = client.request("k", 1, Some(Duration::from_secs(20))).expect("a server");
        let greeting = Greeting { key: found.match_key, timeout: None };
        let session = RemoteSession::connect(&found.address, &greeting).expect("a session");
        session.upload_bytes("x", b"x").expect("uploads");
        let second = client.request("k", 1, Some(Duration::from_millis(300)));
        assert_eq!(second.expect_err("it is busy").kind(), "TimeoutError");
        session.shut_down();
    }
}

const C_CLIENT: &str = r#"
#include <reflex.h>
#include <stdio.h>
#include <stdlib.h>

static ReflexValue call(ReflexValue *function, const ReflexValue *args, int count) {
  ReflexValue result;
  if (reflex_call_function(function, args, count, &result)) {
    fprintf(stderr, "%s: %s\n", reflex_error_kind(), reflex_error_message());
    exit(1);
  }
  return result;
}

static ReflexValue member(const ReflexValue *module, const char *name) {
  ReflexValue get, function, args[] = {*module, reflex_string_view(name), reflex_bool(false)};
  if (reflex_get_global_func("ffi.ModuleGetFunction", &get)) exit(2);
  function = call(&get, args, 3);
  reflex_free(&get);
  return function;
}

int main(int argc, char **argv) {
  float data[] = {8, 8};
  int64_t shape[] = {1, 2};
  ReflexTensor x = {data, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0};
  ReflexValue connect, session, program, load, machine, function, y;
  if (argc != 3 || reflex_interface_function("rpc_connect", &connect)) return 3;
  ReflexValue at[] = {reflex_string_view(argv[1]), reflex_string_view("")};
  ReflexValue upload[] = {reflex_string_view("upload"), reflex_string_view(argv[2]), reflex_string_view("m.py")};
  ReflexValue open[] = {reflex_string_view("load_module"), reflex_string_view("m.py"), reflex_string_view("here")};
  ReflexValue end[] = {reflex_string_view("shut_down")}, given[] = {reflex_tensor_view(&x)};
  session = call(&connect, at, 2);
  call(&session, upload, 3);
  program = call(&session, open, 3);
  load = member(&program, "vm_load_executable");
  machine = call(&load, NULL, 0);
  function = member(&machine, "main");
  y = call(&function, given, 1);
  printf("%g %g\n", ((float *)reflex_as_tensor(&y)->data)[0], ((float *)reflex_as_tensor(&y)->data)[1]);
  call(&session, end, 1);
  ReflexValue *values[] = {&y, &function, &machine, &load, &program, &session, &connect};
  for (int i = 0; i < 7; ++i) reflex_free(values[i]);
  if (reflex_interface_function("nothing", &connect) != REFLEX_STATUS_INPUT) return 4;
  return 0;
}
"#;

#[test]
fn c_programs_have_sessions_at_servers() {
    let mut server = Listening::start(&["serve"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("rpc-client.c"), folder.join("rpc-client"));
    std::fs::write(&source, C_CLIENT).expect("writes");
    let said = programs::run_c(&source, &program, &[Path::new(&server.address), script()]);
    assert_eq!(said, "0.5 0.5\n");
    assert_eq!(server.report()["end"], "ended");
}

/// Open descriptors of a process, and its resident pages.
fn taken(process: u32) -> (usize, usize) {
    let descriptors =
        std::fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors").count();
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).expect("pages");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    (descriptors, resident.expect("a number"))
}

/// `REFLEX_SOAK_SESSIONS=100000 cargo test --release --test rpc soak -- --nocapture` takes longer, and prints
/// what the listener takes.
#[test]
fn soak_of_sessions_leaves_the_listener_as_it_was() {
    let wanted = std::env::var("REFLEX_SOAK_SESSIONS").ok().map(|count| count.parse());
    let count: usize = wanted.map_or(Ok(40), |count| count).expect("a number of sessions");
    let mut server = Listening::start(&["serve"]);
    let process = server.process.id();
    let (descriptors, _) = taken(process);
    let mut first = None;
    for number in 1..=count {
        let session = server.connect();
        session.upload_bytes("x", &[7; 1000]).expect("uploads");
        session.shut_down();
        drop(session);
        assert_eq!(server.report()["end"], "ended");
        if number % (count / 10).max(1) == 0 {
            // A report comes before the thread of the session has closed its connection.
            let deadline = Instant::now() + Duration::from_secs(60);
            while taken(process).0 != descriptors && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let now = taken(process);
            println!("{number} sessions: {} descriptors, {} pages", now.0, now.1);
            assert_eq!(now.0, descriptors, "{number} sessions");
            let pages = *first.get_or_insert(now.1);
            assert!(now.1 <= pages + 128, "{number} sessions: {} pages, {pages} before", now.1);
        }
    }
}

fn host_port(address: &str) -> (&str, &str) {
    address.split_once(':').expect("host:port")
}

#[test]
fn tvms_client_works_with_our_server() {
    let Some(python) = tvm::python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("UTF-8");
    let server = Listening::start(&["serve", "--allow-code"]);
    let (host, port) = host_port(&server.address);
    assert!(tvm::script(&python, "rpc.py", &["client", host, port, folder]).contains("client ok"));
    let told = tvm::script(&python, "rpc.py", &["timeout", host, port]);
    assert!(told.starts_with("RPCSessionTimeoutError"), "{told}");
    let tracker = Listening::start(&["tracker"]);
    let _second = Listening::start(&["serve", "--tracker", &tracker.address, "--key", "avx"]);
    let (host, port) = host_port(&tracker.address);
    let told = tvm::script(&python, "rpc.py", &["tracker", host, port, "avx"]);
    assert!(told.contains("tracker ok"), "{told}");
}

/// The executables that TVM built, in both of its modes, bit for bit what they answer without RPC.
#[test]
fn tvms_virtual_machine_runs_its_executables_at_our_server() {
    let Some(folder) = tvm_modules::modules() else { return };
    let Some(python) = tvm::python() else { return };
    let server = Listening::start(&["serve", "--allow-code"]);
    let (host, port) = host_port(&server.address);
    let folder = folder.to_str().expect("UTF-8");
    let told = tvm::script(&python, "rpc.py", &["modules", host, port, folder]);
    let counts: Value = serde_json::from_str(&told).expect("JSON");
    let count = |name: &str| counts[name].as_u64().expect("a number");
    assert!(count("executables") >= 96 && count("results") >= 153, "{told}");
    assert!(count("errors") >= 76, "{told}");
}

#[test]
fn tvms_search_measures_a_candidate_at_our_server() {
    let Some(python) = tvm::python() else { return };
    let tracker = Listening::start(&["tracker"]);
    let at = ["--tracker", &tracker.address, "--key", "cpu", "--allow-code"];
    let _server = Listening::start(&[&["serve"][..], &at].concat());
    let (host, port) = host_port(&tracker.address);
    let told = tvm::script(&python, "rpc.py", &["measure", host, port, "cpu"]);
    assert!(told.contains("measure ok"), "{told}");
}

#[test]
fn tvms_client_works_with_our_server_over_pipes() {
    use std::os::unix::fs::PermissionsExt;
    let Some(python) = tvm::python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = folder.path().join("server.sh");
    let reflex = env!("CARGO_BIN_EXE_reflex");
    let text = format!("#!/bin/sh\nexec {reflex} rpc-pipe --allow-code \"$@\"\n");
    std::fs::write(&server, text).expect("writes");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&server, executable).expect("an executable");
    let args = ["pipe", server.to_str().expect("UTF-8"), folder.path().to_str().expect("UTF-8")];
    assert!(tvm::script(&python, "rpc.py", &args).contains("pipe ok"));
}

#[test]
fn our_client_works_with_tvms_server() {
    let Some(python) = tvm::python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["library", folder.path().to_str().expect("UTF-8")];
    let library = tvm::script(&python, "rpc.py", &args).trim().to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tvm/rpc.py");
    let mut command = Command::new(&python);
    command.arg(script).arg("server").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("python runs");
    let mut port = String::new();
    let mut lines = BufReader::new(process.stdout.take().expect("piped"));
    lines.read_line(&mut port).expect("a port");
    let session = connect(&format!("127.0.0.1:{}", port.trim()), None);
    session.upload(Path::new(&library), "twice.so").expect("uploads");
    assert_eq!(session.download("twice.so").expect("a file"), std::fs::read(&library).unwrap());
    let vm = virtual_machine(&session, "twice.so");
    let initialize = vm.require("vm_initialization").expect("a function");
    initialize.call(&[Item::Int(1), Item::Int(0), Item::Int(2)]).expect("a device");
    let remote = session.to_remote(&x()).expect("a tensor");
    let main = vm.require("main").expect("a function");
    let y = main.call(&[remote.item()]).expect("a result").local().expect("a tensor");
    let y = Tensor::try_from(y).expect("a tensor").to_vec::<f32>().expect("floats");
    assert_eq!(y, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    let times = session.time_evaluator(&vm, "main", [3, 2], &[remote.item()]).expect("times");
    assert!(times.len() == 2 && times.iter().all(|t| *t > 0.0), "{times:?}");
    let error = session.load_module("absent.so").err().expect("no file");
    assert!(error.message().contains("absent.so"), "{error}");
    session.shut_down();
    drop(process.stdin.take());
    process.wait().expect("it ends");
}

/// `reflex ARGS` on the example, and what it printed.
fn reflex(args: &[&str]) -> (String, String) {
    let cache = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args([args[0], "examples/softmax.py"]).args(&args[1..]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("REFLEX_CACHE", cache.path());
    let output = command.output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// On a server that opens libraries, which gets one, and on one that gets the model.
#[test]
fn commands_run_at_a_server_what_they_run_here() {
    let tracker = Listening::start(&["tracker"]);
    let registered = ["serve", "--tracker", &tracker.address, "--key", "k"];
    let servers = [
        Listening::start(&["serve", "--allow-code", "--key", "k"]),
        Listening::start(&["serve", "--key", "k"]),
    ];
    let _registered = Listening::start(&registered);
    let (here, _) = reflex(&["run", "--shape", "x=2x3", "--json"]);
    let places =
        servers.iter().map(|server| ["--remote".to_owned(), server.address.clone() + "/k"]);
    let mut places: Vec<Vec<String>> = places.map(Vec::from).collect();
    let tracked = ["--tracker", &tracker.address, "--key", "k"];
    places.push(tracked.map(str::to_owned).to_vec());
    for place in &places {
        let with = |args: &[&'static str]| {
            let place = place.iter().map(String::as_str);
            reflex(&args.iter().copied().chain(place).collect::<Vec<_>>())
        };
        let (there, table) = with(&["run", "--shape", "x=2x3", "--json", "--profile"]);
        assert_eq!(there, here, "{place:?}");
        assert!(table.contains("softmax"), "{table}");
        let bench = ["bench", "--shape", "x=2x3", "--json", "--min-time", "0.05"];
        let (rows, _) = with(&bench);
        let rows: Vec<Value> =
            rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
        let modes: Vec<&str> = rows.iter().filter_map(|row| row["mode"].as_str()).collect();
        assert_eq!(modes, ["bytecode", "compiled", "tiered"]);
        assert!(rows.iter().all(|row| row["p50_us"].as_f64().is_some_and(|us| us > 0.0)));
    }
}

/// An upload that breaks off continues in a later session, and a content that is there is not sent.
#[test]
fn uploads_continue_where_they_broke_off() {
    let server = Listening::start(&["serve"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weights.bin");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, &bytes).expect("writes");
    let hash = reflex_rpc::store::hash_of(&file).expect("a hash");
    let chunk = [Item::text(&hash), Item::Int(0), Item::Bytes(bytes[..1_000_000].to_vec())];
    let first = server.connect();
    first.call_global("reflex.rpc.chunk", &chunk).expect("a piece");
    drop(first);
    let second = server.connect();
    assert_eq!(second.upload(&file, "w").expect("the rest").sent, 2_000_000);
    assert_eq!(second.download("w").expect("a file"), bytes);
    assert_eq!(server.connect().upload(&file, "w").expect("nothing").sent, 0);
}

/// The listener is as before, after any number of sessions.
#[test]
fn sessions_leave_no_descriptors_and_no_processes() {
    let mut server = Listening::start(&["serve"]);
    let descriptors = |server: &Listening| {
        let folder = format!("/proc/{}/fd", server.process.id());
        std::fs::read_dir(folder).expect("descriptors").count()
    };
    let before = descriptors(&server);
    for _ in 0..30 {
        server.connect().shut_down();
        assert_eq!(server.report()["end"], "ended");
    }
    let start = Instant::now();
    while descriptors(&server) > before && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(descriptors(&server) <= before, "{before}");
    assert!(server.sessions().is_empty());
}

#[test]
fn python_uses_modules_and_tensors_of_a_server() {
    let Some(python) = tvm::python() else { return };
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rpc-mlp.so");
    let loaded = reflex::Engine::new().and_then(|e| e.load("tests/filetests/relax/mlp.py"));
    loaded.and_then(|program| program.save(&model)).expect("compiles");
    let server = Listening::start(&["serve", "--allow-code"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = std::env::current_exe().expect("a test has a path");
    let mut run = Command::new(python);
    run.arg(root.join("tests/python_rpc.py")).arg(&model).arg(&server.address);
    run.env("PYTHONPATH", root.join("python"));
    let output = run.env("REFLEX_LIBRARY", own.with_file_name("libreflex.so")).output();
    let output = output.expect("python runs");
    let (said, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.ends_with(b"done\n"), "{error}");
}

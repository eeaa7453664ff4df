//! `gdb` shows a backtrace through generated code, and `perf` would find its names and bytes.
//!
//! The tests run this program again, under the debugger: `debuggee` is what is looked at.

#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::function::Function;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

/// Calls of the kernel before it stops: by then, traces run.
const CALLS: u32 = 10;

/// Where the debugger stops.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn reflex_test_stop() {
    std::hint::black_box(());
}

const PROGRAM: &str = "
@inner(x) regs=2:
  call  kernel in: %0 dst: %1
  ret   %1
@main(x) regs=2:
  call  inner in: %0 dst: %1
  ret   %1
";

fn run(mode: Mode) {
    let calls = AtomicU32::new(0);
    let kernel = Function::new(move |args| {
        if calls.fetch_add(1, Ordering::Relaxed) == CALLS {
            reflex_test_stop();
        }
        Ok(args[0].to_owned())
    });
    let library = HashMap::from([("kernel".to_owned(), kernel)]);
    let exec = verify(listing::parse(PROGRAM).unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library]).unwrap());
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    program.attach(Arc::new(CraneliftTier::with_options(options).unwrap()));
    if mode == Mode::Compiled {
        assert_eq!(program.compile_ahead_of_time(), []);
    }
    let mut session = Session::new(&program, Options { mode, ..Options::default() }).unwrap();
    for _ in 0..=CALLS {
        session.call("main", &[Any::from(1_i64)]).unwrap();
    }
}

#[test]
#[ignore = "run by the other tests under gdb"]
fn debuggee_tiered() {
    run(Mode::Tiered);
}

#[test]
#[ignore = "run by the other tests under gdb"]
fn debuggee_compiled() {
    run(Mode::Compiled);
}

/// The backtrace where `debuggee` stops; none when there is no debugger.
fn backtrace(debuggee: &str) -> Option<String> {
    let commands = ["set pagination off", "break reflex_test_stop", "run", "backtrace", "kill"];
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx"]).args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.arg("--args").arg(std::env::current_exe().unwrap());
    gdb.args([debuggee, "--exact", "--ignored", "--nocapture"]);
    let output = gdb.env("REFLEX_JIT_SYMBOLS", "gdb").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[track_caller]
fn in_order(text: &str, names: &[&str]) {
    let mut rest = text;
    for name in names {
        let found = rest.find(name);
        let at = found.unwrap_or_else(|| panic!("no `{name}` in its place in\n{text}"));
        rest = &rest[at + name.len()..];
    }
}

#[test]
fn gdb_sees_through_a_trace() {
    let Some(text) = backtrace("debuggee_tiered") else {
        return skip::skip("gdb");
    };
    in_order(&text, &["reflex_test_stop", "in reflex trace main@0", "drive", "debuggee_tiered"]);
}

#[test]
fn gdb_sees_through_compiled_functions() {
    let Some(text) = backtrace("debuggee_compiled") else {
        return skip::skip("gdb");
    };
    let frames = ["reflex_test_stop", "in reflex inner", "in reflex main", "drive"];
    in_order(&text, &frames);
}

#[test]
fn a_jitdump_has_the_code_of_traces() {
    let folder = tempfile::tempdir().unwrap();
    let mut debuggee = Command::new(std::env::current_exe().unwrap());
    debuggee.args(["debuggee_tiered", "--exact", "--ignored"]);
    debuggee.env("REFLEX_JIT_SYMBOLS", "jitdump").env("JITDUMPDIR", folder.path());
    assert!(debuggee.output().unwrap().status.success());
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    let [Ok(file)] = &files[..] else { panic!("one file") };
    let dump = std::fs::read(file.path()).unwrap();
    let name = b"reflex trace main@0\0";
    let at = dump.windows(name.len()).position(|bytes| bytes == name).expect("a trace");
    let word = |at: usize| u64::from_le_bytes(dump[at..at + 8].try_into().unwrap());
    // The size of the code is the last but one word before the name; the code follows it.
    let (size, code) = (word(at - 16) as usize, at + name.len());
    assert!(size > 16 && dump[code..code + size].iter().any(|&byte| byte != 0), "{size} bytes");
}

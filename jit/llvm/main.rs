//! `reflex-codegen`: compiles loop IR on a pipe. See `reflex_llvm::process` for the protocol.

use std::process::ExitCode;

use reflex_llvm::{LlvmCodegen, process};

const USAGE: &str = "usage: reflex-codegen [--idle] [--version]
Reads requests on standard input and answers on standard output until the input ends.
  --idle     run only when nothing else wants the processor
  --version  print the version and the protocol number";

fn main() -> ExitCode {
    let mut idle = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--idle" => idle = true,
            "--version" => {
                let protocol = reflex_tir::codegen::PROTOCOL;
                println!("reflex-codegen {} protocol {protocol}", env!("CARGO_PKG_VERSION"));
                return ExitCode::SUCCESS;
            }
            other => {
                eprintln!("reflex-codegen: unknown argument {other}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    if idle {
        lower_priority();
    }
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    match process::serve(&LlvmCodegen, input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reflex-codegen: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Best effort: a process that may not lower its priority still works.
fn lower_priority() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the call, which only reads it; 0 names this process.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
}

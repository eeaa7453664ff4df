//! Command line: one file per subcommand. Scripts rely on options and output, so they are fixed.
//!
//! Results go to standard output, progress and errors to standard error. Exit code 0 is
//! success, 1 an answer that differs from its reference, 2 an error.

mod args;
mod bench;
mod check;
mod compare;
mod compile;
mod conformance;
mod connect;
mod diff;
mod environment;
mod info;
mod inputs;
mod inspect;
mod measured_mode;
mod output;
mod passes;
mod plot;
mod progress;
mod quantize;
mod remote;
mod rpc_pipe;
mod rpc_proxy;
mod run;
mod serve;
mod token;
mod tracker;
mod values;
mod version;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Runs tensor programs: ONNX models, PyTorch's exported programs, TVM executables and compiled artifacts.
#[derive(Parser)]
#[command(name = "reflex", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", environment::list()))]
struct Cli {
    /// Say on standard error what is compiled, specialised and cached; twice: each kernel and trace
    /// too. $REFLEX_LOG has finer filters, such as `reflex=debug`.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  reflex info model.onnx
  reflex run model.onnx --input x=cat.npy --out answers/
  reflex run model.onnx --shape x=1x3x224x224 --mode compiled
  reflex check model.onnx --npz reference.npz
  reflex bench model.onnx --modes bytecode,compiled,tiered
  reflex bench model.onnx --ab bytecode,tiered --svg ab.svg
  reflex compile model.onnx -o model.so && reflex run model.so
  reflex compile model.onnx -o model.so --levels v3,v4 --shape x=1x3x224x224
  reflex quantize model.onnx -o model.int8.onnx
  reflex inspect model.onnx --text
  reflex inspect model.onnx --after simplify --pipeline=-fold_constants
  reflex serve --listen 127.0.0.1:9090

MODEL is a .onnx file, a .pt2 file (PyTorch), a .py file (TVMScript), or a .so made by `reflex compile` or by TVM.";

#[derive(Subcommand)]
enum Command {
    /// Inputs, outputs, operators, and what is unsupported.
    Info(info::InfoArgs),
    /// Run a model once and print or save its outputs.
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Compare with reference outputs; exit code 1 on a mismatch.
    Check(check::CheckArgs),
    /// Measure latency, modes interleaved in one process.
    Bench(bench::BenchArgs),
    /// Compile to one shared library that runs without a compiler.
    Compile(compile::CompileArgs),
    /// Quantize a float32 ONNX model: 8-bit integers, or 4-bit weights.
    #[command(after_help = quantize::EXAMPLES)]
    Quantize(quantize::QuantizeArgs),
    /// Print bytecode, passes, or assembly.
    Inspect(inspect::InspectArgs),
    /// Print the first structural difference of two modules of TVM; exit code 1 if there is one.
    Diff(diff::DiffArgs),
    /// Passes of the compiler, and their options.
    Passes(passes::PassesArgs),
    /// Run a folder of ONNX backend-test cases.
    Conformance(conformance::ConformanceArgs),
    /// Serve programs to RPC clients, TVM's among them, a process for each session.
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::args::ServeArgs),
    /// Hand servers to RPC clients by key.
    #[command(after_help = tracker::EXAMPLES)]
    Tracker(tracker::TrackerArgs),
    /// Make a token for a client of `reflex serve --tls`.
    #[command(after_help = token::EXAMPLES)]
    Token(token::TokenArgs),
    /// Forward connections of this machine to a server by TLS, for clients that know no TLS.
    #[command(after_help = connect::EXAMPLES)]
    Connect(connect::ConnectArgs),
    /// Serve one RPC client over two pipes, as TVM's PopenSession starts servers.
    #[command(after_help = rpc_pipe::EXAMPLES)]
    RpcPipe(rpc_pipe::RpcPipeArgs),
    /// Pair RPC clients with servers that cannot listen, such as one in a browser.
    #[command(after_help = rpc_proxy::EXAMPLES)]
    RpcProxy(rpc_proxy::RpcProxyArgs),
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    let Cli { verbose, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(text) if text.kind() == ErrorKind::DisplayVersion => {
            output::println!("{text}{}", version::details());
            return ExitCode::SUCCESS;
        }
        Err(error) => error.exit(),
    };
    reflex::log::to_stderr(match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    });
    let result = match command {
        Command::Info(args) => info::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Passes(args) => passes::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Tracker(args) => tracker::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Connect(args) => connect::run(&args),
        Command::RpcPipe(args) => rpc_pipe::run(&args),
        Command::RpcProxy(args) => rpc_proxy::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("reflex: {error}");
            ExitCode::from(2)
        }
    }
}

//! `reflex serve`: programs for RPC clients, a process for each session.

use std::process::ExitCode;

use reflex::Result;

pub mod args;
mod listener;
mod registration;
mod session;

use args::ServeArgs;

pub const EXAMPLES: &str = "Examples:
  reflex serve
  reflex serve --listen 127.0.0.1:9090 --allow-code
  reflex serve --models models/ --tracker 127.0.0.1:9190 --key avx512
  reflex serve --listen 0.0.0.0:9443 --tls cert.pem key.pem --tokens tokens
  reflex run model.onnx --remote 127.0.0.1:9090

TVM's clients connect as to TVM's server: tvm.rpc.connect(\"127.0.0.1\", 9090).";

/// Runs the command.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    match (args.session, &args.folder) {
        (Some(descriptor), Some(folder)) => session::run(args, descriptor, folder),
        _ => listener::run(args),
    }
}

//! `reflex rpc-pipe`: one session over two pipes, as TVM's `PopenSession` starts servers.

use std::fs::{File, OpenOptions};
use std::process::ExitCode;

use clap::Args;
use reflex::serve::{self, Limits, ServeOptions};
use reflex::{Error, Mode, Result};

use super::args::EngineArgs;

pub const EXAMPLES: &str = "TVM starts a program with two descriptors and no other argument:
  printf '#!/bin/sh\\nexec reflex rpc-pipe --allow-code \"$@\"\\n' > server.sh && chmod +x server.sh
  python -c 'import tvm.rpc; tvm.rpc.PopenSession(\"./server.sh\")'";

/// Arguments of `rpc-pipe`.
#[derive(Args)]
pub struct RpcPipeArgs {
    /// Descriptor that requests come from.
    #[arg(value_name = "READ_FD")]
    read: u32,
    /// Descriptor that answers go to.
    #[arg(value_name = "WRITE_FD")]
    write: u32,
    /// Open libraries that the client uploads, which runs machine code of its choice.
    #[arg(long)]
    allow_code: bool,
    /// Mode of programs.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    mode: Mode,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the command.
pub fn run(args: &RpcPipeArgs) -> Result<ExitCode> {
    let path = |descriptor: u32| format!("/proc/self/fd/{descriptor}");
    let at = |path: &str, e: std::io::Error| Error::io(path.as_ref(), &e);
    let (read, write) = (path(args.read), path(args.write));
    let input = File::open(&read).map_err(|e| at(&read, e))?;
    let mut output = OpenOptions::new().write(true).open(&write).map_err(|e| at(&write, e))?;
    let temporary = tempfile::Builder::new().prefix("reflex-pipe-").tempdir();
    let temporary = temporary.map_err(|e| Error::io(&std::env::temp_dir(), &e))?;
    let folder = temporary.path().join("files");
    std::fs::create_dir(&folder).map_err(|e| Error::io(&folder, &e))?;
    let options = ServeOptions {
        engine: args.engine.engine()?,
        mode: args.mode,
        folder,
        contents: temporary.path().join("contents"),
        models: None,
        allow_code: args.allow_code,
        limits: Limits::default(),
    };
    serve::run(options, input, &mut output)?;
    Ok(ExitCode::SUCCESS)
}

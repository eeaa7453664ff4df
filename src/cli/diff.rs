//! `reflex diff`: the first structural difference of two models.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reflex::ir::{Graph, first_mismatch, load};
use reflex::{Engine, Error, ErrorKind, Result};

use super::output::println;

/// Arguments of `diff`.
#[derive(Args)]
pub struct DiffArgs {
    /// Model: nodes as tvm.ir.save_json writes them (.json), .py (TVMScript), .relay, .onnx or .pt2.
    first: PathBuf,
    /// Another.
    second: PathBuf,
}

/// Runs the command: exit code 1 where the modules differ.
pub fn run(args: &DiffArgs) -> Result<ExitCode> {
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    match first_mismatch(&first, &second) {
        Some(mismatch) => {
            println!("{mismatch}");
            Ok(ExitCode::FAILURE)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The nodes of a file as they are, or those of the model that it is.
fn read(path: &Path) -> Result<Graph> {
    let known = ["py", "onnx", "pt2", "relay"];
    if path.extension().and_then(OsStr::to_str).is_some_and(|e| known.contains(&e)) {
        return Engine::nodes(path);
    }
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
    let refused = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Model, format!("not the JSON of tvm.ir.save_json: {e}"))
    };
    load(&text).map_err(|e| refused(&e).at(path.display()))
}

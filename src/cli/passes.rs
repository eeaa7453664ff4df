//! `reflex passes`: the table of passes and their options, or the passes of a pipeline.

use std::process::ExitCode;

use clap::Args;
use reflex::{Pipeline, Result};

use super::output::println;

/// Arguments of `passes`.
#[derive(Args)]
pub struct PassesArgs {
    /// Print the passes of this pipeline in order, with the options that are set.
    #[arg(long, value_name = "PIPELINE", allow_hyphen_values = true)]
    pipeline: Option<String>,
}

/// Runs the command.
pub fn run(args: &PassesArgs) -> Result<ExitCode> {
    let text = match &args.pipeline {
        Some(text) => text.parse::<Pipeline>().map_err(|e| e.at("--pipeline"))?.to_string(),
        None => Pipeline::describe(),
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}

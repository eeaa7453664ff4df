//! `reflex passes`: the table of passes and their options, the passes of a pipeline, or the primitives of
//! schedules by hand.

use std::process::ExitCode;

use clap::Args;
use reflex::{Pipeline, Result, Schedule};

use super::output::println;

/// Arguments of `passes`.
#[derive(Args)]
pub struct PassesArgs {
    /// Print the passes of this pipeline in order, with the options that are set.
    #[arg(long, value_name = "PIPELINE", allow_hyphen_values = true)]
    pipeline: Option<String>,
    /// Print the primitives that schedules of kernels by hand are made of.
    #[arg(long, conflicts_with = "pipeline")]
    primitives: bool,
}

/// Runs the command.
pub fn run(args: &PassesArgs) -> Result<ExitCode> {
    let text = match &args.pipeline {
        Some(text) => text.parse::<Pipeline>().map_err(|e| e.at("--pipeline"))?.to_string(),
        None if args.primitives => Schedule::describe(),
        None => Pipeline::describe(),
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}

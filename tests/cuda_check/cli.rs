//! Checks Reflex on a GPU, in two places: `pack` writes a folder where there is a compiler and no GPU,
//! `check` runs it where there is a GPU and nothing else. `import` turns what `check` found into a
//! record.
//!
//! Expected answers are those of the models of the hardware: probes of single instructions have those of
//! the PTX interpreter, programs those of the same schedules on the CPU. A device run tests the
//! models.
//!
//! Decision: docs/decisions/0071-cuda-check.md

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bare_driver;
mod buffers;
mod ceilings;
mod check;
mod compare;
mod facts;
mod import;
mod pack;
mod packed;
mod probes;
mod programs;
mod report;

/// The command line, the folder or a file is not what it should be.
const UNUSABLE: u8 = 2;

/// Checks Reflex on a GPU.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a folder that `check` runs on a machine with a GPU.
    Pack(pack::PackArgs),
    /// Run a folder. Exit codes: 0 as expected, 1 not, 2 no such folder, 3 no device.
    Check(check::CheckArgs),
    /// Write the record of a `report.json`.
    Import {
        /// The file that `check` wrote.
        report: PathBuf,
        /// The day of the check, such as 2026-11-26.
        #[arg(long)]
        date: String,
        /// The record to write.
        #[arg(long, default_value = "benches/record/cuda.md")]
        record: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Pack(args) => pack::pack(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::check(&args),
        Command::Import { report, date, record } => {
            import::import(&report, &record, &date).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|why| {
        eprintln!("reflex-cuda-check: {why}");
        ExitCode::from(UNUSABLE)
    })
}

//! `reflex run`: one call, outputs printed or saved.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::remote::RemoteProgram;
use reflex::{Array, DType, Error, Outputs, Prepared, Result, Session, numpy};
use serde::Serialize;

use super::args::ModelArgs;
use super::inputs::InputArgs;
use super::output::println;
use super::remote::RemoteArgs;

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Function to call.
    #[arg(long, default_value = "main", value_name = "NAME")]
    func: String,
    /// Write each output to DIR/<name>.npy.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Run first until nothing more is being compiled, for these inputs' shapes too.
    #[arg(long, conflicts_with = "profile")]
    warm_up: bool,
    /// Time every call in the interpreter, and print a table of callees to standard error.
    #[arg(long)]
    profile: bool,
    /// Write the time line of the calls to a file that Perfetto opens.
    #[arg(long, value_name = "FILE", requires = "profile")]
    trace: Option<PathBuf>,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Ran {
    mode: String,
    /// Calls of the function before the one whose outputs these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_up_calls: Option<usize>,
    outputs: Vec<Output>,
}

#[derive(Serialize)]
struct Output {
    name: String,
    dtype: String,
    shape: Vec<i64>,
    /// The first elements, enough to recognise an answer.
    head: Vec<f64>,
    /// The same for people.
    #[serde(skip)]
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

/// Most elements of an output that are printed.
const HEAD: usize = 8;

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    if let Some(remote) = args.remote.open(&args.model.engine, &args.model.model)? {
        return run_remote(args, &remote);
    }
    let program = args.model.engine.load(&args.model.model)?;
    let feed = args.inputs.feed(&program, &args.func)?;
    let prepared = program.prepare(&args.func, &feed)?;
    let mut session = program.session(args.model.mode)?;
    let explain = |e| args.inputs.explain(e, &program, &args.func);
    let at = |e: Error| explain(e).at(args.model.model.display());
    let warm_up_calls = match args.warm_up {
        true => Some(session.warm_up(&prepared).map_err(at)?),
        false => None,
    };
    let outputs = match args.profile {
        true => profiled(&mut session, &prepared, args.trace.as_ref()),
        false => session.call(&prepared),
    };
    if let Some(code) = program.gpu_code().filter(|_| args.profile) {
        eprintln!("code of the device: {code}");
    }
    report(args, outputs.map_err(at)?.arrays()?, warm_up_calls)
}

/// Makes the call at a server.
fn run_remote(args: &RunArgs, remote: &RemoteProgram) -> Result<ExitCode> {
    if args.warm_up || args.trace.is_some() {
        return Err(Error::input("--warm-up and --trace are not supported for --remote"));
    }
    let at = |e: Error| e.at(args.model.model.display());
    let program = remote.program();
    let feed = args.inputs.feed(program, &args.func)?;
    let prepared = program.prepare(&args.func, &feed)?;
    let machine = remote.virtual_machine(args.model.mode)?;
    if args.profile {
        eprint!("{}", machine.profile(&args.func, &prepared).map_err(at)?);
    }
    report(args, machine.call(&args.func, &prepared).map_err(at)?, None)
}

/// Prints the results, or saves them.
fn report(
    args: &RunArgs,
    arrays: Vec<(String, Array)>,
    warm_up_calls: Option<usize>,
) -> Result<ExitCode> {
    let mut rows = vec![];
    for (name, array) in arrays {
        let file = match &args.out {
            Some(dir) => Some(save(dir, &name, &array)?),
            None => None,
        };
        let head = array.to_f64().into_iter().take(HEAD).collect();
        let dtype = array.dtype.to_string();
        let text = text(&array);
        rows.push(Output { name, dtype, shape: array.shape, head, text, file });
    }
    if args.json {
        let ran = Ran { mode: args.model.mode.to_string(), warm_up_calls, outputs: rows };
        println!("{}", serde_json::to_string(&ran).expect("plain data"));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(calls) = warm_up_calls {
        eprintln!("warmed up in {calls} calls");
    }
    for row in rows {
        let more = if row.shape.iter().product::<i64>() > HEAD as i64 { ", ..." } else { "" };
        println!("{}: {} {:?} = [{}{more}]", row.name, row.dtype, row.shape, row.text);
        if let Some(file) = row.file {
            println!("  saved to {}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The first elements as people write them.
fn text(array: &Array) -> String {
    let head = |texts: Vec<String>| texts.join(", ");
    let whole = |values: &[i64]| values.iter().take(HEAD).map(i64::to_string).collect();
    match array.dtype {
        // These have elements that no f64 holds.
        DType::I64 => head(whole(&array.to_vec().unwrap_or_default())),
        DType::U64 => {
            let values = array.to_vec::<u64>().unwrap_or_default();
            head(values.iter().take(HEAD).map(u64::to_string).collect())
        }
        DType::BOOL => {
            head(array.to_f64().iter().take(HEAD).map(|v| (*v != 0.0).to_string()).collect())
        }
        dtype => {
            let digits = if dtype.is_int() || dtype.is_uint() { 0 } else { 6 };
            head(array.to_f64().iter().take(HEAD).map(|v| format!("{v:.digits$}")).collect())
        }
    }
}

/// Makes a call with its profile on standard error, after one that fills caches.
fn profiled(session: &mut Session, call: &Prepared, trace: Option<&PathBuf>) -> Result<Outputs> {
    session.call(call)?;
    let (outputs, profile) = session.profile_prepared(call)?;
    eprint!("{}", profile.table());
    if let Some(file) = trace {
        std::fs::write(file, profile.trace_json()).map_err(|e| Error::io(file, &e))?;
    }
    Ok(outputs)
}

/// Writes one output; characters that cannot stand in a file name become `_`.
fn save(dir: &PathBuf, name: &str, array: &Array) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).map_err(|e| Error::io(dir, &e))?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let path = dir.join(format!("{}.npy", name.chars().map(safe).collect::<String>()));
    numpy::write_npy(&path, array)?;
    Ok(path)
}

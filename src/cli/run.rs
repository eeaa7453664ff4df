//! `reflex run`: one call, outputs printed or saved.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reflex::remote::RemoteProgram;
use reflex::{
    Any, AnyView, Array, DType, Engine, Error, Outputs, Prepared, Program, Result, Session, Tensor,
    Tuple, ValueInfo, numpy,
};
use serde::Serialize;

use super::args::ModelArgs;
use super::inputs::InputArgs;
use super::output::println;
use super::remote::RemoteArgs;
use super::values;

/// Examples of the command.
pub const EXAMPLES: &str = r#"Examples:
  reflex run model.onnx --input x=cat.npy --out answers/
  reflex run vectorizer.onnx --input x=features.json --json

A .json file holds a value that is no tensor, in the form that --json prints:
  {"map": [["apple", 1.5], ["pear", 2]]}      a map; keys are integers or text
  ["a.npy", {"tensor": "float32", "shape": [2], "data": [1, 2]}]      a sequence of tensors
  {"strings": ["a", "b"], "shape": [2]}      a tensor of strings
  null      an optional without content
Names of .npy files are relative to the .json file."#;

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
    /// Write each output to DIR/<name>.npy, what is no tensor of numbers to DIR/<name>.json.
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
    outputs: Vec<Row>,
}

/// A result.
#[derive(Serialize)]
#[serde(untagged)]
enum Row {
    Tensor(Output),
    /// Strings, or a value that is no tensor.
    Value {
        name: String,
        /// Its name and type.
        #[serde(skip)]
        ty: String,
        value: serde_json::Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
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
    // The process ends with this command: the system takes its memory and threads back in one step.
    let program = ManuallyDrop::new(args.model.engine.load(&args.model.model)?);
    if program.signature(&args.func).is_err() && program.functions().contains(&args.func) {
        return run_values(args, &program);
    }
    let feed = args.inputs.feed(&program, &args.func)?;
    let prepared = program.prepare(&args.func, &feed)?;
    let mut session = ManuallyDrop::new(program.session(args.model.mode)?);
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

/// Calls a function that takes or returns values that are not tensors.
fn run_values(args: &RunArgs, program: &Program) -> Result<ExitCode> {
    let at = |e: Error| e.at(args.model.model.display());
    let mut session = program.session(args.model.mode)?;
    let (inputs, outputs) = interface(args, &session)?;
    let values = args.inputs.values(&inputs, &args.func)?;
    let views: Vec<AnyView<'_>> = values.iter().map(Any::view).collect();
    let warm_up_calls = match args.warm_up {
        true => {
            let func = session.function_index(&args.func)?;
            Some(session.warm_up_func(func, &views).map_err(at)?)
        }
        false => None,
    };
    let mut result = session.call_views(&args.func, &views).map_err(at)?;
    if args.profile {
        let (profiled, profile) = session.profile(&args.func, &views).map_err(at)?;
        eprint!("{}", profile.table());
        if let Some(file) = &args.trace {
            std::fs::write(file, profile.trace_json()).map_err(|e| Error::io(file, &e))?;
        }
        result = profiled;
    }
    let results = match result.downcast_ref::<Tuple>() {
        Some(items) if outputs.len() > 1 && items.len() == outputs.len() => items.to_vec(),
        _ => vec![result],
    };
    let unnamed =
        |at| ValueInfo { name: format!("output{at}"), dtype: "value".into(), shape: None };
    let infos =
        (0..results.len()).map(|at| outputs.get(at).cloned().unwrap_or_else(|| unnamed(at)));
    let rows = infos.zip(&results).map(|(info, value)| Row::of_value(args, &info, value));
    print_rows(args, rows.collect::<Result<_>>()?, warm_up_calls);
    Ok(ExitCode::SUCCESS)
}

/// The inputs and outputs as the model declares them, or else the names of the parameters.
fn interface(args: &RunArgs, session: &Session) -> Result<(Vec<ValueInfo>, Vec<ValueInfo>)> {
    let names = session.param_names(&args.func)?;
    if args.func == "main" {
        let info = Engine::info(args.model.engine.source(&args.model.model))?;
        if info.inputs.iter().map(|input| &input.name).eq(&names) {
            return Ok((info.inputs, info.outputs));
        }
    }
    let value = |name| ValueInfo { name, dtype: "value".into(), shape: None };
    Ok((names.into_iter().map(value).collect(), vec![]))
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
    let row = |(name, array): (String, Array)| Row::of_array(args, &name, array);
    let rows = arrays.into_iter().map(row).collect::<Result<_>>()?;
    print_rows(args, rows, warm_up_calls);
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn of_array(args: &RunArgs, name: &str, array: Array) -> Result<Row> {
        let file = match &args.out {
            Some(dir) => Some(save(dir, name, &array)?),
            None => None,
        };
        let head = array.to_f64().into_iter().take(HEAD).collect();
        let (dtype, text) = (array.dtype.to_string(), text(&array));
        let name = name.to_owned();
        Ok(Row::Tensor(Output { name, dtype, shape: array.shape, head, text, file }))
    }

    /// A result of a function that returns values that are not tensors; strings and such values are JSON.
    fn of_value(args: &RunArgs, info: &ValueInfo, value: &Any) -> Result<Row> {
        let is_text = info.dtype.contains("string");
        if let Some(tensor) = value.downcast_ref::<Tensor>().filter(|_| !is_text) {
            return Row::of_array(args, &info.name, Array::of_tensor(tensor)?);
        }
        let named = |e: Error| e.at(format!("output {}", info.name));
        let json = values::to_json(value, is_text).map_err(named)?;
        let file = match &args.out {
            Some(dir) => Some(save_json(dir, &info.name, &json)?),
            None => None,
        };
        Ok(Row::Value { name: info.name.clone(), ty: info.to_string(), value: json, file })
    }
}

fn print_rows(args: &RunArgs, rows: Vec<Row>, warm_up_calls: Option<usize>) {
    if args.json {
        let ran = Ran { mode: args.model.mode.to_string(), warm_up_calls, outputs: rows };
        println!("{}", serde_json::to_string(&ran).expect("plain data"));
        return;
    }
    if let Some(calls) = warm_up_calls {
        eprintln!("warmed up in {calls} calls");
    }
    for row in rows {
        let file = match row {
            Row::Tensor(row) => {
                let long = row.shape.iter().product::<i64>() > HEAD as i64;
                let more = if long { ", ..." } else { "" };
                println!("{}: {} {:?} = [{}{more}]", row.name, row.dtype, row.shape, row.text);
                row.file
            }
            Row::Value { ty, value, file, .. } => {
                println!("{ty} = {value}");
                file
            }
        };
        if let Some(file) = file {
            println!("  saved to {}", file.display());
        }
    }
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

/// The file of one output; characters that cannot stand in a file name become `_`.
fn output_file(dir: &PathBuf, name: &str, ending: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).map_err(|e| Error::io(dir, &e))?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    Ok(dir.join(format!("{}.{ending}", name.chars().map(safe).collect::<String>())))
}

/// Writes one output.
fn save(dir: &PathBuf, name: &str, array: &Array) -> Result<PathBuf> {
    let path = output_file(dir, name, "npy")?;
    numpy::write_npy(&path, array)?;
    Ok(path)
}

/// Writes one output that is no tensor of numbers.
fn save_json(dir: &PathBuf, name: &str, value: &serde_json::Value) -> Result<PathBuf> {
    let path = output_file(dir, name, "json")?;
    std::fs::write(&path, value.to_string()).map_err(|e| Error::io(&path, &e))?;
    Ok(path)
}

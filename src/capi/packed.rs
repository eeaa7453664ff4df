//! The same interface as packed functions, for languages that have tvm-ffi already: opening
//! `libreflex.so` as a tvm-ffi module gives the functions at the end of this file, `load` above all, from
//! which everything else is reached. `python/reflex` is written over them.
//!
//! A program and a session are functions whose first argument is the name of what to do.
//!
//! Decision: docs/decisions/0023-one-shared-library.md

use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reflex_runtime::abi::{SafeCall, TVMFFIAny};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{Function, arg, guard};
use reflex_runtime::registry;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::Instrument;
use reflex_vm::session::{Canceller, SavedResult};

use super::outside;
use super::rpc::timing_options;
use super::values::targets;
use super::{ReflexStatus, give, status, text};
use crate::bound_dims;
use crate::dispatch;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::global_func;
use crate::library_function as library;
use crate::log;
use crate::memory as usage;
use crate::model_source::{ModelFormat, ModelSource};
use crate::options::{Mode, SessionOptions};
use crate::passes::{FunctionInstrument, Pipeline};
use crate::program::Program;
use crate::schedule::{self as by_hand, Schedule};
use crate::session::Session;
use crate::shared_session::SharedSession;
use crate::shared_session::arguments::{Parameters, check_tensors, compact, kept};
use crate::shared_session::callback_instrument::CallbackInstrument;
use crate::shared_session::owned_results::make_writable;
use crate::signature::{Dim, TensorInfo};
use crate::target::Target;

type FfiResult<T = Any> = std::result::Result<T, Raised>;

fn raise(error: Error) -> Raised {
    error.to_object()
}

/// Raises an error about a file; one of the system's gets its class in Python. `again` tries what
/// failed, for errors that do not say.
fn raise_io(error: Error, again: impl FnOnce() -> io::Result<()>) -> Raised {
    use std::error::Error as _;
    let is_io = error.kind() == ErrorKind::Io;
    let mut chain = std::iter::successors(error.source(), |cause| (*cause).source());
    let cause = chain.find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    let raised = raise(error);
    let cause = cause.or_else(|| again().err().map(|cause| cause.kind()));
    let class = match cause.filter(|_| is_io) {
        Some(io::ErrorKind::NotFound) => "FileNotFoundError",
        Some(io::ErrorKind::PermissionDenied) => "PermissionError",
        Some(io::ErrorKind::IsADirectory) => "IsADirectoryError",
        Some(io::ErrorKind::NotADirectory) => "NotADirectoryError",
        _ => return raised,
    };
    Raised::new(class, raised.message())
}

/// Reads a byte of a file.
fn probe(path: &Path) -> io::Result<()> {
    File::open(path)?.read(&mut [0]).map(drop)
}

/// Looks for the folder that a file is written to.
fn probe_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| std::fs::metadata(folder).map(drop))
}

fn string<'a>(args: &'a [AnyView<'_>], index: usize) -> FfiResult<&'a str> {
    let missing = || Raised::type_error(format!("argument {index} is missing"));
    let value = args.get(index).ok_or_else(missing)?;
    value.as_str().ok_or_else(|| value.mismatch("ffi.String"))
}

fn optional<'a>(args: &'a [AnyView<'_>], index: usize) -> FfiResult<Option<&'a str>> {
    match args.get(index) {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(_) => string(args, index).map(Some),
    }
}

fn indices(args: &[AnyView<'_>]) -> FfiResult<Vec<usize>> {
    let index = |value: &AnyView<'_>| {
        let index = value.as_int().ok_or_else(|| value.mismatch("int"))?;
        usize::try_from(index).map_err(|_| Raised::new("IndexError", format!("index {index}")))
    };
    args.iter().map(index).collect()
}

fn rest<'a, 'b>(args: &'a [AnyView<'b>], from: usize) -> &'a [AnyView<'b>] {
    args.get(from..).unwrap_or_default()
}

/// Names, element types and dimensions of inputs and outputs, as the nested tuples
/// `((name, type or None, (dimension or its name, ...)), ...)`; None if they are not known.
fn signature(program: &Program, func: &str) -> FfiResult {
    let names = program.functions();
    if !names.iter().any(|name| name == func) {
        let known = names.join(", ");
        return Err(Raised::value_error(format!("no function {func:?}; there are {known}")));
    }
    let Ok(signature) = program.signature(func) else { return Ok(Any::NONE) };
    let dim = |dim: &Dim| match dim {
        Dim::Const(size) => Any::from(*size),
        Dim::Symbol(name) => Any::from(name.as_str()),
    };
    let info = |info: &TensorInfo| {
        let dtype = info.dtype.to_string();
        let dtype = if info.is_typed() { Any::from(dtype.as_str()) } else { Any::NONE };
        let shape = Array::new(info.shape.iter().map(dim));
        Any::from(Array::new([Any::from(info.name.as_str()), dtype, shape.into()]))
    };
    let side = |infos: &[TensorInfo]| Any::from(Array::new(infos.iter().map(info)));
    Ok(Array::new([side(&signature.inputs), side(&signature.outputs)]).into())
}

fn functions(program: &Program) -> Any {
    let names = program.functions();
    Array::new(names.iter().map(|name| Any::from(name.as_str()))).into()
}

fn unknown(what: &str, name: &str) -> Raised {
    Raised::new("AttributeError", format!("a {what} has no `{name}`"))
}

/// The engine that arguments describe: `(model, device, threads, kernel cache or None, tier policy or
/// None, precision or None, goal or None, format, kernels, params, pipeline or None, passes as (place, name,
/// function) or None, instrument or None)`. A pass at the place "schedule" is traces of kernels, one at
/// "target" the target, one at "dims" dimensions that are constants: the name is their text. One at "nodes before:PASS" or "nodes after:PASS" takes and
/// gives a graph of nodes.
fn engine(args: &[AnyView<'_>]) -> FfiResult<Engine> {
    let device = string(args, 1)?;
    let threads = usize::try_from(arg::<i64>(args, 2)?).unwrap_or(0);
    log::of_environment();
    let mut builder = Engine::builder().device(device).threads(threads);
    if let Some(folder) = optional(args, 3)? {
        builder = builder.cache(folder);
    }
    if let Some(policy) = optional(args, 4)? {
        builder = builder.tier(policy.parse().map_err(raise)?);
    }
    if let Some(precision) = optional(args, 5)? {
        builder = builder.precision(precision.parse().map_err(Raised::value_error)?);
    }
    if let Some(goal) = optional(args, 6)? {
        builder = builder.optimize_for(goal.parse().map_err(Raised::value_error)?);
    }
    if let Some(target) = text_of(args, "target")? {
        builder = builder.target(&target.parse().map_err(raise)?);
    }
    if let Some(dims) = text_of(args, "dims")? {
        builder = builder.dims(bound_dims::parse(&dims).map_err(raise)?);
    }
    builder.pipeline(pipeline(args)?).build().map_err(raise)
}

/// `(target)`: what is known of it, as JSON.
fn target_attributes(args: &[AnyView<'_>]) -> FfiResult {
    let target: Target = string(args, 0)?.parse().map_err(raise)?;
    Ok(Any::from(target.attributes().to_string().as_str()))
}

/// The text at a place among the passes of [`engine`] that is no pass.
fn text_of(args: &[AnyView<'_>], wanted: &str) -> FfiResult<Option<String>> {
    if args.get(11).is_none_or(|value| value.is_none()) {
        return Ok(None);
    }
    for pass in arg::<Array>(args, 11)?.iter() {
        let parts = Array::try_from(pass.view())?;
        let text =
            |at: usize| parts.get(at).and_then(|part| part.view().as_str().map(str::to_owned));
        if text(0).as_deref() == Some(wanted) {
            return Ok(text(1));
        }
    }
    Ok(None)
}

/// The pipeline that the arguments of [`engine`] describe.
fn pipeline(args: &[AnyView<'_>]) -> FfiResult<Pipeline> {
    let given = |at: usize| args.get(at).filter(|value| !value.is_none());
    let mut pipeline: Pipeline = optional(args, 10)?.unwrap_or_default().parse().map_err(raise)?;
    if given(11).is_some() {
        for pass in arg::<Array>(args, 11)?.iter() {
            let parts = Array::try_from(pass.view())?;
            if let [description, functions] = &parts[..] {
                let known = outside::functions(&Array::try_from(functions.view())?)?;
                let view = description.view();
                let text = view.as_str().ok_or_else(|| view.mismatch("ffi.String"))?;
                let dispatch =
                    dispatch::described(text, &outside::finder(&known)).map_err(raise)?;
                pipeline = pipeline.dispatch(dispatch).map_err(raise)?;
                continue;
            }
            let [place, name, function] = &parts[..] else {
                return Err(Raised::type_error("a pass is a place, a name and a function"));
            };
            let (place, name) = (place.view(), name.view());
            if place.as_str() == Some("schedule") {
                let traces = name.as_str().ok_or_else(|| name.mismatch("ffi.String"))?;
                pipeline = pipeline.schedule(traces).map_err(raise)?;
                continue;
            }
            if matches!(place.as_str(), Some("target" | "dims")) {
                continue;
            }
            let place = place.as_str().ok_or_else(|| place.mismatch("ffi.String"))?;
            let name = name.as_str().ok_or_else(|| name.mismatch("ffi.String"))?;
            let function = Function::try_from(function.view())?;
            pipeline = match place.strip_prefix("nodes ") {
                Some(place) => pipeline.node_pass(place, name, of_nodes(function)),
                None => pipeline.pass(place, name, function),
            }
            .map_err(raise)?;
        }
    }
    if given(12).is_some() {
        let function = arg::<Function>(args, 12)?;
        pipeline = pipeline.instrument(Arc::new(FunctionInstrument(function)));
    }
    Ok(pipeline)
}

/// A packed function that takes a graph of nodes and gives one.
fn of_nodes(
    function: Function,
) -> impl Fn(crate::ir::Graph) -> std::result::Result<crate::ir::Graph, String> + Send + Sync {
    move |graph| {
        let graph = super::ir::wrap(graph);
        let given = function.call(&[graph.view()]).map_err(|e| e.to_string())?;
        super::ir::unwrap(&given.view()).cloned().ok_or_else(|| "it gives no graph".to_owned())
    }
}

/// The model that the arguments of [`engine`] describe: a path, bytes and their format, or a graph of nodes.
fn model(args: &[AnyView<'_>]) -> FfiResult<ModelSource> {
    if let Some(graph) = args.first().and_then(super::ir::unwrap) {
        return Ok(ModelSource::bytes(ModelFormat::Nodes, crate::ir::save(graph)));
    }
    let (kernels, params) = (optional(args, 8)?, optional(args, 9)?);
    let beside = |mut source: ModelSource| {
        if let Some(kernels) = kernels {
            source = source.kernels(kernels);
        }
        match params {
            Some(params) => source.params(params),
            None => source,
        }
    };
    match (args.first().and_then(|model| model.as_bytes()), optional(args, 7)?) {
        (Some(bytes), Some(format)) if args[0].as_str().is_none() => {
            let format = format.parse().map_err(Raised::value_error)?;
            Ok(beside(ModelSource::bytes(format, bytes)))
        }
        (_, Some(_)) => Err(Raised::type_error("a file has a format by its name")),
        (_, None) => Ok(beside(Path::new(string(args, 0)?).into())),
    }
}

/// Raises an error about the model of [`model`].
fn raise_of(error: Error, args: &[AnyView<'_>]) -> Raised {
    match args.first().and_then(|model| model.as_str()) {
        Some(path) => raise_io(error, || probe(Path::new(path))),
        None => raise(error),
    }
}

/// The arguments of [`engine`]: a program.
fn load(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, model(args)?);
    let program = engine.load(model).map_err(|error| raise_of(error, args))?;
    Ok(program_handle(program))
}

/// A program as a function whose first argument is the name of what to do.
fn program_handle(program: Program) -> Any {
    Function::new(move |args| program_method(&program, string(args, 0)?, rest(args, 1))).into()
}

/// The arguments of [`engine`], then the mode of sessions: a module, which tvm-ffi's languages call as
/// their own.
fn load_module(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, model(args)?);
    let mode = mode(args, 13)?;
    let module = engine.load_module(model, mode).map_err(|error| raise_of(error, args))?;
    Ok(module.into())
}

fn mode(args: &[AnyView<'_>], at: usize) -> FfiResult<Mode> {
    string(args, at)?.parse().map_err(|why: String| Raised::value_error(why))
}

fn program_method(program: &Program, name: &str, args: &[AnyView<'_>]) -> FfiResult {
    match name {
        "session" => {
            let wrong = |why: String| Raised::value_error(why);
            let mut options = SessionOptions::new(mode(args, 0)?);
            if let Some(device) = optional(args, 1)? {
                options = options.device(device);
            }
            if let Some(kind) = optional(args, 2)? {
                options = options.with_allocators(kind.parse().map_err(wrong)?);
            }
            let session = program.open(&options).map_err(raise)?;
            let (program, canceller) = (program.clone(), session.canceller());
            let session = SharedSession::new(session);
            let shared = Arc::new(Shared { program, canceller, session });
            let method = move |args: &[AnyView<'_>]| {
                let mut result = session_method(&shared, string(args, 0)?, rest(args, 1))?;
                make_writable(&mut result).map(|()| result)
            };
            Ok(Function::new(method).into())
        }
        "module" => Ok(program.module(mode(args, 0)?).into()),
        "save" => {
            let path = Path::new(string(args, 0)?);
            let written = program.save(path);
            let size = written.map_err(|error| raise_io(error, || probe_folder(path)))?;
            Ok(Any::from(i64::try_from(size).unwrap_or(i64::MAX)))
        }
        "functions" => Ok(functions(program)),
        "signature" => signature(program, string(args, 0)?),
        "as_text" => Ok(Any::from(program.as_text().as_str())),
        "as_python" => Ok(Any::from(program.as_python().as_str())),
        "as_rust" => Ok(Any::from(program.as_rust().as_str())),
        "tiers" => Ok(Any::from(program.tiers().as_str())),
        "stats" => Ok(Any::from(program.stats().as_str())),
        _ => Err(unknown("program", name)),
    }
}

/// A session that any thread may try to use.
struct Shared {
    program: Program,
    session: SharedSession,
    canceller: Canceller,
}

impl Shared {
    /// The arguments of a call of `func`, of which strided tensors are replaced by `copies`.
    fn arguments<'a>(
        &self,
        func: &str,
        args: &'a [AnyView<'a>],
        copies: &'a mut Vec<Any>,
    ) -> FfiResult<&'a [AnyView<'a>]> {
        check_tensors(&self.program, func, args, Parameters::First)?;
        compact(args, copies).map_err(raise)
    }

    /// Changes a setting.
    fn set(&self, change: impl FnOnce(&mut Session)) -> FfiResult {
        self.with(|session| {
            change(session);
            Ok(Any::NONE)
        })
    }

    fn with<T>(&self, body: impl FnOnce(&mut Session) -> Result<T>) -> FfiResult<T> {
        self.session.with(body).map_err(raise)
    }
}

fn session_method(shared: &Arc<Shared>, name: &str, args: &[AnyView<'_>]) -> FfiResult {
    let none = |()| Any::NONE;
    let mut copies = Vec::new();
    match name {
        "functions" => Ok(functions(&shared.program)),
        "signature" => signature(&shared.program, string(args, 0)?),
        "call" => {
            let func = string(args, 0)?;
            let args = shared.arguments(func, rest(args, 1), &mut copies)?;
            shared.session.call_views(func, args).map_err(raise)
        }
        "function" => {
            let (shared, func) = (Arc::clone(shared), string(args, 0)?.to_owned());
            let number = shared.session.function_index(&func).map_err(raise)?;
            let call = move |args: &[AnyView<'_>], result: &mut Any| {
                let mut copies = Vec::new();
                let args = shared.arguments(&func, args, &mut copies)?;
                shared.session.call_into(number, args, result).map_err(raise)?;
                make_writable(result)
            };
            Ok(Function::in_place(call).into())
        }
        "invoke_closure" => {
            let closure = args.first().ok_or_else(|| Raised::type_error("a closure is missing"))?;
            shared.session.invoke_closure(closure, rest(args, 1)).map_err(raise)
        }
        "param_names" => {
            let names = shared.session.param_names(string(args, 0)?).map_err(raise)?;
            Ok(Array::new(names.iter().map(|name| Any::from(name.as_str()))).into())
        }
        "warm_up" => {
            let func = string(args, 0)?;
            let args = shared.arguments(func, rest(args, 1), &mut copies)?;
            let calls = shared.with(|s| s.warm_up_func(s.function_index(func)?, args))?;
            Ok(Any::from(i64::try_from(calls).unwrap_or(i64::MAX)))
        }
        "set_input" => {
            let (func, inputs) = (string(args, 0)?, rest(args, 1));
            check_tensors(&shared.program, func, inputs, Parameters::First)?;
            let inputs = kept(inputs).map_err(raise)?;
            shared.with(|s| s.set_input(func, inputs)).map(none)
        }
        "bind_outputs" => {
            let (func, targets) = (string(args, 0)?, targets(rest(args, 1)).map_err(raise)?);
            shared.with(|s| s.bind_outputs(func, targets)).map(none)
        }
        "invoke_stateful" => {
            let func = string(args, 0)?;
            shared.with(|s| s.invoke_stateful(func)).map(none)
        }
        "output_arity" => {
            let (func, path) = (string(args, 0)?, indices(rest(args, 1))?);
            shared.with(|s| s.output_arity(func, &path)).map(Any::from)
        }
        "get_output" => {
            let (func, path) = (string(args, 0)?, indices(rest(args, 1))?);
            shared.with(|s| s.get_output(func, &path))
        }
        "save_function" => {
            let (func, saved) = (string(args, 0)?, string(args, 1)?);
            let keep = if arg::<bool>(args, 2)? { SavedResult::Keep } else { SavedResult::Drop };
            check_tensors(&shared.program, func, rest(args, 3), Parameters::Last)?;
            let inputs = kept(rest(args, 3)).map_err(raise)?;
            shared.with(|s| s.save_function(func, saved, keep, inputs)).map(none)
        }
        "time" => time(shared, args),
        "profile" => profile(shared, args),
        "set_instrument" => set_instrument(shared, args),
        _ => session_limit(shared, name, args),
    }
}

/// The methods that limit or cancel runs.
fn session_limit(shared: &Shared, name: &str, args: &[AnyView<'_>]) -> FfiResult {
    match name {
        "set_fuel" => {
            let fuel = match args.first() {
                Some(value) if !value.is_none() => u64::try_from(arg::<i64>(args, 0)?).ok(),
                _ => None,
            };
            shared.set(|s| s.set_fuel(fuel))
        }
        "fuel" => {
            let fuel = shared.with(|s| Ok(s.fuel()))?;
            Ok(i64::try_from(fuel).map_or(Any::NONE, Any::from))
        }
        "set_deadline" => {
            let after = match args.first() {
                Some(value) if !value.is_none() => {
                    let seconds = Duration::try_from_secs_f64(arg::<f64>(args, 0)?);
                    Some(seconds.map_err(|error| Raised::value_error(error.to_string()))?)
                }
                _ => None,
            };
            shared.set(|s| s.set_deadline(after))
        }
        // These two are for other threads, while the session runs.
        "cancel" => {
            shared.canceller.cancel();
            Ok(Any::NONE)
        }
        "cancel_reset" => {
            shared.canceller.reset();
            Ok(Any::NONE)
        }
        _ => Err(unknown("session", name)),
    }
}

/// `(callback or None)`: sets the instrument.
fn set_instrument(shared: &Shared, args: &[AnyView<'_>]) -> FfiResult {
    let instrument = match args.first() {
        Some(value) if !value.is_none() => {
            let callback = Function::try_from(*value)?;
            Some(Box::new(CallbackInstrument::new(callback)) as Box<dyn Instrument>)
        }
        _ => None,
    };
    shared.set(|s| s.set_instrument(instrument))
}

/// `(function, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_ms, repeats_to_cooldown,
/// cache_flush_bytes, f_preproc or None, args...)`: seconds per call of each measurement.
fn time(shared: &Shared, args: &[AnyView<'_>]) -> FfiResult {
    const OPTIONS: usize = 8;
    let options = timing_options(rest(args, 1))?;
    let (func, mut copies) = (string(args, 0)?, Vec::new());
    let args = shared.arguments(func, rest(args, 1 + OPTIONS), &mut copies)?;
    let timing = shared.with(|s| s.time_evaluator(func, args, &options))?;
    Ok(Array::new(timing.0.into_iter().map(Any::from)).into())
}

/// `(function, trace file or None, args...)`: the table and the result.
fn profile(shared: &Shared, args: &[AnyView<'_>]) -> FfiResult {
    let (func, trace, mut copies) = (string(args, 0)?, optional(args, 1)?, Vec::new());
    let args = shared.arguments(func, rest(args, 2), &mut copies)?;
    let (value, profile) = shared.with(|s| s.profile(func, args))?;
    if let Some(trace) = trace.map(Path::new) {
        let written = std::fs::write(trace, profile.trace_json());
        written.map_err(|error| raise_io(Error::io(trace, &error), || probe_folder(trace)))?;
    }
    let table = Any::from(profile.table().as_str());
    Ok(Array::new([table, value]).into())
}

/// `(name, function, replace)`: registers a packed function that programs find.
fn register_global_func(args: &[AnyView<'_>]) -> FfiResult {
    let (name, function) = (string(args, 0)?, arg::<Function>(args, 1)?);
    if arg::<bool>(args, 2)? {
        drop(registry::replace(name, function));
    } else {
        registry::register(name, function)?;
    }
    Ok(Any::NONE)
}

/// `(name)`: a builtin or registered packed function, or None.
fn get_global_func(args: &[AnyView<'_>]) -> FfiResult {
    Ok(global_func::get_global_func(string(args, 0)?).map_or(Any::NONE, Any::from))
}

/// `(path, name)`: a packed function of a shared library.
fn library_function(args: &[AnyView<'_>]) -> FfiResult {
    let (path, name) = (string(args, 0)?, string(args, 1)?);
    let path = Path::new(path);
    let function = library::library_function(path, name);
    function.map(Any::from).map_err(|error| raise_io(error, || probe(path)))
}

/// The arguments of [`engine`], then the name of a pass or None, and a language or None: the module after the pass as
/// text, its kernels in the language, or the model as TVMScript.
fn inspect(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, model(args)?);
    let text = match (optional(args, 13)?, optional(args, 14)?) {
        (Some(pass), _) => engine.dump_after(model, pass),
        (None, Some(language)) => {
            engine.source(model, language.parse().map_err(Raised::value_error)?, None)
        }
        (None, None) => Engine::script(model),
    };
    Ok(Any::from(text.map_err(|error| raise_of(error, args))?.as_str()))
}

/// The arguments of [`engine`], of which the model is a path, then those of [`super::quantize::quantize`]: an ONNX
/// model of 8-bit integers or 4-bit weights, and its report.
#[cfg(feature = "onnx")]
fn quantize(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, string(args, 0)?);
    let quantized = super::quantize::quantize(&engine, model, rest(args, 13))?;
    quantized.map_err(|error| raise_of(error, args))
}

/// Builds without the importer have none.
#[cfg(not(feature = "onnx"))]
fn quantize(_: &[AnyView<'_>]) -> FfiResult {
    Err(Raised::new("NotImplementedError", "this build of libreflex.so has no importer of ONNX"))
}

/// The arguments of [`engine`], then the name of a pass or None: the nodes of the module after the pass, or of the
/// model.
fn ir_of(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, model(args)?);
    let graph = match optional(args, 13)? {
        Some(pass) => engine.nodes_after(model, pass),
        None => Engine::nodes(model),
    };
    Ok(super::ir::wrap(graph.map_err(|error| raise_of(error, args))?))
}

/// The arguments of [`engine`], then the name of a pass: the module of the model after this pass alone, as nodes
/// where the model is a graph of nodes, else as TVMScript.
fn run_pass(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model, pass) = (engine(args)?, model(args)?, string(args, 13)?);
    let run = || {
        model.check_is_module()?;
        let module = model.import().map_err(|e| e.at(&model))?;
        engine.run_pass(module, pass)
    };
    let module = run().map_err(|error| raise_of(error, args))?;
    if args.first().and_then(super::ir::unwrap).is_some() {
        return Ok(super::ir::wrap(crate::ir::of_module(&module).map_err(raise)?));
    }
    Ok(Any::from(reflex_graph::print::module_with_metadata(&module).as_str()))
}

/// `()`: a builder of executables.
fn exec_builder(_: &[AnyView<'_>]) -> FfiResult {
    super::exec_builder::create(program_handle)
}

/// The arguments of [`engine`], then the name of a kernel: its schedule, to which primitives are applied.
fn schedule(args: &[AnyView<'_>]) -> FfiResult {
    let (engine, model) = (engine(args)?, model(args)?);
    let schedule = engine.schedule(model, string(args, 13)?);
    Ok(super::schedule::create(schedule.map_err(|error| raise_of(error, args))?))
}

/// `()`: a table of the primitives that schedules are made of.
fn schedule_primitives(_: &[AnyView<'_>]) -> FfiResult {
    Ok(Any::from(Schedule::describe().as_str()))
}

/// `(name, description, implementation)`: registers a tensor intrinsic from two kernels in TVMScript.
fn register_tensor_intrin(args: &[AnyView<'_>]) -> FfiResult {
    let done =
        by_hand::register_tensor_intrin(string(args, 0)?, string(args, 1)?, string(args, 2)?);
    done.map(|()| Any::NONE).map_err(raise)
}

/// `()`: a table of the passes and their options.
fn passes(_: &[AnyView<'_>]) -> FfiResult {
    Ok(Any::from(Pipeline::describe().as_str()))
}

/// `()`: the version of this library.
fn version(_: &[AnyView<'_>]) -> FfiResult {
    Ok(Any::from(env!("CARGO_PKG_VERSION")))
}

/// `(tensor, element type)`: the same memory as elements of another type of the same size.
fn reinterpret(args: &[AnyView<'_>]) -> FfiResult {
    let (tensor, dtype) = (arg::<Tensor>(args, 0)?, string(args, 1)?);
    let dtype = dtype.parse().map_err(|_| Raised::value_error(format!("no type {dtype:?}")))?;
    Ok(tensor.view(0, tensor.shape(), dtype)?.into())
}

/// `()`: bytes live, peak live, resident, peak resident.
fn memory(_: &[AnyView<'_>]) -> FfiResult {
    let s = usage::statistics();
    let bytes = [s.live, s.peak_live, s.resident, s.peak_resident];
    Ok(Array::new(bytes.map(|bytes| Any::from(bytes as i64))).into())
}

/// `(bytes or None)`: bounds what tensors have in use at once.
fn set_memory_limit(args: &[AnyView<'_>]) -> FfiResult {
    let bytes = match args.first() {
        Some(value) if !value.is_none() => usize::try_from(arg::<i64>(args, 0)?)
            .map_err(|_| Raised::value_error("the limit is negative"))?,
        _ => usize::MAX,
    };
    usage::set_memory_limit(bytes);
    Ok(Any::NONE)
}

/// Runs a function of this file in the packed convention.
///
/// # Safety
/// `args` is `count` valid values, `result` may be written.
unsafe fn run(
    body: fn(&[AnyView<'_>]) -> FfiResult,
    args: *const TVMFFIAny,
    count: c_int,
    result: *mut TVMFFIAny,
) -> c_int {
    // SAFETY: the caller passes as many valid values as it counts.
    match guard(|| body(unsafe { AnyView::slice_from_raw(args, count) })) {
        Ok(value) => {
            // SAFETY: the caller passes a result pointer that is null or may be written.
            unsafe { result.write(value.into_raw()) };
            0
        }
        Err(error) => {
            error.raise();
            -1
        }
    }
}

macro_rules! exports {
    ($($symbol:ident = $body:path;)*) => { $(
        #[doc = concat!("[`", stringify!($body), "`] as a function of the tvm-ffi module.")]
        ///
        /// # Safety
        /// tvm-ffi's calling convention.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(
            _: *mut c_void,
            args: *const TVMFFIAny,
            count: c_int,
            result: *mut TVMFFIAny,
        ) -> c_int {
            // SAFETY: the caller passes arguments and a result pointer by tvm-ffi's calling
            // convention.
            unsafe { run($body, args, count, result) }
        }
    )*

        /// The functions by their symbols.
        const EXPORTS: &[(&str, SafeCall)] = &[$((stringify!($symbol), $symbol),)*];
    };
}

/// Returns a function of the interface that languages with tvm-ffi have, by its name there; the caller frees
/// it. Among them are `rpc_connect` (sessions at servers of `reflex serve`), `load_module` (programs as
/// modules), and `ir_load`, `ir_script` and others (nodes of the IR). `src/capi/packed.rs` lists
/// them and says what each takes; Python's interface is written over them.
///
/// ```c
/// ReflexValue connect, remote, at[] = {reflex_string_view("127.0.0.1:1"), reflex_string_view("")};
/// CHECK_OK(reflex_interface_function("rpc_connect", &connect));
/// CHECK(reflex_call_function(&connect, at, 2, &remote) == REFLEX_STATUS_RUN); // No server listens there.
/// reflex_free(&connect);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_interface_function(
    name: *const c_char,
    out: *mut TVMFFIAny,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes strings that are null or end in NUL.
        let name = unsafe { text(name, "the name") }?;
        let known = EXPORTS.iter().find(|(symbol, _)| symbol.strip_prefix(PREFIX) == Some(name));
        let (_, call) = known.ok_or_else(|| {
            let names = EXPORTS.iter().filter_map(|(symbol, _)| symbol.strip_prefix(PREFIX));
            let names: Vec<&str> = names.collect();
            Error::input(format!("no function {name:?}; there are {}", names.join(", ")))
        })?;
        // SAFETY: the functions of the table follow the convention from any thread, do not use their first
        // argument and do not unwind.
        let function = unsafe { Function::from_native(*call, ()) };
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Any::from(function).into_raw()) }
    })
}

/// Before the names of the functions in their symbols.
const PREFIX: &str = "__tvm_ffi_";

exports! {
    __tvm_ffi_load = load;
    __tvm_ffi_load_module = load_module;
    __tvm_ffi_inspect = inspect;
    __tvm_ffi_passes = passes;
    __tvm_ffi_target_attributes = target_attributes;
    __tvm_ffi_quantize = quantize;
    __tvm_ffi_schedule = schedule;
    __tvm_ffi_schedule_primitives = schedule_primitives;
    __tvm_ffi_register_tensor_intrin = register_tensor_intrin;
    __tvm_ffi_ir_load = super::ir::load;
    __tvm_ffi_ir_save = super::ir::save;
    __tvm_ffi_ir_of = ir_of;
    __tvm_ffi_ir_script = super::ir::script;
    __tvm_ffi_run_pass = run_pass;
    __tvm_ffi_ir_size = super::ir::size;
    __tvm_ffi_ir_node = super::ir::node;
    __tvm_ffi_ir_mismatch = super::ir::mismatch;
    __tvm_ffi_ir_hash = super::ir::structural_hash;
    __tvm_ffi_register_operator = outside::register_operator;
    __tvm_ffi_match_pattern = outside::match_pattern;
    __tvm_ffi_match_patterns = outside::match_patterns;
    __tvm_ffi_function_module = outside::function_module;
    __tvm_ffi_exec_builder = exec_builder;
    __tvm_ffi_dtype = super::exec_builder::dtype;
    __tvm_ffi_rpc_connect = super::rpc::connect;
    __tvm_ffi_rpc_to_local = super::rpc::to_local;
    __tvm_ffi_rpc_write = super::rpc::write;
    __tvm_ffi_rpc_describe = super::rpc::describe;
    __tvm_ffi_rpc_tensor_key = super::rpc::tensor_key;
    __tvm_ffi_register_global_func = register_global_func;
    __tvm_ffi_get_global_func = get_global_func;
    __tvm_ffi_library_function = library_function;
    __tvm_ffi_version = version;
    __tvm_ffi_reinterpret = reinterpret;
    __tvm_ffi_memory = memory;
    __tvm_ffi_set_memory_limit = set_memory_limit;
}

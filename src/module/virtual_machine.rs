//! The module of a session: the functions of TVM's virtual machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::Functions;
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::Instrument;
use reflex_vm::session::SavedResult;

use super::kinds;
use crate::error::Error;
use crate::memory::AllocatorKind;
use crate::options::{Mode, SessionOptions};
use crate::program::Program;
use crate::session::Session;
use crate::shared_session::SharedSession;
use crate::shared_session::arguments::{compact, kept};
use crate::shared_session::callback_instrument::CallbackInstrument;
use crate::shared_session::owned_results::make_writable;

/// Most calls of a measurement.
const MAX_CALLS: usize = 200_000;
/// The longest measurement.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// CPUs, as DLPack numbers kinds of devices.
const KIND_CPU: i64 = 1;

/// The module of a session.
pub(super) struct VirtualMachine(Arc<State>);

/// A session and the names that it has saved.
struct State {
    program: Program,
    mode: Mode,
    /// Replaced by `vm_initialization`.
    session: RwLock<Arc<SharedSession>>,
    saved: Mutex<BTreeSet<String>>,
}

impl State {
    fn session(&self) -> Arc<SharedSession> {
        Arc::clone(&self.session.read())
    }

    /// Uses the session, which a function that it calls may not change.
    fn with<R>(&self, body: impl FnOnce(&mut Session) -> Result<R, Error>) -> Result<R, Raised> {
        self.session().with(body).map_err(raised)
    }
}

type Method = fn(&State, &[AnyView<'_>]) -> Result<Any, Raised>;

/// The functions of TVM's virtual machine, and those for measuring at the server.
const METHODS: [(&str, Method); 13] = [
    ("vm_initialization", initialize),
    ("invoke_closure", invoke_closure),
    ("save_function", save_function),
    ("set_input", set_input),
    ("invoke_stateful", invoke_stateful),
    ("get_output", get_output),
    ("get_output_arity", get_output_arity),
    ("get_function_arity", get_function_arity),
    ("get_function_param_name", get_function_param_name),
    ("set_instrument", set_instrument),
    ("reflex.bench", bench),
    ("reflex.profile", profile),
    ("reflex.warm_up", warm_up),
];

impl VirtualMachine {
    /// A session of its own program: none runs what another one compiled.
    pub(super) fn open(program: &Program, mode: Mode) -> Result<VirtualMachine, Raised> {
        let program = program.fork().map_err(raised)?;
        let session = SharedSession::new(program.session(mode).map_err(raised)?);
        let session = RwLock::new(Arc::new(session));
        Ok(VirtualMachine(Arc::new(State { program, mode, session, saved: Mutex::default() })))
    }
}

impl Functions for VirtualMachine {
    fn kind(&self) -> &str {
        kinds::VIRTUAL_MACHINE
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        let state = Arc::clone(&self.0);
        if let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) {
            return Ok(Some(Function::new(move |args| method(&state, args))));
        }
        let is_function = state.session().function_index(name).is_ok();
        let is_known = is_function || state.saved.lock().contains(name);
        let name = name.to_owned();
        Ok(is_known.then(|| Function::new(move |args| call(&state, &name, args))))
    }
}

/// Calls a function of the program, or a saved one.
fn call(state: &State, name: &str, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let mut copies = vec![];
    let args = compact(args, &mut copies).map_err(raised)?;
    let mut result = state.session().call_views(name, args).map_err(raised)?;
    make_writable(&mut result)?;
    Ok(result)
}

/// Takes triples of a device's kind, its number and its allocator.
fn initialize(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let mut options = SessionOptions::new(state.mode);
    // Of two for one CPU the first counts: hosts append the CPU to their devices.
    for (at, device) in args.chunks(3).enumerate().rev() {
        let number = |of| function::arg::<i64>(device, of);
        if number(0)? != KIND_CPU {
            let text = format!("device {at} is of kind {}; there is cpu", number(0)?);
            return Err(Raised::value_error(text));
        }
        let kind = match number(2)? {
            1 => AllocatorKind::Naive,
            _ => AllocatorKind::Pooled,
        };
        let cpu =
            i32::try_from(number(1)?).map_err(|_| Raised::value_error("no number of a CPU"))?;
        options = options.allocator_of(cpu, kind);
    }
    let session = state.program.open(&options).map_err(raised)?;
    *state.session.write() = Arc::new(SharedSession::new(session));
    state.saved.lock().clear();
    Ok(Any::NONE)
}

fn raised(error: Error) -> Raised {
    error.to_object()
}

fn name(args: &[AnyView<'_>]) -> Result<Str, Raised> {
    function::arg(args, 0)
}

fn rest<'a, 'b>(args: &'a [AnyView<'b>], from: usize) -> &'a [AnyView<'b>] {
    args.get(from..).unwrap_or_default()
}

fn path(args: &[AnyView<'_>]) -> Result<Vec<usize>, Raised> {
    let item = |at| {
        let index = function::arg::<i64>(args, at)?;
        usize::try_from(index).map_err(|_| Raised::new("IndexError", format!("output {index}")))
    };
    (1..args.len()).map(item).collect()
}

fn invoke_closure(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let closure = args.first().copied().unwrap_or(AnyView::NONE);
    let mut copies = vec![];
    let args = compact(rest(args, 1), &mut copies).map_err(raised)?;
    let mut result = state.session().invoke_closure(&closure, args).map_err(raised)?;
    make_writable(&mut result)?;
    Ok(result)
}

fn save_function(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (name, saved) = (name(args)?, function::arg::<Str>(args, 1)?);
    let result = match function::arg::<bool>(args, 2)? {
        true => SavedResult::Keep,
        false => SavedResult::Drop,
    };
    let args = kept(rest(args, 3)).map_err(raised)?;
    state.with(|session| session.save_function(&name, &saved, result, args))?;
    state.saved.lock().insert(saved.to_string());
    Ok(Any::NONE)
}

fn set_input(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (name, inputs) = (name(args)?, kept(rest(args, 1)).map_err(raised)?);
    state.with(|session| session.set_input(&name, inputs)).map(|()| Any::NONE)
}

fn invoke_stateful(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let name = name(args)?;
    state.with(|session| session.invoke_stateful(&name)).map(|()| Any::NONE)
}

fn get_output(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (name, path) = (name(args)?, path(args)?);
    let mut result = state.with(|session| session.get_output(&name, &path))?;
    make_writable(&mut result)?;
    Ok(result)
}

fn get_output_arity(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (name, path) = (name(args)?, path(args)?);
    state.with(|session| session.output_arity(&name, &path)).map(Any::from)
}

fn get_function_arity(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session().function_index(&name(args)?).map_err(raised)?;
    state.with(|session| {
        let code = session.vm_state().program().function(func);
        Ok(Any::from(code.map_or(0, |code| i64::from(code.num_args))))
    })
}

fn get_function_param_name(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let session = state.session();
    let names = session.param_names(&name(args)?).map_err(raised)?;
    let at = function::arg::<i64>(args, 1)?;
    let found = usize::try_from(at).ok().and_then(|at| names.get(at));
    let missing = || Raised::new("IndexError", format!("no name of a parameter {at}"));
    found.map(|name| Any::from(name.as_str())).ok_or_else(missing)
}

/// `(function or None)`: sets the instrument.
fn set_instrument(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let instrument = match args.first() {
        Some(value) if !value.is_none() => {
            let callback = Function::try_from(*value)?;
            Some(Box::new(CallbackInstrument::new(callback)) as Box<dyn Instrument>)
        }
        _ => None,
    };
    state.with(|session| {
        session.set_instrument(instrument);
        Ok(Any::NONE)
    })
}

/// `(name, seconds, args...)`: microseconds of each call, as floats.
fn bench(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session().function_index(&name(args)?).map_err(raised)?;
    let seconds = Duration::try_from_secs_f64(function::arg(args, 1)?).unwrap_or_default();
    let budget = seconds.min(MAX_TIME);
    let mut copies = vec![];
    let args = compact(rest(args, 2), &mut copies).map_err(raised)?;
    let sample = state.with(|session| {
        session.warm_up_func(func, args)?;
        let mut sample = vec![];
        let start = Instant::now();
        while sample.len() < 3 || (start.elapsed() < budget && sample.len() < MAX_CALLS) {
            let began = Instant::now();
            drop(session.call_index(func, args)?);
            sample.push(began.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(sample)
    })?;
    let bytes: Vec<u8> = sample.iter().flat_map(|us| us.to_le_bytes()).collect();
    Ok(Bytes::new(&bytes).into())
}

/// `(name, args...)`: the table of a profile.
fn profile(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let name = name(args)?;
    let mut copies = vec![];
    let args = compact(rest(args, 1), &mut copies).map_err(raised)?;
    let (_, profile) = state.with(|session| {
        session.call_views(&name, args)?;
        session.profile(&name, args)
    })?;
    Ok(Any::from(&*profile.table().to_string()))
}

/// `(name, args...)`: the number of calls.
fn warm_up(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session().function_index(&name(args)?).map_err(raised)?;
    let mut copies = vec![];
    let args = compact(rest(args, 1), &mut copies).map_err(raised)?;
    let calls = state.with(|session| session.warm_up_func(func, args))?;
    Ok(Any::from(calls as i64))
}

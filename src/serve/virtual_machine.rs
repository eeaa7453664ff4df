//! Modules of a loaded program: the executable, and the functions of TVM's virtual machine on a
//! session of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reflex_rpc::module::{Functions, Module};
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{self, Function};
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::session::SavedResult;

use crate::error::Error;
use crate::memory::AllocatorKind;
use crate::options::{Mode, SessionOptions};
use crate::program::Program;
use crate::session::Session;

/// Most calls of a measurement.
const MAX_CALLS: usize = 200_000;
/// The longest measurement.
const MAX_SECONDS: f64 = 3600.0;
/// CPUs, as DLPack numbers kinds of devices.
const KIND_CPU: i64 = 1;

/// The module of a loaded program.
pub(super) struct ExecutableModule {
    program: Program,
    mode: Mode,
}

impl ExecutableModule {
    pub(super) fn new(program: Program, mode: Mode) -> ExecutableModule {
        ExecutableModule { program, mode }
    }
}

impl Functions for ExecutableModule {
    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        let program = self.program.clone();
        let mode = self.mode;
        Ok(match name {
            "vm_load_executable" => Some(Function::new(move |args| {
                let mode = match args.first().and_then(|name| name.as_str()) {
                    Some(name) => name.parse().map_err(|e: String| Raised::value_error(e))?,
                    None => mode,
                };
                Ok(Module::new(VirtualMachine::open(&program, mode)?).to_any())
            })),
            "stats" => Some(Function::new(move |_| Ok(Any::from(&*program.stats())))),
            "as_text" => Some(Function::new(move |_| Ok(Any::from(&*program.as_text())))),
            _ => None,
        })
    }
}

/// A session, called by one client, and the names that it has saved.
struct State {
    session: Session,
    saved: BTreeSet<String>,
}

/// The module of a session.
struct VirtualMachine {
    program: Program,
    mode: Mode,
    state: Arc<Mutex<State>>,
}

type Method = fn(&mut State, &[AnyView<'_>]) -> Result<Any, Raised>;

/// The functions of TVM's virtual machine, and those for measuring at the server.
const METHODS: [(&str, Method); 12] = [
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
    fn open(program: &Program, mode: Mode) -> Result<VirtualMachine, Raised> {
        // A program of its own: no session runs what another one compiled.
        let program = program.fork().map_err(raised)?;
        let session = program.session(mode).map_err(raised)?;
        let state = State { session, saved: BTreeSet::new() };
        Ok(VirtualMachine { program, mode, state: Arc::new(Mutex::new(state)) })
    }

    /// Takes triples of a device's kind, its number and its allocator.
    fn initialize(&self) -> Function {
        let (program, mode, state) = (self.program.clone(), self.mode, Arc::clone(&self.state));
        Function::new(move |args| {
            let mut allocator = AllocatorKind::default();
            for (at, device) in args.chunks(3).enumerate() {
                let number = |of| function::arg::<i64>(device, of);
                if number(0)? != KIND_CPU {
                    let text = format!("device {at} is of kind {}; there is cpu", number(0)?);
                    return Err(Raised::value_error(text));
                }
                if number(2)? == 1 {
                    allocator = AllocatorKind::Naive;
                }
            }
            let options = SessionOptions::new(mode).allocator(allocator);
            state.lock().session = program.open(&options).map_err(raised)?;
            Ok(Any::NONE)
        })
    }
}

impl Functions for VirtualMachine {
    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        if name == "vm_initialization" {
            return Ok(Some(self.initialize()));
        }
        let state = Arc::clone(&self.state);
        if let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) {
            return Ok(Some(Function::new(move |args| method(&mut *enter(&state)?, args))));
        }
        let is_known = {
            let state = enter(&state)?;
            state.session.function_index(name).is_ok() || state.saved.contains(name)
        };
        let name = name.to_owned();
        Ok(is_known.then(|| {
            Function::new(move |args| {
                enter(&state)?.session.call_views(&name, args).map_err(raised)
            })
        }))
    }
}

/// The session, which a function that it calls may not enter again.
fn enter(state: &Mutex<State>) -> Result<parking_lot::MutexGuard<'_, State>, Raised> {
    state.try_lock().ok_or_else(|| Raised::runtime_error("the session is in a call"))
}

fn raised(error: Error) -> Raised {
    error.to_object()
}

fn name(args: &[AnyView<'_>]) -> Result<Str, Raised> {
    function::arg(args, 0)
}

fn owned(args: &[AnyView<'_>]) -> Vec<Any> {
    args.iter().map(AnyView::to_owned).collect()
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

fn invoke_closure(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let closure = args.first().map(AnyView::to_owned).unwrap_or_default();
    state.session.invoke_closure(&closure, rest(args, 1)).map_err(raised)
}

fn save_function(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (name, saved) = (name(args)?, function::arg::<Str>(args, 1)?);
    let kept = match function::arg::<bool>(args, 2)? {
        true => SavedResult::Keep,
        false => SavedResult::Drop,
    };
    state.session.save_function(&name, &saved, kept, owned(rest(args, 3))).map_err(raised)?;
    state.saved.insert(saved.to_string());
    Ok(Any::NONE)
}

fn set_input(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    state.session.set_input(&name(args)?, owned(rest(args, 1))).map_err(raised)?;
    Ok(Any::NONE)
}

fn invoke_stateful(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    state.session.invoke_stateful(&name(args)?).map_err(raised)?;
    Ok(Any::NONE)
}

fn get_output(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    state.session.get_output(&name(args)?, &path(args)?).map_err(raised)
}

fn get_output_arity(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let arity = state.session.output_arity(&name(args)?, &path(args)?);
    arity.map(Any::from).map_err(raised)
}

fn get_function_arity(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session.function_index(&name(args)?).map_err(raised)?;
    let code = state.session.vm_state().program().function(func);
    Ok(Any::from(code.map_or(0, |code| i64::from(code.num_args))))
}

fn get_function_param_name(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let names = state.session.param_names(&name(args)?).map_err(raised)?;
    let at = function::arg::<i64>(args, 1)?;
    let found = usize::try_from(at).ok().and_then(|at| names.get(at));
    let missing = || Raised::new("IndexError", format!("no name of a parameter {at}"));
    found.map(|name| Any::from(name.as_str())).ok_or_else(missing)
}

fn set_instrument(_: &mut State, _: &[AnyView<'_>]) -> Result<Any, Raised> {
    let text = "instruments are functions of the client, which do not travel";
    Err(Raised::new("NotImplementedError", text))
}

/// `(name, seconds, args...)`: microseconds of each call, as floats.
fn bench(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session.function_index(&name(args)?).map_err(raised)?;
    let seconds = function::arg::<f64>(args, 1)?.clamp(0.0, MAX_SECONDS);
    let (budget, args) = (Duration::from_secs_f64(seconds), rest(args, 2));
    state.session.warm_up_func(func, args).map_err(raised)?;
    let mut sample = vec![];
    let start = Instant::now();
    while sample.len() < 3 || (start.elapsed() < budget && sample.len() < MAX_CALLS) {
        let began = Instant::now();
        drop(state.session.call_index(func, args).map_err(raised)?);
        sample.push(began.elapsed().as_nanos() as f64 / 1e3);
    }
    let bytes: Vec<u8> = sample.iter().flat_map(|us| us.to_le_bytes()).collect();
    Ok(Bytes::new(&bytes).into())
}

/// `(name, args...)`: the table of a profile.
fn profile(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let name = name(args)?;
    state.session.call_views(&name, rest(args, 1)).map_err(raised)?;
    let (_, profile) = state.session.profile(&name, rest(args, 1)).map_err(raised)?;
    Ok(Any::from(&*profile.table().to_string()))
}

/// `(name, args...)`: the number of calls.
fn warm_up(state: &mut State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let func = state.session.function_index(&name(args)?).map_err(raised)?;
    let calls = state.session.warm_up_func(func, rest(args, 1)).map_err(raised)?;
    Ok(Any::from(calls as i64))
}

//! Modules that keep the inputs and outputs of one function in place: what TVM's graph executor offers.

use std::sync::Arc;

use parking_lot::Mutex;
use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::Functions;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::kinds;
use crate::error::Error;
use crate::program::Program;
use crate::session::Session;
use crate::shared_session::SharedSession;
use crate::shared_session::owned_results::make_writable;

/// A function of a session with its inputs and outputs.
pub(super) struct StatefulModule(Arc<State>);

struct State {
    session: SharedSession,
    func: String,
    inputs: Vec<String>,
    /// Names of outputs, where the program has them.
    outputs: Vec<String>,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    inputs: Vec<Option<Any>>,
    outputs: Option<Vec<Any>>,
}

type Method = fn(&State, &[AnyView<'_>]) -> Result<Any, Raised>;

const METHODS: [(&str, Method); 8] = [
    ("set_input", set_input),
    ("set_input_zero_copy", set_input_zero_copy),
    ("get_input", get_input),
    ("get_input_index", get_input_index),
    ("get_num_inputs", |state, _| count(state.inputs.len())),
    ("run", run),
    ("get_output", get_output),
    ("get_num_outputs", get_num_outputs),
];

impl StatefulModule {
    pub(super) fn new(
        program: &Program,
        session: Session,
        func: &str,
    ) -> Result<StatefulModule, Raised> {
        let index = session.function_index(func).map_err(raised)?;
        let arity = session.vm_state().program().function(index).map_or(0, |code| code.num_args);
        let mut inputs = session.param_names(func).map_err(raised)?;
        inputs.resize_with(arity as usize, String::new);
        let outputs = program.signature(func).map(|signature| signature.outputs);
        let outputs = outputs.unwrap_or_default().into_iter().map(|output| output.name).collect();
        let values = Values { inputs: vec![None; inputs.len()], outputs: None };
        let (session, func) = (SharedSession::new(session), func.to_owned());
        let values = Mutex::new(values);
        Ok(StatefulModule(Arc::new(State { session, func, inputs, outputs, values })))
    }
}

impl Functions for StatefulModule {
    fn kind(&self) -> &str {
        kinds::STATEFUL
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Raised> {
        let method = METHODS.iter().find(|(known, _)| *known == name);
        Ok(method.map(|(_, method)| {
            let state = Arc::clone(&self.0);
            Function::new(move |args| method(&state, args))
        }))
    }
}

fn raised(error: Error) -> Raised {
    error.to_object()
}

fn count(count: usize) -> Result<Any, Raised> {
    Ok(Any::from(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// The place that argument 0 names, by number or by name.
fn place(
    args: &[AnyView<'_>],
    names: &[String],
    total: usize,
    what: &str,
) -> Result<usize, Raised> {
    let key = args.first().ok_or_else(|| Raised::type_error("argument 0 is missing: 0 given"))?;
    if let Some(name) = key.as_str() {
        let found = names.iter().position(|known| known == name);
        return found.ok_or_else(|| {
            let known = names.join(", ");
            Raised::new("KeyError", format!("there is no {what} {name:?}; there are {known}"))
        });
    }
    let at: i64 = function::arg(args, 0)?;
    usize::try_from(at).ok().filter(|at| *at < total).ok_or_else(|| {
        Raised::new("IndexError", format!("there is no {what} {at}; there are {total}"))
    })
}

/// The input that argument 0 names, and its value, argument 1.
fn given<'a>(state: &State, args: &'a [AnyView<'a>]) -> Result<(usize, AnyView<'a>), Raised> {
    let at = place(args, &state.inputs, state.inputs.len(), "input")?;
    let missing = || Raised::type_error("argument 1 is missing: 1 given");
    Ok((at, *args.get(1).ok_or_else(missing)?))
}

/// `(number or name, value)`: a copy of a tensor, or any other value.
fn set_input(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (at, value) = given(state, args)?;
    let value = match value.downcast_ref::<Tensor>() {
        Some(tensor) if tensor.is_compact() => tensor.copy_to(tensor.device())?.into(),
        Some(tensor) => tensor.to_compact()?.into(),
        None => value.to_owned_copy()?,
    };
    state.values.lock().inputs[at] = Some(value);
    Ok(Any::NONE)
}

/// `(number or name, value)`: the value itself, whose later changes are seen.
fn set_input_zero_copy(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let (at, value) = given(state, args)?;
    let shared = value.downcast_ref::<Tensor>().filter(|tensor| tensor.is_compact());
    let shared = shared.ok_or_else(|| {
        Raised::type_error("only a compact tensor object is shared; `set_input` copies others")
    })?;
    state.values.lock().inputs[at] = Some(shared.clone().into());
    Ok(Any::NONE)
}

/// `(number or name)`: the value that was set.
fn get_input(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let at = place(args, &state.inputs, state.inputs.len(), "input")?;
    state.values.lock().inputs[at].clone().ok_or_else(|| not_set(state, at))
}

/// `(name)`: the number of an input; -1 if there is none.
fn get_input_index(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let name: reflex_runtime::string::Str = function::arg(args, 0)?;
    let found = state.inputs.iter().position(|known| **known == *name);
    Ok(Any::from(found.map_or(-1, |at| at as i64)))
}

#[cold]
fn not_set(state: &State, at: usize) -> Raised {
    let name = &state.inputs[at];
    Raised::value_error(format!("input {at} of `{}` is not set: {name:?}", state.func))
}

/// `()`: calls the function on its inputs and keeps the results.
fn run(state: &State, _: &[AnyView<'_>]) -> Result<Any, Raised> {
    let inputs = state.values.lock().inputs.clone();
    let set = |(at, value): (usize, Option<Any>)| value.ok_or_else(|| not_set(state, at));
    let inputs: Vec<Any> = inputs.into_iter().enumerate().map(set).collect::<Result<_, _>>()?;
    let mut result =
        state.session.call_views(&state.func, AnyView::slice(&inputs)).map_err(raised)?;
    make_writable(&mut result)?;
    let outputs = match result.downcast_ref::<Array>() {
        Some(items) => items.to_vec(),
        None => vec![result],
    };
    state.values.lock().outputs = Some(outputs);
    Ok(Any::NONE)
}

/// The kept results.
fn outputs(state: &State) -> Result<Vec<Any>, Raised> {
    let outputs = state.values.lock().outputs.clone();
    let missing = || Raised::value_error(format!("`{}` has not run: call `run` first", state.func));
    outputs.ok_or_else(missing)
}

/// `(number or name)`: a result. `(number or name, tensor)`: the tensor, which a result is copied into.
fn get_output(state: &State, args: &[AnyView<'_>]) -> Result<Any, Raised> {
    let outputs = outputs(state)?;
    let at = place(args, &state.outputs, outputs.len(), "output")?;
    let missing = || Raised::new("IndexError", format!("the last run gave no output {at}"));
    let output = outputs.get(at).ok_or_else(missing)?;
    let Some(target) = args.get(1).filter(|target| !target.is_none()) else {
        return Ok(output.clone());
    };
    let target: Tensor = (*target).try_into()?;
    // SAFETY: the caller of a packed function promises that no other thread reads or writes its output
    // tensors meanwhile.
    unsafe { target.assign(&Tensor::try_from(output.view())?) }?;
    Ok(args[1].to_owned())
}

/// `()`: the number of outputs, of the last run or of the signature.
fn get_num_outputs(state: &State, _: &[AnyView<'_>]) -> Result<Any, Raised> {
    let of_run = state.values.lock().outputs.as_ref().map(Vec::len);
    count(of_run.unwrap_or(state.outputs.len()))
}

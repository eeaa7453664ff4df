//! The VM's builder of executables as a packed function, for `reflex.ExecBuilder`.

use parking_lot::Mutex;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::shape::Shape;
use reflex_runtime::string::Str;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::{ConstData, Constant, Executable, TensorConst};
use reflex_vm::text;

use crate::engine::Engine;
use crate::program::Program;

type FfiResult<T = Any> = Result<T, Raised>;

/// A builder, until what it built is asked for.
enum State {
    Open(Box<ExecBuilder>),
    Finished(Box<Executable>),
}

/// A builder, a function whose first argument is the name of what to do. Registers, immediates, constants
/// and functions are the words of instructions. `handle` makes a value of the finished program.
pub(super) fn create(handle: fn(Program) -> Any) -> FfiResult {
    let state = Mutex::new(State::Open(Box::default()));
    let method = move |args: &[AnyView<'_>]| {
        let name: Str = arg(args, 0)?;
        let mut state = state.lock();
        match &*name {
            "as_text" => Ok(Any::from(text::as_text(finished(&mut state)?).as_str())),
            "get" => {
                let executable = finished(&mut state)?.clone();
                let program = Engine::new().and_then(|engine| engine.link(executable));
                Ok(handle(program.map_err(|e| e.to_object())?))
            }
            name => match &mut *state {
                State::Open(builder) => emit(builder, name, args.get(1..).unwrap_or_default()),
                State::Finished(_) => Err(Raised::value_error("the executable is finished")),
            },
        }
    };
    Ok(Function::new(method).into())
}

/// The executable that was built.
fn finished(state: &mut State) -> FfiResult<&Executable> {
    if let State::Open(builder) = state {
        let builder = std::mem::take(&mut **builder);
        *state = State::Finished(Box::new(builder.finish().map_err(failed)?));
    }
    match state {
        State::Finished(executable) => Ok(executable),
        State::Open(_) => Err(Raised::runtime_error("the executable is open")),
    }
}

fn failed(error: BuildError) -> Raised {
    Raised::value_error(error.to_string())
}

fn word(given: Arg) -> FfiResult {
    Ok(Any::from(given.encode()))
}

fn none(outcome: Result<(), BuildError>) -> FfiResult {
    outcome.map(|()| Any::NONE).map_err(failed)
}

/// Words and instructions.
fn emit(builder: &mut ExecBuilder, name: &str, args: &[AnyView<'_>]) -> FfiResult {
    let text = |at| arg::<Str>(args, at);
    match name {
        "function" => function(builder, args),
        "end_function" => none(builder.end_function()),
        "r" => arg::<i64>(args, 0).and_then(|index| {
            let index = u32::try_from(index);
            let index =
                index.map_err(|_| Raised::value_error("a register is from 0 to 4294967295"));
            word(builder.r(index?))
        }),
        "imm" => arg(args, 0).and_then(|value| word(builder.imm(value).map_err(failed)?)),
        "f" => text(0).and_then(|name| word(builder.f(&name))),
        "void_arg" => word(builder.void_arg()),
        "vm_state" => word(builder.vm_state()),
        "constant" => {
            args.first().map_or(Err(Raised::type_error("a constant is missing")), |value| {
                word(builder.c(constant(value)?))
            })
        }
        "emit_call" => call(builder, args),
        "emit_ret" => register(args, 0).and_then(|result| none(builder.emit_ret(result))),
        "emit_goto" => arg(args, 0).and_then(|offset| none(builder.emit_goto_by(offset))),
        "emit_if" => {
            register(args, 0).and_then(|cond| none(builder.emit_if_by(cond, arg::<i64>(args, 1)?)))
        }
        "warnings" => {
            let warnings = builder.warnings().iter().map(|each| Any::from(each.as_str()));
            Ok(Array::new(warnings).into())
        }
        _ => Err(Raised::new("AttributeError", format!("a builder has no `{name}`"))),
    }
}

/// `(name, number of inputs or an array of their names)`.
fn function(builder: &mut ExecBuilder, args: &[AnyView<'_>]) -> FfiResult {
    let name: Str = arg(args, 0)?;
    let Some(count) = args.get(1).and_then(|count| count.as_int()) else {
        let names: Array = arg(args, 1)?;
        let names = names.iter().map(|name| Str::try_from(name.view()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        return none(builder.function_with_params(&name, &names));
    };
    let count = u32::try_from(count).map_err(|_| Raised::value_error("negative inputs"))?;
    none(builder.function(&name, count))
}

/// A word that is a register.
fn register(args: &[AnyView<'_>], at: usize) -> FfiResult<Reg> {
    match Arg::decode(arg(args, at)?) {
        Ok(Arg::Reg(register)) => Ok(register),
        _ => Err(Raised::type_error(format!("argument {at} is no register"))),
    }
}

/// `(callee, array of words, register or None)`.
fn call(builder: &mut ExecBuilder, args: &[AnyView<'_>]) -> FfiResult {
    let (callee, words) = (arg::<Str>(args, 0)?, arg::<Array>(args, 1)?);
    let decode = |word: &Any| {
        let bad = |_| Raised::value_error("an argument is no word of an instruction");
        Arg::decode(i64::try_from(word.view())?).map_err(bad)
    };
    let words = words.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    let dst = match args.get(2) {
        Some(dst) if !dst.is_none() => register(args, 2)?,
        _ => Reg::VOID,
    };
    none(builder.emit_call(&callee, &words, dst))
}

/// A constant of the pool.
fn constant(value: &AnyView<'_>) -> FfiResult<Constant> {
    if let Some(tensor) = value.downcast_ref::<Tensor>() {
        let tensor = tensor.to_compact()?.to_host()?;
        let data = ConstData::copy_of(&tensor.to_bytes()?);
        let shape = tensor.shape().into();
        return Ok(Constant::Tensor(TensorConst { dtype: tensor.dtype(), shape, data }));
    }
    if let Some(shape) = value.downcast_ref::<Shape>() {
        return Ok(Constant::Shape((**shape).into()));
    }
    if let Some(text) = value.as_str() {
        return Ok(Constant::Str(text.into()));
    }
    if let Some(dtype) = value.as_dtype() {
        return Ok(Constant::DType(dtype));
    }
    match (value.as_int(), value.as_float()) {
        (Some(value), _) => Ok(Constant::Int(value)),
        (_, Some(value)) => Ok(Constant::Float(value)),
        _ => {
            let key = value.type_key();
            Err(Raised::type_error(format!("a `{key}` is no constant of an executable")))
        }
    }
}

/// An element type as a constant, from its name.
pub(super) fn dtype(args: &[AnyView<'_>]) -> FfiResult {
    let name: Str = arg(args, 0)?;
    let dtype: DType =
        name.parse().map_err(|_| Raised::value_error(format!("no type {:?}", &*name)))?;
    Ok(dtype.into())
}

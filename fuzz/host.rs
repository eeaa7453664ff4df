//! The host side of generated programs: functions with effects, failures, and counted objects.
//!
//! Everything observable goes into a log, in order; objects count themselves while they live. Both
//! are per thread, so oracles may run on several threads at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builtins::Closure;
use reflex_vm::reentry;
use reflex_vm::session::Canceller;

use crate::kernels;

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static CANCELLER: RefCell<Option<Canceller>> = const { RefCell::new(None) };
}

/// An object that counts itself while it lives.
struct Token;

impl Token {
    fn new() -> Self {
        LIVE.with(|live| live.set(live.get() + 1));
        Token
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        LIVE.with(|live| live.set(live.get() - 1));
    }
}

/// Takes what has been logged since the last time.
pub fn take_log() -> Vec<String> {
    LOG.with(|log| std::mem::take(&mut *log.borrow_mut()))
}

/// Objects made by `fuzz.object` that are alive.
pub fn live_objects() -> i64 {
    LIVE.with(Cell::get)
}

/// Logs a line; returns the number of lines.
pub(crate) fn log(line: String) -> i64 {
    LOG.with(|log| {
        let mut log = log.borrow_mut();
        log.push(line);
        log.len() as i64
    })
}

/// Tuples in tuples that are described: a recursion may double them at each of its levels.
const NESTED: usize = 6;

/// A value as text: contents, never addresses.
pub fn describe(value: AnyView<'_>) -> String {
    nested(value, NESTED)
}

fn nested(value: AnyView<'_>, levels: usize) -> String {
    if let Some(items) = value.downcast_ref::<Array>() {
        let Some(deeper) = levels.checked_sub(1) else {
            return format!("({} items)", items.len());
        };
        let items: Vec<_> = items.iter().map(|item| nested(item.view(), deeper)).collect();
        return format!("({})", items.join(", "));
    }
    if let Some(shape) = value.downcast_ref::<Shape>() {
        let dims: Vec<i64> = shape.iter().copied().collect();
        return format!("shape{dims:?}");
    }
    match value.type_key().as_str() {
        "None" => "none".to_owned(),
        "int" => format!("{:?}", value.as_int()),
        "bool" => format!("{:?}", value.as_bool()),
        "float" => format!("{:?}", value.as_float().map(f64::to_bits)),
        "ffi.Tensor" => tensor(value),
        key => match value.as_str() {
            Some(text) => format!("{text:?}"),
            None => key.to_owned(),
        },
    }
}

/// Shape, type, device and elements of a tensor.
fn tensor(value: AnyView<'_>) -> String {
    let Some(tensor) = value.downcast_ref::<Tensor>() else { return "tensor".to_owned() };
    let (shape, dtype, on) = (tensor.shape(), tensor.dtype(), tensor.device().device_type);
    format!("tensor{shape:?}{dtype}@{on}:{:08x}", kernels::digest(tensor))
}

fn describe_all(args: &[AnyView<'_>]) -> String {
    args.iter().map(|arg| describe(*arg)).collect::<Vec<_>>().join(" ")
}

fn record(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(log(format!("record {}", describe_all(args))).into())
}

fn fail_on_odd(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let value: i64 = arg(args, 0)?;
    log(format!("fail_on_odd {value}"));
    if value % 2 != 0 {
        return Err(Error::value_error(format!("{value} is odd")));
    }
    Ok((value / 2).into())
}

fn object(_: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(token())
}

/// The number of heads or leaves of the values that [`data`] makes.
const LENGTHS: [i64; 8] = [0, 1, 2, 5, 9, 20, 40, 40];

/// A list or a tree of numbers or objects: a tuple that begins with tag 0 (the end of a list, or a
/// leaf), 1 (a head and a tail) or 2 (two children). One in eight has a part that is none of them.
pub fn data(which: u8) -> Any {
    let tuple = |items: Vec<Any>| -> Any { Array::new(items).into() };
    let (length, is_tree) = (LENGTHS[usize::from(which & 7)], which & 8 != 0);
    let odd = (which >> 5 == 7).then_some(length / 2);
    let mut made = tuple(vec![0_i64.into()]);
    for at in 0..length {
        let head: Any = if which & 16 != 0 { token() } else { at.into() };
        made = match () {
            () if odd == Some(at) => tuple(vec![head, made]),
            () if is_tree && at % 3 == 2 => tuple(vec![2_i64.into(), made.clone(), made]),
            () if is_tree && at % 3 == 1 => {
                let leaf = tuple(vec![1_i64.into(), head, tuple(vec![0_i64.into()])]);
                tuple(vec![2_i64.into(), leaf, made])
            }
            () => tuple(vec![1_i64.into(), head, made]),
        };
    }
    made
}

/// An object that counts.
pub(crate) fn token() -> Any {
    let token = Token::new();
    let call = move |args: &[AnyView<'_>]| {
        let _keep = &token;
        Ok(log(format!("object called with {}", describe_all(args))).into())
    };
    Function::new(call).into()
}

/// Sets the session of this thread that `fuzz.cancel` cancels.
pub fn cancels(session: Canceller) {
    CANCELLER.set(Some(session));
}

/// Cancels the run, as another thread might, unless its argument is None or a matrix. The next
/// operation that polls ends the run.
fn cancel(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let matrix = |x: &Tensor| x.shape().len() == 2;
    let spares = |x: &AnyView<'_>| x.is_none() || x.downcast_ref().is_some_and(matrix);
    if args.first().is_some_and(spares) {
        return Ok(log("no cancel".to_owned()).into());
    }
    CANCELLER.with_borrow(|session| session.as_ref().map(Canceller::cancel));
    Ok(log("cancel".to_owned()).into())
}

/// Number of live objects, which tells if a program has released its own.
fn alive(_: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(log(format!("alive {}", live_objects())).into())
}

fn fill(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let value: i64 = arg(args, 1)?;
    if let Some(tensor) = args.first().and_then(|x| x.downcast_ref::<Tensor>()) {
        kernels::fill(tensor, value as u32);
    }
    log(format!("fill {} {value}", args.first().map_or_else(String::new, |x| describe(*x))));
    Ok(Any::NONE)
}

/// Gives a fresh tensor elements that are the same in every run. It is not logged.
fn set(args: &[AnyView<'_>]) -> Result<Any, Error> {
    if let Some(tensor) = args.first().and_then(|x| x.downcast_ref::<Tensor>()) {
        kernels::fill(tensor, 0x3f80_0000);
    }
    Ok(Any::NONE)
}

/// Runs a closure of the program on top of the frames in progress.
fn call_back(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let [vm, callee, rest @ ..] = args else {
        return Err(Error::type_error("fuzz.call_back of nothing"));
    };
    log(format!("call_back {}", describe_all(rest)));
    reentry::call_back(vm, callee, rest)
}

/// The second argument where the first one is nothing, 0 or false, the third one elsewhere.
fn pick(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let nothing = |x: &AnyView<'_>| x.is_none() || x.as_int() == Some(0);
    let at = if args.first().is_none_or(nothing) { 1 } else { 2 };
    Ok(args.get(at).map_or(Any::NONE, AnyView::to_owned))
}

fn size(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let tensor = args.first().and_then(|x| x.downcast_ref::<Tensor>());
    let tensor = tensor.ok_or_else(|| Error::type_error("fuzz.size of something else"))?;
    Ok((tensor.element_count() as i64).into())
}

/// A function that logs its arguments.
pub fn recorder() -> Any {
    Function::new(record).into()
}

/// A closure of another program than the one that gets it, with `captured` values.
pub fn foreign_closure(func: u32, captured: usize) -> Any {
    let captured = Array::new(vec![Any::from(3_i64); captured]);
    // No program has this number.
    Closure { program: u64::MAX, func, captured }.into_value()
}

/// The functions that generated programs call.
pub fn library() -> HashMap<String, Function> {
    let add = |args: &[AnyView<'_>]| {
        Ok(Any::from(arg::<i64>(args, 0)?.wrapping_add(arg::<i64>(args, 1)?)))
    };
    let less = |args: &[AnyView<'_>]| Ok(Any::from(arg::<i64>(args, 0)? < arg::<i64>(args, 1)?));
    [
        ("fuzz.add", Function::new(add)),
        ("fuzz.less", Function::new(less)),
        ("fuzz.record", Function::new(record)),
        ("fuzz.fail_on_odd", Function::new(fail_on_odd)),
        ("fuzz.object", Function::new(object)),
        ("fuzz.fill", Function::new(fill)),
        ("fuzz.set", Function::new(set)),
        ("fuzz.alive", Function::new(alive)),
        ("fuzz.size", Function::new(size)),
        ("fuzz.pick", Function::new(pick)),
        ("fuzz.call_back", Function::new(call_back)),
        ("fuzz.cancel", Function::new(cancel)),
        ("fuzz.fail_leaving", kernels::fail_leaving()),
    ]
    .map(|(name, function)| (name.to_owned(), function))
    .into()
}

//! The context and arguments of builtins, and the errors about them.

use std::ffi::c_void;

use reflex_runtime::error::Error;
use reflex_runtime::value::{Any, AnyView};

/// The context that a builtin is called in.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The value of `%vm`, or null outside a session.
    pub vm: *mut c_void,
}

/// Code of a builtin.
pub type Run = fn(Context, &[AnyView<'_>]) -> Result<Any, Error>;

/// Argument `index` as an integer.
pub fn int(name: &str, args: &[AnyView<'_>], index: usize) -> Result<i64, Error> {
    match args.get(index) {
        Some(arg) => arg.as_int().ok_or_else(|| in_call(name, index, arg.mismatch("int"))),
        None => Err(arity(name, args.len(), index + 1)),
    }
}

#[cold]
fn in_call(name: &str, index: usize, error: Error) -> Error {
    Error::new(&error.kind(), format!("`{name}`, argument {index}: {}", error.message()))
}

/// The error for too few arguments.
#[cold]
pub fn arity(name: &str, given: usize, expected: usize) -> Error {
    Error::type_error(format!(
        "mismatched number of arguments when calling `{name}`: at least {expected} expected, \
         {given} given"
    ))
}

/// Refuses another number of arguments than `expected`.
pub fn exactly(name: &str, args: &[AnyView<'_>], expected: usize) -> Result<(), Error> {
    if args.len() == expected {
        return Ok(());
    }
    Err(Error::type_error(format!(
        "mismatched number of arguments when calling `{name}`: {expected} expected, {} given",
        args.len()
    )))
}

/// Refuses a VM argument that is not the VM that runs.
pub fn check_vm(cx: Context, arg: &AnyView<'_>, name: &str) -> Result<(), Error> {
    match arg.as_opaque() {
        Some(vm) if vm == cx.vm && !vm.is_null() => Ok(()),
        _ => Err(Error::type_error(format!("`{name}`, argument 0 is not the running VM"))),
    }
}

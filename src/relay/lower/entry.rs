//! Functions around bodies: entries for callers from outside, and functions that closures bind.

use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};

use super::body_name;
use crate::executable::Function;
use crate::host;

/// Emits the function that callers from outside call.
pub fn emit(builder: &mut ExecBuilder, function: &Function) -> Result<(), BuildError> {
    let params: Vec<&str> = function.params.iter().map(String::as_str).collect();
    builder.function_with_params(&function.name, &params)?;
    let count = params.len() as u32;
    let given: Vec<Arg> = (0..count).map(|at| builder.r(at)).collect();
    let inside: Vec<Arg> = (0..count).map(|at| builder.r(count + at)).collect();
    for (given, inside) in given.iter().zip(&inside) {
        builder.emit_call(host::FROM_HOST, &[*given], *inside)?;
    }
    let result = builder.r(2 * count);
    builder.emit_call(&body_name(function), &inside, result)?;
    // Nothing here holds them while the result is made into its outer form.
    builder.emit_call(host::TO_HOST, &[result], result)?;
    builder.emit_ret(Reg((2 * count).into()))?;
    builder.end_function()
}

/// The name of a function with its first parameters last.
pub fn closure_name(function: &Function, bound: usize) -> String {
    format!("relay.closure.{bound}.{}", function.name)
}

/// Emits `function` with its first `bound` parameters last: calls of closures append what is
/// bound.
pub fn emit_closure(
    builder: &mut ExecBuilder,
    function: &Function,
    bound: usize,
) -> Result<(), BuildError> {
    let (first, rest) = function.params.split_at(bound);
    let params: Vec<&str> = rest.iter().chain(first).map(String::as_str).collect();
    builder.function_with_params(&closure_name(function, bound), &params)?;
    let count = params.len() as u32;
    let of_rest = rest.len() as u32;
    let args: Vec<Arg> = (of_rest..count).chain(0..of_rest).map(|at| builder.r(at)).collect();
    builder.emit_call(&body_name(function), &args, builder.r(count))?;
    builder.emit_ret(Reg(count.into()))?;
    builder.end_function()
}

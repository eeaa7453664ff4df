//! The packed functions that have a reference meaning: closures, sequences, strings, and the failure of a match.

use super::error::{EvalError, Result};
use super::func::{EvalValue, eval_func};
use super::sequence;
use super::text;
use crate::ir::Module;

/// Calls a packed function by name.
pub(super) fn call(module: &Module, name: &str, mut args: Vec<EvalValue>) -> Result<EvalValue> {
    if let Some(result) = sequence::call(name, &args) {
        return result;
    }
    if name.starts_with("reflex.text.") {
        return text::call(name, &args);
    }
    match (name, args.as_slice()) {
        ("vm.builtin.make_closure", [EvalValue::Closure { func, bound }, free @ ..])
            if bound.is_empty() =>
        {
            Ok(EvalValue::Closure { func: *func, bound: free.to_vec() })
        }
        (
            "vm.builtin.invoke_closure",
            [EvalValue::VmState, EvalValue::Closure { func, bound }, ..],
        ) => {
            let (func, bound) = (*func, bound.clone());
            let args: Vec<EvalValue> = args.drain(2..).chain(bound).collect();
            let mut results = eval_func(module, func, &args)?;
            match results.len() {
                1 => Ok(results.remove(0)),
                _ => Ok(EvalValue::Tuple(results)),
            }
        }
        ("relay.fatal", [EvalValue::Str(text)]) => Err(EvalError::new(text.as_str())),
        _ => Err(unknown(name)),
    }
}

/// The error of a function without a reference meaning.
pub(super) fn unknown(name: &str) -> EvalError {
    EvalError::new(format!("packed function {name} has no reference meaning"))
}

//! Operators, patterns and modules from outside, as packed functions.

use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::value::{Any, AnyView};

use crate::global_func::get_global_func;
use crate::module::table;
use crate::{dispatch, operators};

type FfiResult<T = Any> = Result<T, Raised>;

fn text<'a>(args: &'a [AnyView<'_>], at: usize) -> FfiResult<&'a str> {
    let missing = || Raised::type_error(format!("argument {at} is missing"));
    let value = args.get(at).ok_or_else(missing)?;
    value.as_str().ok_or_else(|| value.mismatch("ffi.String"))
}

/// Functions by name, of an array in which they alternate.
pub(super) fn functions(list: &Array) -> FfiResult<Vec<(String, Function)>> {
    let pairs = list.chunks(2).map(|pair| {
        let [name, function] = pair else {
            return Err(Raised::type_error("functions have a name each"));
        };
        let view = name.view();
        let name = view.as_str().ok_or_else(|| view.mismatch("ffi.String"))?.to_owned();
        Ok((name, Function::try_from(function.view())?))
    });
    pairs.collect()
}

/// Finds a function by name among some, or among the registered ones.
pub(super) fn finder(known: &[(String, Function)]) -> impl Fn(&str) -> Option<Function> + '_ {
    |name| {
        let own = known.iter().find(|(own, _)| own == name).map(|(_, function)| function.clone());
        own.or_else(|| get_global_func(name))
    }
}

/// `(description, [name, function, ...])`: registers an operator.
pub(super) fn register_operator(args: &[AnyView<'_>]) -> FfiResult {
    let known = functions(&arg::<Array>(args, 1)?)?;
    let done = operators::register_described(text(args, 0)?, &finder(&known));
    done.map(|()| Any::NONE).map_err(|e| e.to_object())
}

/// `(script, pattern)`: where the pattern matches, as JSON.
pub(super) fn match_pattern(args: &[AnyView<'_>]) -> FfiResult {
    let found = dispatch::matches(text(args, 0)?, text(args, 1)?).map_err(|e| e.to_object())?;
    Ok(Any::from(found.as_str()))
}

/// `(script, patterns)`: where patterns match together, as JSON.
pub(super) fn match_patterns(args: &[AnyView<'_>]) -> FfiResult {
    let found = dispatch::matches_together(text(args, 0)?, text(args, 1)?);
    Ok(Any::from(found.map_err(|e| e.to_object())?.as_str()))
}

/// `(kind, [name, function, ...], bytes or None)`: a module of these functions.
pub(super) fn function_module(args: &[AnyView<'_>]) -> FfiResult {
    let listed = functions(&arg::<Array>(args, 1)?)?;
    let bytes = match args.get(2) {
        Some(value) if !value.is_none() => {
            Some(value.as_bytes().ok_or_else(|| value.mismatch("ffi.Bytes"))?.to_vec())
        }
        _ => None,
    };
    Ok(table::module(text(args, 0)?, listed, bytes).into())
}

//! tvm-ffi's global functions on modules, for processes without libtvm_ffi.

use crate::array::Array;
use crate::error::Error;
use crate::function::{self, Function};
use crate::module::{Imports, Module};
use crate::string::Str;
use crate::value::{Any, AnyView};

fn module(args: &[AnyView<'_>]) -> Result<Module, Error> {
    function::arg(args, 0)
}

/// The function that arguments name: `(module, name, whether imports are searched)`.
fn found(args: &[AnyView<'_>]) -> Result<Option<Function>, Error> {
    let name: Str = function::arg(args, 1)?;
    let imports = match function::arg::<bool>(args, 2)? {
        true => Imports::Search,
        false => Imports::Skip,
    };
    module(args)?.function(&name, imports)
}

/// `(module, name, whether imports are searched)`: a function or None.
pub(super) fn get_function(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(found(args)?.map_or(Any::NONE, Any::from))
}

/// `(module, name, whether imports are searched)`: whether there is such a function.
pub(super) fn implements_function(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Any::from(found(args)?.is_some()))
}

/// `(module)`: its kind.
pub(super) fn kind(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Any::from(module(args)?.kind()?.as_str()))
}

/// `(module)`: what it can do, as bits.
pub(super) fn property_mask(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Any::from(module(args)?.property_mask()?))
}

/// `(module, format)`: the module as text.
pub(super) fn inspect_source(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let format: Str = function::arg(args, 1)?;
    Ok(Any::from(module(args)?.source(&format)?.as_str()))
}

/// `(module, other)`: imports the other one.
pub(super) fn import(args: &[AnyView<'_>]) -> Result<Any, Error> {
    module(args)?.import(&function::arg(args, 1)?)?;
    Ok(Any::NONE)
}

/// `(module)`: an array of the modules that it imports.
pub(super) fn imports(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Array::new(module(args)?.imports()?.into_iter().map(Any::from)).into())
}

/// `(module)`: forgets its imports.
pub(super) fn clear_imports(args: &[AnyView<'_>]) -> Result<Any, Error> {
    module(args)?.clear_imports()?;
    Ok(Any::NONE)
}

//! Functions that programs look up by name while they run: those of Python, which `R.call_py_func`
//! calls, and global ones for debugging; and trimming the allocator.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use reflex_runtime::alloc::device::{CPU, DeviceAllocator};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::registry as globals;
use reflex_runtime::value::{Any, AnyView};

use super::Builtin;
use super::args::{Context, exactly};

/// The functions that `register_py_func` registered in this process.
static PYTHON: RwLock<BTreeMap<String, Function>> = RwLock::new(BTreeMap::new());

/// TVM registers its own function under this name, so this one is not global.
const GET_PY_FUNC: &str = "vm.builtin.get_py_func";

fn text<'a>(args: &'a [AnyView<'_>], index: usize) -> Result<&'a str, Error> {
    args[index].as_str().ok_or_else(|| args[index].mismatch("ffi.String"))
}

/// The function of this name: one that `register_py_func` registered, here or with TVM in a process
/// that has it, or a global function.
fn registered(name: &str) -> Result<Function, Error> {
    if let Some(found) = PYTHON.read().get(name) {
        return Ok(found.clone());
    }
    let of_tvm = || {
        let text = Any::from(name);
        Function::try_from(globals::get(GET_PY_FUNC)?.call(&[text.view()]).ok()?).ok()
    };
    of_tvm()
        .or_else(|| globals::get(name))
        .ok_or_else(|| internal(format!("no Python function `{name}` is registered")))
}

#[cold]
fn internal(message: impl Into<String>) -> Error {
    Error::new("InternalError", message.into())
}

pub fn register_py_func(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly("vm.builtin.register_py_func", args, 2)?;
    let (name, function) = (text(args, 0)?.to_owned(), arg::<Function>(args, 1)?);
    PYTHON.write().insert(name, function);
    Ok(Any::NONE)
}

pub fn get_py_func(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(GET_PY_FUNC, args, 1)?;
    registered(text(args, 0)?).map(Any::from)
}

pub fn clear_py_func_registry(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly("vm.builtin.clear_py_func_registry", args, 0)?;
    let before = std::mem::take(&mut *PYTHON.write());
    // Outside of the lock: destructors of what a function holds may register others.
    drop(before);
    Ok(Any::NONE)
}

pub fn call_py_func(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let [given] = args else {
        let message = "`vm.builtin.call_py_func` takes one tuple of a name and arguments";
        return Err(internal(message));
    };
    let given = given.downcast_ref::<Array>().ok_or_else(|| given.mismatch("ffi.Array"))?;
    let [name, values] = &given[..] else {
        return Err(internal("the tuple of `vm.builtin.call_py_func` is a name and arguments"));
    };
    let name = name.as_str().ok_or_else(|| name.view().mismatch("ffi.String"))?;
    let values = values.downcast_ref::<Array>();
    let values = values.ok_or_else(|| given[1].view().mismatch("ffi.Array"))?;
    registered(name)?.call(AnyView::slice(values))
}

pub fn invoke_debug_func(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 3 {
        let message = format!(
            "`vm.builtin.invoke_debug_func` takes 3 arguments or more, {} given",
            args.len()
        );
        return Err(internal(message));
    }
    let effect = args[0];
    if effect.object_ref().is_some() {
        return Err(Error::value_error("the effect of a debug function is None when it runs"));
    }
    if !effect.is_none() {
        return Err(effect.mismatch("ffi.Object"));
    }
    let name = text(args, 1)?;
    let own = || Builtin::from_name(name).map(Builtin::function);
    let Some(function) = globals::get(name).or_else(own) else {
        return Err(Error::value_error(format!("no global function is called `{name}`")));
    };
    function.call(&args[2..])?;
    Ok(Any::NONE)
}

pub fn clear_memory(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly("vm.builtin.memory_manager.clear", args, 0)?;
    CPU.trim();
    Ok(Any::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_functions_see_their_arguments() {
        let context = Context { vm: std::ptr::null_mut() };
        let seen = std::sync::Arc::new(RwLock::new(0));
        let count = std::sync::Arc::clone(&seen);
        let function = Function::new(move |args| {
            *count.write() = args.len();
            Ok(Any::from(7_i64))
        });
        globals::register("test.by_name.debug", function).unwrap();
        let (name, line) = (Any::from("test.by_name.debug"), Any::from("line 3 of a file"));
        let args = [AnyView::NONE, name.view(), line.view(), AnyView::from(5_i64)];
        assert!(invoke_debug_func(context, &args).unwrap().view().is_none());
        assert_eq!(*seen.read(), 2);
        let error = invoke_debug_func(context, &args[..2]).unwrap_err();
        assert_eq!(error.kind(), "InternalError");
    }
}

//! Tuples, copies, closures, and calls through values.

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::object::{self, ObjectRef, RustObject};
use reflex_runtime::shape::Shape;
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, exactly, int};
use super::closure::Closure;
use crate::reentry;

pub fn null_value(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly("vm.builtin.null_value", args, 0)?;
    Ok(Any::NONE)
}

pub fn copy(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly("vm.builtin.copy", args, 1)?;
    Ok(args[0].to_owned())
}

pub fn make_tuple(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Array::new(args.iter().map(AnyView::to_owned)).into())
}

fn tuple_arg<'a>(
    name: &str,
    args: &'a [AnyView<'_>],
) -> Result<(&'a Array, Result<usize, i64>), Error> {
    exactly(name, args, 2)?;
    let tuple = args[0].downcast_ref::<Array>().ok_or_else(|| args[0].mismatch("ffi.Array"))?;
    let index = int(name, args, 1)?;
    let inside = usize::try_from(index).ok().filter(|&at| at < tuple.len());
    Ok((tuple, inside.ok_or(index)))
}

#[cold]
fn out_of_bounds(index: i64, len: usize) -> Error {
    Error::new("IndexError", format!("Index {index} out of bounds {len}"))
}

pub fn tuple_getitem(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (tuple, index) = tuple_arg("vm.builtin.tuple_getitem", args)?;
    index.map(|at| tuple[at].clone()).map_err(|index| out_of_bounds(index, tuple.len()))
}

pub fn tuple_reset_item(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (tuple, index) = tuple_arg("vm.builtin.tuple_reset_item", args)?;
    let at = index.map_err(|index| out_of_bounds(index, tuple.len()))?;
    // This releases memory early. A tuple that has other references keeps
    // its item: changing it under another holder would be a race.
    let array: &ObjectRef = object::ObjectType::object(tuple);
    if array.is_unique() {
        // SAFETY: the register's reference is the only one, and no item is borrowed:
        // arguments are borrowed from registers, and this call borrows no item.
        unsafe { tuple.reset_item(at) };
    }
    Ok(Any::NONE)
}

pub fn make_closure(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let Some((first, captured)) = args.split_first() else {
        return Err(arity("vm.builtin.make_closure", 0, 1));
    };
    let Some(closure) = Closure::of(first) else {
        return Err(first.mismatch(Closure::KEY));
    };
    // New values come before those the inner closure appends.
    let own = captured.iter().map(AnyView::to_owned);
    let all: Vec<Any> = own.chain(closure.captured.iter().cloned()).collect();
    let captured = Array::new(all);
    Ok(Closure { program: closure.program, func: closure.func, captured }.into_value())
}

pub fn invoke_closure(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let Some(callee) = args.get(1) else {
        return Err(arity("vm.builtin.invoke_closure", args.len(), 2));
    };
    match callee.downcast_ref::<Function>() {
        Some(function) => function.call(&args[2..]),
        None => reentry::call_back(&args[0], callee, &args[2..]),
    }
}

/// Most arguments that `call_tir_dyn` passes without allocating.
const INLINE_ARGS: usize = 32;

pub fn call_tir_dyn(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let [first, middle @ .., last] = args else {
        return Err(arity("vm.builtin.call_tir_dyn", args.len(), 2));
    };
    let Some(function) = first.downcast_ref::<Function>() else {
        return Err(first.mismatch("ffi.Function"));
    };
    let Some(shape) = last.downcast_ref::<Shape>() else {
        return Err(last.mismatch("ffi.Shape"));
    };
    let dims = shape.iter().map(|&dim| AnyView::from(dim));
    let flat = middle.iter().copied().chain(dims);
    let count = middle.len() + shape.len();
    if count > INLINE_ARGS {
        return function.call(&flat.collect::<Vec<_>>());
    }
    let mut buffer = [AnyView::NONE; INLINE_ARGS];
    for (slot, arg) in buffer.iter_mut().zip(flat) {
        *slot = arg;
    }
    function.call(&buffer[..count])
}

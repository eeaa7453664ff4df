//! The functions that TVM's pass `RewriteCUDAGraph` calls: memory that a session allocates once, and functions
//! over such memory, whose launches TVM captures as a CUDA graph.
//!
//! Here the function runs each time, on every device, with the arguments of its first call, as a graph
//! has the addresses of its capture. On a GPU a whole call becomes one graph, with these launches in it
//! (decision 0074).

use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::shape::Shape;
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, exactly, int};
use super::graph_cache::GraphCache;
use crate::reentry;
use crate::state::State;

const RUN_OR_CAPTURE: &str = "vm.builtin.cuda_graph.run_or_capture";
const GET_CACHED_ALLOC: &str = "vm.builtin.cuda_graph.get_cached_alloc";

/// Uses the cache of the session that `vm` stands for, which runs on this thread.
fn with_cache<T>(vm: &AnyView<'_>, f: impl FnOnce(&mut GraphCache) -> T) -> Result<T, Error> {
    let state: *mut State = reentry::running(vm)?;
    // SAFETY: `running` says that the state is live and executes on this thread; `f` calls no code that
    // may come back here, so this is the only reference to the field.
    Ok(f(unsafe { &mut (*state).graphs }))
}

fn call(vm: &AnyView<'_>, callee: &AnyView<'_>, args: &[AnyView<'_>]) -> Result<Any, Error> {
    match callee.downcast_ref::<Function>() {
        Some(function) => function.call(args),
        None => reentry::call_back(vm, callee, args),
    }
}

pub fn get_cached_alloc(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(GET_CACHED_ALLOC, args, 3)?;
    let (vm, number) = (&args[0], int(GET_CACHED_ALLOC, args, 2)?);
    if let Some(found) = with_cache(vm, |cache| cache.allocations.get(&number).cloned())? {
        return Ok(found);
    }
    let made = call(vm, &args[1], &[])?;
    let replaced = with_cache(vm, |cache| cache.allocations.insert(number, made.clone()))?;
    drop(replaced);
    Ok(made)
}

pub fn run_or_capture(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    let [vm, callee, given, _, shape @ ..] = args else {
        return Err(arity(RUN_OR_CAPTURE, args.len(), 4));
    };
    let number = int(RUN_OR_CAPTURE, args, 3)?;
    let shape = match shape {
        [] => &[][..],
        [shape] => shape.downcast_ref::<Shape>().ok_or_else(|| shape.mismatch("ffi.Shape"))?,
        _ => return exactly(RUN_OR_CAPTURE, args, 5).map(|()| Any::NONE),
    };
    let given = given.downcast_ref::<Array>().ok_or_else(|| given.mismatch("ffi.Array"))?;
    let key = (number, Box::from(shape));
    let known = with_cache(vm, |cache| cache.captures.get(&key).cloned())?;
    let own: Vec<Any> = known.as_ref().unwrap_or(given).iter().cloned().collect();
    let result = call(vm, callee, AnyView::slice(&own))?;
    if known.is_none() {
        // One that fails is not captured.
        let replaced = with_cache(vm, |cache| cache.captures.insert(key, given.clone()))?;
        drop(replaced);
    }
    Ok(result)
}

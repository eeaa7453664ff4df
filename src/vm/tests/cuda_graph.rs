//! Memory and functions that TVM keeps for CUDA graphs, on a CPU: the memory is made once, and the functions
//! run each time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::shape::Shape;
use reflex_runtime::value::Any;
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

const ALLOC: &str = "vm.builtin.cuda_graph.get_cached_alloc";
const RUN: &str = "vm.builtin.cuda_graph.run_or_capture";

/// `fresh()` counts its calls; `twice(x)` fails for odd numbers, and counts those of even ones.
fn session(fresh: &Arc<AtomicI64>, runs: &Arc<AtomicI64>) -> Session {
    let (fresh, runs) = (Arc::clone(fresh), Arc::clone(runs));
    let mut library = HashMap::new();
    let fresh = Function::new(move |_| Ok(Any::from(fresh.fetch_add(1, Ordering::Relaxed))));
    library.insert("fresh".to_owned(), fresh);
    let twice = Function::new(move |args| {
        let x = function::arg::<i64>(args, 0)?;
        if x % 2 == 1 {
            return Err(Error::value_error("odd"));
        }
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(Any::from(2 * x))
    });
    library.insert("twice".to_owned(), twice);
    let mut b = ExecBuilder::new();
    b.function("alloc", 0).unwrap();
    b.emit_call("fresh", &[], b.r(0)).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
    b.function("capture", 1).unwrap();
    b.emit_call("twice", &[b.r(0)], b.r(1)).unwrap();
    b.emit_ret(Reg(1)).unwrap();
    b.end_function().unwrap();
    for (name, index) in [("first", 0), ("second", 1)] {
        b.function(name, 0).unwrap();
        let (alloc, index) = (b.f("alloc"), b.imm(index).unwrap());
        b.emit_call(ALLOC, &[b.vm_state(), alloc, index], b.r(0)).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
    }
    // The function's argument, and the values of symbolic dimensions.
    b.function("run", 2).unwrap();
    let (capture, index) = (b.f("capture"), b.imm(0).unwrap());
    b.emit_call("vm.builtin.make_tuple", &[b.r(0)], b.r(2)).unwrap();
    b.emit_call(RUN, &[b.vm_state(), capture, b.r(2), index, b.r(1)], b.r(3)).unwrap();
    b.emit_ret(Reg(3)).unwrap();
    b.end_function().unwrap();
    b.function("shapeless", 1).unwrap();
    let (capture, index) = (b.f("capture"), b.imm(0).unwrap());
    b.emit_call("vm.builtin.make_tuple", &[b.r(0)], b.r(1)).unwrap();
    b.emit_call(RUN, &[b.vm_state(), capture, b.r(1), index], b.r(2)).unwrap();
    b.emit_ret(Reg(2)).unwrap();
    b.end_function().unwrap();
    let exec = verify(b.finish().unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library]).unwrap());
    Session::new(&program, Options::default()).unwrap()
}

fn int(value: Any) -> i64 {
    i64::try_from(value).unwrap()
}

#[test]
fn memory_is_made_once_for_each_index_and_session() {
    let counts = <[Arc<AtomicI64>; 2]>::default();
    let mut session_1 = session(&counts[0], &counts[1]);
    for _ in 0..3 {
        assert_eq!(int(session_1.call("first", &[]).unwrap()), 0);
        assert_eq!(int(session_1.call("second", &[]).unwrap()), 1);
    }
    let mut session_2 = Session::new(session_1.program(), Options::default()).unwrap();
    assert_eq!(int(session_2.call("first", &[]).unwrap()), 2);
    assert_eq!(int(session_1.call("first", &[]).unwrap()), 0);
}

#[test]
fn a_function_runs_each_time_on_what_it_was_first_called_with() {
    let counts = <[Arc<AtomicI64>; 2]>::default();
    let mut session = session(&counts[0], &counts[1]);
    let shape = |dims: &[i64]| Any::from(Shape::new(dims));
    let mut run = |x: i64, dims: &[i64]| session.call("run", &[Any::from(x), shape(dims)]);
    // One that fails is not kept.
    assert_eq!(run(3, &[4]).unwrap_err().error().message(), "odd");
    assert_eq!(int(run(2, &[4]).unwrap()), 4);
    assert_eq!(int(run(6, &[4]).unwrap()), 4);
    assert_eq!(int(run(6, &[5]).unwrap()), 12);
    assert_eq!(int(run(8, &[4]).unwrap()), 4);
    assert_eq!(int(session.call("shapeless", &[Any::from(10_i64)]).unwrap()), 20);
    assert_eq!(int(session.call("shapeless", &[Any::from(12_i64)]).unwrap()), 20);
    assert_eq!(counts[1].load(Ordering::Relaxed), 6, "each call runs it");
    let error = session.call("run", &[Any::from(2_i64), Any::from(1_i64)]).unwrap_err();
    assert_eq!(error.error().message(), "expected `ffi.Shape`, got `int`");
}

//! Cost of one `Call` in the interpreter, over the bare call of the same function.
//!
//! Programs of straight-line calls are timed at two lengths; the slope is the cost of a
//! call without the entry of the function. Plain timing, no framework: the numbers are
//! a few nanoseconds and the loop is all there is.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

const SHORT: usize = 100;
const LONG: usize = 1000;

/// A kernel that touches its argument and returns nothing, in the C convention.
unsafe extern "C" fn kernel(
    _: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> c_int {
    // SAFETY: callers pass `count` valid arguments, by the packed convention.
    black_box(unsafe { (*args).type_index } + count);
    0
}

fn function() -> Function {
    // SAFETY: `kernel` follows the convention and needs nothing kept alive.
    unsafe { Function::from_native(kernel, ()) }
}

fn session(calls: usize, emit: impl Fn(&mut ExecBuilder)) -> Session {
    let mut b = ExecBuilder::new();
    b.function("identity", 1).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
    b.function("main", 2).unwrap();
    for _ in 0..calls {
        emit(&mut b);
    }
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
    let exec = verify(b.finish().unwrap()).unwrap();
    let library = HashMap::from([("kernel".to_owned(), function())]);
    let program = Program::load(exec, &[&library]).unwrap();
    Session::new(&Arc::new(program), Options::default()).unwrap()
}

/// Nanoseconds of one run, the best of many batches.
fn time(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..20 {
            run();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / 20.0);
    }
    best
}

fn call(session: &mut Session, args: &[AnyView<'_>]) {
    let main = session.program().find("main").unwrap();
    session.call_func(main, args).unwrap();
}

fn slope(emit: impl Fn(&mut ExecBuilder) + Copy) -> f64 {
    let tensor = |value: f32| Any::from(Tensor::from_slice(&[1], &[value]).unwrap());
    let times = [SHORT, LONG].map(|calls| {
        let mut s = session(calls, emit);
        let args = [tensor(1.0), tensor(2.0)];
        time(|| call(&mut s, AnyView::slice(&args)))
    });
    (times[1] - times[0]) / (LONG - SHORT) as f64
}

fn main() {
    let bare = function();
    let x = Tensor::from_slice(&[1], &[1.0_f32]).unwrap();
    let args = [AnyView::from(&x), AnyView::from(&x)];
    let direct = time(|| {
        for _ in 0..LONG {
            bare.call(black_box(&args)).unwrap();
        }
    }) / LONG as f64;
    let mut entry = session(0, |_| {});
    println!("entry of an empty function      {:7.2} ns", time(|| call(&mut entry, &args)));
    println!("bare packed call                {direct:7.2} ns");
    let row = |name: &str, ns: f64| println!("{name:<31} {ns:7.2} ns  (+{:.2})", ns - direct);
    row(
        "packed call, 2 registers",
        slope(|b| b.emit_call("kernel", &[b.r(0), b.r(1)], Reg::VOID).unwrap()),
    );
    row(
        "packed call, 6 mixed arguments",
        slope(|b| {
            let shape = b.shape(&[1, 2]);
            let four = b.imm(4).unwrap();
            let args = [b.r(0), b.r(1), shape, four, b.void_arg(), b.vm_state()];
            b.emit_call("kernel", &args, Reg::VOID).unwrap();
        }),
    );
    row(
        "vm.builtin.null_value",
        slope(|b| b.emit_call("vm.builtin.null_value", &[], b.r(2)).unwrap()),
    );
    row("vm.builtin.copy", slope(|b| b.emit_call("vm.builtin.copy", &[b.r(0)], b.r(2)).unwrap()));
    row("call of a VM function", slope(|b| b.emit_call("identity", &[b.r(0)], b.r(2)).unwrap()));
    row(
        "vm.builtin.check_tensor_info",
        slope(|b| {
            let (dtype, at) = (b.dtype(reflex_runtime::dtype::DType::F32), b.string("context"));
            let args = [b.r(0), b.imm(1).unwrap(), dtype, at];
            b.emit_call("vm.builtin.check_tensor_info", &args, Reg::VOID).unwrap();
        }),
    );
    row(
        "alloc_storage + alloc_tensor",
        slope(|b| {
            let (size, shape) = (b.shape(&[4]), b.shape(&[1]));
            let dtype = b.dtype(reflex_runtime::dtype::DType::F32);
            let (scope, zero) = (b.string("global"), b.imm(0).unwrap());
            let args = [b.vm_state(), size, zero, dtype, scope];
            b.emit_call("vm.builtin.alloc_storage", &args, b.r(2)).unwrap();
            b.emit_call("vm.builtin.alloc_tensor", &[b.r(2), zero, shape, dtype], b.r(3)).unwrap();
        }),
    );
}

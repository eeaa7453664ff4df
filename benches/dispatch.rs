//! What the VM adds to a kernel: 1,000 calls of `add1` on one float, per call.
//!
//! `bare` calls the kernel's packed entry from a loop; the others run a function of 1,000
//! `Call` instructions in each mode.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reflex_cranelift::CraneliftTier;
use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::program::{Library, Program};
use reflex_vm::session::{Mode, Options, Session};
use reflex_vm::verify::verify;

const CALLS: usize = 1000;

/// `y[0] = x[0] + 1` on tensors, with no check: the smallest kernel there is.
unsafe extern "C" fn add1(
    _: *mut std::ffi::c_void,
    args: *const TVMFFIAny,
    count: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the callers below pass two tensors of one float.
    unsafe {
        let args = AnyView::slice_from_raw(args, count);
        let data = |i: usize| args[i].as_dltensor().expect("a tensor").data.cast::<f32>();
        *data(1) = *data(0) + 1.0;
    }
    0
}

fn kernel() -> Function {
    // SAFETY: `add1` is of the packed calling convention and owns nothing.
    unsafe { Function::from_native(add1, ()) }
}

struct Kernel;

impl Library for Kernel {
    fn function(&self, name: &str) -> Option<Function> {
        (name == "add1").then(kernel)
    }
}

/// `main(x, y)`: add1(x, y), add1(y, x), ...
fn chain() -> Arc<Program> {
    let mut b = ExecBuilder::new();
    b.function("main", 2).expect("a new function");
    for i in 0..CALLS {
        let (from, to) = (b.r((i % 2) as u32), b.r(1 - (i % 2) as u32));
        b.emit_call("add1", &[from, to], Reg::VOID).expect("registers exist");
    }
    b.emit_ret(Reg(0)).expect("a register");
    b.end_function().expect("complete");
    let exec = verify(b.finish().expect("complete")).expect("valid");
    let program = Program::load(exec, &[&Kernel]).expect("loads");
    program.attach(Arc::new(CraneliftTier::new().expect("a tier")));
    Arc::new(program)
}

fn dispatch(c: &mut Criterion) {
    let program = chain();
    program.compile_all();
    let x = Tensor::zeros(&[1], reflex::DType::F32).expect("memory");
    let y = Tensor::zeros(&[1], reflex::DType::F32).expect("memory");
    let args = [Any::from(x), Any::from(y)];
    let mut group = c.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(CALLS as u64));
    let add1 = kernel();
    group.bench_function("bare", |b| {
        let views = AnyView::slice(&args);
        let swapped = [views[1], views[0]];
        b.iter(|| {
            for i in 0..CALLS {
                let args = if i % 2 == 0 { views } else { &swapped };
                black_box(add1.call(black_box(args))).expect("add1 succeeds");
            }
        });
    });
    for (name, mode) in
        [("bytecode", Mode::Bytecode), ("compiled", Mode::Compiled), ("tiered", Mode::Tiered)]
    {
        let options = Options { mode, ..Options::default() };
        let mut session = Session::new(&program, options).expect("a session");
        let main = program.find("main").expect("defined");
        group.bench_function(name, |b| {
            b.iter(|| session.call_func(main, AnyView::slice(&args)).expect("runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, dispatch);
criterion_main!(benches);

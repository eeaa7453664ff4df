//! A program in steady state makes no heap allocation.
//!
//! Allocations are counted per thread, since the test harness has threads of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use reflex_runtime::dtype::DType;
use reflex_runtime::function::{self, Function};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are those of the system allocator's function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of the system allocator's function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are those of the system allocator's function.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add1() -> Function {
    Function::new(|args| {
        let x = function::arg_ref::<Tensor>(args, 0)?;
        let y = function::arg_ref::<Tensor>(args, 1)?;
        // SAFETY: both are float tensors of one element, and `y` is this call's output.
        unsafe { *y.data_ptr().cast::<f32>() = *x.data_ptr().cast::<f32>() + 1.0 };
        Ok(Any::NONE)
    })
}

/// Everything a lowered function does: checks, a shape heap, storages, tensors, kernels,
/// kills, tuples, a call and a return.
fn program() -> Arc<Program> {
    let mut b = ExecBuilder::new();
    b.function("step", 1).unwrap();
    let (size, shape) = (b.shape(&[4]), b.shape(&[1]));
    let (dtype, scope, at) = (b.dtype(DType::F32), b.string("global"), b.string("in step"));
    let i = |v: i64| reflex_vm::bytecode::Arg::Imm(v);
    let vm = b.vm_state();
    b.emit_call("vm.builtin.check_tensor_info", &[b.r(0), i(1), dtype, at], Reg::VOID).unwrap();
    b.emit_call("vm.builtin.alloc_shape_heap", &[vm, i(2)], b.r(1)).unwrap();
    b.emit_call("vm.builtin.match_shape", &[b.r(0), b.r(1), i(1), i(1), i(0), at], Reg::VOID)
        .unwrap();
    b.emit_call("vm.builtin.make_shape", &[b.r(1), i(1), i(1), i(0)], b.r(2)).unwrap();
    b.emit_call("vm.builtin.alloc_storage", &[vm, size, i(0), dtype, scope], b.r(3)).unwrap();
    b.emit_call("vm.builtin.alloc_tensor", &[b.r(3), i(0), b.r(2), dtype], b.r(4)).unwrap();
    b.emit_call("vm.builtin.null_value", &[], b.r(3)).unwrap();
    b.emit_call("add1", &[b.r(0), b.r(4)], Reg::VOID).unwrap();
    b.emit_call("vm.builtin.reshape", &[b.r(4), shape], b.r(5)).unwrap();
    b.emit_call("vm.builtin.make_tuple", &[b.r(5), b.r(4)], b.r(6)).unwrap();
    b.emit_call("vm.builtin.tuple_getitem", &[b.r(6), i(0)], b.r(7)).unwrap();
    b.emit_ret(Reg(7)).unwrap();
    b.end_function().unwrap();
    b.function("main", 1).unwrap();
    b.emit_call("step", &[b.r(0)], b.r(1)).unwrap();
    b.emit_call("step", &[b.r(1)], b.r(2)).unwrap();
    b.emit_ret(Reg(2)).unwrap();
    b.end_function().unwrap();
    let library = HashMap::from([("add1".to_owned(), add1())]);
    Arc::new(Program::load(verify(b.finish().unwrap()).unwrap(), &[&library]).unwrap())
}

#[test]
fn steady_state_allocates_nothing() {
    let mut session = Session::new(&program(), Options::default()).unwrap();
    let input = Tensor::from_slice(&[1], &[5.0_f32]).unwrap();
    let args = [Any::from(input)];
    let main = session.program().find("main").unwrap();
    let mut result = Any::NONE;
    let mut run = |times| {
        for _ in 0..times {
            result = Any::NONE;
            session.call_into(main, AnyView::slice(&args), &mut result).unwrap();
        }
    };
    run(10);
    let before = ALLOCATIONS.get();
    run(1000);
    assert_eq!(ALLOCATIONS.get() - before, 0);
    let output = Tensor::try_from(result).unwrap();
    assert_eq!(output.to_vec::<f32>().unwrap(), [7.0]);
}

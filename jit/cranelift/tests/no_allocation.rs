//! A program in steady state makes no heap allocation in machine code either.
//!
//! Allocations are counted per thread, since the test harness has threads of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::function::{self, Function};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::listing;
use reflex_vm::mode::Mode;
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
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`, which `System` shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `System` allocated the memory, and the caller passes its layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `System` allocated the memory, and the caller passes its layout and a valid size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Everything a lowered function does: checks, a shape heap, storages, tensors, kernels, kills,
/// tuples, closures, calls, a loop and a branch.
const PROGRAM: &str = r#"
const c[0] = shape [4]
const c[1] = shape [1]
const c[2] = dtype float32
const c[3] = str "global"
const c[4] = str "in step"
@step(x) regs=8:
  call  vm.builtin.check_tensor_info in: %0, i1, c[2], c[4] dst: %void
  call  vm.builtin.alloc_shape_heap in: %vm, i2 dst: %1
  call  vm.builtin.match_shape in: %0, %1, i1, i1, i0, c[4] dst: %void
  call  vm.builtin.make_shape in: %1, i1, i1, i0 dst: %2
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[2], c[3] dst: %3
  call  vm.builtin.alloc_tensor in: %3, i0, %2, c[2] dst: %4
  call  vm.builtin.null_value in: dst: %3
  call  add1 in: %0, %4 dst: %void
  call  vm.builtin.reshape in: %4, c[1] dst: %5
  call  vm.builtin.make_tuple in: %5, %4 dst: %6
  call  vm.builtin.tuple_getitem in: %6, i0 dst: %7
  ret   %7
@main(x) regs=5:
  call  step in: %0 dst: %1
  call  vm.builtin.make_closure in: f[step] dst: %2
  call  vm.builtin.invoke_closure in: %vm, %2, %1 dst: %1
  call  vm.builtin.copy in: i3 dst: %3
  call  step in: %1 dst: %1
  call  add in: %3, i-1 dst: %3
  call  less in: i0, %3 dst: %4
  If    %4, 2
  goto  -4
  ret   %1
"#;

fn library() -> HashMap<String, Function> {
    let add1 = Function::new(|args| {
        let x = function::arg_ref::<Tensor>(args, 0)?;
        let y = function::arg_ref::<Tensor>(args, 1)?;
        // SAFETY: both are float tensors of one element, and `y` is this call's output.
        unsafe { *y.data_ptr().cast::<f32>() = *x.data_ptr().cast::<f32>() + 1.0 };
        Ok(Any::NONE)
    });
    let add = Function::new(|args| {
        Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
    });
    let less = Function::new(|args| {
        Ok(Any::from(function::arg::<i64>(args, 0)? < function::arg::<i64>(args, 1)?))
    });
    [("add1", add1), ("add", add), ("less", less)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

/// Allocations of a thousand runs once everything is warm, and the tier that ran.
fn steady(mode: Mode) -> (usize, Arc<CraneliftTier>, Arc<Program>) {
    let exec = verify(listing::parse(PROGRAM).unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library()]).unwrap());
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>);
    if mode == Mode::Compiled {
        assert_eq!(program.compile_ahead_of_time(), []);
    }
    let mut session = Session::new(&program, Options { mode, ..Options::default() }).unwrap();
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
    // Side exits that are taken this often get side traces.
    run(2 * TierOptions::default().exit_threshold);
    let before = ALLOCATIONS.get();
    run(1000);
    let made = ALLOCATIONS.get() - before;
    let output = Tensor::try_from(result).unwrap();
    assert_eq!(output.to_vec::<f32>().unwrap(), [10.0]);
    (made, tier, program)
}

#[test]
fn compiled_code_allocates_nothing() {
    assert_eq!(steady(Mode::Compiled).0, 0);
}

#[test]
fn traces_allocate_nothing() {
    let (made, tier, program) = steady(Mode::Tiered);
    assert_eq!(made, 0);
    assert!(!tier.traces(&program).is_empty());
}

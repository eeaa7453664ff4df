//! Tuples take over references of registers, and storages are made with their tensors, in every mode.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::array::Array;
use reflex_runtime::function::Function;
use reflex_runtime::object::ObjectType;
use reflex_runtime::tensor::Tensor;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

/// Calls of a function: enough for its trace to run.
const CALLS: usize = 6;

/// `check` looks at each result of `main`, with bodies of so many operations in compiled mode.
fn each_result(code: &str, body_limit: usize, check: impl Fn(&Array, &str)) {
    for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
        let exec = verify(listing::parse(code).expect("a listing")).expect("valid");
        let program = Program::load(exec, &[&HashMap::<String, Function>::new()]).expect("loads");
        let compile_mode = CompileMode::Synchronous;
        let options =
            TierOptions { threshold: 2, compile_mode, body_limit, ..TierOptions::default() };
        program.attach(Arc::new(CraneliftTier::with_options(options).expect("a tier")));
        assert_eq!(program.compile_ahead_of_time(), []);
        let options = Options { mode, ..Options::default() };
        let mut session = Session::new(&Arc::new(program), options).expect("a session");
        for _ in 0..CALLS {
            let result = session.call("main", &[]).expect("an answer");
            let tuple = result.view().downcast_ref::<Array>().expect("a tuple").clone();
            drop(result);
            check(&tuple, &format!("{mode:?}, bodies of {body_limit}"));
        }
    }
}

/// References to the items of a tuple.
fn references(tuple: &Array) -> Vec<u32> {
    let count = |tensor: &Tensor| tensor.object().strong_count();
    tuple.iter().map(|item| item.view().downcast_ref::<Tensor>().map_or(0, count)).collect()
}

/// Found by `dig`: a shape heap is an operand of its own kind, and kept the reference that was taken.
#[test]
fn a_tuple_holds_the_only_reference_to_what_it_took() {
    let heap = "@main() regs=2:
  call  vm.builtin.alloc_shape_heap in: %vm, i2 dst: %0
  call  vm.builtin.make_tuple in: %1, %0 dst: %0
  ret   %0
";
    let tensors = "const c[0] = shape [2]
const c[1] = dtype float32
@main() regs=4:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %0
  call  vm.builtin.alloc_tensor in: %0, i0, c[0], c[1] dst: %1
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %0
  call  vm.builtin.alloc_tensor in: %0, i0, c[0], c[1] dst: %2
  call  vm.builtin.null_value in: dst: %0
  call  vm.builtin.make_tuple in: %1, %2, %2, i7 dst: %3
  ret   %3
";
    for body_limit in [1, 20_000] {
        each_result(heap, body_limit, |tuple, how| assert_eq!(references(tuple), [0, 1], "{how}"));
        each_result(tensors, body_limit, |tuple, how| {
            assert_eq!(references(tuple), [1, 2, 2, 0], "{how}");
        });
    }
}

/// Found by `dig`: a storage that ends a body is not made together with the tensor that begins the next one.
#[test]
fn storages_and_tensors_may_be_in_different_bodies() {
    let code = "const c[0] = shape [5]
const c[1] = dtype float32
@main() regs=3:
  call  vm.builtin.copy in: i0 dst: %2
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %0
  call  vm.builtin.alloc_tensor in: %0, i0, c[0], c[1] dst: %1
  call  vm.builtin.null_value in: dst: %0
  call  vm.builtin.make_tuple in: %1, %2 dst: %0
  ret   %0
";
    for body_limit in 1..=6 {
        each_result(code, body_limit, |tuple, how| {
            let tensor = tuple[0].view().downcast_ref::<Tensor>().expect("a tensor").clone();
            assert_eq!(tensor.shape(), [5], "{how}");
        });
    }
}

//! Values that swap registers: traces sink their moves, and make parallel moves where destinations are
//! sources of others.

#[path = "common/kernels.rs"]
mod kernels;

use std::collections::HashMap;
use std::sync::Arc;

use kernels::WithKernel;
use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::function::{self, Function};
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// A session of a program whose traces are compiled at once.
fn session(text: &str, mode: Mode) -> Session {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| {
            Ok(Any::from(f(function::arg(args, 0)?, function::arg(args, 1)?)))
        })
    };
    let functions = [("add", int(i64::wrapping_add)), ("lt", int(|a, b| i64::from(a < b)))];
    let functions: HashMap<String, Function> =
        functions.map(|(name, function)| (name.to_owned(), function)).into();
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(program, &[&WithKernel(functions)]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let tier = CraneliftTier::with_options(options).unwrap();
    program.attach(Arc::new(tier) as Arc<dyn Tier>);
    Session::new(&Arc::new(program), Options { mode, ..Options::default() }).unwrap()
}

/// A copy looks at what is moved out of the way of what it writes.
const SWAP: &str = "
@main(x, y, n) regs=7:
  call  vm.builtin.copy in: %0 dst: %3
  call  vm.builtin.copy in: %1 dst: %4
  call  vm.builtin.copy in: %3 dst: %5
  call  vm.builtin.copy in: %4 dst: %3
  call  vm.builtin.copy in: %5 dst: %4
  call  add in: %2, i-1 dst: %2
  call  lt in: i0, %2 dst: %6
  If    %6, 2
  goto  -6
  ret   %5
";

#[test]
fn values_swap_in_a_loop() {
    let run = |mode| {
        let mut session = session(SWAP, mode);
        let mut call = |rounds: i64| {
            let args = [Shape::new(&[1]).into(), Shape::new(&[2]).into(), rounds.into()];
            let result = session.call("main", &args).unwrap();
            result.view().downcast_ref::<Shape>().unwrap().to_vec()
        };
        (0..8).map(|more| call(9 + more % 2)).collect::<Vec<_>>()
    };
    let expected = run(Mode::Bytecode);
    assert_eq!(expected[..2], [vec![1], vec![2]]);
    assert_eq!(run(Mode::Tiered), expected);
}

/// Three tensors rotate by one register, and a kernel runs on the last.
const TURN: &str = "
@main(x, y, z) regs=4:
  call  grow in: %0, %0 dst: %void
  call  grow in: %1, %1 dst: %void
  call  grow in: %2, %2 dst: %void
  call  vm.builtin.copy in: %0 dst: %3
  call  vm.builtin.copy in: %1 dst: %0
  call  vm.builtin.copy in: %2 dst: %1
  call  vm.builtin.copy in: %3 dst: %2
  call  grow in: %0, %0 dst: %void
  call  add in: i1, i2 dst: %0
  call  grow in: %2, %2 dst: %void
  call  grow in: %1, %2 dst: %void
  call  lt in: %0, i1 dst: %3
  call  vm.builtin.make_tuple in: %0, %3 dst: %3
  ret   %2
";

#[test]
fn kernels_find_tensors_that_moved() {
    let run = |mode| {
        let mut session = session(TURN, mode);
        let mut call = || {
            let tensor = |from: f32| -> Any {
                Tensor::from_slice(&[1, 3], &[from, from, from]).unwrap().into()
            };
            let args = [tensor(10.0), tensor(20.0), tensor(30.0)];
            session.call("main", &args).unwrap();
            let first = |arg: &Any| {
                let tensor = arg.view();
                tensor.downcast_ref::<Tensor>().unwrap().to_vec::<f32>().unwrap()[0]
            };
            args.each_ref().map(first)
        };
        (0..5).map(|_| call()).collect::<Vec<_>>()
    };
    let expected = run(Mode::Bytecode);
    assert_eq!(expected[0], [32.0, 22.0, 31.0]);
    assert_eq!(run(Mode::Tiered), expected);
}

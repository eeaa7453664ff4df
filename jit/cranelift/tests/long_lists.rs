//! Lists of a million links are built, folded by a recursion and released in every mode, on the native
//! stack of a test's thread.

use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::function::{self, Function};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

const LENGTH: i64 = 1_000_000;

/// The sum of the numbers from 1 to `n`, by way of a list of them.
const SUM: &str = "
@build(n) regs=2:
  call  vm.builtin.make_tuple in: i0 dst: %1
  call  vm.builtin.make_tuple in: i1, %0, %1 dst: %1
  call  add in: %0, i-1 dst: %0
  If    %0, 2
  goto  -3
  ret   %1
@fold(list) regs=4:
  call  relay.is in: %0, i1 dst: %1
  If    %1, 7
  call  vm.builtin.tuple_getitem in: %0, i1 dst: %2
  call  vm.builtin.tuple_getitem in: %0, i2 dst: %3
  call  vm.builtin.null_value in: dst: %0
  call  fold in: %3 dst: %3
  call  add in: %2, %3 dst: %2
  ret   %2
  call  vm.builtin.copy in: i0 dst: %2
  ret   %2
@main(n) regs=2:
  call  build in: %0 dst: %1
  call  fold in: %1 dst: %1
  ret   %1
";

#[test]
fn a_million_links_take_no_native_stack() {
    for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
        let add = Function::new(|args| {
            Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
        });
        let library: HashMap<String, Function> = [("add".to_owned(), add)].into();
        let program = verify(listing::parse(SUM).unwrap()).unwrap();
        let program = Program::load(program, &[&library]).unwrap();
        let options =
            TierOptions { compile_mode: CompileMode::Synchronous, ..TierOptions::default() };
        let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
        program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
        if mode == Mode::Compiled {
            assert_eq!(program.compile_ahead_of_time(), []);
        }
        let program = Arc::new(program);
        let options = Options { mode, depth_limit: u32::MAX, ..Options::default() };
        let mut session = Session::new(&program, options).unwrap();
        let sum = session.call("main", &[LENGTH.into()]).unwrap();
        assert_eq!(sum.view().as_int(), Some(LENGTH * (LENGTH + 1) / 2), "{mode:?}");
        let recursive = tier.traces(&program).iter().any(|trace| trace.is_recursive());
        assert_eq!(recursive, mode == Mode::Tiered, "the recursion is two loops of traces");
    }
}

//! Functions that machine code alone calls get hot as well.

#[path = "common/tiered.rs"]
mod tiered;

use reflex_cranelift::{CompileMode, TierOptions};
use tiered::tiered;

/// Calls itself at two places, so that it is compiled as a method, and a closure at each level.
const WALK: &str = "
@early(n) regs=2:
  call  add in: %0, i1 dst: %1
  ret   %1
@late(n) regs=2:
  call  add in: %0, i2 dst: %1
  ret   %1
@walk(n, f) regs=4:
  call  lt in: i0, %0 dst: %2
  If    %2, 5
  call  add in: %0, i-1 dst: %2
  call  walk in: %2, %1 dst: %3
  call  walk in: %2, %1 dst: %3
  ret   %3
  call  vm.builtin.invoke_closure in: %vm, %1, %0 dst: %3
  ret   %3
@main(n, late) regs=4:
  If    %1, 3
  call  vm.builtin.make_closure in: f[late] dst: %2
  goto  2
  call  vm.builtin.make_closure in: f[early] dst: %2
  call  walk in: %0, %2 dst: %3
  ret   %3
";

#[test]
fn a_closure_that_a_method_calls_is_compiled() {
    let options = TierOptions {
        threshold: 20,
        exit_threshold: 4,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let (mut session, program, tier) = tiered(WALK, options);
    let mut methods = |late: i64| -> Vec<String> {
        for _ in 0..20 {
            let answer = session.call("main", &[10_i64.into(), late.into()]).unwrap();
            assert_eq!(answer.view().as_int(), Some(1 + late));
        }
        let methods = tier.methods(&program);
        methods.iter().map(|method| program.name(method.func).to_owned()).collect()
    };
    let first = methods(0);
    assert!(first.contains(&"walk".to_owned()) && !first.contains(&"late".to_owned()), "{first:?}");
    // Only the method calls it.
    let then = methods(1);
    assert!(then.contains(&"late".to_owned()), "{then:?}");
}

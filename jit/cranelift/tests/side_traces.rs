//! Hot side exits get side traces.

#[path = "common/tiered.rs"]
mod tiered;

use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::value::Any;
use reflex_vm::program::Program;
use reflex_vm::session::Session;
use tiered::tiered;

/// Adds to `n` one, or, where `n` is not less than `limit`, a hundred.
const BRANCH: &str = "
@main(n, limit) regs=4:
  call  lt in: %0, %1 dst: %2
  If    %2, 3
  call  add in: %0, i1 dst: %3
  ret   %3
  call  add in: %0, i100 dst: %3
  ret   %3
";

/// Counts `n` down; under 50 by twos.
const LOOP: &str = "
@main(n) regs=3:
  call  lt in: %0, i50 dst: %1
  If    %1, 3
  call  add in: %0, i-2 dst: %0
  goto  2
  call  add in: %0, i-1 dst: %0
  call  lt in: i0, %0 dst: %2
  If    %2, 2
  goto  -7
  ret   %0
";

fn session(text: &str, compile_mode: CompileMode) -> (Session, Arc<Program>, Arc<CraneliftTier>) {
    let options =
        TierOptions { threshold: 2, exit_threshold: 4, compile_mode, ..TierOptions::default() };
    tiered(text, options)
}

fn call(session: &mut Session, args: &[i64]) -> i64 {
    let args: Vec<Any> = args.iter().map(|&arg| arg.into()).collect();
    session.call("main", &args).unwrap().view().as_int().unwrap()
}

#[test]
fn an_exit_that_is_often_taken_gets_a_side_trace() {
    for compile_mode in [CompileMode::Synchronous, CompileMode::Background] {
        let (mut session, program, tier) = session(BRANCH, compile_mode);
        for _ in 0..8 {
            assert_eq!(call(&mut session, &[1, 5]), 2);
            tier.wait();
        }
        let [root] = &tier.traces(&program)[..] else { panic!("one trace") };
        assert_eq!(root.parent, None);
        for _ in 0..8 {
            assert_eq!(call(&mut session, &[7, 5]), 107);
            tier.wait();
        }
        let traces = tier.traces(&program);
        let [root, side] = &traces[..] else { panic!("a trace and its side trace") };
        assert_eq!(side.parent.map(|parent| parent.trace), Some(root.number));
        assert!(side.runs() > 0, "the exit is linked to its side trace");
        assert!(tier.methods(&program).is_empty(), "nothing is compiled as a method");
        let text = tier.overview(&program, Some(&session), None).to_string();
        assert!(text.contains("entry: side trace from main@1 with"), "{text}");
    }
}

#[test]
fn a_side_trace_of_a_loop_links_back_to_it() {
    let (mut session, program, tier) = session(LOOP, CompileMode::Synchronous);
    // Entry traces come first; by then the loop is one trace for each way through it.
    for _ in 0..10 {
        assert_eq!(call(&mut session, &[120]), -1);
    }
    let traces = tier.traces(&program);
    assert!(traces.iter().any(|trace| trace.parent.is_some()), "no side trace");
    let back = |text: &str| text.contains("link to site");
    assert!(traces.iter().any(|trace| back(&trace.text())), "no side trace goes back to the loop");
}

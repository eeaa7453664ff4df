//! Code that is not compiled has a named reason, is counted at its site, and is blacklisted in the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reflex_cranelift::{CompileMode, CraneliftTier, Pending, TierOptions};
use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Recordings of one site.
const ATTEMPTS: u32 = 2;

fn options() -> TierOptions {
    TierOptions {
        threshold: 2,
        max_attempts: ATTEMPTS,
        record_delay: Duration::ZERO,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    }
}

fn load(text: &str, options: TierOptions) -> (Arc<Program>, Arc<CraneliftTier>) {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| {
            Ok(Any::from(f(function::arg(args, 0)?, function::arg(args, 1)?)))
        })
    };
    let fail = Function::new(|_| Err(Error::value_error("on purpose")));
    let library: HashMap<String, Function> = [
        ("add", int(i64::wrapping_add)),
        ("lt", int(|a, b| i64::from(a < b))),
        ("fail", fail),
        ("__vmtir__native", native()),
    ]
    .map(|(name, function)| (name.to_owned(), function))
    .into();
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let program = Arc::new(Program::load(program, &[&library]).unwrap());
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    (program, tier)
}

fn session(program: &Arc<Program>) -> Session {
    Session::new(program, Options { mode: Mode::Tiered, ..Options::default() }).unwrap()
}

/// Native code of TVM's compiled mode, which gives back its argument.
fn native() -> Function {
    Function::new(|args| {
        let regs = args[1].as_raw();
        // SAFETY: it is given the registers of its frame, of which the second is for its result and
        // holds nothing; the first is a number.
        unsafe {
            let regs = regs.payload.ptr.cast::<TVMFFIAny>();
            *regs.add(1) = *regs;
        }
        Ok(Any::NONE)
    })
}

/// Calls `main` so often, and gives the reasons that were counted.
fn reasons(text: &str, arg: i64, times: usize) -> Vec<(&'static str, u64)> {
    let (program, _) = load(text, options());
    let mut session = session(&program);
    for _ in 0..times {
        // Some of the programs fail, which is what they are for.
        let _ = session.call("main", &[Any::from(arg)]);
    }
    program.bailouts().into_iter().collect()
}

#[test]
fn a_run_that_fails_is_recorded_a_few_times_only() {
    let text = "@main(n) regs=2:\n  call  fail in: %0 dst: %1\n  ret   %1\n";
    // A site that was blacklisted is never recorded again.
    let expected = [("blacklisted", 1), ("run-failed", u64::from(ATTEMPTS))];
    assert_eq!(reasons(text, 1, 100), expected);
}

#[test]
fn a_loop_without_a_second_iteration_is_no_trace() {
    // The loop ends at the arrival that makes it hot, each time.
    let text = "
@main(n) regs=3:
  call  add in: %0, i1 dst: %0
  call  lt in: %0, i2 dst: %1
  If    %1, 2
  goto  -3
  ret   %0
";
    let found: HashMap<_, _> = reasons(text, 0, 200).into_iter().collect();
    assert_eq!(found.get("no-loop"), Some(&u64::from(ATTEMPTS)), "{found:?}");
    assert_eq!(found.get("blacklisted"), Some(&1), "{found:?}");
}

#[test]
fn a_tree_of_calls_is_compiled_as_a_method() {
    let text = "
@main(n) regs=3:
  call  lt in: i0, %0 dst: %1
  If    %1, 5
  call  add in: %0, i-1 dst: %1
  call  main in: %1 dst: %2
  call  main in: %1 dst: %2
  ret   %2
  ret   %0
";
    let (program, tier) = load(text, options());
    let mut session = session(&program);
    for _ in 0..20 {
        assert_eq!(session.call("main", &[Any::from(4_i64)]).unwrap().view().as_int(), Some(0));
    }
    assert!(program.bailouts().contains_key("recursive"), "{:?}", program.bailouts());
    let whole = tier.methods(&program);
    assert!(whole.len() == 1 && whole[0].runs() > Some(0), "{whole:?}");
}

#[test]
fn a_function_with_a_long_run_is_compiled_as_a_method() {
    let calls = "  call  add in: %0, i1 dst: %0\n".repeat(40);
    let text = format!("\n@main(n) regs=1:\n{calls}  ret   %0\n");
    let run = |trace_limit| {
        let (program, tier) = load(&text, TierOptions { trace_limit, ..options() });
        let mut session = session(&program);
        for _ in 0..20 {
            let sum = session.call("main", &[Any::from(2_i64)]).unwrap();
            assert_eq!(sum.view().as_int(), Some(42));
        }
        let whole = tier.methods(&program);
        assert!(whole.iter().all(|function| function.runs() > Some(0)), "{whole:?}");
        (tier.traces(&program).len(), whole.len(), program.bailouts().get("too-long").copied())
    };
    assert_eq!(run(1000), (1, 0, None));
    assert_eq!(run(20), (0, 1, Some(1)));
}

#[test]
fn native_code_of_tvm_is_not_recorded() {
    let text = "
@native(n) regs=2 vm_tir_func;
@main(n) regs=2:
  call  native in: %0 dst: %1
  ret   %1
";
    let (program, tier) = load(text, options());
    let mut session = session(&program);
    for at in 0..20_i64 {
        assert_eq!(session.call("main", &[Any::from(at)]).unwrap().view().as_int(), Some(at));
    }
    let expected = [("no-loop", u64::from(ATTEMPTS)), ("unsupported", 1), ("blacklisted", 1)];
    assert_eq!(program.bailouts(), expected.into());
    let text = tier.overview(&program, None, None).to_string();
    assert!(text.contains("native: 2 operations\n  entry: not compiled: unsupported 1"), "{text}");
}

#[test]
fn a_run_that_calls_what_it_may_not_is_recorded_up_to_there() {
    let closure = |add: &str| {
        let mut text =
            format!("@main(n) regs=3:\n  call  vm.builtin.make_closure in: {add} dst: %1\n");
        text += "  call  vm.builtin.invoke_closure in: %vm, %1, %0, i1 dst: %2\n  ret   %2\n";
        text + "@one(n) regs=1:\n  ret   %0\n"
    };
    // A function that takes one argument is given two.
    let (program, tier) = load(&closure("f[one]"), options());
    let mut session = session(&program);
    for _ in 0..20 {
        assert!(session.call("main", &[Any::from(1_i64)]).is_err());
    }
    assert!(program.bailouts().is_empty(), "{:?}", program.bailouts());
    assert!(tier.traces(&program).iter().any(|trace| trace.runs() > 0));
}

#[test]
fn the_next_step_for_a_hot_site_is_reported() {
    let text = "@main(n) regs=2:\n  call  add in: %0, i1 dst: %1\n  ret   %1\n";
    let waits = |record_delay, wait: bool| {
        let options =
            TierOptions { record_delay, compile_mode: CompileMode::Background, ..options() };
        let (program, tier) = load(text, options);
        let mut session = session(&program);
        for _ in 0..3 {
            session.call("main", &[Any::from(1_i64)]).unwrap();
        }
        if wait {
            tier.wait();
        }
        let overview = tier.overview(&program, Some(&session), None);
        let text = overview.to_string();
        (overview.functions[0].sites[0].pending, text)
    };
    let (hot, text) = waits(Duration::from_secs(3600), false);
    assert_eq!(hot, Some(Pending::Recording));
    assert!(text.contains("  entry: hot, recorded if it stays so"), "{text}");
    let (done, text) = waits(Duration::ZERO, true);
    assert_eq!(done, None);
    assert!(text.contains("  entry: trace with"), "{text}");
}

/// Back jumps of each run, and levels of each recursion, at which everything gets hot at its end.
const THRESHOLD: u32 = 10;

#[test]
fn a_loop_that_gets_hot_at_its_end_is_recorded_from_elsewhere() {
    let text = "
@main(n) regs=3:
  call  add in: i0, i0 dst: %1
  call  add in: %1, i1 dst: %1
  call  lt in: %1, %0 dst: %2
  If    %2, 2
  goto  -3
  ret   %1
";
    for rounds in [2, 5, 10] {
        let (program, tier) = load(text, TierOptions { threshold: THRESHOLD, ..options() });
        let mut session = session(&program);
        for _ in 0..100 {
            let result = session.call("main", &[Any::from(rounds + 1_i64)]).unwrap();
            assert_eq!(result.view().as_int(), Some(rounds + 1));
        }
        let traces = tier.traces(&program);
        let is_loop = |text: &str| text.lines().any(|line| line.trim() == "loop");
        assert!(
            traces.iter().any(|trace| is_loop(&trace.recorded())),
            "{rounds} rounds: {:?}",
            program.bailouts()
        );
    }
}

#[test]
fn a_recursion_that_gets_hot_at_its_end_is_recorded_from_elsewhere() {
    let text = "
@down(n) regs=3:
  call  lt in: i0, %0 dst: %1
  If    %1, 4
  call  add in: %0, i-1 dst: %1
  call  down in: %1 dst: %2
  ret   %2
  ret   %0
@main(n) regs=2:
  call  down in: %0 dst: %1
  ret   %1
";
    let (program, tier) = load(text, TierOptions { threshold: THRESHOLD, ..options() });
    let mut session = session(&program);
    // At this depth, the innermost level becomes hot, and the outermost return.
    let depth = i64::from(2 * THRESHOLD - 1);
    for _ in 0..20 {
        assert_eq!(session.call("main", &[Any::from(depth)]).unwrap().view().as_int(), Some(0));
    }
    let loops = tier.traces(&program).iter().filter(|trace| trace.is_recursive()).count();
    assert_eq!(loops, 2, "down and up: {}", tier.overview(&program, None, None));
}

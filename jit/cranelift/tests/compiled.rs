//! Compiled mode has the interpreter's results, errors and counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reflex_codemem::pages::PAGE;
use reflex_cranelift::{CompileMode, CraneliftTier, ForcedExits, TierOptions};
use reflex_runtime::error::Error;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::instrument::{CallEvent, Instrument, Verdict};
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::reentry;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

/// Names, arguments and results of host calls, in order.
type Log = Arc<Mutex<Vec<String>>>;

fn library(log: &Log) -> HashMap<String, Function> {
    let log = Arc::clone(log);
    let add = Function::new(|args| Ok(Any::from(arg::<i64>(args, 0)? + arg::<i64>(args, 1)?)));
    let less = Function::new(|args| Ok(Any::from(arg::<i64>(args, 0)? < arg::<i64>(args, 1)?)));
    let record = Function::new(move |args| {
        let seen: Vec<i64> = args.iter().filter_map(|arg| arg.as_int()).collect();
        log.lock().push(format!("{seen:?}"));
        Ok(Any::NONE)
    });
    let call_back = Function::new(|args| {
        reentry::call_back(&args[0], &args[1], &args[2..])?;
        Ok(Any::NONE)
    });
    [("add", add), ("less", less), ("record", record), ("call_back", call_back)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

fn program(build: &dyn Fn(&mut ExecBuilder), log: &Log, options: TierOptions) -> Arc<Program> {
    let mut b = ExecBuilder::new();
    build(&mut b);
    let exec = verify(b.finish().unwrap()).unwrap();
    let program = Program::load(exec, &[&library(log)]).unwrap();
    program.attach(Arc::new(CraneliftTier::with_options(options).unwrap()));
    Arc::new(program)
}

/// Calls `main` several times in one session; what happened, as text.
fn outcome(
    program: &Arc<Program>,
    mode: Mode,
    args: &[Any],
    fuel: Option<u64>,
    log: &Log,
) -> String {
    let options = Options { mode, depth_limit: 150_000, ..Options::default() };
    let mut session = Session::new(program, options).unwrap();
    let mut text = String::new();
    for _ in 0..4 {
        session.set_fuel(fuel);
        match session.call("main", args) {
            Ok(value) => text += &format!("{:?}", value.view().as_int()),
            Err(error) => text += &error.to_string(),
        }
        let log = std::mem::take(&mut *log.lock());
        text += &format!(" {log:?} {}\n", session.fuel());
    }
    text
}

/// Runs `main` in every mode and returns the common outcome.
fn agreed(build: impl Fn(&mut ExecBuilder), args: &[Any], fuel: Option<u64>) -> String {
    let log = Log::default();
    let compiled = program(&build, &log, TierOptions::default());
    assert_eq!(compiled.compile_ahead_of_time(), []);
    let expected = outcome(&compiled, Mode::Bytecode, args, fuel, &log);
    assert_eq!(expected, outcome(&compiled, Mode::Compiled, args, fuel, &log));
    for body_limit in [1, 3] {
        let options = TierOptions { body_limit, ..TierOptions::default() };
        let parts = program(&build, &log, options);
        assert_eq!(parts.compile_ahead_of_time(), []);
        assert_eq!(expected, outcome(&parts, Mode::Compiled, args, fuel, &log));
    }
    for one_in in [0, 1, 3, 20] {
        let force = Some(Arc::new(ForcedExits::new(7, one_in)));
        let traced = program(
            &build,
            &log,
            TierOptions {
                threshold: 2,
                exit_threshold: 3,
                forced_exits: force,
                compile_mode: CompileMode::Synchronous,
                ..TierOptions::default()
            },
        );
        let answer = outcome(&traced, Mode::Tiered, args, fuel, &log);
        assert_eq!(
            expected,
            answer,
            "one guard in {one_in} forced to fail; {:?}",
            traced.bailouts()
        );
    }
    expected
}

/// `main(n)`: sum of n, n-1, ... 1 by a loop that records each.
fn sum_by_loop(b: &mut ExecBuilder) {
    b.function("main", 1).unwrap();
    b.emit_call("vm.builtin.copy", &[b.imm(0).unwrap()], b.r(1)).unwrap();
    let (top, done) = (b.label().unwrap(), b.label().unwrap());
    b.bind(top).unwrap();
    b.emit_call("record", &[b.r(0), b.r(1)], Reg::VOID).unwrap();
    b.emit_call("add", &[b.r(1), b.r(0)], b.r(1)).unwrap();
    b.emit_call("add", &[b.r(0), b.imm(-1).unwrap()], b.r(0)).unwrap();
    b.emit_call("less", &[b.imm(0).unwrap(), b.r(0)], b.r(2)).unwrap();
    b.emit_if(Reg(2), done).unwrap();
    b.emit_goto(top).unwrap();
    b.bind(done).unwrap();
    b.emit_ret(Reg(1)).unwrap();
    b.end_function().unwrap();
}

/// `main(n)` = n <= 0 ? 0 : n + main(n - 1).
fn sum_by_recursion(b: &mut ExecBuilder) {
    b.function("main", 1).unwrap();
    let zero = b.label().unwrap();
    b.emit_call("less", &[b.imm(0).unwrap(), b.r(0)], b.r(1)).unwrap();
    b.emit_if(Reg(1), zero).unwrap();
    b.emit_call("add", &[b.r(0), b.imm(-1).unwrap()], b.r(2)).unwrap();
    b.emit_call("main", &[b.r(2)], b.r(2)).unwrap();
    b.emit_call("add", &[b.r(0), b.r(2)], b.r(2)).unwrap();
    b.emit_ret(Reg(2)).unwrap();
    b.bind(zero).unwrap();
    b.emit_call("vm.builtin.copy", &[b.imm(0).unwrap()], b.r(2)).unwrap();
    b.emit_ret(Reg(2)).unwrap();
    b.end_function().unwrap();
}

#[test]
fn loops_agree() {
    let answer = agreed(sum_by_loop, &[Any::from(4_i64)], None);
    assert!(answer.starts_with("Some(10) [\"[4, 0]\", \"[3, 4]\""), "{answer}");
}

#[test]
fn recursion_does_not_use_the_native_stack() {
    let answer = agreed(sum_by_recursion, &[Any::from(120_000_i64)], None);
    assert!(answer.starts_with("Some(7200060000)"), "{answer}");
}

#[test]
fn errors_name_the_same_position() {
    let answer = agreed(sum_by_loop, &[Any::from(1.5)], None);
    assert!(answer.contains("TypeError") && answer.contains("calling `add`"), "{answer}");
    let answer = agreed(sum_by_recursion, &[Any::from(160_000_i64)], None);
    assert!(answer.contains("deeper than the limit of 150000"), "{answer}");
    let answer = agreed(sum_by_loop, &[Any::from(100_i64)], Some(50));
    assert!(answer.contains("fuel"), "{answer}");
}

#[test]
fn closures_and_tuples_agree() {
    let build = |b: &mut ExecBuilder| {
        b.function("pair", 2).unwrap();
        b.emit_call("vm.builtin.make_tuple", &[b.r(0), b.r(1)], b.r(2)).unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
        b.function("main", 1).unwrap();
        let pair = b.f("pair");
        b.emit_call("vm.builtin.make_closure", &[pair, b.imm(7).unwrap()], b.r(1)).unwrap();
        b.emit_call("vm.builtin.invoke_closure", &[b.vm_state(), b.r(1), b.r(0)], b.r(1)).unwrap();
        b.emit_call("vm.builtin.tuple_getitem", &[b.r(1), b.imm(1).unwrap()], b.r(1)).unwrap();
        b.emit_call("record", &[b.r(0), b.r(1)], Reg::VOID).unwrap();
        b.emit_call("vm.builtin.null_value", &[], b.r(0)).unwrap();
        b.emit_ret(Reg(1)).unwrap();
        b.end_function().unwrap();
    };
    let answer = agreed(build, &[Any::from(3_i64)], None);
    assert!(answer.starts_with("Some(7) [\"[3, 7]\"]"), "{answer}");
}

/// `main(n)`: for each of n, n-1, ... 1 a packed function without a result that calls `unit` of the
/// program, which returns an empty tuple, and `unit` as a closure.
fn callbacks_without_results(b: &mut ExecBuilder) {
    b.function("unit", 1).unwrap();
    b.emit_call("record", &[b.r(0)], Reg::VOID).unwrap();
    b.emit_call("vm.builtin.make_tuple", &[], b.r(1)).unwrap();
    b.emit_ret(Reg(1)).unwrap();
    b.end_function().unwrap();
    b.function("main", 1).unwrap();
    let (top, done) = (b.label().unwrap(), b.label().unwrap());
    b.bind(top).unwrap();
    let given = [b.vm_state(), b.f("unit"), b.r(0)];
    b.emit_call("call_back", &given, Reg::VOID).unwrap();
    b.emit_call("vm.builtin.invoke_closure", &given, Reg::VOID).unwrap();
    b.emit_call("unit", &[b.r(0)], Reg::VOID).unwrap();
    b.emit_call("add", &[b.r(0), b.imm(-1).unwrap()], b.r(0)).unwrap();
    b.emit_call("less", &[b.imm(0).unwrap(), b.r(0)], b.r(1)).unwrap();
    b.emit_if(Reg(1), done).unwrap();
    b.emit_goto(top).unwrap();
    b.bind(done).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
}

/// TVM's interpreter writes the result of such a run past its registers (a fault of its own in
/// TVM's virtual machine: results without a destination).
#[test]
fn void_results_of_nested_runs_are_dropped() {
    let text = agreed(callbacks_without_results, &[Any::from(3_i64)], Some(100));
    let calls = r#"["[3]", "[3]", "[3]", "[2]", "[2]", "[2]", "[1]", "[1]", "[1]"]"#;
    assert_eq!(text, format!("Some(0) {calls} 88\n").repeat(4));
}

#[test]
fn traces_made_in_the_background_are_installed() {
    let log = Log::default();
    let mut b = ExecBuilder::new();
    sum_by_loop(&mut b);
    let exec = verify(b.finish().unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library(&log)]).unwrap());
    let record_delay = std::time::Duration::ZERO;
    let options = TierOptions { threshold: 2, record_delay, ..TierOptions::default() };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>);
    let options = Options { mode: Mode::Tiered, ..Options::default() };
    let mut session = Session::new(&program, options).unwrap();
    let entered = |tier: &CraneliftTier| {
        tier.traces(&program).iter().any(|trace| trace.exits().iter().sum::<u64>() > 0)
    };
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !entered(&tier) {
        let sum = session.call("main", &[Any::from(9_i64)]).unwrap();
        assert_eq!(sum.view().as_int(), Some(45));
        assert!(std::time::Instant::now() < patience, "no trace ran: {:?}", program.bailouts());
    }
}

#[test]
fn a_tier_says_what_it_did() {
    let log = Log::default();
    let options = TierOptions {
        threshold: 2,
        exit_threshold: 3,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    let mut b = ExecBuilder::new();
    sum_by_loop(&mut b);
    let exec = verify(b.finish().unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library(&log)]).unwrap());
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>);
    let options = Options { mode: Mode::Tiered, ..Options::default() };
    let mut session = Session::new(&program, options).unwrap();
    session.call("main", &[Any::from("text")]).unwrap_err();
    for _ in 0..2 {
        session.call("main", &[Any::from(4_i64)]).unwrap();
    }
    let text = tier.overview(&program, Some(&session), None).to_string();
    for line in [
        "main: 8 operations",
        "  loop at 1: recorded 1 times",
        "    side exit taken 2 times: main@5",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    let [start, end] = ["  loop at 1: trace with 3 guards, ", " bytes, ran 4 times"];
    let is_trace = |line: &str| line.starts_with(start) && line.ends_with(end);
    assert!(text.lines().any(is_trace), "{text}");
    // The loop ends at the same guard each time, so what follows is recorded too.
    for _ in 0..4 {
        session.call("main", &[Any::from(4_i64)]).unwrap();
    }
    let text = tier.overview(&program, None, None).to_string();
    assert!(text.contains("loop at 1: side trace from main@5 with"), "{text}");
}

#[test]
fn a_long_function_is_several_bodies() {
    let log = Log::default();
    let translated = |body_limit| {
        let options = TierOptions { body_limit, ..TierOptions::default() };
        let mut b = ExecBuilder::new();
        sum_by_loop(&mut b);
        let exec = verify(b.finish().unwrap()).unwrap();
        let program = Program::load(exec, &[&library(&log)]).unwrap();
        let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
        program.attach(Arc::clone(&tier) as Arc<dyn reflex_vm::tier::Tier>);
        assert_eq!(program.compile_ahead_of_time(), []);
        tier.translated()
    };
    // Eight operations: one body, three, eight; and what enters them.
    let [whole, three, eight] = [20_000, 3, 1].map(translated);
    assert_eq!((three - whole, eight - whole), (2, 7));
}

#[test]
fn code_beyond_the_limit_is_interpreted() {
    let log = Log::default();
    let options = TierOptions { code_cache_limit: 2 * PAGE, ..TierOptions::default() };
    let program = program(&sum_by_loop, &log, options);
    // The trampolines do not count: they belong to the process.
    assert_eq!(program.compile_ahead_of_time(), []);
    let refused: Vec<_> = (0..3).flat_map(|_| program.compile_ahead_of_time()).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(program.bailouts().get("code-memory-full"), Some(&2));
    let answer = outcome(&program, Mode::Compiled, &[Any::from(4_i64)], None, &log);
    assert!(answer.starts_with("Some(10)"), "{answer}");
}

#[test]
fn sessions_of_several_threads_share_what_is_compiled_meanwhile() {
    let log = Log::default();
    for (build, expected) in
        [(&sum_by_loop as &dyn Fn(&mut ExecBuilder), 210), (&sum_by_recursion, 210)]
    {
        let force = Some(Arc::new(ForcedExits::new(3, 16)));
        let record_delay = std::time::Duration::ZERO;
        let options = TierOptions {
            threshold: 3,
            exit_threshold: 8,
            forced_exits: force,
            record_delay,
            ..TierOptions::default()
        };
        let program = program(build, &log, options);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        let options = Options { mode: Mode::Tiered, ..Options::default() };
                        let mut session = Session::new(&program, options).unwrap();
                        for _ in 0..20 {
                            let value = session.call("main", &[Any::from(20_i64)]).unwrap();
                            assert_eq!(value.view().as_int(), Some(expected));
                        }
                    }
                });
            }
        });
        log.lock().clear();
    }
}

/// The events that an instrument saw, in order.
#[derive(Default)]
struct Seen(Vec<String>);

impl Instrument for Seen {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
        self.0.push(format!("{} of {}", call.callee(), call.args().len()));
        Ok(Verdict::Run)
    }

    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error> {
        self.0.push(format!("{} gave {:?}", call.callee(), result.as_int()));
        Ok(())
    }
}

#[test]
fn calls_and_instruments_count_the_same_in_every_mode() {
    let log = Log::default();
    for build in [&sum_by_loop as &dyn Fn(&mut ExecBuilder), &sum_by_recursion] {
        let options = TierOptions {
            threshold: 2,
            compile_mode: CompileMode::Synchronous,
            ..TierOptions::default()
        };
        let program = program(build, &log, options);
        assert_eq!(program.compile_ahead_of_time(), []);
        let mut counts: Vec<(usize, Vec<String>)> = Vec::new();
        for mode in [Mode::Bytecode, Mode::Compiled, Mode::Tiered] {
            let options = Options { mode, ..Options::default() };
            let mut session = Session::new(&program, options).unwrap();
            // Hot by the third call; what the host is called for is the same in each.
            for _ in 0..6 {
                session.call("main", &[Any::from(9_i64)]).unwrap();
            }
            let calls = std::mem::take(&mut *log.lock()).len();
            let seen = Arc::new(Mutex::new(Seen::default()));
            session.set_instrument(Some(Box::new(Arc::clone(&seen))));
            session.call("main", &[Any::from(9_i64)]).unwrap();
            session.set_instrument(None);
            let instrumented = std::mem::take(&mut *log.lock()).len();
            assert_eq!(instrumented * 6, calls, "{mode:?}");
            assert!(!seen.lock().0.is_empty());
            counts.push((calls, std::mem::take(&mut seen.lock().0)));
        }
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }
}

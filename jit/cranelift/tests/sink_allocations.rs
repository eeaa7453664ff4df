//! Allocation sinking: side exits materialise the objects that the interpreter would have, with the
//! data that kernels wrote, and memory is released.

#[path = "common/alone.rs"]
mod alone;
#[path = "common/kernels.rs"]
mod kernels;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use alone::alone;
use kernels::WithKernel;
use parking_lot::Mutex;
use reflex_cranelift::{CompileMode, CraneliftTier, ForcedExits, TierOptions};
use reflex_runtime::alloc::device::{CPU, DeviceAllocator, set_memory_limit};
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// A loop whose body makes two tensors on storages of their own, one of them in a function; the
/// branch is taken two times out of three, and a host function looks at a tensor now and then.
const LOOP: &str = r#"
const c[0] = str "global"
const c[1] = dtype float32
const c[2] = shape [2, 3]
const c[3] = shape [8]
@step(x) regs=5:
  call  vm.builtin.alloc_storage in: %vm, c[3], i0, c[1], c[0] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i8, c[2], c[1] dst: %2
  call  grow in: %0, %2 dst: %void
  call  vm.builtin.alloc_storage in: %vm, c[3], i0, c[1], c[0] dst: %3
  call  vm.builtin.alloc_tensor in: %3, i0, c[2], c[1] dst: %4
  call  vm.builtin.null_value in: dst: %3
  call  third in: i0 dst: %3
  If    %3, 2
  call  grow in: %2, %4 dst: %void
  call  grow in: %2, %4 dst: %void
  call  vm.builtin.null_value in: dst: %2
  call  grow in: %4, %0 dst: %void
  ret   %4
@main(n, x) regs=6:
  call  step in: %1 dst: %2
  call  third in: i1 dst: %3
  If    %3, 2
  call  sum in: %2 dst: %void
  call  grow in: %2, %1 dst: %void
  call  vm.builtin.null_value in: dst: %2
  call  add in: %0, i-1 dst: %0
  If    %0, 2
  goto  -8
  call  sum in: %1 dst: %4
  ret   %4
"#;

/// The same for tuples, closures and views: a tuple of a tensor, a number and an object of the host
/// comes out of a function; a closure over a view is called.
const ITEMS: &str = r#"
const c[0] = str "global"
const c[1] = dtype float32
const c[2] = shape [2, 3]
const c[3] = shape [1, 3]
const c[4] = str "ErrorContext(here) "
@pair(x, o) regs=6:
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[1], c[0] dst: %2
  call  vm.builtin.alloc_tensor in: %2, i0, c[2], c[1] dst: %3
  call  grow in: %0, %3 dst: %void
  call  vm.builtin.reshape in: %3, c[3] dst: %4
  call  vm.builtin.make_tuple in: %1, %4, i7, %3 dst: %5
  ret   %5
@add_to(y, x, o) regs=4:
  call  third in: i0 dst: %3
  If    %3, 2
  call  grow in: %0, %1 dst: %void
  call  grow in: %1, %0 dst: %void
  ret   %2
@main(n, x) regs=12:
  call  object in: dst: %11
  call  pair in: %1, %11 dst: %2
  call  vm.builtin.check_tuple_info in: %2, i4, c[4] dst: %void
  call  vm.builtin.tuple_getitem in: %2, i1 dst: %3
  call  vm.builtin.tuple_getitem in: %2, i3 dst: %4
  call  vm.builtin.tuple_getitem in: %2, i0 dst: %5
  call  grow in: %4, %4 dst: %void
  call  vm.builtin.reshape in: %1, c[3] dst: %6
  call  vm.builtin.make_closure in: f[add_to], %6, %5 dst: %7
  call  vm.builtin.null_value in: dst: %5
  call  third in: i1 dst: %8
  If    %8, 2
  call  sum in: %6 dst: %void
  call  vm.builtin.invoke_closure in: %vm, %7, %3 dst: %9
  call  vm.builtin.null_value in: dst: %7
  call  vm.builtin.null_value in: dst: %9
  call  vm.builtin.make_tuple in: %2, %2 dst: %10
  call  vm.builtin.null_value in: dst: %2
  call  third in: i2 dst: %8
  If    %8, 2
  call  sum in: %4 dst: %void
  call  vm.builtin.null_value in: dst: %10
  call  vm.builtin.null_value in: dst: %11
  call  grow in: %4, %1 dst: %void
  call  add in: %0, i-1 dst: %0
  If    %0, 2
  goto  -26
  call  sum in: %1 dst: %8
  ret   %8
"#;

/// A closure that two calls pass on, and that the inner one holds while its branch is tested.
const PASSED_ON: &str = r#"
@inner(test, f) regs=3:
  If    %0, 2
  ret   %0
  call  vm.builtin.invoke_closure in: %vm, %1, i5 dst: %2
  ret   %2
@outer(test, f) regs=3:
  call  inner in: %0, %1 dst: %2
  call  vm.builtin.invoke_closure in: %vm, %1, %2 dst: %2
  ret   %2
@same(x) regs=1:
  ret   %0
@main(n, x) regs=5:
  call  vm.builtin.make_closure in: f[same] dst: %2
  call  third in: i0 dst: %3
  call  outer in: %3, %2 dst: %3
  call  vm.builtin.null_value in: dst: %2
  call  sum in: %1 dst: %void
  call  add in: %0, i-1 dst: %0
  If    %0, 2
  goto  -7
  call  sum in: %1 dst: %4
  ret   %4
"#;

/// Host functions that write down what they see.
fn library(log: &Arc<Mutex<Vec<String>>>) -> HashMap<String, Function> {
    let lock = |log: &Arc<Mutex<Vec<String>>>| {
        let log = Arc::clone(log);
        move |line: String| {
            let mut log = log.lock();
            log.push(line);
            log.len() as i64
        }
    };
    let (one, two) = (lock(log), lock(log));
    let third = Function::new(move |args| {
        let salt: i64 = function::arg(args, 0)?;
        Ok(Any::from(i64::from((one("third".to_owned()) + salt) % 3 != 0)))
    });
    let sum = Function::new(move |args| {
        let tensor: Tensor = function::arg(args, 0)?;
        let sum: f32 = tensor.to_vec::<f32>()?.iter().sum();
        if two(format!("sum {sum}")) % 41 == 0 {
            return Err(Error::value_error("enough"));
        }
        Ok(f64::from(sum).into())
    });
    let add = Function::new(|args| {
        Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
    });
    let object = Function::new(|_| {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let token = Token;
        let call = move |_: &[AnyView<'_>]| {
            let _keep = &token;
            Ok(Any::NONE)
        };
        Ok(Function::new(call).into())
    });
    [("third", third), ("sum", sum), ("add", add), ("object", object)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// Counts its kind.
struct Token;

impl Drop for Token {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Run {
    seen: Vec<String>,
    /// Traces that leave objects out.
    left_out: usize,
    /// Exits taken of these.
    exits: u64,
}

fn run(text: &str, mode: Mode, forced_exits: Option<(u64, u32)>, runs: i64) -> Run {
    let log = Arc::new(Mutex::new(Vec::new()));
    let exec = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(exec, &[&WithKernel(library(&log))]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        exit_threshold: 1 << 20,
        forced_exits: forced_exits.map(|(seed, one_in)| Arc::new(ForcedExits::new(seed, one_in))),
        ..TierOptions::default()
    };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    let program = Arc::new(program);
    let mut session = Session::new(&program, Options { mode, ..Options::default() }).unwrap();
    let mut seen = Vec::new();
    for run in 0..runs {
        let x = Tensor::from_slice(&[2, 3], &[run as f32; 6]).unwrap();
        session.set_fuel(Some(10_000));
        let outcome = session.call("main", &[Any::from(7 + run), x.into()]);
        let outcome = outcome.map_err(|error| error.to_string());
        let outcome = outcome.map(|value| f64::try_from(&value).ok());
        let alive = ALIVE.load(Ordering::Relaxed);
        seen.push(format!("{outcome:?}, fuel {}, {alive} objects", session.fuel()));
    }
    drop(session);
    seen.append(&mut log.lock());
    let traces = tier.traces(&program);
    let traces: Vec<_> =
        traces.iter().filter(|trace| trace.text().contains("  virtual o0: ")).collect();
    let exits = traces.iter().flat_map(|trace| trace.exits()).sum();
    Run { seen, left_out: traces.len(), exits }
}

/// Runs a program with guards that fail in many ways; the traces that leave objects out, and their
/// exits.
fn every_exit(text: &str) -> (usize, u64) {
    let expected = run(text, Mode::Bytecode, None, 30).seen;
    assert!(expected.iter().any(|line| line.contains("enough")), "{expected:?}");
    let (mut left_out, mut exits) = (0, 0);
    for one_in in [0, 1, 2, 3, 7, 20] {
        for seed in 0..6 {
            let found = run(text, Mode::Tiered, Some((seed, one_in)), 30);
            assert_eq!(expected, found.seen, "seed {seed}, one in {one_in}");
            left_out += found.left_out;
            exits += found.exits;
        }
    }
    (left_out, exits)
}

#[test]
fn exits_materialise_storages_and_tensors() {
    let (left_out, exits) = alone(|| every_exit(LOOP));
    assert!(left_out > 50 && exits > 5000, "{left_out} traces, {exits} exits");
}

#[test]
fn exits_materialise_tuples_closures_and_views() {
    let (left_out, exits) = alone(|| every_exit(ITEMS));
    assert!(left_out > 50 && exits > 5000, "{left_out} traces, {exits} exits");
}

#[test]
fn exits_materialise_what_two_calls_hold() {
    let (left_out, exits) = alone(|| every_exit(PASSED_ON));
    assert!(left_out > 50 && exits > 5000, "{left_out} traces, {exits} exits");
}

#[test]
fn arenas_are_counted_and_released() {
    alone(|| {
        run(LOOP, Mode::Tiered, Some((1, 2)), 20);
        let before = CPU.statistics().live;
        let found = run(LOOP, Mode::Tiered, Some((1, 2)), 20);
        assert!(found.left_out > 0);
        assert_eq!(CPU.statistics().live, before);
        // Without memory for an arena, the interpreter finds out what there is memory for.
        let limited = |mode| {
            set_memory_limit(before + 64);
            let found = run(LOOP, mode, None, 4);
            set_memory_limit(usize::MAX);
            found.seen
        };
        let expected = limited(Mode::Bytecode);
        assert!(expected.iter().all(|line| !line.starts_with("Ok")), "{expected:?}");
        assert_eq!(limited(Mode::Tiered), expected);
    });
}

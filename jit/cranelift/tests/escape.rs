//! Objects that traces do not make: what exits make of them is what the interpreter would have,
//! with the data that kernels left there, and memory is given back.

#[path = "common/kernels.rs"]
mod kernels;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kernels::WithKernel;
use reflex_cranelift::{Compiling, CraneliftTier, ForcedExits, TierOptions};
use reflex_runtime::alloc::device::{CPU, DeviceAllocator, set_memory_limit};
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::program::Program;
use reflex_vm::session::{Mode, Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Memory is counted for the process.
static ALONE: Mutex<()> = Mutex::new(());

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

/// Host functions that write down what they see.
fn library(log: &Arc<Mutex<Vec<String>>>) -> HashMap<String, Function> {
    let lock = |log: &Arc<Mutex<Vec<String>>>| {
        let log = Arc::clone(log);
        move |line: String| {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
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
        if two(format!("sum {sum}")) % 101 == 0 {
            return Err(Error::value_error("enough"));
        }
        Ok(f64::from(sum).into())
    });
    let add = Function::new(|args| {
        Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
    });
    [("third", third), ("sum", sum), ("add", add)]
        .map(|(name, function)| (name.to_owned(), function))
        .into()
}

struct Run {
    seen: Vec<String>,
    /// Traces that leave objects out.
    left_out: usize,
    /// Exits taken of these.
    exits: u64,
}

fn run(text: &str, mode: Mode, force: Option<(u64, u32)>, runs: i64) -> Run {
    let log = Arc::new(Mutex::new(Vec::new()));
    let exec = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(exec, &[&WithKernel(library(&log))]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compiling: Compiling::AtOnce,
        exit_threshold: 1 << 20,
        force: force.map(|(seed, one_in)| Arc::new(ForcedExits::new(seed, one_in))),
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
        seen.push(format!("{outcome:?}, fuel {}", session.fuel()));
    }
    drop(session);
    seen.append(&mut log.lock().unwrap_or_else(PoisonError::into_inner));
    let traces = tier.traces(&program);
    let traces: Vec<_> =
        traces.iter().filter(|trace| trace.text.contains("  object o0: storage")).collect();
    let exits = traces.iter().flat_map(|trace| trace.exits()).sum();
    Run { seen, left_out: traces.len(), exits }
}

#[test]
fn exits_make_what_the_interpreter_has() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = run(LOOP, Mode::Bytecode, None, 30).seen;
    assert!(expected.iter().any(|line| line.contains("enough")));
    let (mut left_out, mut exits) = (0, 0);
    for one_in in [0, 1, 2, 3, 7, 20] {
        for seed in 0..6 {
            let found = run(LOOP, Mode::Tiered, Some((seed, one_in)), 30);
            assert_eq!(expected, found.seen, "seed {seed}, one in {one_in}");
            left_out += found.left_out;
            exits += found.exits;
        }
    }
    assert!(left_out > 50 && exits > 5000, "{left_out} traces, {exits} exits");
}

#[test]
fn arenas_are_counted_and_given_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
}

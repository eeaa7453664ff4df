//! Sessions come and go, runs succeed and fail, and memory stays as it was.
//!
//! `REFLEX_SOAK_RUNS=1000000 cargo test --release --test soak -- --nocapture` soaks longer and
//! prints what the process takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, SavedResult, Session};
use reflex_vm::verify::verify;

struct Counting;

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is shutting down counts no more.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A storage, a tensor, a tuple, a closure, and calls that go down to zero.
const PROGRAM: &str = r#"
const c[0] = shape [64]
const c[1] = shape [16]
const c[2] = dtype float32
const c[3] = dtype uint8
const c[4] = str "global"
@main(n) regs=6:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[3], c[4] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[1], c[2] dst: %2
  call  vm.builtin.make_tuple in: %2, %0, c[0] dst: %3
  call  vm.builtin.make_closure in: f[down], %3 dst: %4
  call  vm.builtin.invoke_closure in: %vm, %4, %0 dst: %5
  ret   %5
@down(n, kept) regs=4:
  call  soak.step in: %0 dst: %2
  If    %2, 3
  call  down in: %2, %1 dst: %3
  goto  2
  call  vm.builtin.make_tuple in: %0, %1 dst: %3
  ret   %3
"#;

/// Runs of one session.
const RUNS: i64 = 10;
/// Number of arguments that `main` is called with, the first of which fails.
const NUMBERS: i64 = 12;

fn program(mode: Mode) -> Arc<Program> {
    let step = |args: &[reflex_runtime::value::AnyView<'_>]| match arg::<i64>(args, 0)? {
        n if n < 0 => Err(Error::value_error(format!("{n} steps"))),
        n => Ok(Any::from((n - 1).max(0))),
    };
    let library = HashMap::from([("soak.step".to_owned(), Function::new(step))]);
    let exec = verify(listing::parse(PROGRAM).unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library]).unwrap());
    let options = TierOptions {
        threshold: 2,
        exit_threshold: 2,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    };
    program.attach(Arc::new(CraneliftTier::with_options(options).unwrap()));
    if mode == Mode::Compiled {
        assert_eq!(program.compile_ahead_of_time(), []);
    }
    program
}

/// Opens session number `number`, runs it and drops it.
fn one_session(program: &Arc<Program>, mode: Mode, number: i64) {
    let mut session = Session::new(program, Options { mode, ..Options::default() }).unwrap();
    let kept = Any::from(Array::new([Any::from(number)]));
    session.save_function("down", "saved", SavedResult::Keep, vec![kept]).unwrap();
    for run in 0..RUNS {
        let n = (number * RUNS + run) % NUMBERS - 1;
        let (name, inner) = if run % 2 == 0 { ("main", 3) } else { ("saved", 1) };
        match session.call(name, &[n.into()]) {
            Ok(value) => {
                let items = Array::try_from(value).unwrap();
                assert!(n >= 0 && items[0].view().as_int().is_some_and(|last| last <= 1));
                assert_eq!(Array::try_from(items[1].clone()).unwrap().len(), inner);
            }
            Err(error) => assert!(n == -1 && error.to_string().contains("-1 steps"), "{error}"),
        }
    }
}

/// Mappings of the process, and its resident pages.
fn mappings() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    (maps.lines().count(), pages.split(' ').nth(1).unwrap().parse().unwrap())
}

fn soak(mode: Mode) {
    let runs = std::env::var("REFLEX_SOAK_RUNS").map_or(20_000, |runs| runs.parse().unwrap());
    let sessions = runs / (RUNS + 1);
    let program = program(mode);
    // Printed at the end: what is printed is kept for a test that fails.
    let mut seen = Vec::with_capacity(16);
    for number in 0..sessions {
        one_session(&program, mode, number);
        // By a tenth of the way everything hot is compiled and every list has its length.
        if number > 0 && number % (sessions / 10) == 0 {
            let live = LIVE.get();
            let (maps, pages) = mappings();
            seen.push((number, live, maps, pages));
        }
    }
    for (number, live, maps, pages) in &seen {
        println!("{mode:?}: {number} sessions, {live} bytes, {maps} mappings, {pages} pages");
    }
    assert!(seen.len() >= 9 && seen.iter().all(|(_, live, _, _)| *live == seen[0].1));
}

#[test]
fn the_interpreter_leaves_nothing_behind() {
    soak(Mode::Bytecode);
}

#[test]
fn compiled_code_leaves_nothing_behind() {
    soak(Mode::Compiled);
}

#[test]
fn traces_leave_nothing_behind() {
    soak(Mode::Tiered);
}

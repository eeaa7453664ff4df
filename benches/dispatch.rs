//! The time that the VM adds to kernels, on the workloads that TVM is measured with.
//!
//! Each group is one workload in each mode, next to `bare`: the same kernels called from a loop by
//! their raw entries. Times are per group of 1,000 steps, so microseconds read as nanoseconds per
//! step; what a step costs over the kernel is the difference to `bare`. Kernels are native
//! functions that count their calls, and each mode has a program of its own. `shapes` runs no
//! kernel: its `bare` is an empty function. `entry from C` calls an identity function through
//! `reflex.h`.

#[path = "common/kernels.rs"]
mod kernels;

use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use kernels::{CALLS, CONSTS, Kernels, checks};
use reflex::DType;
use reflex_cranelift::CraneliftTier;
use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::kernel::RawKernel;
use reflex_vm::listing;
use reflex_vm::load::Library;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

const STEPS: usize = 1000;

/// A function of as many steps as the workloads have, each written by `step`.
fn straight(signature: &str, result: usize, step: impl Fn(usize) -> String) -> String {
    let mut text = format!("{CONSTS}@main({signature}\n");
    for at in 0..STEPS {
        text += &step(at);
    }
    let _ = writeln!(text, "  ret   %{result}");
    text
}

/// `add1(x, y)`, `add1(y, x)`, ...
fn chain() -> String {
    straight("x, y) regs=2:", 0, |at| {
        format!("  call  add1 in: %{}, %{} dst: %void\n", at % 2, 1 - at % 2)
    })
}

/// An operator: a storage, a tensor on it, the kernel, and both released.
fn operator() -> String {
    straight("x) regs=3:", 0, |_| {
        "  call  vm.builtin.alloc_storage in: %vm, c[4], i0, c[6], c[7] dst: %1\n  \
         call  vm.builtin.alloc_tensor in: %1, i0, c[5], c[0] dst: %2\n  \
         call  add1 in: %0, %2 dst: %void\n  \
         call  vm.builtin.null_value in: dst: %2\n  \
         call  vm.builtin.null_value in: dst: %1\n"
            .to_owned()
    })
}

/// An operator as TVM plans it: the storage is there already; a tensor on it, the kernel, and
/// the tensor released.
fn planned() -> String {
    let storage = "  call  vm.builtin.alloc_storage in: %vm, c[4], i0, c[6], c[7] dst: %1\n";
    let body = straight("x) regs=3:", 0, |_| {
        "  call  vm.builtin.alloc_tensor in: %1, i0, c[5], c[0] dst: %2\n  \
         call  add1 in: %0, %2 dst: %void\n  \
         call  vm.builtin.null_value in: dst: %2\n"
            .to_owned()
    });
    body.replacen("regs=3:\n", &format!("regs=3:\n{storage}"), 1)
}

/// Calls of a builtin that does nothing but write a register.
fn builtin(call: &str) -> String {
    straight("x) regs=2:", 0, |_| format!("  call  {call} dst: %1\n"))
}

/// Calls of `ident(x) = x` with its two checks.
fn function() -> String {
    let main = straight(&format!("x) regs={}:", STEPS + 1), STEPS, |at| {
        format!("  call  ident in: %{at} dst: %{}\n", at + 1)
    });
    format!("{main}@ident(p) regs=1:\n{}  ret   %0\n", checks(0, 0))
}

/// A loop the way Relax has it: `loop(i, c, x, y)` calls itself while `i` counts down.
fn recursion() -> String {
    let mut text = format!("{CONSTS}@main(n, i, c, x, y) regs=6:\n");
    text += "  call  set_n in: %0, %1 dst: %void\n  call  loop in: %1, %2, %3, %4 dst: %5\n";
    text += "  ret   %5\n@loop(i, c, x, y) regs=6:\n";
    text += &checks(0, 1);
    text += "  call  vm.builtin.check_tensor_info in: %1, i0, c[2], c[3] dst: %void\n  \
             call  vm.builtin.match_shape in: %1, %void, i0, c[3] dst: %void\n";
    text += &checks(2, 0);
    text += &checks(3, 0);
    text += "  call  dec in: %0, %1 dst: %void\n  call  add1 in: %2, %3 dst: %void\n  \
             call  vm.builtin.read_if_cond in: %1 dst: %4\n  If    %4, 3\n  \
             call  loop in: %0, %1, %2, %3 dst: %5\n  goto  2\n  \
             call  vm.builtin.copy in: %3 dst: %5\n  ret   %5\n";
    text
}

/// The same, and the function is called through a closure that it passes on.
fn closures() -> String {
    let call = "  call  vm.builtin.invoke_closure in: %vm, %4, %0, %1, %2, %3, %4 dst: %6\n";
    let mut text = format!("{CONSTS}@main(n, i, c, x, y) regs=7:\n");
    text += "  call  set_n in: %0, %1 dst: %void\n";
    text += "  call  vm.builtin.make_closure in: f[loop] dst: %5\n";
    text += "  call  loop in: %1, %2, %3, %4, %5 dst: %6\n  ret   %6\n";
    text += "@loop(i, c, x, y, f) regs=7:\n";
    text += "  call  dec in: %0, %1 dst: %void\n  call  add1 in: %2, %3 dst: %void\n";
    text += "  call  vm.builtin.read_if_cond in: %1 dst: %5\n  If    %5, 3\n";
    text += call;
    text + "  goto  2\n  call  vm.builtin.copy in: %3 dst: %6\n  ret   %6\n"
}

/// Levels of [`tree`].
const LEVELS: i64 = 9;

/// A function that calls itself twice while its number is positive: 1,023 calls, each with a packed
/// call that asks for that, every second one with one that counts down.
fn tree() -> String {
    format!(
        "{CONSTS}@main(n) regs=2:\n  call  tree in: %0 dst: %1\n  ret   %1\n@tree(n) regs=4:\n  \
         call  positive in: %0 dst: %1\n  If    %1, 5\n  call  less_one in: %0 dst: %2\n  \
         call  tree in: %2 dst: %3\n  call  tree in: %2 dst: %3\n  ret   %3\n  ret   %0\n"
    )
}

/// The same loop with a backward jump.
fn jump() -> String {
    format!(
        "{CONSTS}@main(n, i, c, x, y) regs=6:\n  call  set_n in: %0, %1 dst: %void\n  \
         call  dec in: %1, %2 dst: %void\n  call  add1 in: %3, %4 dst: %void\n  \
         call  vm.builtin.read_if_cond in: %2 dst: %5\n  If    %5, 2\n  goto  -4\n  ret   %4\n"
    )
}

/// Checks a tensor, binds its extent, makes a shape of it and releases it: four builtins.
fn shapes() -> String {
    let head = "  call  vm.builtin.alloc_shape_heap in: %vm, i2 dst: %1\n";
    let body = straight("x) regs=3:", 0, |_| {
        "  call  vm.builtin.check_tensor_info in: %0, i1, c[0], c[3] dst: %void\n  \
         call  vm.builtin.match_shape in: %0, %1, i1, i1, i0, c[3] dst: %void\n  \
         call  vm.builtin.make_shape in: %1, i2, i1, i0, i0, i7 dst: %2\n  \
         call  vm.builtin.null_value in: dst: %2\n"
            .to_owned()
    });
    body.replacen("regs=3:\n", &format!("regs=3:\n{head}"), 1)
}

fn load(text: &str) -> (Arc<Program>, Arc<CraneliftTier>) {
    let exec = verify(listing::parse(text).expect("a listing")).expect("valid");
    let program = Program::load(exec, &[&Kernels]).expect("loads");
    let tier = Arc::new(CraneliftTier::new().expect("a tier"));
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    (Arc::new(program), tier)
}

/// Calls until nothing more is being compiled, which takes long where other processes are busy.
fn warm_up(tier: &CraneliftTier, mut call: impl FnMut()) {
    loop {
        let before = tier.progress();
        (0..=tier.hot_threshold()).for_each(|_| call());
        tier.wait();
        if tier.progress() == before {
            return;
        }
    }
}

/// A raw entry of two tensors.
type Raw = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;

/// A kernel and the arguments it is called on, by number; the one after the last is another tensor.
type Call = (&'static str, [usize; 2]);

/// Runs one workload in every mode; `steps` are the kernels of a step, for steps that take turns. They
/// are called on what the program calls them on: where one reads what the last one wrote, that is what
/// takes the time.
fn workload(c: &mut Criterion, name: &str, text: &str, args: &[Any], steps: &[&[Call]]) {
    let mut group = c.benchmark_group(name);
    let other = float();
    let data = |at: usize| {
        let view = args.get(at).unwrap_or(&other).view();
        view.as_dltensor().expect("a tensor").data
    };
    let calls = steps.iter().copied().flatten();
    let calls: Vec<(RawKernel, [*mut c_void; 2])> =
        calls.map(|(name, at)| (Kernels.raw(name).expect("a kernel"), at.map(data))).collect();
    let rounds = STEPS / steps.len();
    group.bench_function("bare", |b| {
        b.iter(|| {
            for _ in 0..rounds {
                for (kernel, args) in black_box(&calls) {
                    // SAFETY: kernels take the data of two tensors, which these are.
                    let status = unsafe {
                        let code: Raw = std::mem::transmute(kernel.code());
                        code(args[0], args[1])
                    };
                    assert_eq!(black_box(status), 0);
                }
            }
        });
    });
    for (name, mode) in
        [("bytecode", Mode::Bytecode), ("compiled", Mode::Compiled), ("tiered", Mode::Tiered)]
    {
        let (program, tier) = load(text);
        if mode == Mode::Compiled {
            assert_eq!(program.compile_ahead_of_time(), []);
        }
        let options = Options { mode, ..Options::default() };
        let mut session = Session::new(&program, options).expect("a session");
        let main = program.find("main").expect("defined");
        let views = AnyView::slice(args);
        let before = CALLS.load(Ordering::Relaxed);
        session.call_func(main, views).expect("runs");
        let made = CALLS.load(Ordering::Relaxed) - before;
        assert!(made >= (calls.len() * rounds) as u64, "{made} kernels ran");
        let mut call = || drop(session.call_func(main, views).expect("runs"));
        if mode == Mode::Tiered {
            warm_up(&tier, &mut call);
        }
        group.bench_function(name, |b| b.iter(&mut call));
    }
    group.finish();
}

fn float() -> Any {
    Tensor::zeros(&[1], DType::F32).expect("memory").into()
}

fn dispatch(c: &mut Criterion) {
    let pair = [float(), float()];
    workload(c, "chain", &chain(), &pair, &[&[("add1", [0, 1])], &[("add1", [1, 0])]]);
    workload(c, "operator", &operator(), &pair[..1], &[&[("add1", [0, 1])]]);
    workload(c, "planned", &planned(), &pair[..1], &[&[("add1", [0, 1])]]);
    workload(c, "null_value", &builtin("vm.builtin.null_value in:"), &pair[..1], &[&[]]);
    workload(c, "copy", &builtin("vm.builtin.copy in: %0"), &pair[..1], &[&[]]);
    workload(c, "function", &function(), &pair[..1], &[&[]]);
    workload(c, "shapes", &shapes(), &pair[..1], &[&[]]);
    let number = |n: i64| Any::from(Tensor::from_slice(&[1], &[n]).expect("memory"));
    let flag = Any::from(Tensor::zeros(&[], DType::BOOL).expect("memory"));
    let state = [number(STEPS as i64), number(0), flag, float(), float()];
    let steps: &[&[Call]] = &[&[("dec", [1, 2]), ("add1", [3, 4])]];
    workload(c, "recursion", &recursion(), &state, steps);
    workload(c, "closures", &closures(), &state, steps);
    workload(c, "loop", &jump(), &state, steps);
    workload(c, "tree", &tree(), &[Any::from(LEVELS)], &[&[]]);
}

/// The part of `reflex.h` that a call needs.
mod c {
    use std::ffi::{c_char, c_void};

    use super::TVMFFIAny;

    unsafe extern "C" {
        pub fn reflex_engine_new(options: *const c_void, out: *mut *mut c_void) -> i32;
        pub fn reflex_engine_load(
            engine: *const c_void,
            path: *const c_char,
            out: *mut *mut c_void,
        ) -> i32;
        pub fn reflex_session_new(program: *const c_void, mode: i32, out: *mut *mut c_void) -> i32;
        pub fn reflex_function_index(
            session: *mut c_void,
            name: *const c_char,
            number: *mut u32,
        ) -> i32;
        pub fn reflex_call(
            session: *mut c_void,
            name: *const c_char,
            args: *const TVMFFIAny,
            count: i32,
            result: *mut TVMFFIAny,
        ) -> i32;
        pub fn reflex_call_index(
            session: *mut c_void,
            number: u32,
            args: *const TVMFFIAny,
            count: i32,
            result: *mut TVMFFIAny,
        ) -> i32;
        pub fn reflex_free(value: *mut TVMFFIAny);
        pub fn reflex_session_free(session: *mut c_void);
        pub fn reflex_program_free(program: *mut c_void);
        pub fn reflex_engine_free(engine: *mut c_void);
    }
}

const IDENTITY: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        return x
"#;

/// Calls of an identity function through the C interface, with its result released: by number
/// and by name.
fn entry(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("identity.py");
    std::fs::write(&file, IDENTITY).expect("writes");
    let path = CString::new(file.to_str().expect("text")).expect("no NUL");
    let argument = float();
    let args = AnyView::slice(std::slice::from_ref(&argument));
    let mut group = c.benchmark_group("entry from C");
    // The numbers of `ReflexMode`.
    for (mode, number) in [("bytecode", 1), ("compiled", 2), ("tiered", 0)] {
        let (mut engine, mut program, mut session) = (null_mut(), null_mut(), null_mut());
        let mut function = 0;
        // SAFETY: the calls that examples/mlp.c makes, in its order; handles are live between
        // where they are made and where they are freed, and results are freed once.
        unsafe {
            assert_eq!(c::reflex_engine_new(null(), &mut engine), 0);
            assert_eq!(c::reflex_engine_load(engine, path.as_ptr(), &mut program), 0);
            assert_eq!(c::reflex_session_new(program, number, &mut session), 0);
            assert_eq!(c::reflex_function_index(session, c"main".as_ptr(), &mut function), 0);
            group.bench_function(format!("{mode}, by number"), |b| {
                b.iter(|| {
                    for _ in 0..STEPS {
                        let mut result = TVMFFIAny::NONE;
                        let args = black_box(args).as_ptr().cast();
                        let status = c::reflex_call_index(session, function, args, 1, &mut result);
                        assert_eq!(status, 0);
                        c::reflex_free(&mut result);
                    }
                });
            });
            group.bench_function(format!("{mode}, by name"), |b| {
                b.iter(|| {
                    for _ in 0..STEPS {
                        let mut result = TVMFFIAny::NONE;
                        let name = c"main".as_ptr();
                        let args = black_box(args).as_ptr().cast();
                        assert_eq!(c::reflex_call(session, name, args, 1, &mut result), 0);
                        c::reflex_free(&mut result);
                    }
                });
            });
            c::reflex_session_free(session);
            c::reflex_program_free(program);
            c::reflex_engine_free(engine);
        }
    }
    group.finish();
}

/// The defaults, which the command line may change.
fn config() -> Criterion {
    let second = Duration::from_secs(1);
    Criterion::default().warm_up_time(second).measurement_time(second).sample_size(20)
}

criterion_group! { name = benches; config = config(); targets = dispatch, entry }
criterion_main!(benches);

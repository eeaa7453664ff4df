//! Kernels that call packed functions among other statements (`T.call_packed`).
//!
//! `jit/llvm/tests/packed_calls.rs` holds both code generators to the evaluator; here programs run, in every mode,
//! saved and loaded.

use std::sync::atomic::{AtomicUsize, Ordering};

use reflex::{
    Any, Array, Engine, EngineBuilder, Feed, Function, Mode, Program, register_global_func,
};
use reflex_runtime::error::Error;
use reflex_runtime::function::arg;
use reflex_runtime::registry;
use reflex_runtime::value::AnyView;

const MODEL: &str = "tests/filetests/packed/call_packed.py";
const ADD: &str = "tests.packed_kernels.add";

/// Both tests register `ADD`.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn engine() -> EngineBuilder {
    Engine::builder().tier("kernels=cranelift,threshold=2,compile=sync".parse().expect("a policy"))
}

/// `y = (k == 0 ? 0 : y) + s * half + k`, times `scale`.
fn add(args: &[AnyView<'_>], scale: f32) -> Result<Any, Error> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let (k, half): (i64, f64) = (arg(args, 1)?, arg(args, 2)?);
    let flag = args[4].as_bool().ok_or_else(|| Error::type_error("no truth value"))?;
    if args[3].as_str() != Some("text") || flag != (k == 1) {
        return Err(Error::type_error("another text or truth value"));
    }
    let elements = |at: usize| -> Result<&mut [f32], Error> {
        let dl = args[at].as_dltensor().ok_or_else(|| args[at].mismatch("a tensor"))?;
        // SAFETY: the kernel passes compact float32 tensors that live through the call, two of them.
        unsafe {
            let shape = std::slice::from_raw_parts(dl.shape, dl.ndim as usize);
            let strides = std::slice::from_raw_parts(dl.strides, dl.ndim as usize);
            assert_eq!((shape[1], strides), (4, &[4, 1][..]));
            let count = shape.iter().product::<i64>() as usize;
            Ok(std::slice::from_raw_parts_mut(dl.data.cast::<f32>(), count))
        }
    };
    for (y, s) in elements(5)?.iter_mut().zip(elements(0)?) {
        *y = (if k == 0 { 0.0 } else { *y }) + scale * (*s * half as f32 + k as f32);
    }
    Ok(Any::from(()))
}

fn set_add(scale: f32) {
    drop(registry::replace(ADD, Function::new(move |args| add(args, scale))));
}

fn call(program: &Program, session: &mut reflex::Session) -> reflex::Result<Vec<f32>> {
    let x = Array::of(&[2, 4], &[4.0_f32, 1.0, 3.0, 2.0, -1.0, -4.0, 0.0, 8.0])?;
    let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
    session.call(&feed)?.arrays()?[0].1.to_vec::<f32>()
}

/// The answer of the program.
fn expected(scale: f32) -> Vec<f32> {
    // Rows in order, of which the first element becomes 0.
    let less = [0.0_f32, 2.0, 3.0, 4.0, 0.0, -1.0, 0.0, 8.0];
    less.iter().map(|x| scale * (3.0 * 0.5 * (x + 1.0) + 3.0)).collect()
}

#[test]
fn they_run_in_every_mode_and_keep_what_they_looked_up() {
    let _lock = ONE_AT_A_TIME.lock();
    set_add(1.0);
    for mode in Mode::ALL {
        let program =
            engine().build().and_then(|e| e.load(MODEL)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = program.session(mode).expect("a session");
        let before = CALLS.load(Ordering::Relaxed);
        for _ in 0..20 {
            assert_eq!(call(&program, &mut session).expect("runs"), expected(1.0), "{mode}");
        }
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, 60, "{mode}");
        // A program that looked it up keeps it, a new one finds the new one.
        set_add(2.0);
        assert_eq!(call(&program, &mut session).expect("runs"), expected(1.0), "{mode}");
        let program =
            engine().build().and_then(|e| e.load(MODEL)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = program.session(mode).expect("a session");
        assert_eq!(call(&program, &mut session).expect("runs"), expected(2.0), "{mode}");
        set_add(1.0);
    }
}

#[test]
fn artifacts_have_them() {
    let _lock = ONE_AT_A_TIME.lock();
    set_add(1.0);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("calls.so");
    let program = engine().build().and_then(|e| e.load(MODEL)).unwrap_or_else(|e| panic!("{e}"));
    program.save(&path).expect("saves");
    let opened = Engine::new().and_then(|e| e.load(&path)).unwrap_or_else(|e| panic!("{e}"));
    for mode in Mode::ALL {
        let mut session = opened.session(mode).expect("a session");
        for _ in 0..20 {
            assert_eq!(call(&opened, &mut session).expect("runs"), expected(1.0), "{mode}");
        }
    }
}

fn kernel(body: &str) -> String {
    format!(
        "
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def k(x: T.Buffer((4,), \"float32\"), y: T.Buffer((4,), \"float32\")):
        for i in range(4):
            y[i] = x[i]
{body}

    @R.function
    def main(x: R.Tensor((4,), dtype=\"float32\")) -> R.Tensor((4,), dtype=\"float32\"):
        cls = Module
        y = R.call_tir(cls.k, (x,), out_ty=R.Tensor((4,), dtype=\"float32\"))
        return y
"
    )
}

fn load(body: &str) -> reflex::Result<Program> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("kernel.py");
    std::fs::write(&path, kernel(body)).expect("writes");
    engine().build()?.load(&path)
}

fn run(program: &Program, mode: Mode) -> reflex::Result<Vec<f32>> {
    let x = Array::of(&[4], &[1.0_f32, 2.0, 3.0, 4.0])?;
    let feed = program.prepare("main", &Feed::from([("x".to_owned(), x)]))?;
    program.session(mode)?.call(&feed)?.arrays()?[0].1.to_vec::<f32>()
}

#[test]
fn failures_are_errors_with_a_name() {
    let failing = Function::new(|_| Err(Error::value_error("no such row")));
    register_global_func("tests.packed_kernels.failing", failing).expect("a free name");
    let given = Function::new(|args| args[0].to_owned_copy());
    register_global_func("tests.packed_kernels.given", given).expect("a free name");
    let cases = [
        ("failing\", y", "ValueError", "no such row"),
        ("missing\", y", "AttributeError", "`tests.packed_kernels.missing`"),
        (
            "given\", \"a text of many bytes\"",
            "TypeError",
            "`tests.packed_kernels.given` returned an object",
        ),
    ];
    for (call, kind, text) in cases {
        let body = format!("        T.call_packed(\"tests.packed_kernels.{call})");
        let program = load(&body).unwrap_or_else(|e| panic!("{e}"));
        for mode in Mode::ALL {
            let error = run(&program, mode).unwrap_err();
            assert_eq!(error.to_object().kind(), kind, "{mode}: {error}");
            assert!(error.to_string().contains(text), "{mode}: {error}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_when_the_text_is_read() {
    let cases = [
        ("for j in T.parallel(4):\n            T.call_packed(\"f\", y)", "Parallel loop `j`"),
        ("T.call_packed(\"f\", y[0:2])", ""),
        ("T.call_packed(\"f\", T.float16(1))", "a float16 for the packed function `f`"),
        ("T.call_packed(\"\", y)", "no name of a packed function"),
        (
            "T.call_packed(\"f\", T.tvm_stack_make_array(y.data, T.tvm_stack_make_shape(2), 0, 1, T.float32(0), 0))",
            "not all of `y`",
        ),
    ];
    for (call, text) in cases {
        let error = load(&format!("        {call}")).err().expect("refused").to_string();
        assert!(error.contains(text), "{call}: {error}");
    }
}

//! Kernels that call packed functions: both code generators against the evaluator.

mod common;

use std::sync::Mutex;

use common::{Kernel, check};
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_runtime::value::Any;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::eval::{self, EvalArg, EvalTensor};
use reflex_tir::{PrimFunc, lower, script};

fn kernel(body: &str) -> PrimFunc {
    let text = format!(
        "
n = TypeVar(\"n\")
@T.prim_func(s_tir=True)
def f(x: T.Buffer((n, 3), \"float32\"), y: T.Buffer((n, 3), \"float32\"), z: T.Buffer((n, 3), \"int64\")):
    T.func_attr({{\"reflex.num_outputs\": 2}})
{body}
"
    );
    let func = script::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let again = script::parse(&script::print(&func)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again, func, "{}", script::print(&func));
    lower::lower(&func)
}

fn args() -> [EvalArg; 3] {
    let x: Vec<f32> = (0..12).map(|i| ((i * 7) % 12) as f32 - 5.0).collect();
    [
        EvalArg::Tensor(EvalTensor::f32(&[4, 3], &x)),
        EvalArg::Tensor(EvalTensor::f32(&[4, 3], &[0.0; 12])),
        EvalArg::Tensor(EvalTensor::i64(&[4, 3], &[0; 12])),
    ]
}

#[test]
fn calls_among_stores_loops_and_conditions() {
    let func = kernel(
        "    s = T.alloc_buffer((n, 3))
    for i, j in T.grid(n, 3):
        s[i, j] = x[i, j] * x[i, j] + T.float32(0.5)
    for k in range(2):
        if k == 0:
            T.call_packed(\"tvm.contrib.sort.sort\", s, y, k, T.bool(True))
        else:
            T.call_packed(\"tvm.contrib.sort.argsort\", y, z, T.int32(0) + 1, k == 0)
    for i, j in T.grid(n, 3):
        y[i, j] = y[i, j] + T.Cast(\"float32\", z[i, j])",
    );
    let after = check(&func, &args());
    // Columns in ascending order, then numbers of each row in descending order added.
    assert_ne!(after[1], args()[1]);
    let EvalArg::Tensor(z) = &after[2] else { panic!("a tensor") };
    let sum: i64 = (0..12).map(|at| z.get(at).unwrap().as_int().unwrap()).sum();
    assert_eq!(sum, 12, "each row has 0, 1 and 2");
}

/// The arguments that a function saw.
static SEEN: Mutex<Vec<String>> = Mutex::new(vec![]);

#[test]
fn arguments_arrive_as_they_are_and_failures_come_back() {
    let see = Function::new(|args| {
        let one = |value: &reflex_runtime::value::AnyView<'_>| match value.as_dltensor() {
            // SAFETY: the caller's tensor has `ndim` extents.
            Some(dl) => unsafe {
                let shape = std::slice::from_raw_parts(dl.shape, dl.ndim as usize);
                format!("{}{shape:?}", dl.dtype)
            },
            None => match (value.as_str(), value.as_bool(), value.as_int(), value.as_float()) {
                (Some(text), ..) => text.to_owned(),
                (_, _, _, Some(x)) if value.as_int().is_none() => format!("{x:?}"),
                (_, _, Some(n), _) => format!("{n}"),
                _ => value.type_key(),
            },
        };
        SEEN.lock().unwrap().push(args.iter().map(one).collect::<Vec<_>>().join(" "));
        match args.first().and_then(|first| first.as_int()) {
            Some(1) => Err(Error::value_error("not this one")),
            Some(2) => Ok(Any::from("a text of more than seven bytes")),
            _ => Ok(Any::from(7_i64)),
        }
    });
    registry::register("tests.packed_calls.see", see).unwrap();
    let call =
        |args: &str| kernel(&format!("    T.call_packed(\"tests.packed_calls.see\", {args})"));
    let expected = "-3 4294967295 2.5 -0.25 a text float32[4, 3] int64[4, 3] 4";
    let func = call(
        "T.int8(-3), T.uint32(4294967295), T.float32(2.5), T.float64(-0.25), \"a text\", x, z, n",
    );
    check(&func, &args());
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    assert!(seen.len() > 3 && seen.iter().all(|s| s == expected), "{seen:?}");

    let cases = [
        (call("1"), "ValueError: not this one"),
        (call("2"), "packed function `tests.packed_calls.see` returned an object to a kernel"),
        (kernel("    T.call_packed(\"tests.nowhere\")"), "`tests.nowhere`"),
    ];
    for (func, text) in &cases {
        let reason = eval::eval(func, &mut args()).unwrap_err().to_string();
        assert!(reason.contains(text), "{reason}");
        let target = CpuTarget::host();
        let kernels = [
            Kernel::new(func, OptLevel::O0),
            Kernel::new(func, OptLevel::O3),
            Kernel::baseline(func, &target),
            Kernel::source(func),
        ];
        for kernel in &kernels {
            let error = kernel.run(&mut args()).unwrap_err();
            assert!(error.contains(text), "{error}");
            assert!(kernel.raw_is_hidden());
        }
    }
}

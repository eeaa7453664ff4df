//! GPU functions that tests share.
#![allow(dead_code, reason = "each test binary uses a part")]

use reflex_tir::codegen::GpuTarget;
use reflex_tir::script::parse;
use reflex_tir::{DType, PrimFunc};

/// `BODY` in a kernel of two blocks of 32 threads, from `x` to `y` of 64 elements each.
pub fn kernel(from: &str, to: &str, body: &str) -> PrimFunc {
    let lines: String = body.lines().map(|line| format!("            {line}\n")).collect();
    let text = format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((T.int64(64),), \"{from}\"), y: T.Buffer((T.int64(64),), \"{to}\")):
    T.func_attr({{\"tirx.noalias\": True}})
    for b in T.thread_binding(T.int64(2), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(32),))
        for t in T.thread_binding(T.int64(32), thread=\"threadIdx.x\"):
{lines}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The architectures that code is generated for.
pub fn gpus() -> [GpuTarget; 2] {
    GpuTarget::known()
}

/// An exchange through shared memory, with operations that could be fused.
pub const REVERSED: &str = "s[t] = x[b * T.int64(32) + t] * T.float32(3.0) + T.float32(1.0)
T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = T.sqrt(s[T.int64(31) - t]) / x[t]";

/// Kernels with every kind of expression.
pub fn corpus() -> Vec<PrimFunc> {
    let at = "b * T.int64(32) + t";
    let unary = ["exp", "log", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"];
    let more =
        ["cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "nearbyint", "sqrt", "abs"];
    let mut all = vec![kernel("float32", "float32", REVERSED)];
    for name in unary.iter().chain(&more) {
        for dtype in ["float32", "float16", "bfloat16"] {
            let body = format!("y[{at}] = T.{name}(x[{at}])");
            all.push(reflex_tir::lower::lower_gpu(&kernel(dtype, dtype, &body)));
        }
    }
    let power = format!("y[{at}] = T.pow(x[{at}], x[t])");
    all.push(reflex_tir::lower::lower_gpu(&kernel("float32", "float32", &power)));
    // Indices that fit in 32 bits among numbers that do not.
    let wide = format!(
        "y[{at}] = ({at}) * T.int64(300000000000) // (t + T.int64(7)) \
         + ({at}) * T.int64(3) % T.int64(5) * T.int64(100000000000) \
         - T.Select(({at}) * T.int64(3000000000) < T.int64(90000000000), ({at}) // T.int64(3), x[t])"
    );
    all.push(kernel("int64", "int64", &wide));
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::BOOL,
    ];
    for from in dtypes {
        for to in dtypes {
            let body = format!("y[{at}] = T.Cast(\"{to}\", x[{at}])");
            all.push(kernel(&from.to_string(), &to.to_string(), &body));
        }
        if !from.is_bool() {
            let body = format!("y[{at}] = T.max(x[{at}] * x[t] + x[{at}], T.min(x[t], x[b]))");
            all.push(kernel(&from.to_string(), &from.to_string(), &body));
        }
        if from.is_int() || from.is_uint() {
            let body = format!(
                "y[{at}] = x[{at}] // T.max(x[t], T.Cast(\"{from}\", 1)) + x[b] % T.Cast(\"{from}\", 7)"
            );
            all.push(kernel(&from.to_string(), &from.to_string(), &body));
        }
    }
    all
}

/// Products with two rows and with one, and attention in float32 and float16, as rules schedule and passes lower them.
pub const ROWS: [&str; 4] = [
    include_str!("../../../../tests/filetests/lower/gpu_gemv_across_lowered.py"),
    include_str!("../../../../tests/filetests/lower/gpu_gemv_along_lowered.py"),
    include_str!("../../../../tests/filetests/lower/gpu_attention_f32_lowered.py"),
    include_str!("../../../../tests/filetests/lower/gpu_attention_halves_lowered.py"),
];

/// The kernel in a file.
pub fn lowered(file: &str) -> PrimFunc {
    let text = &file[file.find("@T.prim_func").expect("a kernel")..];
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

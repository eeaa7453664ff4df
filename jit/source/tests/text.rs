//! The texts of a few kernels, as files: `REFLEX_BLESS=1` writes them.

#[path = "../../llvm/tests/common/gpu.rs"]
mod gpu;

use gpu::{REVERSED, gpus, kernel};
use reflex_tir::lower::{lower, lower_gpu};
use reflex_tir::{PrimFunc, script};

/// Compares with a file.
fn check(name: &str, text: &str) {
    let path = format!("{}/tests/text/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(&path, text).expect("a file");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(text, wanted, "{path}; REFLEX_BLESS=1 writes it");
}

fn parsed(text: &str) -> PrimFunc {
    script::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Threads, a workspace, lanes, integers that wrap and positions that need not.
const CPU: &str = "
n = TypeVar(\"n\")
@T.prim_func(s_tir=True)
def scaled(x: T.Buffer((n, 8), \"float32\"), i: T.Buffer((n,), \"int64\"), y: T.Buffer((n, 8), \"float16\")):
    T.func_attr({\"tirx.noalias\": True, \"reflex.num_outputs\": 1})
    s = T.alloc_buffer((n, 8))
    for r in T.parallel(n):
        for v in T.vectorized(8):
            s[r, v] = T.if_then_else(i[r] * i[r] < 9, x[r, v] * T.float32(0.5), T.float32(0.0))
    for r in range(n):
        for v in T.unroll(8):
            y[r, v] = T.Cast(\"float16\", T.max(s[r, v], s[n - 1 - r, v // 2]))
";

#[test]
fn c() {
    let text = reflex_source::c(&[lower(&parsed(CPU))]).unwrap_or_else(|e| panic!("{e}"));
    check("scaled.c", &text);
}

/// Vectors of global and shared memory around a barrier.
const LANES: &str = "for v in T.vectorized(4):
    y[b * T.int64(32) + t // 8 * T.int64(8) + v] = x[b * T.int64(32) + t // 8 * T.int64(8) + v] * T.float32(3.0) + x[t]";

fn kernels() -> Vec<PrimFunc> {
    let mut lanes = kernel("float32", "float32", LANES);
    lanes.name = "lanes".to_owned();
    let mut reversed =
        kernel("float16", "float64", "y[b * T.int64(32) + t] = T.Cast(\"float64\", T.exp(x[t]))");
    reversed.name = "exponential".to_owned();
    let exchange = kernel("float32", "float32", REVERSED);
    [exchange, lanes, reversed].iter().map(lower_gpu).collect()
}

#[test]
fn cuda() {
    check("kernels.cu", &reflex_source::cuda(&kernels(), &gpus()[0]).expect("text").text);
}

#[test]
fn opencl() {
    check("kernels.cl", &reflex_source::opencl(&kernels(), &gpus()[0]).expect("text").text);
}

#[test]
fn what_a_language_cannot_say_is_named() {
    let refused = |func: &PrimFunc| reflex_source::cuda(std::slice::from_ref(func), &gpus()[0]);
    let error = |func: &PrimFunc| refused(func).expect_err("refused").to_string();
    let at = "b * T.int64(32) + t";
    let double = kernel("float64", "float64", &format!("y[{at}] = T.exp(x[{at}])"));
    assert!(error(&lower_gpu(&double)).starts_with("kernel: no exp of float64 on a GPU"));
    let mut named = kernel("float32", "float32", &format!("y[{at}] = x[{at}]"));
    named.name = "max".to_owned();
    let printed = refused(&named).expect("another name");
    assert_eq!(printed.kernels[0][0].name, "max_kernel");
    named.name = "a-b".to_owned();
    assert!(error(&named).contains("can be called \"a-b_kernel\""), "{}", error(&named));
    let mut host = parsed(CPU);
    host.name = "a.b".to_owned();
    let c = |func: &PrimFunc| reflex_source::c(&[lower(func)]).expect_err("refused").to_string();
    assert!(c(&host).contains("the name is no identifier of C"));
    // A warp waits for itself where half of the block does not come.
    let parted =
        format!("if t < T.int64(16):\n    T.tvm_storage_sync(\"warp\")\ny[{at}] = x[{at}]");
    let parted = kernel("float32", "float32", &parted);
    let opencl = reflex_source::opencl(std::slice::from_ref(&parted), &gpus()[0]);
    if let Err(error) = opencl {
        let error = error.to_string();
        assert!(error.contains("OpenCL has no warps") || error.contains("barrier"), "{error}");
    } else {
        panic!("printed");
    }
}

#[test]
fn long_expressions_are_refused() {
    let mut text = "x[b * T.int64(32) + t]".to_owned();
    for _ in 0..40 {
        text = format!("T.max({text}, x[t])");
    }
    let fits = kernel("float32", "float32", &format!("y[b * T.int64(32) + t] = {text}"));
    assert!(reflex_source::cuda(std::slice::from_ref(&fits), &gpus()[0]).is_ok());
    for _ in 0..80 {
        text = format!("T.max({text}, x[t])");
    }
    let deep = kernel("float32", "float32", &format!("y[b * T.int64(32) + t] = {text}"));
    let error = reflex_source::cuda(std::slice::from_ref(&deep), &gpus()[0]);
    if let Err(error) = error {
        assert!(error.to_string().contains("brackets deeper than"), "{error}");
    }
}

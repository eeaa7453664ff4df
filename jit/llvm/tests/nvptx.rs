//! PTX of GPU functions: barriers, shared memory, vectors, rounding; and what is refused.

use reflex_llvm::nvptx::{DeviceCode, compile};
use reflex_tir::codegen::{GpuTarget, OptLevel};
use reflex_tir::script::parse;

/// A kernel of two blocks of 32 threads around `body`, from `x` to `y` of `n` elements.
fn code(body: &str) -> Result<DeviceCode, String> {
    let lines: String = body.lines().map(|line| format!("            {line}\n")).collect();
    let text = format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((T.int64(64),), \"float32\"), y: T.Buffer((T.int64(64),), \"float32\")):
    for b in T.thread_binding(T.int64(2), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(32),))
        for t in T.thread_binding(T.int64(32), thread=\"threadIdx.x\"):
{lines}"
    );
    let func = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    compile(&func, &GpuTarget::known()[0], OptLevel::O3).map_err(|e| e.to_string())
}

#[test]
fn a_launch_becomes_a_kernel() {
    let code = code(
        "s[t] = x[b * T.int64(32) + t] * T.float32(3.0) + T.float32(1.0)
T.tvm_storage_sync(\"shared\")
y[b * T.int64(32) + t] = T.sqrt(s[T.int64(31) - t])",
    )
    .unwrap();
    println!("{}", code.ptx);
    let [kernel] = &code.kernels[..] else { panic!("{:?}", code.kernels) };
    assert_eq!(
        (kernel.name.as_str(), kernel.block, kernel.shared_bytes),
        ("kernel", [32, 1, 1], 128)
    );
    assert_eq!(kernel.grid[0].as_int(), Some(2));
    assert_eq!((kernel.buffers.len(), kernel.vars.len()), (2, 0));
    for line in [
        ".version 8.0",
        ".target sm_80",
        ".maxntid 32",
        "bar.sync",
        "mul.rn.f32",
        "add.rn.f32",
        "sqrt.rn.f32",
        "st.shared.f32",
        "ld.global",
    ] {
        assert!(code.ptx.contains(line), "{line}:\n{}", code.ptx);
    }
    assert!(!code.ptx.contains("fma") && !code.ptx.contains(".ftz"), "{}", code.ptx);
}

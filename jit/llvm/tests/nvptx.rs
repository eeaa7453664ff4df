//! PTX of GPU functions: barriers, shared memory, vectors, rounding; what is refused; and that NVIDIA's
//! assembler takes all of it without spilling.

#[path = "common/gpu.rs"]
mod gpu;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::process::Command;

use gpu::{REVERSED, ROWS, corpus, gpus, kernel, lowered};
use reflex_llvm::nvptx::compile;
use reflex_tir::PrimFunc;
use reflex_tir::codegen::{DeviceCode, GpuTarget, OptLevel};
use reflex_tir::lower::narrow_indices;
use reflex_tir::script::parse;

fn code(func: &PrimFunc) -> DeviceCode {
    compile(func, &gpus()[0], OptLevel::O3).unwrap_or_else(|e| panic!("{e}"))
}

/// Instructions of the kernel by their names, in order.
fn instructions(code: &DeviceCode) -> Vec<&str> {
    let body = code.ptx.lines().filter_map(|line| line.strip_prefix('\t'));
    body.filter_map(|line| line.split_whitespace().next()).filter(|i| !i.starts_with('.')).collect()
}

#[test]
fn a_launch_becomes_a_kernel_with_operations_that_round_to_nearest() {
    let code = code(&kernel("float32", "float32", REVERSED));
    let [kernel] = &code.kernels[..] else { panic!("{:?}", code.kernels) };
    let shape = (kernel.grid[0].as_int(), kernel.block, kernel.shared_bytes);
    assert_eq!((kernel.name.as_str(), shape), ("kernel", (Some(2), [32, 1, 1], 128)));
    assert_eq!((kernel.buffers.len(), kernel.vars.len()), (2, 0));
    for line in [".version 8.0", ".target sm_80", ".maxntid 32, 1, 1"] {
        assert!(code.ptx.contains(line), "{line}:\n{}", code.ptx);
    }
    let found = instructions(&code);
    for wanted in
        ["mul.rn.f32", "add.rn.f32", "st.shared.f32", "bar.sync", "sqrt.rn.f32", "div.rn.f32"]
    {
        assert!(found.contains(&wanted), "{wanted}:\n{}", code.ptx);
    }
    for never in ["fma", ".ftz", ".approx", "call"] {
        assert!(!found.iter().any(|i| i.contains(never)), "{never}:\n{}", code.ptx);
    }
}

#[test]
fn vectors_are_wide_accesses_where_they_are_aligned() {
    let copy = |at: &str| {
        let body = format!(
            "for v in T.vectorized(T.int64(4)):
    y[{at}] = x[{at}]"
        );
        code(&kernel("float32", "float32", &body))
    };
    let aligned = copy("(b * T.int64(32) + t) % T.int64(16) * T.int64(4) + v");
    assert!(instructions(&aligned).contains(&"ld.global.v4.f32"), "{}", aligned.ptx);
    assert!(instructions(&aligned).contains(&"st.global.v4.f32"), "{}", aligned.ptx);
    let odd = copy("t % T.int64(15) * T.int64(4) + v + T.int64(1)");
    assert!(!odd.ptx.contains(".v4"), "{}", odd.ptx);
    let half = copy("t % T.int64(15) * T.int64(4) + v + T.int64(2)");
    assert!(instructions(&half).contains(&"st.global.v2.f32"), "{}", half.ptx);
}

/// The arithmetic of 64 bits but for addresses, which take sums and products of 32 bits.
fn wide(ptx: &str) -> Vec<&str> {
    let names = ptx.lines().filter_map(|line| line.split_whitespace().next());
    let is_wide = |name: &&str| {
        let (operation, _) = name.split_once('.').unwrap_or((name, ""));
        let counts = ["div", "rem", "mul", "mad", "setp", "min", "max", "shr"].contains(&operation);
        counts && (name.ends_with("64")) && !name.contains(".wide.")
    };
    names.filter(is_wide).collect()
}

#[test]
fn indices_are_computed_in_32_bits() {
    let dims = |dims: [i64; 4]| dims.map(|n| format!("T.int64({n})")).join(", ");
    let at = "(b * T.int64(256) + t)";
    let text = format!(
        "@T.prim_func(s_tir=True)
def transpose(x: T.Buffer(({}), \"float32\"), y: T.Buffer(({}), \"float32\")):
    for b in T.thread_binding(T.int64(329), thread=\"blockIdx.x\"):
        for t in T.thread_binding(T.int64(256), thread=\"threadIdx.x\"):
            if b * T.int64(256) + t < T.int64(84000):
                y[{at} // T.int64(10500), {at} // T.int64(150) % T.int64(70), {at} // T.int64(50) % T.int64(3), {at} % T.int64(50)] = \
x[{at} // T.int64(10500), {at} // T.int64(50) % T.int64(3), {at} % T.int64(50), {at} // T.int64(150) % T.int64(70)]",
        dims([8, 3, 50, 70]),
        dims([8, 70, 3, 50]),
    );
    let known = code(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    assert_eq!(wide(&known.ptx), Vec::<&str>::new(), "{}", known.ptx);

    let file = include_str!("../../../tests/filetests/tir/gpu_narrow_indices.py");
    let (_, text) = file.split_once("\n\n").expect("a function");
    let (text, _) = text.split_once("# ----").expect("its end");
    let versions = narrow_indices(&parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let code = code(&versions);
    let parts: Vec<&str> = code.ptx.split(".visible .entry").skip(1).collect();
    let [narrow, all] = parts[..] else { panic!("two versions:\n{}", code.ptx) };
    assert_eq!(wide(narrow), Vec::<&str>::new(), "{narrow}");
    assert!(
        wide(all).iter().any(|name| name.starts_with("div") || name.starts_with("rem")),
        "{all}"
    );
}

#[test]
fn what_a_gpu_has_no_code_for_is_refused_by_name() {
    let refused =
        |func: &PrimFunc| compile(func, &gpus()[0], OptLevel::O3).unwrap_err().to_string();
    let sine = kernel("float64", "float64", "y[b * T.int64(32) + t] = T.sin(x[t])");
    assert_eq!(refused(&sine), "no sin of float64 on a GPU");
    let shared = REVERSED.replace("s[t]", "s[t + T.int64(1)]");
    assert_eq!(
        code(&kernel("float32", "float32", &shared)).kernels.len(),
        1,
        "bounds are not checked"
    );
    let text = "@T.prim_func(s_tir=True)
def none(x: T.Buffer((T.int64(1),), \"float32\")):
    x[T.int64(0)] = T.float32(1.0)";
    let none = parse(text).expect("a function");
    assert!(refused(&none).ends_with("the host writes `x`"), "{}", refused(&none));
    let unknown = GpuTarget { name: "rocm:gfx90a".to_owned(), ..gpus()[0].clone() };
    let error =
        compile(&kernel("float32", "float32", REVERSED), &unknown, OptLevel::O3).unwrap_err();
    assert_eq!(error.to_string(), "no code generator for rocm:gfx90a");
}

#[test]
fn the_assembler_takes_every_kernel_and_spills_nothing() {
    let mut corpus = corpus();
    corpus.extend(ROWS.map(lowered));
    let sources: Vec<(String, String)> = gpus()
        .iter()
        .flat_map(|gpu| {
            corpus.iter().map(move |func| {
                let code = compile(func, gpu, OptLevel::O3);
                let code =
                    code.unwrap_or_else(|e| panic!("{e}\n{}", reflex_tir::script::print(func)));
                (gpu.name.replace("cuda:", ""), code.ptx)
            })
        })
        .collect();
    let Some(ptxas) = skip::variable("REFLEX_PTXAS") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (source, cubin) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
    for (sm, ptx) in sources {
        std::fs::write(&source, &ptx).expect("writes");
        let mut command = Command::new(&ptxas);
        let output =
            command.arg(format!("-arch={sm}")).arg("-v").arg(&source).arg("-o").arg(&cubin);
        let output = output.output().expect("ptxas starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{ptx}");
        let spills = said.lines().filter(|line| line.contains("bytes spill stores"));
        for line in spills {
            assert!(line.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{line}\n{ptx}");
        }
        assert!(!said.contains("warning"), "{said}\n{ptx}");
    }
}

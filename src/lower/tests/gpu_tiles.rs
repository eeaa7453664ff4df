//! The tiles that are chosen for products on GPUs, by what they are predicted to take: `tests/filetests/gpu_tiles.txt`
//! holds them. `REFLEX_BLESS=1` writes what is chosen.

use std::fmt::Write;
use std::path::PathBuf;

use reflex_graph::builder::FuncBuilder;
use reflex_graph::{FuncData, Module, Op, TensorType};
use reflex_lower::pipeline::{NoObserver, Options, run_graph};
use reflex_lower::precision::Precision;
use reflex_lower::schedule::schedule_for;
use reflex_tir::codegen::{CpuTarget, GpuTarget, Target};
use reflex_tir::{DType, Expr, PrimFunc};

/// Matrices, rows, columns, steps: large, ragged, with few rows, few columns, few steps, and many small ones.
const SHAPES: [[i64; 4]; 24] = [
    [1, 8192, 8192, 8192],
    [1, 4096, 4096, 4096],
    [1, 2048, 2048, 2048],
    [1, 1024, 1024, 1024],
    [1, 512, 512, 512],
    [1, 256, 256, 256],
    [1, 4096, 14336, 4096],
    [1, 2048, 4096, 14336],
    [1, 1000, 1000, 1000],
    [1, 1025, 1023, 1024],
    [1, 2000, 2056, 1000],
    [1, 700, 824, 1032],
    [1, 333, 4000, 768],
    [1, 16, 4096, 4096],
    [1, 32, 11008, 4096],
    [1, 64, 8192, 8192],
    [1, 128, 4096, 4096],
    [1, 8192, 64, 1024],
    [1, 65536, 32, 256],
    [1, 16384, 16384, 64],
    [12, 512, 512, 64],
    [96, 384, 384, 64],
    [64, 128, 128, 1024],
    [256, 49, 49, 32],
];

fn kernel(of: [i64; 4], dtype: DType, precision: Precision, gpu: &GpuTarget) -> PrimFunc {
    let [batch, m, n, k] = of;
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let mut matrix = |name: &str, rows: i64, columns: i64| {
        let shape = if batch == 1 { vec![rows, columns] } else { vec![batch, rows, columns] };
        b.param(name, TensorType::new(dtype, shape.into_iter().map(Expr::i64).collect()))
    };
    let (x, w) = (matrix("x", m, k), matrix("w", k, n));
    let y = b.emit1(Op::MatMul, &[x, w]).expect("a product");
    b.finish(vec![y], vec!["y".into()]);
    let mut options = Options::new(CpuTarget::host());
    (options.schedule_for, options.precision) = (Some(gpu.clone()), precision);
    let module = run_graph(module, &options, &NoObserver).expect("lowers");
    let kernels = module.funcs.into_iter().filter_map(|(_, func)| match func {
        FuncData::Prim(kernel) => Some(kernel),
        FuncData::Graph(_) => None,
    });
    kernels.last().expect("a kernel")
}

#[test]
fn tiles_are_chosen_by_predicted_time() {
    let mut text = String::new();
    for gpu in GpuTarget::known() {
        for (what, dtype, precision) in [
            ("bfloat16", DType::BF16, Precision::F32),
            ("float32", DType::F32, Precision::F32),
            ("float32 in f32-fast", DType::F32, Precision::F32Fast),
        ] {
            if precision == Precision::F32Fast && !gpu.has_warpgroups() {
                continue;
            }
            writeln!(text, "{}, {what}", gpu.name).expect("text");
            for of in SHAPES {
                let kernel = kernel(of, dtype, precision, &gpu);
                let scheduled = schedule_for(&kernel, &Target::Gpu(gpu.clone()));
                let note = scheduled.steps.last().expect("a step");
                let [batch, m, n, k] = of;
                let note = note.split_once(": ").map_or(&note[..], |(_, note)| note);
                writeln!(text, "  {batch} of {m} x {n} x {k}: {note}").expect("text");
            }
        }
    }
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/gpu_tiles.txt");
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(&path, &text).expect("writable");
    }
    let held = std::fs::read_to_string(&path).expect("readable");
    assert_eq!(text, held, "{} (REFLEX_BLESS=1 accepts)", path.display());
}

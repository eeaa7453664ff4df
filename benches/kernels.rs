//! Generated kernels: matmuls and convolutions of real models in precision `f32`, and in
//! `bf16` where the CPU has AVX512_BF16; one thread.
//!
//! Criterion's throughput counts multiply-adds, so Gelem/s is half of GFLOP/s.

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reflex::{Array, DType, Engine, Feed, Mode, Module, Precision};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{ConvAttrs, Literal, Op, TensorType};
use reflex_tir::codegen::CpuTarget;

/// Deterministic values in [-0.5, 0.5), small enough that sums stay in range.
fn values(count: usize) -> Vec<u8> {
    let value = |i: usize| ((i * 2_654_435_761) % 1024) as f32 / 1024.0 - 0.5;
    (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
}

fn literal(shape: &[i64]) -> Literal {
    let count: i64 = shape.iter().product();
    Literal::new(DType::F32, shape.to_vec(), Arc::new(values(count as usize))).expect("fits")
}

/// `main(x) = op(x, weights)`.
fn program(op: Op, input: &[i64], weights: &[i64]) -> Module {
    let mut module = Module::default();
    let mut f = FuncBuilder::new(&mut module, "main");
    let shape = input.iter().map(|d| (*d).into()).collect();
    let x = f.param("x", TensorType::new(DType::F32, shape));
    let w = f.constant(literal(weights));
    let y = f.emit1(op, &[x, w]).expect("well typed");
    f.finish(vec![y], vec!["y".to_string()]);
    module
}

fn measure(c: &mut Criterion, name: &str, module: Module, input: &[i64], multiply_adds: i64) {
    in_precision(c, Precision::F32, name, module.clone(), input, multiply_adds);
    if CpuTarget::host().has_amx_bf16() {
        let name = format!("{name} f32-fast");
        in_precision(c, Precision::F32Fast, &name, module.clone(), input, multiply_adds);
    }
    if CpuTarget::host().has_avx512_bf16() {
        let name = format!("{name} bf16");
        in_precision(c, Precision::Bf16, &name, module, input, multiply_adds);
    }
}

fn in_precision(
    c: &mut Criterion,
    precision: Precision,
    name: &str,
    module: Module,
    input: &[i64],
    multiply_adds: i64,
) {
    let engine = Engine::builder()
        .tier("kernels=best".parse().expect("a policy"))
        .precision(precision)
        .build()
        .expect("an engine");
    let program = engine.compile(module).expect("compiles");
    let count: i64 = input.iter().product();
    let x = Array { dtype: DType::F32, shape: input.to_vec(), data: values(count as usize) };
    let prepared = program.prepare("main", &Feed::from([("x".into(), x)])).expect("fits");
    let mut session = program.session(Mode::Bytecode).expect("a session");
    let mut group = c.benchmark_group("kernels");
    group.throughput(Throughput::Elements(multiply_adds as u64)).sample_size(20);
    group.bench_function(name, |b| b.iter(|| session.call(&prepared).expect("runs")));
    group.finish();
}

fn products(c: &mut Criterion) {
    for (m, n, k) in
        [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (128, 384, 384), (1, 1024, 1024)]
    {
        let module = program(Op::MatMul, &[m, k], &[k, n]);
        measure(c, &format!("matmul {m}x{n}x{k}"), module, &[m, k], m * n * k);
    }
}

fn convolutions(c: &mut Criterion) {
    // channels in, out, extent, kernel, stride, groups
    for (ci, co, e, k, s, g) in [
        (64, 64, 56, 3, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (256, 64, 56, 1, 1, 1),
        (3, 64, 224, 7, 2, 1),
        (128, 128, 28, 3, 1, 128),
    ] {
        let attrs = ConvAttrs {
            strides: vec![s; 2],
            pads_begin: vec![k / 2; 2],
            pads_end: vec![k / 2; 2],
            dilations: vec![1; 2],
            groups: g,
        };
        let input = [1, ci, e, e];
        let module = program(Op::Conv(attrs), &input, &[co, ci / g, k, k]);
        let out = (e - 1) / s + 1;
        let name = format!("conv {ci}->{co} {e}x{e} k{k} s{s} g{g}");
        measure(c, &name, module, &input, co * out * out * (ci / g) * k * k);
    }
}

criterion_group!(benches, products, convolutions);
criterion_main!(benches);

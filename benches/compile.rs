//! From an ONNX file to a program: with an empty kernel cache, with a warm one, and the
//! translation of its bytecode to machine code. Needs the magika model (`./x models magika`).

mod common;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use reflex::{Engine, Mode};

fn compile(c: &mut Criterion) {
    let Some(model) = common::magika() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let engine = |cache| Engine::builder().cache(cache).build().expect("an engine");
    let mut group = c.benchmark_group("compile magika");
    group.sample_size(10);
    let mut round = 0;
    group.bench_function("cold", |b| {
        b.iter(|| {
            round += 1;
            engine(folder.path().join(round.to_string())).load(&model).expect("compiles")
        });
    });
    let warm = engine(folder.path().join("1"));
    group.bench_function("warm cache", |b| b.iter(|| warm.load(&model).expect("loads")));
    let program = warm.load(&model).expect("loads");
    group.bench_function("bytecode to machine code", |b| {
        let fresh = || program.fork().expect("the same program");
        let compile = |program: reflex::Program| program.session(Mode::Compiled).expect("opens");
        b.iter_batched(fresh, compile, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, compile);
criterion_main!(benches);

//! From an ONNX file to a program: with an empty kernel cache, with a warm one, and the
//! translation of its bytecode to machine code. Needs the magika model (`./x models magika`).
//! Then chains of operators, whose compilation should take time in proportion to their length.

mod common;

use std::fmt::Write;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use reflex::{Engine, Mode};

fn compile(c: &mut Criterion) {
    let Some(model) = common::magika() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let engine = |cache| {
        Engine::builder()
            .tier("kernels=best".parse().expect("a policy"))
            .cache(cache)
            .build()
            .expect("an engine")
    };
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

/// `main(x)`: a kernel called so many times, each on what the one before gave.
fn operators(count: usize) -> String {
    let mut text = String::from(
        r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x0: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        cls = Module
        with R.dataflow():
"#,
    );
    for at in 0..count {
        let call = format!("R.call_tir(cls.add1, (x{at},), R.Tensor((1,), \"float32\"))");
        let _ = writeln!(text, "            x{} = {call}", at + 1);
    }
    let _ = writeln!(text, "            R.output(x{count})\n        return x{count}");
    text
}

/// From the text of a chain of operators to a session in compiled mode, with nothing cached.
fn chain(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = c.benchmark_group("compile a chain of operators");
    group.sample_size(10);
    for count in [100, 1000] {
        let file = folder.path().join(format!("chain{count}.py"));
        std::fs::write(&file, operators(count)).expect("writes");
        let mut round = 0;
        group.bench_function(format!("{count}, text to compiled session"), |b| {
            b.iter(|| {
                round += 1;
                let cache = folder.path().join(format!("{count}-{round}"));
                let engine = Engine::builder()
                    .tier("kernels=best".parse().expect("a policy"))
                    .cache(cache)
                    .build()
                    .expect("an engine");
                let program = engine.load(&file).expect("compiles");
                program.session(Mode::Compiled).expect("a session")
            });
        });
        let engine = Engine::builder()
            .tier("kernels=best".parse().expect("a policy"))
            .cache(folder.path().join("warm"))
            .build()
            .expect("builds");
        let program = engine.load(&file).expect("compiles");
        group.bench_function(format!("{count}, bytecode to machine code"), |b| {
            let fresh = || program.fork().expect("the same program");
            let compile = |program: reflex::Program| program.session(Mode::Compiled);
            b.iter_batched(fresh, compile, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, compile, chain);
criterion_main!(benches);

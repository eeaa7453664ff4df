//! From a compiled library to a program that runs: magika (`./x models magika` fetches it), and
//! a program with a large constant.

mod common;
#[path = "../tests/common/large.rs"]
mod large;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::{Engine, Mode};

fn load(c: &mut Criterion) {
    let Some(model) = common::magika() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::builder()
        .tier("kernels=best".parse().expect("a policy"))
        .cache(folder.path())
        .build()
        .expect("an engine");
    let library = folder.path().join("magika.so");
    engine.load(&model).expect("loads").save(&library).expect("saves");
    let mut group = c.benchmark_group("load magika");
    group.bench_function("open .so", |b| b.iter(|| engine.load(&library).expect("opens")));
    for mode in Mode::ALL {
        group.bench_function(format!("open .so, {mode} session"), |b| {
            b.iter(|| engine.load(&library).expect("opens").session(mode).expect("a session"));
        });
    }
    group.finish();
}

/// A library with a constant of 64 MiB, its file in the page cache.
fn large_constant(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::builder()
        .tier("kernels=best".parse().expect("a policy"))
        .cache(folder.path())
        .build()
        .expect("an engine");
    let library = large::library(folder.path());
    let mut group = c.benchmark_group("load 64 MiB constant");
    for mode in [Mode::Bytecode, Mode::Tiered] {
        group.bench_function(format!("open .so, {mode} session"), |b| {
            b.iter(|| engine.load(&library).expect("opens").session(mode).expect("a session"));
        });
    }
    group.finish();
}

criterion_group!(benches, load, large_constant);
criterion_main!(benches);

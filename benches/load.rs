//! From a compiled library to a program that runs. Needs the magika model (`./x models magika`).

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::{Engine, Mode};

fn load(c: &mut Criterion) {
    let Some(model) = common::magika() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::builder().cache(folder.path()).build().expect("an engine");
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

criterion_group!(benches, load);
criterion_main!(benches);

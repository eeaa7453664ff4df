//! From files to answers: cold compilation, compilation from a warm kernel cache, and opening a
//! compiled library. Needs the magika model (`./x models magika`).

use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::{Engine, Mode};

fn model() -> Option<PathBuf> {
    let folder = std::env::var_os("REFLEX_MODELS").unwrap_or("target/reflex/models".into());
    let path = PathBuf::from(folder).join("magika.onnx");
    if !path.exists() {
        println!("skipped: {} is missing; ./x models magika fetches it", path.display());
        return None;
    }
    Some(path)
}

fn load(c: &mut Criterion) {
    let Some(model) = model() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let engine = |cache| Engine::builder().cache(cache).build().expect("an engine");
    let mut group = c.benchmark_group("load magika");
    group.sample_size(10);
    let mut round = 0;
    group.bench_function("compile, cold", |b| {
        b.iter(|| {
            round += 1;
            engine(folder.path().join(round.to_string())).load(&model).expect("compiles")
        });
    });
    let warm = engine(folder.path().join("1"));
    group.bench_function("compile, warm cache", |b| b.iter(|| warm.load(&model).expect("loads")));
    let library = folder.path().join("magika.so");
    warm.load(&model).expect("loads").save(&library).expect("saves");
    group.bench_function("open .so", |b| b.iter(|| warm.load(&library).expect("opens")));
    group.bench_function("open .so, session", |b| {
        b.iter(|| warm.load(&library).expect("opens").session(Mode::Tiered).expect("a session"));
    });
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);

//! The runtime's costs of one dispatch: values, calls, headers, launches.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use reflex_runtime::alloc::device::CPU;
use reflex_runtime::dtype::DType;
use reflex_runtime::fp::FpEnv;
use reflex_runtime::function::Function;
use reflex_runtime::shape::Shape;
use reflex_runtime::storage::Storage;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::threads;
use reflex_runtime::value::{Any, AnyView};

fn values(c: &mut Criterion) {
    let int = Any::from(1_i64);
    c.bench_function("any/clone_int", |b| b.iter(|| black_box(&int).clone()));
    let object = Any::from(Shape::new(&[1]));
    c.bench_function("any/clone_object", |b| b.iter(|| black_box(&object).clone()));
    let function = Function::new(|args| Ok(Any::from(args.len() as i64)));
    let args = [AnyView::from(1_i64), object.view(), AnyView::NONE];
    c.bench_function("function/call", |b| b.iter(|| black_box(&function).call(black_box(&args))));
}

fn objects(c: &mut Criterion) {
    c.bench_function("shape/new", |b| b.iter(|| Shape::new(black_box(&[1, 64, 56, 56]))));
    let storage = Storage::new(&CPU, 1 << 20).unwrap();
    let shape = [1, 64, 8, 8];
    c.bench_function("tensor/on_storage", |b| {
        b.iter(|| Tensor::on_storage(&storage, 64, black_box(&shape), DType::F32));
    });
    c.bench_function("tensor/empty_16k", |b| {
        b.iter(|| Tensor::empty(black_box(&shape), DType::F32));
    });
    c.bench_function("tensor/empty_64", |b| b.iter(|| Tensor::empty(black_box(&[16]), DType::F32)));
    // Another thread that does the same should not matter.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(Tensor::empty(black_box(&[16]), DType::F32));
            }
        });
        c.bench_function("tensor/empty_64_on_two_threads", |b| {
            b.iter(|| Tensor::empty(black_box(&[16]), DType::F32));
        });
        done.store(true, Ordering::Relaxed);
    });
    c.bench_function("storage/new_1m", |b| b.iter(|| Storage::new(&CPU, black_box(1 << 20))));
    c.bench_function("fp/enter_and_leave", |b| b.iter(FpEnv::enter));
}

fn launches(c: &mut Criterion) {
    for count in [1, 2] {
        c.bench_function(&format!("threads/launch_{count}"), |b| {
            threads::with_threads(count, || {
                b.iter(|| {
                    threads::parallel_for(count, |part| {
                        black_box(part);
                        Ok(())
                    })
                });
            });
        });
    }
}

criterion_group!(benches, values, objects, launches);
criterion_main!(benches);

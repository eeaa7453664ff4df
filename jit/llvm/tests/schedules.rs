//! Randomly scheduled functions, lowered and compiled: O0, O3 and the evaluator agree bit for
//! bit, on any number of threads.

mod common;
#[path = "../../../src/tir/tests/common/mod.rs"]
mod tir;

use common::{Kernel, assert_same, check, set_tasks};
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::fuzzgen::{arguments, loops_of, steps};
use reflex_tir::lower;
use reflex_tir::schedule::Schedule;
use reflex_tir::thread::ThreadAxis;
use tir::{any_func, property};

#[test]
fn random_schedules_compile_to_the_same_results() {
    let mut ran = 0;
    property(120, |u| {
        let mut s = Schedule::new(any_func(u)?);
        steps(u, &mut s, 8)?;
        // Biased towards what code generation does differently.
        for i in loops_of(s.func()) {
            let _ = match u.int_in_range(0..=3)? {
                0 => s.parallel(i),
                1 => s.vectorize(i),
                2 => s.unroll(i),
                _ => continue,
            };
        }
        set_tasks(u.int_in_range(1..=5)?);
        let args = arguments(u, s.func(), 5)?;
        let lowered = lower::lower(s.func());
        check(&lowered, &args);
        ran += 1;
        Ok(())
    });
    assert!(ran > 20, "only {ran} functions ran");
    println!("{ran} functions");
}

#[test]
fn loops_of_thread_axes_are_refused_by_name() {
    let mut s = Schedule::new(tir::dense(37.into(), 19, 11));
    let i = s.get_loops("matmul").unwrap()[0];
    s.bind(i, ThreadAxis::ThreadX).unwrap();
    let lowered = lower::lower(s.func());
    let error = reflex_llvm::compile(&lowered, &CpuTarget::host(), OptLevel::O0).unwrap_err();
    assert!(error.to_string().contains("loop bound to threadIdx.x on a CPU target"), "{error}");
}

#[test]
fn thread_counts_do_not_change_results() {
    let mut s = Schedule::new(tir::dense(37.into(), 19, 11));
    let [i, ..] = s.get_loops("matmul").unwrap()[..] else { unreachable!() };
    s.parallel(i).unwrap();
    let lowered = lower::lower(s.func());
    let args = {
        let bytes: Vec<u8> = (0..4096u32).map(|i| (i * 193) as u8).collect();
        arguments(&mut arbtest::arbitrary::Unstructured::new(&bytes), &lowered, 5).unwrap()
    };
    let kernel = Kernel::new(&lowered, OptLevel::O3);
    let results: Vec<_> = [1, 2, 3, 16, 100]
        .into_iter()
        .map(|tasks| {
            set_tasks(tasks);
            let mut args = args.clone();
            kernel.run(&mut args).unwrap();
            args
        })
        .collect();
    for other in &results[1..] {
        assert_same(&lowered, "more tasks", &results[0], other);
    }
}

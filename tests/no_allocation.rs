//! A bound program in steady state makes no heap allocation, in any mode, on any thread.
//!
//! One test in this file: the count is the whole process's.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use reflex::{Array, Engine, Feed, Mode};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs after which tiers have found the hot code; they compile it during later runs.
const WARM_UP: usize = 60;
const RUNS: usize = 10;
/// Runs given to compilation to end.
const SETTLE: usize = 20_000;

/// Whether some `RUNS` runs in a row, once compilation is over, allocate nothing.
fn settles(model: &Path, feed: Option<&Feed>, mode: Mode, threads: usize) -> bool {
    let engine = Engine::builder().threads(threads).build().expect("an engine");
    let program = engine.load(model).expect("loads");
    let x = Array::of(&[4, 8], &[0.5_f32; 32]).expect("as many elements as the shape has");
    let small = Feed::from([("x".to_owned(), x)]);
    let prepared = program.prepare("main", feed.unwrap_or(&small)).expect("fits");
    let mut session = program.session(mode).expect("a session");
    let mut bound = session.bind(&prepared).expect("runs");
    (0..WARM_UP).for_each(|_| bound.run().expect("runs"));
    // The threads that compile kernels again allocate too.
    program.wait_for_kernels();
    (0..SETTLE / RUNS).any(|_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..RUNS).for_each(|_| bound.run().expect("runs"));
        ALLOCATIONS.load(Ordering::Relaxed) == before
    })
}

#[test]
fn steady_state_allocates_nothing() {
    let mut cases = vec![(Path::new("examples/softmax.py").to_path_buf(), None)];
    if let Some((models, refs)) = common::data() {
        for model in common::MODELS {
            let file = &common::references(&refs, model)[0];
            let case = reflex::numpy::read_cases(file).expect("readable").swap_remove(0);
            cases.push((models.join(format!("{model}.onnx")), Some(case.inputs)));
        }
    }
    for (model, feed) in &cases {
        for (mode, threads) in
            Mode::ALL.map(|mode| (mode, 1)).into_iter().chain([(Mode::Tiered, 2)])
        {
            let at = format!("{}, {mode}, {threads} threads", model.display());
            assert!(settles(model, feed.as_ref(), mode, threads), "{at}: every run allocates");
        }
    }
}

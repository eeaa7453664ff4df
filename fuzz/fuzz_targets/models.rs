//! Compiled ONNX models answer as the graph evaluator does.
//!
//! Run with `cargo fuzz run models --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::models::{ModelCase, models};

fuzz_target!(|case: ModelCase| {
    models(&case);
});

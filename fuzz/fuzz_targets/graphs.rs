//! Compiled graphs answer as the graph evaluator does.
//!
//! Run with `cargo fuzz run graphs --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::graphs::{GraphCase, graphs};

fuzz_target!(|case: GraphCase| {
    graphs(&case);
});

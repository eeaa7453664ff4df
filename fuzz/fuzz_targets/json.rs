//! JSON of TVM's nodes is refused, or a graph that may be a module, which may be compiled.
//!
//! Run with `cargo fuzz run json --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::nodes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        nodes::json(text);
    }
});

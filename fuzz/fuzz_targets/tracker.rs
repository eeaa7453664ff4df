//! Messages to an RPC tracker are answered, or end their connections.
//!
//! Run with `cargo fuzz run tracker --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::tracker;

fuzz_target!(|bytes: &[u8]| {
    tracker::tracker(bytes);
});

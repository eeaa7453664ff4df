//! Listings of executables, TVMScript and Relay text are refused, or read back and safe to run.
//!
//! Run with `cargo fuzz run text --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::{blobs, scripts};

fuzz_target!(|text: &str| {
    if text.starts_with("#[version") {
        scripts::relay(text);
    } else if text.contains("def ") {
        scripts::script(text);
    } else {
        blobs::listing(text);
    }
});

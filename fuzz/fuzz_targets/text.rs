//! Listings of executables and TVMScript are refused, or read back and safe to run.
//!
//! Run with `cargo fuzz run text --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::{blobs, scripts};

fuzz_target!(|text: &str| {
    if text.contains("def ") {
        scripts::script(text);
    } else {
        blobs::listing(text);
    }
});

//! Serialized executables are refused, or safe to run.
//!
//! Run with `cargo fuzz run blob --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::blobs;

fuzz_target!(|bytes: &[u8]| {
    blobs::blob(bytes);
});

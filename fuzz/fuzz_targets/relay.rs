//! Executables of the Relay virtual machine are refused, or safe to run.
//!
//! Run with `cargo fuzz run relay --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::relay;

fuzz_target!(|bytes: &[u8]| {
    relay::file(bytes);
});

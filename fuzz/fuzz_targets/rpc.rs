//! Bytes to an RPC server are answered or end the session.
//!
//! Run with `cargo fuzz run rpc --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::rpc;

fuzz_target!(|bytes: &[u8]| {
    rpc::rpc(bytes);
});

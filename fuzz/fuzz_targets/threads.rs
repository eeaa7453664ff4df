//! Sessions on several threads, with code made meanwhile, agree with one alone.
//!
//! Run with `cargo fuzz run threads --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::oracles;
use reflex_fuzz::programs::ProgramCase;

fuzz_target!(|case: ProgramCase| {
    oracles::threads(&case);
});

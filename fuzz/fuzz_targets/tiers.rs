//! Interpreter, compiled code and traces agree on generated programs.
//!
//! Run with `cargo fuzz run tiers --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::oracles;
use reflex_fuzz::programs::ProgramCase;

fuzz_target!(|case: ProgramCase| {
    oracles::tiers(&case);
});

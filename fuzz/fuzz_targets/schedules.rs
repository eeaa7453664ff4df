//! Scheduled and lowered functions compute what they did.
//!
//! Run with `cargo fuzz run schedules --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reflex_fuzz::schedules::{ScheduleCase, schedules};

fuzz_target!(|case: ScheduleCase| {
    schedules(&case);
});

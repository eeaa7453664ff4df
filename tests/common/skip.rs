//! Tests, or parts of tests, that do not run here. libtest shows no output of a test that passes,
//! so each is recorded by name in the file that `REFLEX_SKIPS` names; `./x test` compares that
//! file with what tests/skips.txt announces and fails on anything else.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;

/// Records that the running test does not run here for want of `need`.
pub fn skip(need: &str) {
    record(&test(), need);
}

/// Records that `part` of the running test does not run here for want of `need`.
pub fn skip_part(part: &str, need: &str) {
    record(&format!("{}/{part}", test()), need);
}

/// The value of an environment variable that `./x test` sets; without it the running test is
/// recorded as skipped.
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    let value = std::env::var_os(name);
    if value.is_none() {
        skip(&format!("{name}, which ./x test sets"));
    }
    value
}

/// Crate and path of the running test: libtest names threads after tests.
fn test() -> String {
    let thread = std::thread::current();
    format!("{}::{}", env!("CARGO_CRATE_NAME"), thread.name().unwrap_or("a thread without a name"))
}

fn record(name: &str, need: &str) {
    let Some(file) = std::env::var_os("REFLEX_SKIPS") else {
        return eprintln!("skipped: {name} needs {need}");
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let line = format!("{name} needs {need}\n");
    file.and_then(|mut f| f.write_all(line.as_bytes())).expect("REFLEX_SKIPS names a file");
}

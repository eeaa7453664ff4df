//! Logs on standard error, for programs that have no `tracing` subscriber of their own: the command
//! line, and hosts in C and Python.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// The environment variable that holds filters: a level, or targets with levels such as `warn,reflex=debug`.
pub const VARIABLE: &str = "REFLEX_LOG";

/// Writes events to standard error, those that the variable `REFLEX_LOG` selects, or else `default`
/// (a level such as `info`, or filters). What is no list of filters is said to be so, and passed over. Does
/// nothing if the process has a subscriber.
///
/// ```
/// reflex::log::to_stderr("warn");
/// ```
pub fn to_stderr(default: &str) {
    let set = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let set = set.and_then(|text| parse(VARIABLE, &text.to_string_lossy()));
    let filters = set.or_else(|| parse("filters of logs", default)).unwrap_or_default();
    let layer = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .compact();
    // An error says that there is a subscriber already.
    let _ = tracing_subscriber::registry().with(filters).with(layer).try_init();
}

/// Reads filters; says what is wrong with those of `name`.
fn parse(name: &str, text: &str) -> Option<Targets> {
    let read = text.parse().inspect_err(|error| {
        eprintln!("{name}={text}: {error}; give a level such as `debug`, or `reflex=debug,warn`");
    });
    read.ok()
}

/// [`to_stderr`] for hosts without a subscriber, if the variable `REFLEX_LOG` is set.
pub(crate) fn of_environment() {
    if std::env::var_os(VARIABLE).is_some() {
        to_stderr("off");
    }
}

//! Logs on standard error, for programs that have no `tracing` subscriber of their own: the command
//! line, and hosts in C and Python.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// The environment variable that holds filters: a level, or targets with levels such as `warn,reflex=debug`.
pub const VARIABLE: &str = "REFLEX_LOG";

/// Writes events to standard error, those that the variable `REFLEX_LOG` selects, or else `default`
/// (a level such as `info`, or filters). Of a variable that is no list of filters, it says so and uses `default`. Does
/// nothing if the process has a subscriber.
///
/// ```
/// reflex::log::to_stderr("warn");
/// ```
pub fn to_stderr(default: &str) {
    let usual = || default.parse().unwrap_or_else(|_| Targets::new());
    let filters = match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse::<Targets>().unwrap_or_else(|error| {
            eprintln!(
                "{VARIABLE}={text}: {error}; it is a level such as `debug`, or `reflex=debug,warn`"
            );
            usual()
        }),
        _ => usual(),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .compact()
        .finish()
        .with(filters);
    // An error says that there is a subscriber already.
    let _ = subscriber.try_init();
}

/// [`to_stderr`] for hosts without a subscriber, if the variable `REFLEX_LOG` is set.
pub(crate) fn of_environment() {
    if std::env::var_os(VARIABLE).is_some() {
        to_stderr("off");
    }
}

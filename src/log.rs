//! Logs on standard error, for programs that have no `tracing` subscriber of their own: the command
//! line, and hosts in C and Python.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The environment variable that holds filters, such as `reflex=debug`.
pub const VARIABLE: &str = "REFLEX_LOG";

/// Writes events to standard error, those that the variable `REFLEX_LOG` selects, or else `default`
/// (a level such as `info`, or filters). Does nothing if the process has a subscriber.
///
/// ```
/// reflex::log::to_stderr("warn");
/// ```
pub fn to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .compact();
    // An error says that there is a subscriber already.
    let _ = subscriber.try_init();
}

/// [`to_stderr`] for hosts without a subscriber, if the variable `REFLEX_LOG` is set.
pub(crate) fn of_environment() {
    if std::env::var_os(VARIABLE).is_some() {
        to_stderr("off");
    }
}

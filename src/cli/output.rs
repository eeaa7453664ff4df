//! Standard output. When its reader has closed it (`reflex inspect .. | head`), the process ends
//! quietly, with the exit code of one that `SIGPIPE` ended.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// `println!` for commands' results.
macro_rules! println {
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*)) };
}
pub(super) use println;

/// Writes a line.
pub(super) fn line(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.write_all(b"\n")) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(128 + 13),
        Err(e) => {
            eprintln!("reflex: standard output: {e}");
            std::process::exit(2);
        }
    }
}

/// The form of a command's output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table for people.
    Text,
    /// JSON objects, one per line.
    Json,
}

impl Format {
    /// The format that `--json` asks for.
    pub fn of(json: bool) -> Format {
        if json { Format::Json } else { Format::Text }
    }
}

//! The ways in which a packet fails, and errors as text.

use std::fmt;
use std::io;

use reflex_runtime::error::Error;

/// Before the backtrace in the text of an error.
const FRAMES: &str = "\n\nFrames, innermost first:\n";
/// Most bytes of an error's text that are sent.
const MAX_TEXT: usize = 32 << 10;

/// A failure.
#[derive(Debug)]
pub enum Fault {
    /// The connection has ended or failed.
    Connection(io::Error),
    /// A request is refused; the connection goes on with the next packet.
    Request(Error),
    /// The position in the stream is lost: the connection ends.
    Stream(Error),
}

impl Fault {
    /// The failure as an error.
    pub fn into_error(self) -> Error {
        match self {
            Fault::Connection(error) => Error::new("ConnectionError", error.to_string()),
            Fault::Request(error) | Fault::Stream(error) => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Connection(error) => error.fmt(f),
            Fault::Request(error) | Fault::Stream(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Connection(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Request(error)
    }
}

/// The text under which an error travels: `Kind: message`, and its frames if there are any.
pub fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    let frames = error.backtrace();
    if !frames.is_empty() {
        text = text + FRAMES + &frames;
    }
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The error that a text stands for. A text without a kind is an `RPCError`.
pub fn error_of(text: &str) -> Error {
    let (text, frames) = text.split_once(FRAMES).unwrap_or((text, ""));
    let name = |kind: &str| {
        kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_')
    };
    match text.split_once(": ").filter(|(kind, _)| name(kind)) {
        Some((kind, message)) => Error::with_context(kind, message, frames, None, None),
        None => Error::with_context("RPCError", text, frames, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_travel_as_text() {
        let error = Error::with_context("TypeError", "no: such\nthing", "main\n", None, None);
        let back = error_of(&text_of(&error));
        assert_eq!((&*back.kind(), &*back.message()), ("TypeError", "no: such\nthing"));
        assert_eq!(back.backtrace(), "main\n");
        assert_eq!(error_of("it failed: twice").kind(), "RPCError");
        let long = text_of(&Error::value_error("é".repeat(MAX_TEXT)));
        assert!(long.len() <= MAX_TEXT && long.len() > MAX_TEXT - 2);
    }
}

//! Errors of parsing and decoding.

use std::fmt;

/// A place in the text, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Where.
    pub place: Place,
    /// The mistake, with the name of the instruction or symbol.
    pub message: String,
}

impl ParseError {
    /// An error at a place.
    pub fn new(place: Place, message: impl Into<String>) -> ParseError {
        ParseError { place, message: message.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.place.line, self.place.column, self.message)
    }
}

impl std::error::Error for ParseError {}

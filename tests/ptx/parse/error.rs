//! Errors of parsing and decoding.

use std::fmt;

/// A position in the text, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The position in the text.
    pub position: Position,
    /// The mistake, with the name of the instruction or symbol.
    pub message: String,
}

impl ParseError {
    /// An error at a position.
    pub fn new(position: Position, message: impl Into<String>) -> ParseError {
        ParseError { position, message: message.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.position.line, self.position.column, self.message)
    }
}

impl std::error::Error for ParseError {}

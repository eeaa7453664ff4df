//! Tokens of PTX.

use super::error::{ParseError, Position};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A name, a directive, an opcode with its modifiers, or a register.
    Word(&'a str),
    /// An integer.
    Integer(u64),
    /// Bits of a float32.
    Float(u32),
    /// Bits of a float64.
    Double(u64),
    /// A quoted text.
    Text(&'a str),
    /// Anything else.
    Symbol(char),
}

/// Splits a text into tokens with their positions.
pub fn lex(text: &str) -> Result<Vec<(Token<'_>, Position)>, ParseError> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0 };
    let mut tokens = vec![];
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn position(&self) -> Position {
        Position { line: self.line, column: (self.at - self.line_start + 1) as u32 }
    }

    fn next(&mut self) -> Result<Option<(Token<'a>, Position)>, ParseError> {
        self.skip()?;
        if self.at >= self.text.len() {
            return Ok(None);
        }
        let position = self.position();
        let token = match self.byte(0) {
            b'"' => self.quoted()?,
            b'0'..=b'9' => self.number()?,
            b'.' | b'_' | b'$' | b'%' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => {
                let symbol = self.text[self.at..].chars().next().unwrap_or(' ');
                self.at += symbol.len_utf8();
                Token::Symbol(symbol)
            }
        };
        Ok(Some((token, position)))
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), ParseError> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => self.newline(),
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.byte(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let position = self.position();
                    self.at += 2;
                    while (self.byte(0), self.byte(1)) != (b'*', b'/') {
                        match self.byte(0) {
                            _ if self.at >= self.text.len() => {
                                return Err(ParseError::new(position, "comment without end"));
                            }
                            b'\n' => self.newline(),
                            _ => self.at += 1,
                        }
                    }
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn word(&mut self) -> Token<'a> {
        let start = self.at;
        loop {
            match self.byte(0) {
                b'.' | b'_' | b'$' | b'%' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => self.at += 1,
                b':' if self.byte(1) == b':' => self.at += 2,
                _ => return Token::Word(&self.text[start..self.at]),
            }
        }
    }

    fn quoted(&mut self) -> Result<Token<'a>, ParseError> {
        let (position, start) = (self.position(), self.at + 1);
        let Some(length) = self.text[start..].find(['"', '\n']) else {
            return Err(ParseError::new(position, "text without end"));
        };
        self.at = start + length + 1;
        if self.text.as_bytes()[self.at - 1] != b'"' {
            return Err(ParseError::new(position, "text without end"));
        }
        Ok(Token::Text(&self.text[start..start + length]))
    }

    fn number(&mut self) -> Result<Token<'a>, ParseError> {
        let (position, start) = (self.position(), self.at);
        while self.byte(0).is_ascii_alphanumeric() {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        // The version, such as 8.0.
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            self.at += 1;
            while self.byte(0).is_ascii_digit() {
                self.at += 1;
            }
            return Ok(Token::Word(&self.text[start..self.at]));
        }
        let wrong = |_| ParseError::new(position, format!("no number: {text}"));
        let hex = |digits: &str| u64::from_str_radix(digits, 16);
        let (first, second) = (text.as_bytes()[0], text.as_bytes().get(1).copied().unwrap_or(0));
        match (first, second, text.len()) {
            (b'0', b'f' | b'F', 10) => {
                return hex(&text[2..]).map(|bits| Token::Float(bits as u32)).map_err(wrong);
            }
            (b'0', b'd' | b'D', 18) => return hex(&text[2..]).map(Token::Double).map_err(wrong),
            _ => {}
        }
        let plain = text.strip_suffix(['U', 'u']).unwrap_or(text);
        let value = match (first, second) {
            (b'0', b'x' | b'X') => hex(&plain[2..]),
            (b'0', b'b' | b'B') => u64::from_str_radix(&plain[2..], 2),
            (b'0', b'0'..=b'7') => u64::from_str_radix(&plain[1..], 8),
            _ => plain.parse(),
        };
        value.map(Token::Integer).map_err(wrong)
    }
}

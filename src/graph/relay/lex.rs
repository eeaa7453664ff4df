//! Tokens of Relay text.

use super::source::{Offset, Result, Source};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `%x`, without the sign.
    Local(String),
    /// `@f`, without the sign.
    Global(String),
    /// A word, with its dots: `nn.dense`.
    Word(String),
    /// A number with its suffix, without a sign.
    Number(String),
    /// A string, without quotes.
    Str(String),
    /// `#[...]`, without the brackets.
    Section(String),
    /// Punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// Punctuation, the longer signs first.
pub(super) const SIGNS: [&str; 25] = [
    "=>", "->", "==", "!=", "<=", ">=", "(", ")", "{", "}", "[", "]", ",", ";", ":", ".", "=", "?",
    "+", "-", "*", "/", "<", ">", "&",
];

/// Every token with its place, and the text after `#[metadata]`.
pub(super) struct Tokens {
    pub list: Vec<(Token, Offset)>,
    pub metadata: Option<String>,
}

/// Splits a text into tokens.
pub(super) fn tokens(source: Source<'_>) -> Result<Tokens> {
    if u32::try_from(source.text.len()).is_err() {
        return Err(source.refuse(0, "a text of 4 GiB or more"));
    }
    let mut lexer = Lexer { source, at: 0 };
    let mut list = vec![];
    loop {
        lexer.skip_blank()?;
        let at = lexer.at as Offset;
        let token = lexer.token()?;
        if token == Token::Section("metadata".to_string()) {
            let rest = source.text[lexer.at..].trim().to_string();
            list.push((Token::End, at));
            return Ok(Tokens { list, metadata: Some(rest) });
        }
        let end = token == Token::End;
        list.push((token, at));
        if end {
            return Ok(Tokens { list, metadata: None });
        }
    }
}

struct Lexer<'s> {
    source: Source<'s>,
    at: usize,
}

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source.text[self.at..]
    }

    /// Takes characters while they fit.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips blanks and comments; those between `/*` and `*/` nest.
    fn skip_blank(&mut self) -> Result<()> {
        loop {
            self.take(char::is_whitespace);
            if self.rest().starts_with("//") {
                self.take(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        let (start, mut depth) = (self.at, 0usize);
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
            } else if let Some(c) = rest.chars().next() {
                self.at += c.len_utf8();
            } else {
                return Err(self.source.refuse(start as Offset, "a comment without an end"));
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        match first {
            '%' | '@' => {
                self.at += 1;
                let name = self.take(in_name).to_string();
                if name.is_empty() {
                    let message = format!("a name is missing after `{first}`");
                    return Err(self.source.refuse(self.at as Offset - 1, message));
                }
                Ok(if first == '%' { Token::Local(name) } else { Token::Global(name) })
            }
            '"' => self.string(),
            '#' => self.section(),
            c if c.is_ascii_digit() => Ok(Token::Number(self.number())),
            c if starts_name(c) => Ok(Token::Word(self.word())),
            _ => self.sign(first),
        }
    }

    fn sign(&mut self, first: char) -> Result<Token> {
        let Some(sign) = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) else {
            let message = format!("`{}` does not belong here", first.escape_default());
            return Err(self.source.refuse(self.at as Offset, message));
        };
        self.at += sign.len();
        Ok(Token::Sign(sign))
    }

    /// A word; a dot belongs to it when a letter follows.
    fn word(&mut self) -> String {
        let start = self.at;
        self.take(in_name);
        while self.rest().strip_prefix('.').is_some_and(|rest| rest.starts_with(starts_name)) {
            self.at += 1;
            self.take(in_name);
        }
        self.source.text[start..self.at].to_string()
    }

    /// Digits, a fraction, an exponent and the suffix of a type. `%x.0.1` has no fraction: a
    /// projection's digits come one by one from the parser.
    fn number(&mut self) -> String {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit();
        self.take(digit);
        if self.rest().strip_prefix('.').is_some_and(|rest| rest.starts_with(digit)) {
            self.at += 1;
            self.take(digit);
        }
        let exponent = self.rest().strip_prefix(['e', 'E']);
        if let Some(rest) = exponent {
            let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if unsigned.starts_with(digit) {
                self.at += 1 + rest.len() - unsigned.len();
                self.take(digit);
            }
        }
        self.take(in_name);
        self.source.text[start..self.at].to_string()
    }

    fn string(&mut self) -> Result<Token> {
        let start = self.at as Offset;
        self.at += 1;
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((n, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += n + 1;
                    return Ok(Token::Str(text));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c @ ('"' | '\\' | '\''))) => text.push(c),
                    _ => return Err(self.source.refuse(start, "an escape that is not known")),
                },
                c => text.push(c),
            }
        }
        Err(self.source.refuse(start, "a string without an end"))
    }

    /// `#[name]` or `#[version = "0.0.5"]`
    fn section(&mut self) -> Result<Token> {
        let start = self.at as Offset;
        let rest = self.rest();
        let body = rest.strip_prefix("#[").and_then(|rest| rest.find(']').map(|end| &rest[..end]));
        let Some(body) = body else {
            return Err(self.source.refuse(start, "`#` begins no section"));
        };
        self.at += body.len() + 3;
        Ok(Token::Section(body.trim().to_string()))
    }
}

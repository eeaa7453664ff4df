//! Refuses texts that a recursive reader could not stand, before one reads them.
//!
//! Reading, walking and dropping a syntax tree recurse as deep as the tree. This scan bounds
//! that depth without building one: brackets, blocks, and operators in a row each have a limit.
//! It knows strings and comments and nothing else of the grammar.

use super::error::ScriptError;

/// Brackets within brackets.
const MAX_BRACKETS: usize = 128;
/// Blocks within blocks.
const MAX_BLOCKS: usize = 64;
/// Operators in one expression without a comma or bracket around them; those that nest to the
/// right count [`RIGHT`] times.
const MAX_OPERATORS: usize = 1024;
const RIGHT: usize = 8;
/// Bytes of one text.
const MAX_TEXT: usize = 1 << 30;

/// Checks a whole text; the error names the line.
pub fn check_nesting(text: &str) -> Result<(), ScriptError> {
    let mut scan =
        Scan { text: text.as_bytes(), at: 0, line: 1, operators: vec![0], blocks: vec![0] };
    if text.len() > MAX_TEXT {
        return Err(scan.refuse("the text is too long"));
    }
    scan.blocks()?;
    while scan.at < scan.text.len() {
        scan.step()?;
    }
    Ok(())
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    /// Operators so far, per open bracket.
    operators: Vec<usize>,
    /// Indentation of the open blocks.
    blocks: Vec<usize>,
}

impl Scan<'_> {
    fn refuse(&self, message: &str) -> ScriptError {
        ScriptError { line: self.line, message: message.into() }
    }

    fn deep(&self) -> ScriptError {
        self.refuse("this is nested too deeply")
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Result<(), ScriptError> {
        match self.peek(0) {
            b'#' => {
                while !matches!(self.peek(0), b'\n' | 0) {
                    self.at += 1;
                }
            }
            b'"' | b'\'' => self.string(),
            b'\\' => {
                self.line += usize::from(self.peek(1) == b'\n');
                self.at += 2;
            }
            b'\n' => {
                self.at += 1;
                self.line += 1;
                if self.operators.len() == 1 {
                    self.operators[0] = 0;
                    self.blocks()?;
                }
            }
            b'(' | b'[' | b'{' => {
                self.operator(1)?;
                self.operators.push(0);
                if self.operators.len() > MAX_BRACKETS {
                    return Err(self.deep());
                }
                self.at += 1;
            }
            b')' | b']' | b'}' => {
                if self.operators.len() > 1 {
                    self.operators.pop();
                }
                self.at += 1;
            }
            b',' | b';' => {
                *self.operators.last_mut().expect("never empty") = 0;
                self.at += 1;
            }
            b'+' | b'-' | b'~' | b'*' | b':' => {
                let count = if self.after_value() && self.peek(0) != b':' { 1 } else { RIGHT };
                self.operator(count)?;
                self.at += 1;
            }
            b'/' | b'%' | b'<' | b'>' | b'=' | b'&' | b'|' | b'^' | b'.' | b'@' | b'!' => {
                self.operator(1)?;
                self.at += 1;
            }
            c if c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80 => self.word()?,
            _ => self.at += 1,
        }
        Ok(())
    }

    /// Whether what comes before can be an operator's left side.
    fn after_value(&self) -> bool {
        let before = self.text[..self.at].iter().rev().find(|c| !matches!(c, b' ' | b'\t'));
        before.is_some_and(|c| {
            c.is_ascii_alphanumeric() || matches!(c, b'_' | b')' | b']' | b'}' | b'"' | b'\'')
        })
    }

    fn operator(&mut self, count: usize) -> Result<(), ScriptError> {
        let operators = self.operators.last_mut().expect("never empty");
        *operators += count;
        if *operators > MAX_OPERATORS { Err(self.deep()) } else { Ok(()) }
    }

    fn word(&mut self) -> Result<(), ScriptError> {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' || self.peek(0) >= 0x80 {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            b"if" | b"else" | b"elif" | b"not" | b"lambda" | b"await" | b"yield" | b"for"
            | b"async" => self.operator(RIGHT),
            b"and" | b"or" | b"in" | b"is" => self.operator(1),
            _ => Ok(()),
        }
    }

    fn string(&mut self) {
        let quote = self.peek(0);
        let long = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if long { 3 } else { 1 };
        while self.at < self.text.len() {
            match self.peek(0) {
                b'\\' => {
                    self.line += usize::from(self.peek(1) == b'\n');
                    self.at += 2;
                    continue;
                }
                b'\n' if !long => return,
                b'\n' => self.line += 1,
                c if c == quote && !long => {
                    self.at += 1;
                    return;
                }
                c if c == quote && self.peek(1) == quote && self.peek(2) == quote => {
                    self.at += 3;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// At the start of a line: its depth among the open blocks.
    fn blocks(&mut self) -> Result<(), ScriptError> {
        let mut width = 0;
        while matches!(self.peek(width), b' ' | b'\t' | 0x0c) {
            width += 1;
        }
        if matches!(self.peek(width), b'\n' | b'\r' | b'#' | 0) {
            return Ok(());
        }
        while self.blocks.last().is_some_and(|open| *open > width) {
            self.blocks.pop();
        }
        if self.blocks.last().is_none_or(|open| *open < width) {
            self.blocks.push(width);
        }
        if self.blocks.len() > MAX_BLOCKS { Err(self.deep()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::check_nesting;

    #[test]
    fn depth_is_bounded_and_width_is_not() {
        let wide = [
            format!("x = [{}]", "1.5, ".repeat(100_000)),
            format!("x = \"\"\"{}\"\"\"", "((((+/".repeat(100_000)),
            format!("# {}", "((((".repeat(100_000)),
            "x = f(-1) + g.h[2]\n".repeat(100_000),
        ];
        for text in wide {
            assert_eq!(check_nesting(&text), Ok(()));
        }
        let deep = [
            "(".repeat(200),
            format!("x = {}1", "1 + ".repeat(2000)),
            format!("x = {}1", "-".repeat(200)),
            format!("x = {}1", "1 if 1 else ".repeat(200)),
            format!("x = y{}", ".z".repeat(2000)),
            (0..100).map(|n| format!("{}if x:\n", " ".repeat(n))).collect(),
        ];
        for text in deep {
            assert!(check_nesting(&text).is_err(), "{text:.40}");
        }
    }
}

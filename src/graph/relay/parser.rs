//! The parser: recursive descent with a limit of depth.
//!
//! Blocks are lists, so the depth is that of nested forms, not the length of a program.

mod definition;
mod expr;
mod types;

use super::ast::RelayModule;
use super::lex::{Token, tokens};
use super::source::{Offset, Result, Source};

/// Deepest nesting of expressions, patterns, types and attributes.
const DEPTH_LIMIT: usize = 128;

/// Reads a text.
pub(super) fn parse(source: Source<'_>) -> Result<RelayModule> {
    let tokens = tokens(source)?;
    let mut parser = Parser { source, tokens: tokens.list, next: 0, depth: 0, height: 0 };
    let mut module = parser.module()?;
    module.metadata = tokens.metadata;
    Ok(module)
}

struct Parser<'s> {
    source: Source<'s>,
    tokens: Vec<(Token, Offset)>,
    next: usize,
    /// Nesting depth of the form that is read.
    depth: usize,
    /// Levels of the expressions read so far within the innermost one. Calls in a row are not
    /// nested in the text, but in the tree.
    height: usize,
}

impl Parser<'_> {
    /// The next token. The last one, [`Token::End`], stays.
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    /// The token after the next.
    fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].0
    }

    /// Place of the next token.
    fn at(&self) -> Offset {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes a sign if it is next.
    fn accept(&mut self, sign: &str) -> bool {
        let found = *self.peek() == Token::Sign(sign_of(sign));
        if found {
            self.advance();
        }
        found
    }

    /// Takes a word if it is next.
    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w == word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.accept(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek().clone() {
            Token::Word(word) => {
                self.advance();
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn local(&mut self) -> Result<String> {
        match self.peek().clone() {
            Token::Local(name) => {
                self.advance();
                Ok(name)
            }
            _ => self.expected("a variable"),
        }
    }

    /// An error at the next token.
    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.peek() {
            Token::Local(name) => format!("`%{name}`"),
            Token::Global(name) => format!("`@{name}`"),
            Token::Word(word) | Token::Number(word) => format!("`{word}`"),
            Token::Str(_) => "a string".to_string(),
            Token::Section(name) => format!("`#[{name}]`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the text".to_string(),
        };
        Err(self.source.refuse(self.at(), format!("expected {what}, found {found}")))
    }

    fn refuse<T>(&self, at: Offset, message: impl Into<String>) -> Result<T> {
        Err(self.source.refuse(at, message))
    }

    /// Runs a part of the parser one level deeper.
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_LIMIT {
            return self.refuse(self.at(), format!("nested more than {DEPTH_LIMIT} levels deep"));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Items up to `close`, separated by commas; a last comma is allowed.
    fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = vec![];
        while !self.accept(close) {
            items.push(item(self)?);
            if !self.accept(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }
}

/// The sign in the form that tokens hold.
fn sign_of(sign: &str) -> &'static str {
    super::lex::SIGNS.iter().find(|known| **known == sign).expect("a sign of the table")
}

//! A reader of JSON that takes one value at a time, with a bound on nesting.
//!
//! TVM writes `NaN` and `Infinity` as words, which serde_json does not read.

use std::fmt;

/// The deepest nesting of a graph's file: the object, `nodes`, a node, its data, a list.
const DEPTH: usize = 8;

/// Most members of an object: no type of TVM has as many fields.
const MEMBERS: usize = 256;

/// Why a text is no graph, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The byte at which it was noticed.
    pub at: usize,
    /// Why.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.message)
    }
}

impl std::error::Error for JsonError {}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// The rest of a text.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    pub fn error<T>(&self, message: impl Into<String>) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, message: message.into() })
    }

    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Takes a sign if it is next.
    pub fn take(&mut self, sign: u8) -> bool {
        let found = self.peek() == Some(sign);
        self.at += usize::from(found);
        found
    }

    /// Takes a sign that must be next.
    pub fn expect(&mut self, sign: u8) -> Result<(), JsonError> {
        match self.take(sign) {
            true => Ok(()),
            false => self.error(format!("`{}` is missing", char::from(sign))),
        }
    }

    /// Calls `item` for each of the items up to `end`, which commas separate.
    pub fn items(
        &mut self,
        end: u8,
        item: &mut dyn FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        if self.take(end) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take(end) {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Takes a key and its colon.
    pub fn key(&mut self) -> Result<String, JsonError> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// An error unless the text is at its end.
    pub fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.error("more text after the end"),
        }
    }

    /// Takes a value.
    pub fn value(&mut self) -> Result<Json, JsonError> {
        self.nested(0)
    }

    /// Recursion is bounded by [`DEPTH`], whatever the text.
    fn nested(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > DEPTH {
            return self.error("nested too deeply");
        }
        match self.peek() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'[') => {
                self.at += 1;
                let mut list = vec![];
                self.items(b']', &mut |reader| {
                    list.push(reader.nested(depth + 1)?);
                    Ok(())
                })?;
                Ok(Json::List(list))
            }
            Some(b'{') => {
                self.at += 1;
                let mut object = vec![];
                self.items(b'}', &mut |reader| {
                    let key = reader.key()?;
                    if object.len() == MEMBERS {
                        return reader.error(format!("an object of more than {MEMBERS} members"));
                    }
                    object.push((key, reader.nested(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::Object(object))
            }
            Some(_) => self.word(),
            None => self.error("the text ends early"),
        }
    }

    fn word(&mut self) -> Result<Json, JsonError> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let is_whole = !word.contains(['.', 'e', 'E']);
        let value = match word {
            "null" => Some(Json::Null),
            "true" => Some(Json::Bool(true)),
            "false" => Some(Json::Bool(false)),
            "NaN" => Some(Json::Float(f64::NAN)),
            "Infinity" => Some(Json::Float(f64::INFINITY)),
            "-Infinity" => Some(Json::Float(f64::NEG_INFINITY)),
            _ if !word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => None,
            // What no i64 holds is a float, as TVM writes large ones.
            _ => match word.parse().ok().filter(|_| is_whole) {
                Some(number) => Some(Json::Int(number)),
                None => word.parse().ok().filter(|f: &f64| f.is_finite()).map(Json::Float),
            },
        };
        match value {
            Some(value) => {
                self.at += word.len();
                Ok(value)
            }
            None => self.error(format!("`{}` is no value", word.get(..32).unwrap_or(word))),
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(['"', '\\']) else {
                return self.error("a string without an end");
            };
            text.push_str(&rest[..plain]);
            let ends = rest.as_bytes()[plain] == b'"';
            self.at += plain + 1;
            if ends {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(sign) = self.text.as_bytes().get(self.at).copied() else {
            return self.error("the text ends early");
        };
        if !sign.is_ascii() {
            return self.error("no such escape");
        }
        self.at += 1;
        Ok(match sign {
            b'"' | b'\\' | b'/' => char::from(sign),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.error("no such escape"),
        })
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex()?;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.hex()?;
            if !(0xdc00..0xe000).contains(&second) {
                return self.error("half of a surrogate pair");
            }
            code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.error("half of a surrogate pair"),
        }
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4);
        let is_hex = |digits: &&str| digits.bytes().all(|b| b.is_ascii_hexdigit());
        match digits.filter(is_hex).and_then(|d| u32::from_str_radix(d, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.error("`\\u` takes four digits"),
        }
    }
}

//! Tokens: names of clients with what they may do, in a file that holds no secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use blake3::Hash;
use reflex_runtime::error::Error;

use super::file_error;

/// Bytes of a secret.
const SECRET: usize = 32;

/// Rights of the holder of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Upload libraries, whose machine code the server runs.
    pub code: bool,
    /// Load the server's own models by name.
    pub models: bool,
}

impl Rights {
    /// Reads names of rights, separated by commas.
    pub fn parse(text: &str) -> Result<Rights, Error> {
        let mut rights = Rights::default();
        for name in text.split(',').filter(|name| !name.is_empty()) {
            match name {
                "code" => rights.code = true,
                "models" => rights.models = true,
                other => {
                    let why = format!("unknown right {other:?}; rights are code and models");
                    return Err(Error::value_error(why));
                }
            }
        }
        Ok(rights)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [("code", self.code), ("models", self.models)];
        let names: Vec<&str> =
            names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        f.write_str(&names.join(","))
    }
}

/// A token as its server knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The name that reports give the client.
    pub name: String,
    hash: Hash,
    /// Rights of the client.
    pub rights: Rights,
    /// Sessions that it may have at once.
    pub sessions: usize,
    /// Seconds since 1970 after which it is refused.
    pub expires: u64,
}

impl Token {
    /// A token from random bytes: the text that the client keeps, and the server's entry.
    pub fn new(
        name: &str,
        secret: [u8; SECRET],
        rights: Rights,
        sessions: usize,
        expires: u64,
    ) -> Result<(String, Token), Error> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            let why = format!("name {name:?}: letters, digits, `-`, `_` and `.` make a name");
            return Err(Error::value_error(why));
        }
        let secret = Hash::from_bytes(secret).to_hex();
        let hash = blake3::hash(secret.as_bytes());
        let text = format!("{name}:{secret}");
        Ok((text, Token { name: name.to_owned(), hash, rights, sessions, expires }))
    }

    /// Reads `NAME HASH RIGHTS SESSIONS EXPIRES`; `-` is no right.
    fn parse(line: &str) -> Result<Token, Error> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, hash, rights, sessions, expires] = fields[..] else {
            return Err(Error::value_error("a line is NAME HASH RIGHTS SESSIONS EXPIRES"));
        };
        let number = |what: &str, text: &str| {
            text.parse::<u64>().map_err(|_| Error::value_error(format!("{what} {text:?}")))
        };
        let hash = Hash::from_hex(hash);
        Ok(Token {
            name: name.to_owned(),
            hash: hash.map_err(|_| Error::value_error("the hash is 64 hexadecimal digits"))?,
            rights: Rights::parse(if rights == "-" { "" } else { rights })?,
            sessions: usize::try_from(number("number of sessions", sessions)?)
                .unwrap_or(usize::MAX),
            expires: number("expiry", expires)?,
        })
    }
}

impl fmt::Display for Token {
    /// The line of a token file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { name, hash, rights, sessions, expires } = self;
        let rights = rights.to_string();
        let rights = if rights.is_empty() { "-" } else { &rights };
        write!(f, "{name} {} {rights} {sessions} {expires}", hash.to_hex())
    }
}

/// The tokens that a server takes.
#[derive(Clone, Debug, Default)]
pub struct Tokens(BTreeMap<String, Token>);

impl Tokens {
    /// Reads a file of a token in each line; empty lines and those after `#` are left out.
    pub fn read(path: &Path) -> Result<Tokens, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| file_error(path, e))?;
        let mut tokens = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |why: &str| file_error(path, format!("line {}: {why}", number + 1));
            let token = Token::parse(line).map_err(|e| at(&e.message()))?;
            if let Some(double) = tokens.insert(token.name.clone(), token) {
                return Err(at(&format!("a second token {:?}", double.name)));
            }
        }
        Ok(Tokens(tokens))
    }

    /// The token of a client, or the reason for its refusal. Names that are unknown take as long as
    /// wrong secrets, and both have one answer.
    pub fn check(&self, text: &str) -> Result<&Token, &'static str> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |d| d.as_secs());
        let (name, secret) = text.split_once(':').unwrap_or((text, ""));
        let found = self.0.get(name);
        let nobody = Hash::from_bytes([0; 32]);
        // blake3 compares hashes in constant time.
        let right = blake3::hash(secret.as_bytes()) == found.map_or(nobody, |token| token.hash);
        match found.filter(|_| right) {
            None => Err("the token is not known"),
            Some(token) if token.expires <= now => Err("the token has expired"),
            Some(token) => Ok(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_checked_by_name_secret_and_time() {
        let rights = Rights { code: true, models: false };
        let (text, token) = Token::new("lab-1", [7; 32], rights, 2, u64::MAX).unwrap();
        let (stale, expired) = Token::new("old", [8; 32], Rights::default(), 1, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, format!("# clients\n\n{token}\n{expired}\n")).unwrap();
        let tokens = Tokens::read(&path).unwrap();
        assert_eq!(tokens.check(&text), Ok(&token));
        assert_eq!(tokens.check(&stale), Err("the token has expired"));
        let wrong = text.replace(char::is_numeric, "0");
        for unknown in [&*wrong, "lab-1", "", ":", &text.replace("lab-1", "lab-2"), &text[1..]] {
            assert_eq!(tokens.check(unknown), Err("the token is not known"), "{unknown}");
        }
        assert!(!std::fs::read_to_string(&path).unwrap().contains(&text[6..]));
    }

    #[test]
    fn bad_token_files_are_refused_by_line() {
        let (_, token) = Token::new("a", [1; 32], Rights::default(), 1, 9).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        for (text, why) in [
            ("a b c".to_owned(), "line 1: a line is"),
            (format!("{token}\n{token}"), "line 2: a second token"),
            (token.to_string().replace(" - ", " all "), "unknown right"),
            (token.to_string().replace(" 9", " x"), "expiry"),
            ("a 12 - 1 9".to_owned(), "64 hexadecimal"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Tokens::read(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Token::new("a b", [1; 32], Rights::default(), 1, 9).is_err());
    }
}

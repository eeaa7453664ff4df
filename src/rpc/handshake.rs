//! The first bytes of a connection over TCP: a magic word and the key of each side.

use std::io::{self, Read, Write};
use std::time::Duration;

use reflex_runtime::error::Error;

use crate::fault::Fault;
use crate::limits::check;

/// The first word of both sides.
pub const MAGIC: i32 = 0x000F_F271;
/// A server's answer to a key that is in use (from a proxy).
pub(crate) const DUPLICATE: i32 = MAGIC + 1;
/// A server's answer to a key that it does not have.
const MISMATCH: i32 = MAGIC + 2;
/// Most bytes of a key.
const MAX_KEY: u64 = 4096;

/// A client's opening request.
#[derive(Clone, Debug, PartialEq)]
pub struct Greeting {
    /// The key, without `client:` and options.
    pub key: String,
    /// The longest that the session may take.
    pub timeout: Option<Duration>,
}

/// Sends a greeting, and returns the server's key.
pub fn greet(stream: &mut (impl Read + Write), greeting: &Greeting) -> Result<String, Fault> {
    let mut key = format!("client:{}", greeting.key);
    if let Some(timeout) = greeting.timeout {
        key += &format!(" -timeout={}", timeout.as_secs_f64());
    }
    send(stream, MAGIC, &key)?;
    match word(stream)? {
        MAGIC => {}
        MISMATCH => return Err(refused(&format!("the server has no key {:?}", greeting.key))),
        DUPLICATE => return Err(refused(&format!("the key {:?} is in use", greeting.key))),
        other => return Err(refused(&format!("{other:#x} is no answer of an RPC server"))),
    }
    let key = text(stream)?;
    Ok(key.strip_prefix("server:").unwrap_or(&key).to_owned())
}

/// Reads a greeting, whatever its key.
#[cfg(feature = "proxy")]
pub(crate) fn receive_any(stream: &mut impl Read) -> Result<Greeting, Fault> {
    expect_client(stream)?;
    parse(&text(stream)?).ok_or_else(|| refused("a key that is no client's"))
}

fn expect_client(stream: &mut impl Read) -> Result<(), Fault> {
    match word(stream)? {
        MAGIC => Ok(()),
        other => Err(refused(&format!("{other:#x} is no greeting of an RPC client"))),
    }
}

/// Tells a client that there is no server of its key.
pub(crate) fn mismatch(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(&MISMATCH.to_le_bytes())
}

/// The bytes that a side greets with.
#[cfg(feature = "proxy")]
pub(crate) fn head(key: &str) -> Vec<u8> {
    let mut bytes = vec![];
    send(&mut bytes, MAGIC, key).expect("a vector takes all");
    bytes
}

/// The key in a server's greeting, once it is complete, without `server:` and options.
#[cfg(feature = "proxy")]
pub(crate) fn server_key(mut greeting: &[u8]) -> Result<Option<String>, Fault> {
    let whole = greeting.get(4..8).map(|length| {
        let length = i32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        8_u64.saturating_add(u64::try_from(length).unwrap_or(u64::MAX))
    });
    let is_greeting = greeting.len() < 4 || greeting[..4] == MAGIC.to_le_bytes();
    if is_greeting
        && whole.is_none_or(|whole| whole <= MAX_KEY + 8 && whole > greeting.len() as u64)
    {
        return Ok(None);
    }
    if word(&mut greeting)? != MAGIC {
        return Err(refused("no greeting of an RPC server"));
    }
    let key = text(&mut greeting)?;
    let name = key.strip_prefix("server:").and_then(|key| key.split(' ').next());
    match name.filter(|_| greeting.is_empty()) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(refused("a key that is no server's")),
    }
}

/// Reads a greeting; `None` if it names another key than the server's, which the client was told.
pub fn receive(stream: &mut (impl Read + Write), key: &str) -> Result<Option<Greeting>, Fault> {
    expect_client(stream)?;
    let greeting = parse(&text(stream)?);
    if greeting.as_ref().is_none_or(|greeting| greeting.key != key) {
        mismatch(stream)?;
        return Ok(None);
    }
    Ok(greeting)
}

/// Accepts a client.
pub fn accept(stream: &mut impl Write, key: &str) -> io::Result<()> {
    send(stream, MAGIC, &format!("server:{key}"))
}

/// Reads `client:KEY -timeout=SECONDS`.
fn parse(text: &str) -> Option<Greeting> {
    let mut words = text.split(' ');
    let key = words.next()?.strip_prefix("client:")?.to_owned();
    let seconds = words.find_map(|word| word.strip_prefix("-timeout="));
    let timeout = seconds.and_then(|text| text.parse::<f64>().ok()).filter(|s| *s > 0.0);
    Some(Greeting { key, timeout: timeout.and_then(|s| Duration::try_from_secs_f64(s).ok()) })
}

fn send(stream: &mut impl Write, word: i32, key: &str) -> io::Result<()> {
    let mut bytes = word.to_le_bytes().to_vec();
    bytes.extend((key.len() as i32).to_le_bytes());
    bytes.extend(key.as_bytes());
    stream.write_all(&bytes)?;
    stream.flush()
}

fn word(stream: &mut impl Read) -> io::Result<i32> {
    let mut word = [0; 4];
    stream.read_exact(&mut word)?;
    Ok(i32::from_le_bytes(word))
}

fn text(stream: &mut impl Read) -> Result<String, Fault> {
    let count = u64::try_from(word(stream)?).unwrap_or(u64::MAX);
    check("key bytes", count, MAX_KEY).map_err(Fault::Stream)?;
    let mut bytes = vec![0; count as usize];
    stream.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| refused("a key that is not UTF-8"))
}

fn refused(what: &str) -> Fault {
    Fault::Stream(Error::new("ConnectionError", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that one side reads, and those that it has written.
    struct Pipe<'a>(&'a [u8], Vec<u8>);

    impl Read for Pipe<'_> {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            self.0.read(target)
        }
    }

    impl Write for Pipe<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_sides_agree() {
        let greeting = Greeting { key: "a".to_owned(), timeout: Some(Duration::from_secs(3)) };
        let mut answer = vec![];
        accept(&mut answer, "a").unwrap();
        let mut client = Pipe(&answer, vec![]);
        assert_eq!(greet(&mut client, &greeting).unwrap(), "a");
        let mut server = Pipe(&client.1, vec![]);
        assert_eq!(receive(&mut server, "a").unwrap(), Some(greeting.clone()));
        let mut server = Pipe(&client.1, vec![]);
        assert_eq!(receive(&mut server, "b").unwrap(), None);
        let error = greet(&mut Pipe(&server.1, vec![]), &greeting).unwrap_err();
        assert!(error.to_string().contains("no key"), "{error}");
    }

    #[test]
    fn hostile_greetings_are_refused() {
        let huge = [&MAGIC.to_le_bytes()[..], &i32::MAX.to_le_bytes()].concat();
        let negative = [&MAGIC.to_le_bytes()[..], &(-1_i32).to_le_bytes()].concat();
        for bytes in [&huge[..], &negative, b"GET / HTTP/1.1", b"", &huge[..5]] {
            assert!(receive(&mut Pipe(bytes, vec![]), "").is_err());
        }
        assert_eq!(parse("client: -timeout=nan").unwrap().timeout, None);
        assert_eq!(parse("client: -timeout=1e300").unwrap().timeout, None);
        assert!(parse("server:x").is_none());
    }
}

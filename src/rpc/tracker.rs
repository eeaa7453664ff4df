//! The tracker: servers register under a key, and clients that ask for that key get one of them.
//!
//! Messages are JSON lists that begin with a number; each has a length in front.

use std::io::{Read, Write};

use reflex_runtime::error::Error;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::limits::check;

pub mod client;
pub mod queue;
pub mod server;

/// The first word of both sides.
pub const MAGIC: i32 = 0x2_F271;
/// Most bytes of a message.
pub const MAX_MESSAGE: u64 = 1 << 20;
/// Most bytes of a key.
const MAX_KEY: u64 = 256;

/// A request to a tracker.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Asks whether the tracker answers.
    Ping,
    /// Asks the tracker to stop.
    Stop,
    /// Offers a server that is free.
    Put {
        /// The key that clients ask for.
        key: String,
        /// The server's port.
        port: u16,
        /// The key that the client will send to the server.
        match_key: String,
        /// The server's address, if it is not the one that it connects from.
        address: Option<String>,
    },
    /// Asks for a server.
    Request {
        /// The key that servers registered under.
        key: String,
        /// Higher ones are served first.
        priority: i64,
    },
    /// Tells a server's own key and port, for the summary.
    Update {
        /// Its key, `server:` in front.
        key: String,
        /// Its address: a host or null, and a port.
        address: Value,
    },
    /// Asks for all keys and servers.
    Summary,
    /// Asks for the keys of this connection that no client has taken.
    PendingKeys,
}

impl Request {
    /// The request that a message is.
    pub fn parse(bytes: &[u8]) -> Result<Request, Error> {
        let malformed = || Error::value_error("not a tracker's request");
        let message: Vec<Value> = serde_json::from_slice(bytes).map_err(|_| malformed())?;
        let text = |at: usize| {
            let text = message.get(at).and_then(Value::as_str).ok_or_else(malformed)?;
            check("key bytes", text.len() as u64, MAX_KEY)?;
            Ok(text.to_owned())
        };
        Ok(match message.first().and_then(Value::as_i64).ok_or_else(malformed)? {
            1 => Request::Ping,
            2 => Request::Stop,
            3 => {
                let offer = message.get(2).and_then(Value::as_array).ok_or_else(malformed)?;
                let [port, match_key] = &offer[..] else { return Err(malformed()) };
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                let match_key = match_key.as_str().ok_or_else(malformed)?.to_owned();
                check("key bytes", match_key.len() as u64, MAX_KEY)?;
                let address = match message.get(3) {
                    None | Some(Value::Null) => None,
                    Some(_) => Some(text(3)?),
                };
                Request::Put {
                    key: text(1)?,
                    port: port.ok_or_else(malformed)?,
                    match_key,
                    address,
                }
            }
            4 => {
                let priority = message.get(3).and_then(Value::as_i64).unwrap_or(1);
                Request::Request { key: text(1)?, priority }
            }
            5 => {
                let info = message.get(1).ok_or_else(malformed)?;
                let key = info["key"].as_str().ok_or_else(malformed)?.to_owned();
                check("key bytes", key.len() as u64, MAX_KEY)?;
                let address = parse_address(&info["addr"]).ok_or_else(malformed)?;
                Request::Update { key, address }
            }
            6 => Request::Summary,
            7 => Request::PendingKeys,
            other => return Err(Error::value_error(format!("a tracker knows no request {other}"))),
        })
    }

    /// The message.
    pub fn to_json(&self) -> Value {
        match self {
            Request::Ping => json!([1]),
            Request::Stop => json!([2, ""]),
            Request::Put { key, port, match_key, address } => {
                json!([3, key, [port, match_key], address])
            }
            Request::Request { key, priority } => json!([4, key, "", priority]),
            Request::Update { key, address } => json!([5, { "key": key, "addr": address }]),
            Request::Summary => json!([6]),
            Request::PendingKeys => json!([7]),
        }
    }
}

/// A host or null, and a port.
fn parse_address(value: &Value) -> Option<Value> {
    let [host, port] = &value.as_array()?[..] else { return None };
    let host_fits = host.is_null() || host.as_str().is_some_and(|h| h.len() as u64 <= MAX_KEY);
    (host_fits && port.as_u64().is_some_and(|port| port <= 65535)).then(|| value.clone())
}

/// Writes a message.
pub fn send(message: &Value, out: &mut impl Write) -> std::io::Result<()> {
    let text = message.to_string();
    let mut bytes = (text.len() as i32).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    out.write_all(&bytes)?;
    out.flush()
}

/// Reads a message. Memory grows with what arrives.
pub fn receive(input: &mut impl Read) -> Result<Vec<u8>, Fault> {
    let mut word = [0; 4];
    input.read_exact(&mut word)?;
    let size = u64::try_from(i32::from_le_bytes(word)).unwrap_or(u64::MAX);
    check("message bytes", size, MAX_MESSAGE).map_err(Fault::Stream)?;
    let mut bytes = vec![];
    let read = input.take(size).read_to_end(&mut bytes)?;
    match read as u64 == size {
        true => Ok(bytes),
        false => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbtest::arbtest;

    #[test]
    fn requests_make_the_round_trip() {
        let key = || "k".to_owned();
        for request in [
            Request::Ping,
            Request::Stop,
            Request::Put { key: key(), port: 9090, match_key: "k:1".to_owned(), address: None },
            Request::Put { key: key(), port: 1, match_key: key(), address: Some(key()) },
            Request::Request { key: key(), priority: 3 },
            Request::Update { key: "server:k".to_owned(), address: json!([null, 9090]) },
            Request::Summary,
            Request::PendingKeys,
        ] {
            let text = request.to_json().to_string();
            assert_eq!(Request::parse(text.as_bytes()).unwrap(), request);
        }
    }

    #[test]
    fn hostile_messages_are_refused() {
        let long = format!("[4, \"{}\", \"\", 1]", "x".repeat(300));
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{}",
            "[]",
            "[8]",
            "[3]",
            "[3,\"k\",[1]]",
            "[3,\"k\",[70000,\"m\"],null]",
            "[5,{}]",
            "[5,{\"key\":\"k\",\"addr\":[1,2]}]",
            "[\"1\"]",
            "[1.5]",
            &long,
            &deep,
        ] {
            assert!(Request::parse(text.as_bytes()).is_err(), "{text:.80}");
        }
        for bytes in [&(-1_i32).to_le_bytes()[..], &i32::MAX.to_le_bytes(), &[1, 0]] {
            assert!(receive(&mut &*bytes).is_err());
        }
        arbtest(|u| {
            drop(Request::parse(u.bytes(u.len())?));
            Ok(())
        });
    }
}

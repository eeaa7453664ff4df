//! A connection to a tracker, for servers and for clients.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use reflex_runtime::error::Error;
use serde_json::{Value, json};

use super::{MAGIC, Request, receive, send};
use crate::fault::Fault;
use crate::secure::ClientTls;

/// The longest wait for an answer that comes at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a tracker.
pub struct TrackerClient(UnixStream);

/// A server that the tracker has handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// `host:port`.
    pub address: String,
    /// The key to greet it with.
    pub match_key: String,
}

impl TrackerClient {
    /// Connects to `host:port`.
    pub fn connect(address: &str) -> Result<TrackerClient, Error> {
        TrackerClient::open(address, None)
    }

    /// Connects to `host:port` by TLS, with a token.
    pub fn connect_secure(address: &str, tls: &ClientTls) -> Result<TrackerClient, Error> {
        TrackerClient::open(address, Some(tls))
    }

    fn open(address: &str, tls: Option<&ClientTls>) -> Result<TrackerClient, Error> {
        let connect = || -> Result<UnixStream, Fault> {
            let found = address.to_socket_addrs()?.next();
            let none = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
            let stream = TcpStream::connect_timeout(&found.ok_or(none)?, ANSWER_TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            let mut stream = match tls {
                Some(tls) => tls.connect(address, stream)?.into_local()?,
                // Nothing but reading, writing and timeouts is asked of it.
                None => UnixStream::from(OwnedFd::from(stream)),
            };
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.write_all(&MAGIC.to_le_bytes())?;
            let mut word = [0; 4];
            stream.read_exact(&mut word)?;
            match i32::from_le_bytes(word) == MAGIC {
                true => Ok(stream),
                false => Err(Fault::Stream(Error::new("ConnectionError", "it is not a tracker"))),
            }
        };
        let at = |fault: Fault| {
            let error = fault.into_error();
            Error::new(&error.kind(), format!("tracker {address}: {}", error.message()))
        };
        connect().map(TrackerClient).map_err(at)
    }

    fn ask(&mut self, request: &Request) -> Result<Value, Error> {
        self.exchange(request).map_err(Fault::into_error)
    }

    fn exchange(&mut self, request: &Request) -> Result<Value, Fault> {
        send(&request.to_json(), &mut self.0)?;
        let answer = receive(&mut self.0)?;
        let malformed = |_| Fault::Stream(Error::value_error("the tracker's answer is no JSON"));
        serde_json::from_slice(&answer).map_err(malformed)
    }

    /// Waits for a server with this key, for at most `timeout`.
    pub fn request(
        &mut self,
        key: &str,
        priority: i64,
        timeout: Option<Duration>,
    ) -> Result<Found, Error> {
        let failed = |e: std::io::Error| Fault::Connection(e).into_error();
        self.0.set_read_timeout(timeout).map_err(failed)?;
        let answer = self.exchange(&Request::Request { key: key.to_owned(), priority });
        self.0.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        let waited = |fault| match fault {
            Fault::Connection(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                Error::new("TimeoutError", format!("no server with the key {key:?} became free"))
            }
            other => other.into_error(),
        };
        let answer = answer.map_err(waited)?;
        let malformed = || Error::new("RPCError", format!("the tracker answered {answer}"));
        let [host, port, match_key] = answer[1].as_array().map_or(&[][..], Vec::as_slice) else {
            return Err(malformed());
        };
        let (host, match_key) = (host.as_str(), match_key.as_str());
        let port = port.as_u64().ok_or_else(malformed)?;
        Ok(Found {
            address: format!("{}:{port}", host.ok_or_else(malformed)?),
            match_key: match_key.ok_or_else(malformed)?.to_owned(),
        })
    }

    /// Keys with their counts, and servers.
    pub fn summary(&mut self) -> Result<Value, Error> {
        Ok(self.ask(&Request::Summary)?[1].take())
    }

    /// Says that a server with `key` listens on `port`, of `host` or of where this connects from.
    pub fn update(&mut self, key: &str, host: Option<&str>, port: u16) -> Result<(), Error> {
        let address = json!([host, port]);
        self.ask(&Request::Update { key: format!("server:{key}"), address }).map(drop)
    }

    /// Offers the server on `port`, of `host` or of where this connects from, to one client, which will
    /// greet it with `match_key`.
    pub fn put(
        &mut self,
        key: &str,
        host: Option<&str>,
        port: u16,
        match_key: &str,
    ) -> Result<(), Error> {
        let (key, match_key) = (key.to_owned(), match_key.to_owned());
        let address = host.map(str::to_owned);
        self.ask(&Request::Put { key, port, match_key, address }).map(drop)
    }

    /// Whether no client has taken the offer of `match_key`.
    pub fn is_pending(&mut self, match_key: &str) -> Result<bool, Error> {
        let answer = self.ask(&Request::PendingKeys)?;
        let keys = answer.as_array().map_or(&[][..], Vec::as_slice);
        Ok(keys.iter().any(|key| key.as_str() == Some(match_key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::server::Tracker;
    use std::net::TcpListener;

    #[test]
    fn servers_are_handed_to_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || Tracker::default().run(&listener));
        let mut server = TrackerClient::connect(&address).unwrap();
        server.update("k", None, 9090).unwrap();
        let mut client = TrackerClient::connect(&address).unwrap();
        let error = client.request("k", 1, Some(Duration::from_millis(50))).unwrap_err();
        assert_eq!(error.kind(), "TimeoutError");
        drop(client);
        // An offer would go to a client that waits, also to one that the tracker does not know has gone.
        while server.summary().unwrap()["queue_info"]["k"]["pending"] != json!(0) {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.put("k", None, 9090, "k:1").unwrap();
        assert!(server.is_pending("k:1").unwrap());
        let mut client = TrackerClient::connect(&address).unwrap();
        let found = client.request("k", 1, Some(Duration::from_secs(5))).unwrap();
        assert_eq!((&*found.address, &*found.match_key), ("127.0.0.1:9090", "k:1"));
        assert!(!server.is_pending("k:1").unwrap());
        let summary = client.summary().unwrap();
        assert_eq!(summary["server_info"][0]["key"], "server:k");
    }

    /// A connection that sends what is no request ends; others go on.
    #[test]
    fn hostile_connections_end_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || Tracker::default().run(&listener));
        let mut good = TrackerClient::connect(&address).unwrap();
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x71, 0xf2, 2, 0, 0xff, 0xff, 0xff, 0x7f]] {
            let mut bad = TcpStream::connect(&address).unwrap();
            bad.write_all(bytes).unwrap();
            let mut rest = vec![];
            // The end comes at once, as a reset or not.
            drop(bad.read_to_end(&mut rest));
        }
        assert!(good.summary().is_ok());
    }
}

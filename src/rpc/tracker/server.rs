//! The tracker's server: a thread for each connection, one table for all.
//!
//! With TLS a second thread moves the bytes of a connection, and clients give a token first.
//!
//! Decision: docs/decisions/0064-tls-and-tokens.md

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use reflex_runtime::error::Error;

use super::queue::{Answers, Connection, Queues};
use super::{MAGIC, Request, receive, send};
use crate::fault::Fault;
use crate::limits::check;
use crate::secure::{ServerTls, Token};

/// Most connections at once.
const MAX_CONNECTIONS: u64 = 1024;
/// The longest wait for a first word, and for a client that does not read its answers.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Shared {
    queues: Queues,
    streams: HashMap<Connection, Arc<Mutex<UnixStream>>>,
    next: Connection,
    /// Connections, those that are still being admitted among them.
    open: u64,
    /// Connections of each token.
    of_token: HashMap<String, usize>,
}

/// A tracker.
#[derive(Clone, Default)]
pub struct Tracker {
    shared: Arc<Mutex<Shared>>,
    secure: Option<ServerTls>,
}

impl Tracker {
    /// A tracker whose clients connect by TLS, with a token.
    pub fn secure(tls: ServerTls) -> Tracker {
        Tracker { secure: Some(tls), ..Tracker::default() }
    }

    /// Serves connections until the listener fails.
    pub fn run(&self, listener: &TcpListener) -> std::io::Result<()> {
        loop {
            let (stream, _) = listener.accept()?;
            let tracker = self.clone();
            // A connection that ends, in whatever way, concerns no other one. A thread that cannot
            // be started ends its connection.
            drop(thread::Builder::new().name("tracker".to_owned()).spawn(move || {
                drop(tracker.serve(stream));
            }));
        }
    }

    fn serve(&self, stream: TcpStream) -> Result<(), Fault> {
        let _open = self.open()?;
        let peer = stream.peer_addr()?.ip().to_string();
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let Some(secure) = &self.secure else {
            // Nothing but reading, writing and shutting down is asked of it.
            return self.speak(&peer, UnixStream::from(OwnedFd::from(stream)));
        };
        let admitted = secure.admit(stream)?;
        let _own = match self.open_of(&admitted.token) {
            Ok(own) => own,
            Err(error) => {
                admitted.refuse(&error.message());
                return Err(error.into());
            }
        };
        let local = admitted.accept()?.into_local()?;
        local.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        local.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        self.speak(&peer, local)
    }

    /// Counts a connection, unless there are too many.
    fn open(&self) -> Result<Open<'_>, Fault> {
        let mut shared = self.shared.lock();
        check("tracker connections", shared.open + 1, MAX_CONNECTIONS)?;
        shared.open += 1;
        Ok(Open { tracker: self, token: None })
    }

    /// Counts a connection of a token, unless there are as many as its sessions.
    fn open_of(&self, token: &Token) -> Result<Open<'_>, Error> {
        let mut shared = self.shared.lock();
        let count = shared.of_token.get(&token.name).copied().unwrap_or(0);
        check("connections of a token", count as u64 + 1, token.sessions as u64)?;
        shared.of_token.insert(token.name.clone(), count + 1);
        Ok(Open { tracker: self, token: Some(token.name.clone()) })
    }

    fn speak(&self, peer: &str, mut stream: UnixStream) -> Result<(), Fault> {
        let mut word = [0; 4];
        stream.read_exact(&mut word)?;
        if i32::from_le_bytes(word) != MAGIC {
            return Err(Fault::Stream(Error::value_error("not a tracker's client")));
        }
        stream.write_all(&MAGIC.to_le_bytes())?;
        stream.set_read_timeout(None)?;
        let connection = self.enter(&stream)?;
        let outcome = self.converse(connection, peer, stream);
        self.leave(connection);
        outcome
    }

    fn enter(&self, stream: &UnixStream) -> Result<Connection, Fault> {
        let mut shared = self.shared.lock();
        shared.next += 1;
        let connection = shared.next;
        shared.streams.insert(connection, Arc::new(Mutex::new(stream.try_clone()?)));
        Ok(connection)
    }

    fn leave(&self, connection: Connection) {
        let mut shared = self.shared.lock();
        shared.streams.remove(&connection);
        shared.queues.forget(connection);
    }

    fn converse(
        &self,
        connection: Connection,
        peer: &str,
        stream: UnixStream,
    ) -> Result<(), Fault> {
        let mut input = BufReader::new(stream);
        loop {
            let request = Request::parse(&receive(&mut input)?)?;
            let answers = self.shared.lock().queues.take(connection, peer, request)?;
            self.deliver(answers);
        }
    }

    /// Sends answers, each to its connection; one that does not take its answer is ended.
    fn deliver(&self, answers: Answers) {
        for (connection, answer) in answers {
            let Some(stream) = self.shared.lock().streams.get(&connection).cloned() else {
                continue;
            };
            let mut stream = stream.lock();
            if send(&answer, &mut *stream).is_err() {
                drop(stream.shutdown(std::net::Shutdown::Both));
            }
        }
    }
}

/// A connection that counts until this is dropped: among all, or among those of a token.
struct Open<'a> {
    tracker: &'a Tracker,
    token: Option<String>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut shared = self.tracker.shared.lock();
        let Some(token) = &self.token else {
            shared.open -= 1;
            return;
        };
        if let Some(count) = shared.of_token.get_mut(token) {
            *count -= 1;
        }
        shared.of_token.retain(|_, count| *count > 0);
    }
}

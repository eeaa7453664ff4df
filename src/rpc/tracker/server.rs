//! The tracker's server: a thread for each connection, one table for all.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use reflex_runtime::error::Error;

use super::queue::{Answers, Connection, Queues};
use super::{MAGIC, Request, receive, send};
use crate::fault::Fault;
use crate::limits::check;

/// Most connections at once.
const MAX_CONNECTIONS: u64 = 1024;
/// The longest wait for a first word, and for a client that does not read its answers.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Shared {
    queues: Queues,
    streams: HashMap<Connection, Arc<Mutex<TcpStream>>>,
    next: Connection,
}

/// A tracker.
#[derive(Clone, Default)]
pub struct Tracker(Arc<Mutex<Shared>>);

impl Tracker {
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

    fn serve(&self, mut stream: TcpStream) -> Result<(), Fault> {
        let peer = stream.peer_addr()?.ip().to_string();
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let mut word = [0; 4];
        stream.read_exact(&mut word)?;
        if i32::from_le_bytes(word) != MAGIC {
            return Err(Fault::Stream(Error::value_error("not a tracker's client")));
        }
        stream.write_all(&MAGIC.to_le_bytes())?;
        stream.set_read_timeout(None)?;
        let connection = self.enter(&stream)?;
        let outcome = self.converse(connection, &peer, stream);
        self.leave(connection);
        outcome
    }

    fn enter(&self, stream: &TcpStream) -> Result<Connection, Fault> {
        let mut shared = self.0.lock();
        check("tracker connections", shared.streams.len() as u64 + 1, MAX_CONNECTIONS)?;
        shared.next += 1;
        let connection = shared.next;
        shared.streams.insert(connection, Arc::new(Mutex::new(stream.try_clone()?)));
        Ok(connection)
    }

    fn leave(&self, connection: Connection) {
        let mut shared = self.0.lock();
        shared.streams.remove(&connection);
        shared.queues.forget(connection);
    }

    fn converse(&self, connection: Connection, peer: &str, stream: TcpStream) -> Result<(), Fault> {
        let mut input = BufReader::new(stream);
        loop {
            let request = Request::parse(&receive(&mut input)?)?;
            let answers = self.0.lock().queues.take(connection, peer, request)?;
            self.deliver(answers);
        }
    }

    /// Sends answers, each to its connection; one that does not take its answer is ended.
    fn deliver(&self, answers: Answers) {
        for (connection, answer) in answers {
            let Some(stream) = self.0.lock().streams.get(&connection).cloned() else { continue };
            let mut stream = stream.lock();
            if send(&answer, &mut *stream).is_err() {
                drop(stream.shutdown(std::net::Shutdown::Both));
            }
        }
    }
}

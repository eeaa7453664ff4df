//! A proxy for servers that cannot listen, such as one in a browser: a server connects by WebSocket and waits, a client
//! connects by TCP as to any server, and the proxy pairs those of a key and passes their bytes on.
//!
//! The proxy of TVM (`tvm.exec.rpc_proxy`) speaks the same on both sides.
//!
//! Decision: docs/decisions/0104-webassembly.md

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::{Message, WebSocket};

use crate::fault::Fault;
use crate::handshake::{self, Greeting};

/// The path of the WebSocket.
const PATH: &str = "/ws";
/// The longest that a greeting may take.
const GREETING: Duration = Duration::from_secs(10);
/// The longest that a client waits for a server of its key: a page that has served one connects anew.
const WAIT: Duration = Duration::from_secs(10);
/// The time between questions whether a server that waits is still there.
const ALIVE: Duration = Duration::from_millis(200);
/// Most servers that wait, and most connections that have not greeted yet or are paired.
const MOST_SERVERS: usize = 64;
const MOST_CONNECTIONS: usize = 256;
/// Bytes that are read at once from a client: a message to its server.
const CHUNK: usize = 64 << 10;
/// Most bytes of a server's greeting.
const MAX_GREETING: usize = 4096 + 8;

/// A client that has greeted.
struct Client {
    stream: TcpStream,
    greeting: Greeting,
}

/// The servers that wait, by key, with a number each.
#[derive(Default)]
struct Waiting {
    servers: HashMap<String, (u64, Sender<Client>)>,
    next: u64,
}

/// The servers that wait for clients.
#[derive(Default)]
pub struct Proxy {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    connections: Mutex<usize>,
    /// Sites whose pages may serve, besides those of this machine.
    origins: Vec<String>,
}

/// A connection that is counted.
struct Counted<'a>(&'a Proxy);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.0.connections.lock() -= 1;
    }
}

impl Proxy {
    /// A proxy for pages of this machine, and of these sites, such as `https://example.org`.
    pub fn new(origins: Vec<String>) -> Proxy {
        Proxy { origins, ..Proxy::default() }
    }

    /// Serves until a listener fails: clients at the first, servers at the second.
    pub fn run(self, clients: TcpListener, servers: &TcpListener) -> io::Result<()> {
        let proxy = Arc::new(self);
        let of_clients = Arc::clone(&proxy);
        thread::Builder::new().name("reflex-proxy".to_owned()).spawn(move || {
            of_clients.listen(&clients, |proxy, stream| drop(proxy.client(stream)))
        })?;
        proxy.listen(servers, |proxy, stream| drop(proxy.server(stream)))
    }

    fn listen(
        self: &Arc<Self>,
        listener: &TcpListener,
        each: fn(&Proxy, TcpStream),
    ) -> io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                // A connection that was given up, or too many files: the next one may do.
                Err(_) => {
                    thread::sleep(ALIVE);
                    continue;
                }
            };
            {
                let mut connections = self.connections.lock();
                if *connections >= MOST_CONNECTIONS {
                    continue;
                }
                *connections += 1;
            }
            let proxy = Arc::clone(self);
            let work = move || {
                let _counted = Counted(&proxy);
                each(&proxy, stream);
            };
            if thread::Builder::new().name("reflex-proxied".to_owned()).spawn(work).is_err() {
                *self.connections.lock() -= 1;
            }
        }
    }

    /// Hands a client to the server of its key.
    fn client(&self, mut stream: TcpStream) -> Result<(), Fault> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING))?;
        let greeting = handshake::receive_any(&mut stream)?;
        let deadline = Instant::now() + WAIT;
        let mut waiting = self.waiting.lock();
        let server = loop {
            if let Some((_, server)) = waiting.servers.remove(&greeting.key) {
                break server;
            }
            if self.arrived.wait_until(&mut waiting, deadline).timed_out() {
                drop(waiting);
                return Ok(handshake::mismatch(&mut stream)?);
            }
        };
        drop(waiting);
        // A server that has gone meanwhile leaves the client without an answer, which it sees as an end.
        drop(server.send(Client { stream, greeting }));
        Ok(())
    }

    /// Waits with a server for a client, and passes bytes on.
    fn server(&self, stream: TcpStream) -> Result<(), Fault> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING))?;
        #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
        let check = |request: &Request, response: Response| match self.refusal(request) {
            None => Ok(response),
            Some((status, text)) => {
                let mut refusal = ErrorResponse::new(Some(text.to_owned()));
                *refusal.status_mut() = status;
                Err(refusal)
            }
        };
        let socket = tungstenite::accept_hdr(stream, check);
        let mut socket =
            socket.map_err(|e| io::Error::new(ErrorKind::InvalidData, e.to_string()))?;
        let key = server_key(&mut socket)?;
        let (sender, clients) = channel();
        let number = {
            let mut waiting = self.waiting.lock();
            let servers = &waiting.servers;
            if servers.len() >= MOST_SERVERS || servers.contains_key(&key) {
                drop(waiting);
                let word = handshake::DUPLICATE.to_le_bytes().to_vec();
                return Ok(send(&mut socket, word)?);
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.servers.insert(key.clone(), (number, sender));
            self.arrived.notify_all();
            number
        };
        let client = wait_for_client(&mut socket, &clients);
        if client.is_err() {
            // The server has gone; its key may be another one's by now.
            let mut waiting = self.waiting.lock();
            if waiting.servers.get(&key).is_some_and(|(of, _)| *of == number) {
                waiting.servers.remove(&key);
            }
        }
        let Client { mut stream, greeting } = client?;
        handshake::accept(&mut stream, &key)?;
        send(&mut socket, handshake::head(&format!("client:{}", greeting.key)))?;
        Ok(relay(&mut socket, &stream)?)
    }

    /// Why a server is refused. A page may serve if its site is on this machine or among those that were named; what
    /// is no page says no site.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        if request.uri().path() != PATH {
            return Some((StatusCode::NOT_FOUND, "servers connect to /ws"));
        }
        let site = request.headers().get("origin")?.to_str().unwrap_or("?");
        let is_known = is_local(site) || self.origins.iter().any(|known| known == site);
        let text = "pages of this site may not serve: --origin names those that may";
        (!is_known).then_some((StatusCode::FORBIDDEN, text))
    }
}

/// Whether a page's site is on this machine: another one's could pose as a server.
fn is_local(site: &str) -> bool {
    let host = site.strip_prefix("http://").or_else(|| site.strip_prefix("https://"));
    let host = host.map(|rest| {
        rest.rsplit_once(':').map_or(rest, |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) { host } else { rest }
        })
    });
    matches!(host, Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// The key that a server greets with.
fn server_key(socket: &mut WebSocket<TcpStream>) -> Result<String, Fault> {
    let mut bytes = vec![];
    loop {
        match read(socket)? {
            Some(Message::Binary(part)) => bytes.extend_from_slice(&part),
            Some(Message::Close(_)) | None => {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            Some(_) => {}
        }
        if bytes.len() > MAX_GREETING {
            return Err(io::Error::from(ErrorKind::InvalidData).into());
        }
        if let Some(key) = handshake::server_key(&bytes)? {
            return Ok(key);
        }
    }
}

/// A client for a server that waits; an error if the server has gone.
fn wait_for_client(
    socket: &mut WebSocket<TcpStream>,
    clients: &Receiver<Client>,
) -> Result<Client, Fault> {
    socket.get_ref().set_nonblocking(true)?;
    loop {
        match clients.recv_timeout(ALIVE) {
            Ok(client) => {
                socket.get_ref().set_nonblocking(false)?;
                return Ok(client);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::from(ErrorKind::BrokenPipe).into());
            }
        }
        // Nothing may come before a client does.
        match read(socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(Some(Message::Ping(_) | Message::Pong(_))) => {}
            Ok(_) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The next message; none at the end of the connection.
fn read(socket: &mut WebSocket<TcpStream>) -> io::Result<Option<Message>> {
    match socket.read() {
        Ok(message) => Ok(Some(message)),
        Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => Ok(None),
        Err(tungstenite::Error::Io(error)) => Err(error),
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error.to_string())),
    }
}

/// Sends a message; what the connection does not take now is kept for `flush`.
fn send(socket: &mut WebSocket<TcpStream>, bytes: Vec<u8>) -> io::Result<()> {
    match socket.send(Message::Binary(bytes.into())) {
        Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(tungstenite::Error::Io(error)) => Err(error),
        Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error.to_string())),
        Ok(()) => Ok(()),
    }
}

/// Passes bytes on until a side ends.
fn relay(socket: &mut WebSocket<TcpStream>, client: &TcpStream) -> io::Result<()> {
    socket.get_ref().set_nonblocking(true)?;
    client.set_nonblocking(true)?;
    let mut chunk = vec![0; CHUNK];
    let (mut to_client, mut left): (Vec<u8>, Range<usize>) = (vec![], 0..0);
    loop {
        let to_server = match socket.flush() {
            Ok(()) => false,
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => true,
            Err(_) => return Ok(()),
        };
        let mut progress = false;
        if left.is_empty() {
            match read(socket) {
                Ok(Some(Message::Binary(bytes))) => {
                    (left, to_client) = (0..bytes.len(), bytes.into());
                    progress = true;
                }
                Ok(Some(Message::Ping(_) | Message::Pong(_))) => progress = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Text is not of the protocol.
                _ => return Ok(()),
            }
        }
        match (&*client).write(&to_client[left.clone()]) {
            Ok(written) => {
                left.start += written;
                progress |= written > 0;
            }
            Err(error) if is_retry(&error) => {}
            Err(_) => return Ok(()),
        }
        if !to_server {
            match (&*client).read(&mut chunk) {
                Ok(0) => {
                    drop(socket.close(None));
                    drop(socket.flush());
                    return Ok(());
                }
                Ok(count) => {
                    send(socket, chunk[..count].to_vec())?;
                    progress = true;
                }
                Err(error) if is_retry(&error) => {}
                Err(_) => return Ok(()),
            }
        }
        if !progress {
            wait(socket.get_ref(), client, to_server, !left.is_empty())?;
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until a side can go on.
fn wait(
    server: &TcpStream,
    client: &TcpStream,
    to_server: bool,
    to_client: bool,
) -> io::Result<()> {
    let flags = |out: bool, read: bool| {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, out);
        flags.set(PollFlags::IN, read);
        flags
    };
    let mut sides = [
        PollFd::new(server, flags(to_server, !to_client)),
        PollFd::new(client, flags(to_client, !to_server)),
    ];
    let long = Timespec { tv_sec: 60, tv_nsec: 0 };
    match poll(&mut sides, Some(&long)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy's addresses, for clients and for servers.
    fn proxy() -> [String; 2] {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|at| listeners[at].local_addr().unwrap().to_string());
        thread::spawn(move || {
            let [clients, servers] = listeners;
            Proxy::default().run(clients, &servers)
        });
        addresses
    }

    fn server(
        address: &str,
        key: &str,
    ) -> WebSocket<tungstenite::stream::MaybeTlsStream<TcpStream>> {
        let (mut socket, _) = tungstenite::connect(format!("ws://{address}/ws")).unwrap();
        let greeting = handshake::head(&format!("server:{key}"));
        // In pieces, as any stream.
        for part in greeting.chunks(3) {
            socket.send(Message::Binary(part.to_vec().into())).unwrap();
        }
        socket
    }

    fn binary(socket: &mut WebSocket<tungstenite::stream::MaybeTlsStream<TcpStream>>) -> Vec<u8> {
        loop {
            if let Message::Binary(bytes) = socket.read().unwrap() {
                return bytes.into();
            }
        }
    }

    fn client(address: &str, key: &str) -> Result<TcpStream, Fault> {
        let mut stream = TcpStream::connect(address)?;
        let greeting = Greeting { key: key.to_owned(), timeout: None };
        handshake::greet(&mut stream, &greeting)?;
        Ok(stream)
    }

    #[test]
    fn bytes_pass_in_both_directions_until_a_side_ends() {
        let [clients, servers] = proxy();
        let mut waiting = server(&servers, "page");
        let mut stream = client(&clients, "page").unwrap();
        assert_eq!(binary(&mut waiting), handshake::head("client:page"));
        let long: Vec<u8> = (0..3 << 20).map(|at| (at / 7) as u8).collect();
        let echo = thread::spawn({
            let long = long.clone();
            move || {
                let mut arrived = vec![];
                while arrived.len() < long.len() {
                    arrived.extend(binary(&mut waiting));
                }
                assert!(arrived == long);
                waiting.send(Message::Binary(arrived.into())).unwrap();
                waiting
            }
        });
        stream.write_all(&long).unwrap();
        let mut back = vec![0; long.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == long);
        drop(stream);
        let mut waiting = echo.join().unwrap();
        assert!(!matches!(waiting.read(), Ok(Message::Binary(_))), "the end is passed on");
    }

    #[test]
    fn a_client_may_come_first_and_a_key_is_for_one_server() {
        let [clients, servers] = proxy();
        let early = thread::spawn({
            let clients = clients.clone();
            move || client(&clients, "late").map(drop)
        });
        thread::sleep(ALIVE);
        let mut late = server(&servers, "late");
        assert_eq!(binary(&mut late), handshake::head("client:late"));
        early.join().unwrap().unwrap();

        let first = server(&servers, "one");
        // The first one waits before the second one comes.
        thread::sleep(ALIVE);
        let mut second = server(&servers, "one");
        assert_eq!(binary(&mut second), handshake::DUPLICATE.to_le_bytes());
        drop(first);
        // A server that has gone leaves its key.
        thread::sleep(3 * ALIVE);
        let mut third = server(&servers, "one");
        let stream = client(&clients, "one").unwrap();
        assert_eq!(binary(&mut third), handshake::head("client:one"));
        drop(stream);
    }

    #[test]
    fn hostile_peers_end_themselves_alone() {
        let [clients, servers] = proxy();
        // No WebSocket, another path, another site, no greeting, one that is too long.
        TcpStream::connect(&servers).unwrap().write_all(b"\0\0\0\0\r\n\r\n").unwrap();
        assert!(tungstenite::connect(format!("ws://{servers}/other")).is_err());
        let ask = |origin: &str| {
            use tungstenite::client::IntoClientRequest;
            let mut request = format!("ws://{servers}/ws").into_client_request().unwrap();
            request.headers_mut().insert("origin", origin.parse().unwrap());
            tungstenite::connect(request).map(|(socket, _)| socket)
        };
        assert!(
            ask("https://example.org").is_err() && ask("http://localhost.example.org").is_err()
        );
        let mut open: Vec<_> = (0..3).map(|_| ask("http://localhost:8000").unwrap()).collect();
        open[0].send(Message::Binary(vec![7; 64].into())).unwrap();
        let mut long = handshake::head("server:x");
        long[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
        open[1].send(Message::Binary(long.into())).unwrap();
        open[2].send(Message::Text("server".into())).unwrap();
        assert!(
            open[..2].iter_mut().all(|socket| !matches!(socket.read(), Ok(Message::Binary(_))))
        );
        TcpStream::connect(&clients).unwrap().write_all(&[9; 64]).unwrap();
        let mut page = server(&servers, "page");
        let stream = client(&clients, "page").unwrap();
        assert_eq!(binary(&mut page), handshake::head("client:page"));
        drop(stream);
    }

    #[test]
    fn sites_of_this_machine_are_known_by_their_host() {
        for site in
            ["http://localhost", "http://localhost:8000", "https://127.0.0.1:1", "http://[::1]:80"]
        {
            assert!(is_local(site), "{site}");
        }
        for site in [
            "null",
            "?",
            "localhost",
            "http://localhost.evil",
            "http://evil:80",
            "http://127.0.0.1.evil:1",
        ] {
            assert!(!is_local(site), "{site}");
        }
    }
}

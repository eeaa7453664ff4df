//! Bytes between a TLS connection and a local socket, in both directions by one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;

/// Bytes that are read at once from the local side.
const CHUNK: usize = 64 << 10;
/// After one side has ended, the longest wait for the other to take what is left.
const LINGER: Duration = Duration::from_secs(10);

/// Forwards until both sides have ended, or one fails.
///
/// A side that ends is told to the other, which may still send; an error or ten seconds without
/// progress then end both.
pub(super) fn forward(tls: &mut Connection, tcp: &TcpStream, local: &UnixStream) -> io::Result<()> {
    tcp.set_nonblocking(true)?;
    local.set_nonblocking(true)?;
    let mut forwarder = Forwarder {
        tls,
        tcp,
        local,
        to_local: Pending::default(),
        to_tls: Pending { bytes: vec![0; CHUNK], left: 0..0 },
        peer_sends: true,
        local_sends: true,
    };
    let outcome = forwarder.run();
    // Neither side may wait for a connection that is not served any more.
    drop(local.shutdown(std::net::Shutdown::Both));
    drop(tcp.shutdown(std::net::Shutdown::Both));
    outcome
}

/// Bytes on their way: a part of a buffer that is used again and again.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    left: Range<usize>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Writes what the target takes now.
    fn write_to(&mut self, target: &mut impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match target.write(&self.bytes[self.left.clone()]) {
                Ok(0) => break,
                Ok(count) => self.left.start += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

struct Forwarder<'a> {
    tls: &'a mut Connection,
    tcp: &'a TcpStream,
    local: &'a UnixStream,
    to_local: Pending,
    to_tls: Pending,
    /// Whether the peer, and the local side, may send more.
    peer_sends: bool,
    local_sends: bool,
}

impl Forwarder<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.decrypt()?;
            self.to_local.write_to(&mut self.local)?;
            self.encrypt()?;
            if !self.peer_sends && self.to_local.is_empty() {
                // The session reads the end; what it still has to say follows.
                match self.local.shutdown(std::net::Shutdown::Write) {
                    Err(error) if error.kind() != ErrorKind::NotConnected => return Err(error),
                    _ => {}
                }
            }
            if !self.local_sends && self.to_tls.is_empty() && !self.tls.wants_write() {
                return Ok(());
            }
            if !self.wait()? {
                return Err(ErrorKind::TimedOut.into());
            }
            self.receive()?;
        }
    }

    /// Waits until a side can go on; false after too long without.
    fn wait(&self) -> io::Result<bool> {
        let mut from_tcp = PollFlags::empty();
        from_tcp.set(PollFlags::IN, self.peer_sends && self.to_local.is_empty());
        from_tcp.set(PollFlags::OUT, self.tls.wants_write());
        let mut from_local = PollFlags::empty();
        from_local.set(PollFlags::IN, self.local_sends && self.to_tls.is_empty());
        from_local.set(PollFlags::OUT, !self.to_local.is_empty());
        let mut sides = [PollFd::new(self.tcp, from_tcp), PollFd::new(self.local, from_local)];
        // A side without interest would still report its end, again and again.
        let sides = match (from_tcp.is_empty(), from_local.is_empty()) {
            (false, false) => &mut sides[..],
            (false, true) => &mut sides[..1],
            (true, false) => &mut sides[1..],
            (true, true) => &mut sides[..0],
        };
        let ending = !self.peer_sends || !self.local_sends;
        let linger = Timespec { tv_sec: LINGER.as_secs() as i64, tv_nsec: 0 };
        loop {
            match poll(sides, ending.then_some(&linger)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what has come from both sides.
    fn receive(&mut self) -> io::Result<()> {
        if self.peer_sends && self.to_local.is_empty() {
            match self.tls.read_tls(&mut &*self.tcp) {
                Ok(0) => self.peer_sends = false,
                Ok(_) => {}
                Err(error) if is_retry(&error) => {}
                Err(error) => return Err(error),
            }
            let state = self.tls.process_new_packets();
            let state = state.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            self.peer_sends &= !state.peer_has_closed();
        }
        if self.local_sends && self.to_tls.is_empty() {
            match (&mut &*self.local).read(&mut self.to_tls.bytes) {
                Ok(0) => {
                    self.local_sends = false;
                    self.tls.send_close_notify();
                }
                Ok(count) => self.to_tls.left = 0..count,
                Err(error) if is_retry(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes what TLS has deciphered.
    fn decrypt(&mut self) -> io::Result<()> {
        if !self.to_local.is_empty() {
            return Ok(());
        }
        self.to_local.bytes.clear();
        let read = self.tls.reader().read_to_end(&mut self.to_local.bytes);
        self.to_local.left = 0..self.to_local.bytes.len();
        match read {
            Ok(_) => Ok(()),
            // The bytes before the error are there: nothing more has come, or the peer has ended
            // without a word, which the protocol above notices by its own frames.
            Err(error) if is_retry(&error) || error.kind() == ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives TLS what is to be sent, and sends what it has.
    fn encrypt(&mut self) -> io::Result<()> {
        loop {
            self.to_tls.write_to(&mut self.tls.writer())?;
            if !self.tls.wants_write() {
                return Ok(());
            }
            match self.tls.write_tls(&mut &*self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

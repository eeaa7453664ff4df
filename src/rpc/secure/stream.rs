//! A connection whose handshake and first lines are read and written in place.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use rustls::Connection;

use super::forward::forward;

/// A TLS connection over TCP. It blocks.
pub struct SecureStream {
    tls: Connection,
    tcp: TcpStream,
}

impl SecureStream {
    pub(super) fn new(tls: Connection, tcp: TcpStream) -> SecureStream {
        SecureStream { tls, tcp }
    }

    /// The connection below.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Says that nothing follows.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.flush()
    }

    /// Moves bytes between the connection and a local socket until both have ended.
    pub fn forward(mut self, local: &UnixStream) -> io::Result<()> {
        self.tcp.set_read_timeout(None)?;
        self.tcp.set_write_timeout(None)?;
        forward(&mut self.tls, &self.tcp, local)
    }

    /// A local socket whose bytes travel over the connection, by a thread of its own.
    pub fn into_local(self) -> io::Result<UnixStream> {
        let (near, far) = UnixStream::pair()?;
        std::thread::Builder::new().name("tls".to_owned()).spawn(move || {
            // The local side notices the end, and its protocol what is missing.
            drop(self.forward(&far));
        })?;
        Ok(near)
    }
}

impl Read for SecureStream {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(target) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.tls.complete_io(&mut self.tcp)?;
        }
    }
}

impl Write for SecureStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.complete_io(&mut self.tcp)?;
        }
        Ok(())
    }
}

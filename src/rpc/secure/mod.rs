//! Connections off this machine: TLS 1.3, and tokens that say who a client is and what it may do.
//!
//! TLS ends in the process that accepts or connects. [`SecureStream::forward`] moves bytes between it
//! and a local socket, so that sessions, and clients that know no TLS, see an ordinary connection.
//!
//! After the TLS handshake the client sends its token in one line, and the server answers `ok` or
//! the reason of a refusal in another. Then the protocol follows as without TLS.
//!
//! Decision: docs/decisions/0064-tls-and-tokens.md

mod client;
mod forward;
mod server;
mod stream;
mod token;

pub use client::ClientTls;
pub use server::{Admitted, ServerTls};
pub use stream::SecureStream;
pub use token::{Rights, Token, Tokens};

use std::io::{self, Read};
use std::path::Path;

use reflex_runtime::error::Error;

/// Most bytes of a line before the protocol.
const MAX_LINE: usize = 512;

/// Reads a line without its end; longer ones are an error.
fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = vec![];
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => break,
            _ if line.len() == MAX_LINE => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// An error about a file of keys, certificates or tokens.
fn file_error(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::value_error(format!("{}: {why}", path.display()))
}

//! Serving RPC clients: the files of a session, and programs that are loaded from
//! them, with the functions of TVM's virtual machine.
//!
//! Machine code that a client uploads runs only if [`ServeOptions::allow_code`] says so. Models are
//! compiled here, and what this server compiled is code of its own making.
//!
//! Decision: docs/decisions/0055-rpc.md

use std::io::{Read, Write};

use reflex_rpc::fault::Fault;
use reflex_rpc::serve::Server;

use crate::error::{Error, ErrorKind, Result};

mod host;
mod options;

pub use options::ServeOptions;
pub use reflex_rpc::limits::Limits;

/// Serves one client until its session ends; an error unless the client ended it.
///
/// ```
/// use reflex::serve::{self, Limits, ServeOptions};
/// use reflex::{Engine, Mode};
///
/// let folder = tempfile::tempdir().unwrap();
/// let options = ServeOptions {
///     engine: Engine::new()?,
///     mode: Mode::Tiered,
///     folder: folder.path().join("files"),
///     contents: folder.path().join("contents"),
///     models: None,
///     allow_code: false,
///     limits: Limits::default(),
/// };
/// // A client that closes the connection at once.
/// serve::run(options, std::io::empty(), &mut vec![])?;
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn run(options: ServeOptions, input: impl Read, output: &mut impl Write) -> Result<()> {
    let limits = options.limits;
    let end = Server::new(host::ModelHost::new(options), limits).run(input, output);
    end.map(|_| ()).map_err(|fault| failed(&fault))
}

fn failed(fault: &Fault) -> Error {
    Error::new(ErrorKind::Io, format!("the session: {fault}"))
}

/// A client's session over a connection that brings bytes by itself, such as a WebSocket.
pub struct Connection {
    server: Server<host::ModelHost>,
    /// Bytes of a request that has not arrived whole.
    arrived: Vec<u8>,
}

impl Connection {
    /// A session that begins.
    ///
    /// ```
    /// # use reflex::serve::{Connection, Limits, ServeOptions};
    /// # use reflex::{Engine, Mode};
    /// let folder = tempfile::tempdir().unwrap();
    /// let connection = Connection::new(ServeOptions {
    ///     engine: Engine::new()?,
    ///     mode: Mode::Tiered,
    ///     folder: folder.path().join("files"),
    ///     contents: folder.path().join("contents"),
    ///     models: None,
    ///     allow_code: false,
    ///     limits: Limits::default(),
    /// });
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn new(options: ServeOptions) -> Connection {
        let limits = options.limits;
        Connection { server: Server::new(host::ModelHost::new(options), limits), arrived: vec![] }
    }

    /// Takes bytes of the client, serves the requests that are complete with them, and appends the answers to
    /// `output`. Returns false once the client has ended the session; an error ends it too, and `output` may say why.
    ///
    /// ```
    /// # use reflex::serve::{Connection, Limits, ServeOptions};
    /// # use reflex::{Engine, Mode};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let options = ServeOptions {
    /// #     engine: Engine::new()?,
    /// #     mode: Mode::Tiered,
    /// #     folder: folder.path().join("files"),
    /// #     contents: folder.path().join("contents"),
    /// #     models: None,
    /// #     allow_code: false,
    /// #     limits: Limits::default(),
    /// # };
    /// let mut connection = Connection::new(options);
    /// let mut answers = vec![];
    /// // A request of 4 bytes, the code of a shutdown, in two parts.
    /// assert!(connection.receive(&[4, 0, 0, 0, 0, 0, 0, 0, 1], &mut answers)?);
    /// assert!(!connection.receive(&[0, 0, 0], &mut answers)?);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn receive(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<bool> {
        self.arrived.extend(bytes);
        let end = self.server.receive(&mut self.arrived, output);
        Ok(end.map_err(|fault| failed(&fault))?.is_none())
    }
}

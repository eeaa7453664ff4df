//! Serving RPC clients: the files of a session, and programs that are loaded from
//! them, with the functions of TVM's virtual machine.
//!
//! Machine code that a client uploads runs only if [`ServeOptions::allow_code`] says so. Models are
//! compiled here, and what this server compiled is code of its own making.
//!
//! Decision: docs/decisions/0055-rpc.md

use std::io::{Read, Write};

use reflex_rpc::serve::{End, Server};

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
    match end {
        Ok(End::Shutdown | End::Closed) => Ok(()),
        Err(fault) => Err(Error::new(ErrorKind::Io, format!("the session: {fault}"))),
    }
}

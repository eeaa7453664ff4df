//! Options of a session's server.

use std::path::PathBuf;

use reflex_rpc::limits::Limits;

use crate::engine::Engine;
use crate::options::Mode;

/// Options of a session's server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Loads the programs.
    pub engine: Engine,
    /// The mode that programs run in.
    pub mode: Mode,
    /// The folder of the session's files.
    pub folder: PathBuf,
    /// The folder of uploads by content, which sessions share.
    pub contents: PathBuf,
    /// A folder of models that clients load by name.
    pub models: Option<PathBuf>,
    /// Whether libraries that clients upload are opened, which runs machine code of their choice.
    pub allow_code: bool,
    /// The limits of the session.
    pub limits: Limits,
}

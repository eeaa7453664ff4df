//! `--remote` and `--tracker`: the server that a command runs its program at.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use reflex::remote::{Endpoint, RemoteProgram, Server};
use reflex::{Error, Result};

use super::args::EngineArgs;

/// The longest wait for a server that a tracker has.
const WAIT: Duration = Duration::from_secs(600);

/// Options of commands that run programs elsewhere.
#[derive(Args)]
pub struct RemoteArgs {
    /// Run at a server of `reflex serve`: compile here for its CPU, upload, call there. One without
    /// --allow-code gets the model and compiles it.
    #[arg(long, value_name = "HOST:PORT[/KEY]", conflicts_with = "tracker")]
    remote: Option<String>,
    /// Connect by TLS, to a server (and tracker) with this certificate or one that it signed, in PEM.
    #[arg(long, value_name = "FILE", requires = "token_file")]
    ca: Option<PathBuf>,
    /// The file of the token that the server (and tracker) is given, as `reflex token` prints it.
    #[arg(long, value_name = "FILE", requires = "ca")]
    token_file: Option<PathBuf>,
    /// Run at a server that this tracker has under --key.
    #[arg(long, value_name = "HOST:PORT", requires = "key")]
    tracker: Option<String>,
    /// The key that servers registered under at the tracker.
    #[arg(long, value_name = "KEY", requires = "tracker")]
    key: Option<String>,
}

impl RemoteArgs {
    /// Opens a model at the server that was asked for, if one was.
    pub fn open(&self, engine: &EngineArgs, model: &Path) -> Result<Option<RemoteProgram>> {
        let secure = self.ca.clone().zip(self.token_file.clone());
        let endpoint = match (&self.remote, &self.tracker, &self.key, secure) {
            (Some(remote), .., secure) => {
                let (address, key) = remote.split_once('/').unwrap_or((remote, ""));
                let (address, key) = (address.to_owned(), key.to_owned());
                match secure {
                    Some((certificates, token)) => {
                        Endpoint::Secure { address, key, certificates, token }
                    }
                    None => Endpoint::Server { address, key },
                }
            }
            (None, Some(tracker), Some(key), secure) => {
                let (address, key, wait) = (tracker.clone(), key.clone(), Some(WAIT));
                match secure {
                    Some((certificates, token)) => {
                        Endpoint::SecureTracker { address, key, wait, certificates, token }
                    }
                    None => Endpoint::Tracker { address, key, wait },
                }
            }
            (.., Some(_)) => {
                let text = "--ca and --token-file are for --remote or --tracker";
                return Err(Error::input(text));
            }
            (.., None) => return Ok(None),
        };
        let server = Server::connect(&endpoint)?;
        server.open(engine.builder()?, model).map(Some)
    }
}

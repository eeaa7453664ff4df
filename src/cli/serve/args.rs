//! Arguments of `reflex serve`, and the addresses that are listened on.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reflex::serve::{Limits, ServeOptions};
use reflex::{Error, Mode, Result};
use reflex_rpc::secure::{Rights, ServerTls};

use crate::cli::args::EngineArgs;

/// Arguments of `serve`.
#[derive(Args)]
pub struct ServeArgs {
    /// Address to listen on; without --tls and --tokens, of this machine only. Port 0 takes a free
    /// one, which is printed.
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "HOST:PORT")]
    pub listen: String,
    /// Certificate chain and private key in PEM: clients connect by TLS, with a token.
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"], requires = "tokens")]
    pub tls: Vec<PathBuf>,
    /// Tokens that clients may have, one in each line, as `reflex token` prints them.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tokens: Option<PathBuf>,
    /// Key that clients greet with, and that they ask a tracker for.
    #[arg(long, default_value = "", value_name = "KEY")]
    pub key: String,
    /// Tracker to register at; a session at a time, so that measurements have the machine alone.
    #[arg(long, value_name = "HOST:PORT", requires = "key")]
    pub tracker: Option<String>,
    /// Register by TLS, at a tracker with this certificate or one that it signed, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["tracker_token_file", "tracker"])]
    pub tracker_ca: Option<PathBuf>,
    /// The file of the token that the tracker is given.
    #[arg(long, value_name = "FILE", requires = "tracker_ca")]
    pub tracker_token_file: Option<PathBuf>,
    /// Host that the tracker sends clients to (default: where it sees this server).
    #[arg(long, value_name = "HOST", requires = "tracker")]
    pub advertise: Option<String>,
    /// Folder of models that clients load by name.
    #[arg(long, value_name = "DIR")]
    pub models: Option<PathBuf>,
    /// Open libraries that clients upload, which runs machine code of their choice.
    #[arg(long)]
    pub allow_code: bool,
    /// Folder of uploads by content (default: a new one that is deleted at the end).
    #[arg(long, value_name = "DIR")]
    pub contents: Option<PathBuf>,
    /// Command that starts each session's process, split at spaces: `taskset -c 2`, `nice`, a sandbox,
    /// or an emulator where this system does not start this program by itself.
    #[arg(long, value_name = "COMMAND")]
    pub runner: Option<String>,
    /// Mode of programs.
    #[arg(long, default_value = "tiered", value_name = "bytecode|compiled|tiered")]
    pub mode: Mode,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print one JSON object when it listens, and one for each session that ends.
    #[arg(long)]
    pub json: bool,
    /// Serve one session on this descriptor: how the listener starts itself.
    #[arg(long, hide = true, value_name = "FD", requires = "folder")]
    pub session: Option<i32>,
    /// The folder of that session.
    #[arg(long, hide = true, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// The rights of that session's client, if it has a token.
    #[arg(long, hide = true, value_name = "RIGHTS", requires = "session")]
    pub rights: Option<String>,
}

/// Limits of sessions.
#[derive(Args)]
pub struct LimitArgs {
    /// Sessions at once.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub max_sessions: usize,
    /// Sessions at once of one address.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub max_sessions_of_address: usize,
    /// Seconds that a session may take; clients may ask for fewer.
    #[arg(long, default_value_t = 3600.0, value_name = "S")]
    pub session_timeout: f64,
    /// Bytes of a packet.
    #[arg(long, default_value_t = 1 << 30, value_name = "BYTES")]
    pub max_packet: u64,
    /// Bytes of tensors that a session holds.
    #[arg(long, default_value_t = 8 << 30, value_name = "BYTES")]
    pub max_tensors: u64,
    /// Bytes of files of a session.
    #[arg(long, default_value_t = 8 << 30, value_name = "BYTES")]
    pub max_files: u64,
    /// Bytes of address space of a session's process.
    #[arg(long, default_value_t = 64 << 30, value_name = "BYTES")]
    pub max_memory: u64,
    /// Seconds of CPU time of a session's process.
    #[arg(long, default_value_t = 3600, value_name = "S")]
    pub max_cpu: u64,
    /// Descriptors of a session's process.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_descriptors: u64,
}

impl ServeArgs {
    /// Options of a session in `folder`.
    pub fn options(&self, folder: PathBuf, contents: PathBuf) -> Result<ServeOptions> {
        let LimitArgs { max_packet, max_tensors, max_files, .. } = self.limits;
        let all = Rights { code: true, models: true };
        let rights = self.rights.as_deref().map_or(Ok(all), Rights::parse)?;
        Ok(ServeOptions {
            engine: self.engine.engine()?,
            mode: self.mode,
            folder,
            contents,
            models: self.models.clone().filter(|_| rights.models),
            allow_code: self.allow_code && rights.code,
            limits: Limits {
                packet: max_packet,
                tensor_bytes: max_tensors,
                file_bytes: max_files,
                ..Limits::default()
            },
        })
    }

    /// The identity of the listener and its clients' tokens, if it speaks TLS.
    pub fn secure(&self) -> Result<Option<ServerTls>> {
        match (&self.tls[..], &self.tokens) {
            ([certificate, key], Some(tokens)) => {
                Ok(Some(ServerTls::read(certificate, key, tokens)?))
            }
            _ => Ok(None),
        }
    }

    /// Words of the command that starts sessions; none without one.
    pub fn runner(&self) -> Result<Vec<&str>> {
        let words: Vec<&str> = self.runner.iter().flat_map(|all| all.split_whitespace()).collect();
        match self.runner {
            Some(_) if words.is_empty() => Err(Error::input("--runner: no command")),
            _ => Ok(words),
        }
    }

    /// The longest that a session may take.
    pub fn timeout(&self) -> Result<Duration> {
        let timeout = Duration::try_from_secs_f64(self.limits.session_timeout);
        timeout.map_err(|_| Error::input("--session-timeout: not a number of seconds"))
    }
}

/// The address to listen on.
pub fn address_of(listen: &str) -> Result<SocketAddr> {
    let failed = |e: std::io::Error| Error::input(format!("--listen {listen}: {e}"));
    let found = listen.to_socket_addrs().map_err(failed)?.next();
    found.ok_or_else(|| Error::input(format!("--listen {listen}: no address")))
}

/// The address of a listener whose connections are neither encrypted nor authenticated, which is
/// refused unless it is of this machine only; `remedy` says what to do.
pub fn loopback(listen: &str, remedy: &str) -> Result<SocketAddr> {
    let found = address_of(listen)?;
    if !found.ip().is_loopback() {
        let why = "connections are neither encrypted nor authenticated, so only addresses of this \
                   machine, such as 127.0.0.1, are taken";
        return Err(Error::input(format!("--listen {listen}: {why}; {remedy}")));
    }
    Ok(found)
}

//! `reflex tracker`: hands servers to clients. `--query` asks one that runs.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reflex::{Error, Result};
use reflex_rpc::secure::{ClientTls, ServerTls};
use reflex_rpc::tracker::client::TrackerClient;
use reflex_rpc::tracker::server::Tracker;
use serde_json::json;

use super::output::{Format, println};
use super::serve::args::{address_of, loopback};

pub const EXAMPLES: &str = "Examples:
  reflex tracker
  reflex serve --tracker 127.0.0.1:9190 --key avx512
  reflex tracker --query 127.0.0.1:9190
  reflex tracker --listen 0.0.0.0:9190 --tls cert.pem key.pem --tokens tokens
  reflex tracker --query lab:9190 --ca cert.pem --token-file lab.token

TVM's servers and clients work with it, and ours with TVM's.";

/// Arguments of `tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    /// Address to listen on; without --tls and --tokens, of this machine only. Port 0 takes a free
    /// one, which is printed.
    #[arg(long, default_value = "127.0.0.1:9190", value_name = "HOST:PORT")]
    listen: String,
    /// Certificate chain and private key in PEM: clients and servers connect by TLS, with a token.
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"], requires = "tokens")]
    tls: Vec<PathBuf>,
    /// Tokens that they may have, one in each line, as `reflex token` prints them.
    #[arg(long, value_name = "FILE", requires = "tls")]
    tokens: Option<PathBuf>,
    /// Print the servers and keys of the tracker at this address instead.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "listen")]
    query: Option<String>,
    /// Ask by TLS a tracker with this certificate or one that it signed, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["token_file", "query"])]
    ca: Option<PathBuf>,
    /// The file of the token that the tracker is given.
    #[arg(long, value_name = "FILE", requires = "ca")]
    token_file: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrackerArgs) -> Result<ExitCode> {
    let format = Format::of(args.json);
    if let Some(address) = &args.query {
        let tls = client_tls(args.ca.as_deref(), args.token_file.as_deref())?;
        return query(connect(address, tls.as_ref())?, format);
    }
    let failed = |e: std::io::Error| Error::io(args.listen.as_ref(), &e);
    let (tracker, bound) = match (&args.tls[..], &args.tokens) {
        ([certificate, key], Some(tokens)) => {
            let tls = ServerTls::read(certificate, key, tokens)?;
            (Tracker::secure(tls), address_of(&args.listen)?)
        }
        _ => {
            let remedy = "add --tls and --tokens, or forward a port, as ssh -L does";
            (Tracker::default(), loopback(&args.listen, remedy)?)
        }
    };
    let listener = TcpListener::bind(bound).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    match format {
        Format::Json => println!("{}", json!({ "listening": address.to_string() })),
        Format::Text => println!("listening on {address}"),
    }
    tracker.run(&listener).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The certificates and the token for a tracker that is asked by TLS.
pub fn client_tls(ca: Option<&Path>, token_file: Option<&Path>) -> Result<Option<ClientTls>> {
    Ok(match (ca, token_file) {
        (Some(ca), Some(token)) => Some(ClientTls::read(ca, token)?),
        _ => None,
    })
}

/// Connects to a tracker.
pub fn connect(address: &str, tls: Option<&ClientTls>) -> Result<TrackerClient> {
    Ok(match tls {
        Some(tls) => TrackerClient::connect_secure(address, tls)?,
        None => TrackerClient::connect(address)?,
    })
}

fn query(mut tracker: TrackerClient, format: Format) -> Result<ExitCode> {
    let summary = tracker.summary()?;
    if format == Format::Json {
        println!("{summary}");
        return Ok(ExitCode::SUCCESS);
    }
    for server in summary["server_info"].as_array().into_iter().flatten() {
        println!("server {} at {}", server["key"], server["addr"]);
    }
    for (key, counts) in summary["queue_info"].as_object().into_iter().flatten() {
        println!("key {key:?}: {} free, {} waiting", counts["free"], counts["pending"]);
    }
    Ok(ExitCode::SUCCESS)
}

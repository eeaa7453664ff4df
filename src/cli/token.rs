//! `reflex token`: a token for a client, and its line in the server's file.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use reflex::{Error, Result};
use reflex_rpc::secure::{Rights, Token};
use serde_json::json;

use super::output::{Format, println};

pub const EXAMPLES: &str = "Examples:
  reflex token alice --rights code,models
  reflex token ci --sessions 4 --days 30 --json
  reflex serve --listen 0.0.0.0:9443 --tls cert.pem key.pem --tokens tokens --allow-code
  reflex run model.onnx --remote host:9443 --ca cert.pem --token-file alice.token

The client keeps the token in a file; the line goes into the server's file, and holds no secret.";

/// Arguments of `token`.
#[derive(Args)]
pub struct TokenArgs {
    /// The client's name in the server's reports.
    name: String,
    /// Rights of the client, separated by commas: code (upload libraries), models (load the
    /// server's own).
    #[arg(long, default_value = "", value_name = "RIGHTS")]
    rights: String,
    /// Sessions that the client may have at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    sessions: usize,
    /// Days until the token expires.
    #[arg(long, default_value_t = 365, value_name = "N")]
    days: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TokenArgs) -> Result<ExitCode> {
    let random = Path::new("/dev/urandom");
    let mut secret = [0; 32];
    let read = File::open(random).and_then(|mut file| file.read_exact(&mut secret));
    read.map_err(|e| Error::io(random, &e))?;
    let lifetime = args.days.checked_mul(24 * 60 * 60).map(Duration::from_secs);
    let expires = lifetime.and_then(|lifetime| SystemTime::now().checked_add(lifetime));
    let expires = expires.ok_or_else(|| Error::input("--days: too many"))?;
    let expires = expires.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let rights = Rights::parse(&args.rights)?;
    let (token, entry) = Token::new(&args.name, secret, rights, args.sessions, expires)?;
    match Format::of(args.json) {
        Format::Json => println!("{}", json!({ "token": token, "line": entry.to_string() })),
        Format::Text => {
            println!("token (for the client): {token}");
            println!("line (for the server's file): {entry}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

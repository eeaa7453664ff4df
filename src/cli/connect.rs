//! `reflex connect`: a local port whose connections go to a server by TLS.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use reflex::{Error, Result};
use reflex_rpc::client::connect;
use reflex_rpc::secure::ClientTls;
use serde_json::json;

use super::output::{Format, println};
use super::serve::args::loopback;

pub const EXAMPLES: &str = "Examples:
  reflex connect host:9443 --ca cert.pem --token-file alice.token
  reflex connect host:9443 --ca cert.pem --token-file alice.token --listen 127.0.0.1:9090

TVM's clients then connect to the local port: tvm.rpc.connect(\"127.0.0.1\", 9090).";

/// Arguments of `connect`.
#[derive(Args)]
pub struct ConnectArgs {
    /// The server.
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// The server's certificate, or those that signed it, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The file of the token that the server is given.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Address to listen on, of this machine only; port 0 takes a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "HOST:PORT")]
    listen: String,
    /// Print one JSON object when it listens.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ConnectArgs) -> Result<ExitCode> {
    let tls = ClientTls::read(&args.ca, &args.token_file)?;
    let failed = |e: std::io::Error| Error::io(args.listen.as_ref(), &e);
    let address = loopback(&args.listen, "anyone there would have your token's rights")?;
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    match Format::of(args.json) {
        Format::Json => println!("{}", json!({ "listening": address.to_string() })),
        Format::Text => println!("listening on {address}, for {}", args.server),
    }
    loop {
        let (local, peer) = listener.accept().map_err(failed)?;
        let (tls, server) = (tls.clone(), args.server.clone());
        let spawned = thread::Builder::new().name("connection".to_owned()).spawn(move || {
            if let Err(error) = forward(&tls, &server, local) {
                eprintln!("reflex: connection of {peer}: {error}");
            }
        });
        if let Err(error) = spawned {
            eprintln!("reflex: connection of {peer}: {error}");
        }
    }
}

fn forward(tls: &ClientTls, server: &str, local: TcpStream) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(server.as_ref(), &e);
    local.set_nodelay(true).map_err(failed)?;
    let stream = tls.connect(server, connect(server)?)?;
    // Forwarding asks a stream socket to read, write and shut down, of whatever family.
    stream.forward(&UnixStream::from(OwnedFd::from(local))).map_err(failed)
}

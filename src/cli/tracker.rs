//! `reflex tracker`: hands servers to clients. `--query` asks one that runs.

use std::net::TcpListener;
use std::process::ExitCode;

use clap::Args;
use reflex::{Error, Result};
use reflex_rpc::tracker::client::TrackerClient;
use reflex_rpc::tracker::server::Tracker;
use serde_json::json;

use super::output::{Format, println};
use super::serve::args::loopback;

pub const EXAMPLES: &str = "Examples:
  reflex tracker
  reflex serve --tracker 127.0.0.1:9190 --key avx512
  reflex tracker --query 127.0.0.1:9190

TVM's servers and clients work with it, and ours with TVM's.";

/// Arguments of `tracker`.
#[derive(Args)]
pub struct TrackerArgs {
    /// Address to listen on, of this machine only; port 0 takes a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:9190", value_name = "HOST:PORT")]
    listen: String,
    /// Print the servers and keys of the tracker at this address instead.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "listen")]
    query: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrackerArgs) -> Result<ExitCode> {
    let format = Format::of(args.json);
    if let Some(address) = &args.query {
        return query(address, format);
    }
    let failed = |e: std::io::Error| Error::io(args.listen.as_ref(), &e);
    let listener = TcpListener::bind(loopback(&args.listen, "forward a port, as ssh -L does")?)
        .map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    match format {
        Format::Json => println!("{}", json!({ "listening": address.to_string() })),
        Format::Text => println!("listening on {address}"),
    }
    Tracker::default().run(&listener).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn query(address: &str, format: Format) -> Result<ExitCode> {
    let summary = TrackerClient::connect(address)?.summary()?;
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

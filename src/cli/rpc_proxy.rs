//! `reflex rpc-proxy`: pairs clients with servers that cannot listen, such as one in a browser.

use std::net::TcpListener;
use std::process::ExitCode;

use clap::Args;
use reflex::{Error, Result};
use reflex_rpc::proxy::Proxy;
use serde_json::json;

use super::output::{Format, println};
use super::serve::args::loopback;

pub const EXAMPLES: &str = "Examples:
  reflex rpc-proxy
  reflex run model.onnx --remote 127.0.0.1:9090/page   # in the page that serves the key `page`
  reflex rpc-proxy --origin https://example.org        # pages of another site may serve

A page serves by `engine.serve('ws://127.0.0.1:9190/ws', 'page', { allowCode: true })` (bindings/web). TVM's
clients and servers work with it, and ours with TVM's proxy.";

/// Arguments of `rpc-proxy`.
#[derive(Args)]
pub struct RpcProxyArgs {
    /// Address for clients, of this machine only. Port 0 takes a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "HOST:PORT")]
    listen: String,
    /// Address for servers, which connect to ws://HOST:PORT/ws, of this machine only.
    #[arg(long, default_value = "127.0.0.1:9190", value_name = "HOST:PORT")]
    web: String,
    /// Site whose pages may serve besides those of this machine, such as https://example.org.
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &RpcProxyArgs) -> Result<ExitCode> {
    let remedy = "forward a port, as ssh -L does, or let a web server with TLS pass /ws on";
    let bind = |address: &str| -> Result<(TcpListener, String)> {
        let failed = |e: std::io::Error| Error::io(address.as_ref(), &e);
        let listener = TcpListener::bind(loopback(address, remedy)?).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?.to_string();
        Ok((listener, bound))
    };
    let ((clients, listening), (servers, web)) = (bind(&args.listen)?, bind(&args.web)?);
    match Format::of(args.json) {
        Format::Json => {
            println!("{}", json!({ "listening": listening, "web": format!("ws://{web}/ws") }))
        }
        Format::Text => {
            println!("listening on {listening} for clients, and at ws://{web}/ws for servers")
        }
    }
    Proxy::new(args.origin.clone())
        .run(clients, &servers)
        .map_err(|e| Error::io(args.web.as_ref(), &e))?;
    Ok(ExitCode::SUCCESS)
}

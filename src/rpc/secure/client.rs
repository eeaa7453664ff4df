//! The client's side: a server that is known by its certificate, and the token for it.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use reflex_runtime::error::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore};

use super::{SecureStream, file_error, read_line};

/// Certificates that vouch for servers, and a token.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    token: String,
}

impl ClientTls {
    /// Reads certificates in PEM, the server's own or those that signed it, and a file of one token.
    pub fn read(certificates: &Path, token: &Path) -> Result<ClientTls, Error> {
        let found = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| file_error(certificates, e))?;
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(found);
        if taken == 0 {
            return Err(file_error(certificates, "it has no certificate in PEM"));
        }
        let text = std::fs::read_to_string(token).map_err(|e| file_error(token, e))?;
        let text = text.trim();
        if text.lines().count() != 1 {
            return Err(file_error(token, "a token is one line"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map(|builder| builder.with_root_certificates(roots).with_no_client_auth())
            .map_err(|e| file_error(certificates, e))?;
        Ok(ClientTls { config: Arc::new(config), token: text.to_owned() })
    }

    /// Shakes hands over a connection to `host:port`, and gives the token.
    pub fn connect(&self, address: &str, tcp: TcpStream) -> Result<SecureStream, Error> {
        let failed = |e: String| Error::new("ConnectionError", format!("{address}: TLS: {e}"));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|e| failed(e.to_string()))?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        let connection = connection.map_err(|e| failed(e.to_string()))?;
        let mut stream = SecureStream::new(Connection::Client(connection), tcp);
        let answer = stream
            .write_all(format!("{}\n", self.token).as_bytes())
            .and_then(|()| stream.flush())
            .and_then(|()| read_line(&mut stream))
            .map_err(|e| failed(e.to_string()))?;
        match &*answer {
            "ok" => Ok(stream),
            why => Err(Error::new("PermissionError", format!("{address}: refused: {why}"))),
        }
    }
}

//! The server's side: a certificate, and who is admitted.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use reflex_runtime::error::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Connection, ServerConfig, ServerConnection};

use super::{SecureStream, Token, Tokens, file_error, read_line};

/// A server's identity, and the tokens that it takes.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    tokens: Tokens,
}

/// A client whose token is right, and who waits for an answer.
pub struct Admitted {
    stream: SecureStream,
    /// The entry of the client's token.
    pub token: Token,
}

impl ServerTls {
    /// Reads the certificate chain and the private key, both in PEM, and the tokens.
    pub fn read(certificate: &Path, key: &Path, tokens: &Path) -> Result<ServerTls, Error> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| file_error(certificate, e))?;
        if chain.is_empty() {
            return Err(file_error(certificate, "it has no certificate in PEM"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, e))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .and_then(|config| config)
            .map_err(|e| file_error(certificate, e))?;
        Ok(ServerTls { config: Arc::new(config), tokens: Tokens::read(tokens)? })
    }

    /// Shakes hands, and reads the client's token; a client without a right one is told why.
    pub fn admit(&self, tcp: TcpStream) -> Result<Admitted, Error> {
        let broken = |e: std::io::Error| Error::new("ConnectionError", format!("TLS: {e}"));
        let connection = ServerConnection::new(Arc::clone(&self.config));
        let connection =
            connection.map_err(|e| Error::new("ConnectionError", format!("TLS: {e}")))?;
        let mut stream = SecureStream::new(Connection::Server(connection), tcp);
        let text = read_line(&mut stream).map_err(broken)?;
        match self.tokens.check(&text) {
            Ok(token) => Ok(Admitted { token: token.clone(), stream }),
            Err(why) => {
                refuse(stream, why);
                Err(Error::new("PermissionError", why))
            }
        }
    }
}

impl Admitted {
    /// Lets the client in.
    pub fn accept(mut self) -> Result<SecureStream, Error> {
        let sent = self.stream.write_all(b"ok\n").and_then(|()| self.stream.flush());
        sent.map_err(|e| Error::new("ConnectionError", format!("TLS: {e}")))?;
        Ok(self.stream)
    }

    /// Sends the client away, with the reason.
    pub fn refuse(self, why: &str) {
        refuse(self.stream, why);
    }
}

fn refuse(mut stream: SecureStream, why: &str) {
    let line = format!("{}\n", why.replace('\n', " "));
    // The client may be gone.
    drop(stream.write_all(line.as_bytes()).and_then(|()| stream.close()));
}

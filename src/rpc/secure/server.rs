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

/// A client whose token is right.
pub struct Admitted {
    /// The connection, past the handshake of TLS.
    pub stream: SecureStream,
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
            Ok(token) => {
                stream.write_all(b"ok\n").and_then(|()| stream.flush()).map_err(broken)?;
                Ok(Admitted { token: token.clone(), stream })
            }
            Err(why) => {
                // The client may be gone.
                drop(stream.write_all(format!("{why}\n").as_bytes()));
                drop(stream.close());
                Err(Error::new("PermissionError", why))
            }
        }
    }
}

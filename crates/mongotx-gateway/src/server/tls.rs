//! TLS for clients: certificates from files, and the handshake before the first byte of a
//! connection.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
    server::TlsStream,
};

use crate::{connection::Peer, options::Tls};

/// Certificates or keys that cannot be used; the message names the option and the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or what has to be in it is not.
    #[error("{option}: {}: {reason}", path.display())]
    File {
        /// Name of the option that names the file.
        option: &'static str,
        /// Path of the file, as the option names it.
        path: PathBuf,
        /// Reason why it cannot be used.
        reason: String,
    },
    /// The files do not belong together.
    #[error("tls-certificate: the certificate and the key cannot be used: {0}")]
    Mismatch(#[from] tokio_rustls::rustls::Error),
}

/// Names of the options, for error messages.
const CERTIFICATE: &str = "tls-certificate";
const KEY: &str = "tls-key";
const CLIENT_CA: &str = "tls-client-ca";

/// Makes an acceptor of TLS connections from the files.
pub(crate) fn acceptor(options: &Tls) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(CERTIFICATE, &options.certificate)?;
    let (option, path) = options.key.as_ref().map_or((CERTIFICATE, &options.certificate), |path| (KEY, path));
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(option, path, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let builder = match &options.client_ca {
        Some(path) => builder.with_client_cert_verifier(verifier(path)?),
        None => builder.with_no_client_auth(),
    };
    Ok(TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key)?)))
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(unusable(option, path, &"there is no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(option, path, &error)),
    }
}

fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CLIENT_CA, path)? {
        roots.add(certificate).map_err(|error| unusable(CLIENT_CA, path, &error))?;
    }
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable(CLIENT_CA, path, &error))
}

fn unusable(option: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { option, path: path.to_owned(), reason: reason.to_string() }
}

/// The encrypted connection, or nothing when the client does not shake hands, or not in time.
pub(super) async fn shake_hands(
    tls: &TlsAcceptor,
    stream: TcpStream,
    peer: &Peer,
    limit: Duration,
) -> Option<TlsStream<TcpStream>> {
    match timeout(limit, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a client did not shake hands");
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "a client did not shake hands in time");
            None
        }
    }
}

//! TLS of a client's connection, as the official driver's options ask for it. The gateway's own
//! TLS, towards drivers, is in `mongotx-gateway`.

use std::{path::Path, sync::Arc};

use mongodb::options::TlsOptions;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem, pem::PemObject},
    },
};

/// TLS options that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("a certificate or a key cannot be read: {0}")]
    File(#[from] pem::Error),
    #[error("{0}")]
    Config(#[from] Error),
}

/// Reads the certificates. The authorities: those of the file, or else those that browsers trust.
pub(crate) fn connector(options: &TlsOptions) -> Result<TlsConnector, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(authorities(options.ca_file_path.as_deref())?);
    let mut config = match &options.cert_key_file_path {
        Some(path) => builder.with_client_auth_cert(certificates(path)?, PrivateKeyDer::from_pem_file(path)?)?,
        None => builder.with_no_client_auth(),
    };
    if options.allow_invalid_certificates == Some(true) {
        config.dangerous().set_certificate_verifier(Arc::new(TakesAll(provider)));
    }
    Ok(TlsConnector::from(Arc::new(config)))
}

fn authorities(path: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match path {
        Some(path) => {
            store.add_parsable_certificates(certificates(path)?);
        }
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    Ok(CertificateDer::pem_file_iter(path).and_then(Iterator::collect)?)
}

/// Takes every certificate for the server's, because the user wants it so
/// (`tlsAllowInvalidCertificates`).
#[derive(Debug)]
struct TakesAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TakesAll {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

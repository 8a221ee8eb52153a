//! TLS, with the certificates that the options name.

use std::{path::Path, sync::Arc};

use bson::rawdoc;
use local_mongod::ServerOptions;
use mongowire::{Connection, Failure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::{LIMIT, settings};

struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// `ca.pem`, `other.pem`, and `server.pem` and `client.pem` with their keys.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (ca, other) = (authority("ca"), authority("other"));
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let certificate = params.signed_by(&key, &ca).unwrap();
            format!("{}{}", certificate.pem(), key.serialize_pem())
        };
        for (file, content) in
            [("ca", ca.pem()), ("other", other.pem()), ("server", signed("server")), ("client", signed("client"))]
        {
            std::fs::write(folder.path().join(format!("{file}.pem")), content).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        let path: &Path = self.folder.path();
        path.join(format!("{name}.pem")).to_str().unwrap().to_owned()
    }
}

async fn opened(server: &local_mongod::Server, more: &str) -> Result<Connection, Failure> {
    let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true&tls=true{more}", server.port());
    Connection::open(Arc::new(settings(&uri).await), 1).await
}

/// `preferTLS`, so that `local-mongod` itself gets in; without a CA file, which would ask it for a
/// certificate.
#[tokio::test]
async fn the_servers_certificate_is_looked_at_as_the_options_say() {
    let certificates = Certificates::new();
    let server = ServerOptions::standalone()
        .arg("--tlsMode")
        .arg("preferTLS")
        .arg("--tlsCertificateKeyFile")
        .arg(certificates.path("server"))
        .arg("--tlsCAFile")
        .arg(certificates.path("ca"))
        .arg("--tlsAllowConnectionsWithoutCertificates")
        .start()
        .await
        .unwrap();
    let ca = format!("&tlsCAFile={}", certificates.path("ca"));
    let client = format!("{ca}&tlsCertificateKeyFile={}", certificates.path("client"));
    for good in [&ca[..], &client, "&tlsAllowInvalidCertificates=true"] {
        let mut connection = opened(&server, good).await.unwrap();
        connection.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
        assert!(connection.is_usable(), "{good}");
    }
    for bad in [String::new(), format!("&tlsCAFile={}", certificates.path("other"))] {
        let failure = opened(&server, &bad).await.err().unwrap();
        assert!(matches!(failure, Failure::Unreachable { .. }), "{bad}: {failure}");
    }
}

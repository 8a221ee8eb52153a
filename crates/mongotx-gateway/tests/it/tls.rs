//! Encrypted connections: only clients that know the certificate are served.

use crate::common;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bson::doc;
use common::{LIMIT, options, raw::Raw, soon};
use mongotx_gateway::{Gateway, Limits, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, with the files that it has signed in a folder that goes with it.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a name, and its key behind it.
    fn signed(&self, name: &str) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.pem"), &format!("{}{}", certificate.pem(), key.serialize_pem()))
    }
}

async fn encrypted(tls: Tls, limits: Limits) -> (Gateway, SocketAddr) {
    let server = local_mongod::shared_standalone().await.unwrap();
    let mut options = options(&server.uri(), limits);
    options.tls = Some(tls);
    let gateway = Gateway::start(options).await.unwrap();
    let address = gateway.address().unwrap();
    (gateway, address)
}

fn uri(address: SocketAddr, ca: &Path, more: &str) -> String {
    let (port, ca) = (address.port(), ca.display());
    format!("mongodb://localhost:{port}/?tls=true&tlsCAFile={ca}{more}")
}

/// One attempt to ping the gateway, which gives up after two seconds.
async fn ping(address: SocketAddr, ca: &Path, more: &str) -> mongodb::error::Result<()> {
    let uri = uri(address, ca, &format!("&serverSelectionTimeoutMS=2000{more}"));
    let client = mongodb::Client::with_uri_str(uri).await?;
    soon(client.database("admin").run_command(doc! {"ping": 1})).await.map(drop)
}

/// Pings until one attempt succeeds: on a slow machine a whole handshake may take longer than one
/// attempt may.
async fn assert_served(address: SocketAddr, ca: &Path, more: &str) {
    let begun = Instant::now();
    while let Err(error) = ping(address, ca, more).await {
        assert!(begun.elapsed() < LIMIT, "not served within {LIMIT:?}: {error}");
    }
}

#[tokio::test]
async fn clients_that_know_the_certificate_are_served_and_others_disturb_none() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let tls = Tls { certificate: authority.signed("localhost"), key: None, client_ca: None };
    let limits = Limits { first_message: Duration::from_secs(1), ..Limits::default() };
    let (gateway, address) = encrypted(tls, limits).await;
    // Clients that say nothing; that speak the protocol, but not TLS; that trust another
    // certificate.
    let mut silent = Raw::connect(address).await;
    let mut plain = Raw::connect(address).await;
    plain.send(&common::raw::message(&doc! {"ping": 1, "$db": "admin"}, 0)).await;
    ping(address, &stranger.ca(), "").await.unwrap_err();
    assert_served(address, &authority.ca(), "&compressors=zstd").await;
    while plain.receive_byte().await.is_some() {}
    while silent.receive_byte().await.is_some() {}
    assert_served(address, &authority.ca(), "").await;
    soon(gateway.shutdown(Duration::from_secs(10))).await.unwrap();
}

#[tokio::test]
async fn large_messages_arrive_both_ways() {
    const EACH: usize = 1_000_000;
    let authority = Authority::new();
    let tls = Tls { certificate: authority.signed("localhost"), key: None, client_ca: None };
    let (_gateway, address) = encrypted(tls, Limits::default()).await;
    let client = mongodb::Client::with_uri_str(uri(address, &authority.ca(), "")).await.unwrap();
    let collection = client.database(&local_mongod::unique_db("gw_tls")).collection::<bson::Document>("c");
    soon(collection.insert_many((0..15).map(|id| doc! {"_id": id, "text": "x".repeat(EACH)}))).await.unwrap();
    for _ in 0..3 {
        let mut cursor = soon(collection.find(doc! {})).await.unwrap();
        let mut read = 0;
        while soon(cursor.advance()).await.unwrap() {
            read += 1;
        }
        assert_eq!(read, 15);
    }
}

#[tokio::test]
async fn clients_have_to_show_a_certificate_where_it_is_asked_for() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let client_ca = Some(authority.ca());
    let (_gateway, address) =
        encrypted(Tls { certificate: authority.signed("localhost"), key: None, client_ca }, Limits::default()).await;
    ping(address, &authority.ca(), "").await.unwrap_err();
    let shown = |path: PathBuf| format!("&tlsCertificateKeyFile={}", path.display());
    ping(address, &authority.ca(), &shown(stranger.signed("client"))).await.unwrap_err();
    assert_served(address, &authority.ca(), &shown(authority.signed("client"))).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let authority = Authority::new();
    let good = authority.signed("localhost");
    let other = authority.signed("other");
    let empty = authority.write("empty.pem", "");
    let missing = authority.folder.path().join("missing.pem");
    let tls = |certificate: &PathBuf, key: Option<&PathBuf>, client_ca: Option<&PathBuf>| Tls {
        certificate: certificate.clone(),
        key: key.cloned(),
        client_ca: client_ca.cloned(),
    };
    let cases = [
        (tls(&missing, None, None), "tls-certificate", "missing.pem"),
        (tls(&empty, None, None), "tls-certificate", "no certificate"),
        (tls(&authority.ca(), None, None), "tls-certificate", "ca.pem"),
        (tls(&good, Some(&empty), None), "tls-key", "empty.pem"),
        (tls(&good, Some(&other), None), "tls-certificate", "key"),
        (tls(&good, None, Some(&missing)), "tls-client-ca", "missing.pem"),
        (tls(&good, None, Some(&empty)), "tls-client-ca", "no certificate"),
    ];
    for (tls, option, word) in cases {
        let mut options = options(&server.uri(), Limits::default());
        options.tls = Some(tls.clone());
        let error = Gateway::start(options).await.err().unwrap().to_string();
        assert!(error.contains(option) && error.contains(word), "{tls:?}: {error}");
    }
}

//! Servers of DTranx for the target `dtranx`: started here as threads, or named by the caller.

use std::net::SocketAddr;

use dtranx::{
    client::AsyncClient,
    cluster::{Cluster, HeldPort, Server as Member},
    core::{Key, KeyRange, ServerId},
    server::{Server, ServerConfig},
};
use tempfile::TempDir;

use crate::{
    error::BenchError,
    targets::dtranx::{SCHEME, connect, prefix, write},
};

/// Keys that are removed at once.
const BATCH: usize = 500;

/// Servers of DTranx, which end with this value if they were started here.
pub struct Store {
    uri: String,
    client: AsyncClient,
    started: Vec<Server>,
    _ports: Vec<HeldPort>,
    _folder: Option<TempDir>,
}

impl Store {
    /// Starts so many servers as one cluster, as threads of this process.
    ///
    /// # Errors
    /// [`BenchError::Failed`].
    pub async fn start(servers: u16) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new().prefix("mongotx-bench-dtranx-").tempdir().map_err(failed)?;
        let ports = (0..servers).map(|_| HeldPort::pick()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let members = (1..).zip(&ports).map(|(id, port)| Member { id: ServerId(id), address: port.address() });
        let cluster = Cluster::hashed("bench", members.collect());
        let start = |member: &Member| {
            let data = folder.path().join(member.id.to_string());
            Server::start(&ServerConfig::new(cluster.clone(), member.id, &data)).map_err(failed)
        };
        let started = cluster.servers.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<String> = ports.iter().map(|port| port.address().to_string()).collect();
        let uri = format!("{SCHEME}{}", addresses.join(","));
        let client = connect(&uri).await?;
        Ok(Self { uri, client, started, _ports: ports, _folder: Some(folder) })
    }

    /// The servers that `option` names.
    ///
    /// # Errors
    /// [`BenchError::Refused`], by the name of the option.
    pub async fn named(option: &str, addresses: &[SocketAddr]) -> Result<Self, BenchError> {
        let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let uri = format!("{SCHEME}{}", addresses.join(","));
        let refused = |error| BenchError::Refused(format!("{option}: cannot use these servers: {error}"));
        let client = connect(&uri).await.map_err(refused)?;
        Ok(Self { uri, client, started: Vec::new(), _ports: Vec::new(), _folder: None })
    }

    /// Connection string of the servers.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Removes all keys of a database from the servers.
    ///
    /// # Errors
    /// [`BenchError::Failed`].
    pub async fn remove(&self, db: &str) -> Result<(), BenchError> {
        let range = KeyRange::prefix(Key::new(prefix(db)).map_err(failed)?);
        loop {
            let snapshot = self.client.snapshot().await.map_err(failed)?;
            let found = snapshot.scan(&range, BATCH).await.map_err(failed)?;
            if found.items.is_empty() {
                return Ok(());
            }
            let deleted: Vec<_> = found.items.into_iter().map(|(key, _)| (key.to_vec(), None)).collect();
            write(&self.client, &deleted).await?;
        }
    }

    /// Description of the servers, in words.
    pub fn describe(&self) -> String {
        let servers = self.client.cluster().servers.len();
        match self.started.len() {
            0 => format!("{servers} server(s) that run already, each key on one of them"),
            _ => format!(
                "{servers} server(s), each key on one of them, as threads of this process: their processor time counts as \
                 the clients'"
            ),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed(format!("DTranx: {error}"))
}

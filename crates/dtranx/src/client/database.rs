//! A client of a cluster: its links, its options, its cache.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::link::Call;
use super::socket::SocketLink;
use super::{Answer, Error, Link, Result, Transaction};
use crate::cluster::Cluster;
use crate::core::ServerId;
use crate::wire::{Ask, Reply, ServerStatus};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How long a request may take: a read, a commit.
    pub request_ms: u64,
    /// How often [`Client::transact`] tries a transaction.
    pub attempts: u32,
    /// How many items the client keeps in its cache; 0 keeps none between transactions.
    pub cache_items: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { request_ms: 10_000, attempts: 100, cache_items: 0 }
    }
}

/// A client of a cluster. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) cluster: Cluster,
    pub(crate) links: BTreeMap<ServerId, Arc<dyn Link>>,
    pub(crate) options: ClientOptions,
    pub(super) cache: Cache,
}

impl Client {
    /// Connects to a cluster: any of the addresses tells about all of its servers.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: none of them answers.
    pub fn connect(addresses: &[SocketAddr], options: ClientOptions) -> Result<Self> {
        let mut why = "no address was given".to_owned();
        let until = Instant::now() + Duration::from_millis(options.request_ms);
        for address in addresses {
            match SocketLink::discover(*address, until) {
                Ok(cluster) => return Self::of_cluster(cluster, options),
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        Err(Error::Unreachable { why })
    }

    /// A client of a cluster whose description is known. Servers are connected when they can be.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn of_cluster(cluster: Cluster, options: ClientOptions) -> Result<Self> {
        let mut links: BTreeMap<ServerId, Arc<dyn Link>> = BTreeMap::new();
        for server in &cluster.servers {
            let link = SocketLink::new(server.address, &cluster.name, Some(server.id))
                .map_err(|error| Error::Unreachable { why: error.to_string() })?;
            links.insert(server.id, Arc::new(link));
        }
        Ok(Self::with_links(cluster, links, options))
    }

    pub(crate) fn with_links(
        cluster: Cluster,
        links: BTreeMap<ServerId, Arc<dyn Link>>,
        options: ClientOptions,
    ) -> Self {
        let cache = Cache::new(options.cache_items);
        Self { inner: Arc::new(Inner { cluster, links, options, cache }) }
    }

    /// Begins a transaction. It costs nothing until it reads or commits.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// How a server is.
    ///
    /// # Errors
    /// It does not answer.
    pub fn status(&self, server: ServerId) -> Result<ServerStatus> {
        match self.call(server, Ask::Status)? {
            Reply::Status(status) => Ok(*status),
            other => Err(unexpected(server, &other)),
        }
    }

    pub(super) fn link(&self, server: ServerId) -> Result<&Arc<dyn Link>> {
        let missing = || Error::Unavailable { server, why: "it is not of this cluster".to_owned() };
        self.inner.links.get(&server).ok_or_else(missing)
    }

    pub(super) fn until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.inner.options.request_ms)
    }

    pub(super) fn start(&self, server: ServerId, ask: Ask) -> Result<(ServerId, Call)> {
        Ok((server, Call::start(&**self.link(server)?, ask, self.until())))
    }

    /// Waits for the answer to something that may be asked twice.
    pub(super) fn finish(&self, (server, call): (ServerId, Call)) -> Result<Reply> {
        let why = match call.wait() {
            Some(Answer::Reply(Reply::Refused(why)) | Answer::NotCarriedOut(why)) => why,
            Some(Answer::Reply(reply)) => return Ok(reply),
            Some(Answer::Silence(_)) | None => "it did not answer in time".to_owned(),
        };
        Err(Error::Unavailable { server, why })
    }

    pub(super) fn call(&self, server: ServerId, ask: Ask) -> Result<Reply> {
        let call = self.start(server, ask)?;
        self.finish(call)
    }
}

pub(super) fn unexpected(server: ServerId, reply: &Reply) -> Error {
    Error::Unavailable { server, why: format!("it answered something else: {reply:?}") }
}

//! The client whose calls block: each waits for the asynchronous client's call.

mod snapshot;
mod transaction;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use pollster::block_on;

pub use self::snapshot::Snapshot;
pub use self::transaction::Transaction;
use super::{AsyncClient, AsyncSnapshot, AsyncTransaction, ClientOptions, Link, RangeMoved, Result, Scanned};
use crate::cluster::Cluster;
use crate::core::{KeyRange, Map, Refusal, ServerId, StoreId};
use crate::wire::ServerStatus;

/// A client of a cluster whose calls block. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    inner: AsyncClient,
}

impl Client {
    /// Connects to a cluster. Each of the addresses suffices: a server describes the whole cluster.
    ///
    /// # Errors
    /// [`crate::client::Error::Unreachable`]: none of the addresses answers.
    pub fn connect(addresses: &[SocketAddr], options: ClientOptions) -> Result<Self> {
        Ok(Self { inner: block_on(AsyncClient::connect(addresses, options))? })
    }

    /// A client of a cluster whose description is known. Servers are connected when they can be.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn of_cluster(cluster: Cluster, options: ClientOptions) -> Result<Self> {
        Ok(Self { inner: AsyncClient::of_cluster(cluster, options)? })
    }

    pub(crate) fn with_links(
        cluster: Cluster,
        links: BTreeMap<ServerId, Arc<dyn Link>>,
        options: ClientOptions,
    ) -> Self {
        Self { inner: AsyncClient::with_links(cluster, links, options) }
    }

    /// The same client with asynchronous calls.
    pub fn asynchronous(&self) -> AsyncClient {
        self.inner.clone()
    }

    /// Begins a transaction. It costs nothing until it reads or commits.
    pub fn begin(&self) -> Transaction {
        Transaction { inner: self.inner.begin() }
    }

    /// Begins a transaction once more after a refusal: see [`AsyncClient::begin_again`].
    pub fn begin_again(&self, refusal: Refusal) -> Transaction {
        Transaction { inner: self.inner.begin_again(refusal) }
    }

    /// The cluster that this client is connected to: see [`AsyncClient::cluster`].
    pub fn cluster(&self) -> Arc<Cluster> {
        self.inner.cluster()
    }

    /// Status of a server: its stages, queues and log.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn status(&self, server: ServerId) -> Result<ServerStatus> {
        block_on(self.inner.status(server))
    }

    /// Asks a group to add a member: see [`AsyncClient::add_member`].
    ///
    /// # Errors
    /// As for [`AsyncClient::add_member`].
    pub fn add_member(&self, server: ServerId, address: SocketAddr, store: StoreId) -> Result<u8> {
        block_on(self.inner.add_member(server, address, store))
    }

    /// Asks a group to remove a member: see [`AsyncClient::remove_member`].
    ///
    /// # Errors
    /// As for [`AsyncClient::remove_member`].
    pub fn remove_member(&self, server: ServerId, number: u8) -> Result<u8> {
        block_on(self.inner.remove_member(server, number))
    }

    /// Map of all keys: see [`AsyncClient::map`].
    ///
    /// # Errors
    /// A server does not answer.
    pub fn map(&self) -> Result<Map> {
        block_on(self.inner.map())
    }

    /// Moves all keys of a range to a server: see [`AsyncClient::move_range`].
    ///
    /// # Errors
    /// As for [`AsyncClient::move_range`].
    pub fn move_range(&self, range: &KeyRange, to: ServerId, progress: impl FnMut(&RangeMoved)) -> Result<RangeMoved> {
        block_on(self.inner.move_range(range, to, progress))
    }

    /// Runs a transaction, again and again as far as the options allow, until it is committed.
    /// `body` may be called several times and must do nothing else that cannot be repeated. What it
    /// has read is validated if it returns an error, too: see [`AsyncClient::transact`].
    ///
    /// # Errors
    /// What `body` returns, or [`crate::client::Error::GivenUp`], or
    /// [`crate::client::Error::Unknown`] if the answer to a commit stays out.
    pub fn transact<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        block_on(self.inner.transact(async |tranx: &mut AsyncTransaction| {
            // The body gets the transaction for the time of its call.
            let mut lent = Transaction { inner: std::mem::replace(tranx, self.inner.begin()) };
            let value = body(&mut lent);
            *tranx = lent.inner;
            value
        }))
    }

    /// A snapshot of the whole cluster: see [`AsyncClient::snapshot`].
    ///
    /// # Errors
    /// As for [`AsyncClient::snapshot`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { inner: block_on(self.inner.snapshot())? })
    }

    /// Reads a snapshot, and another one if a server no longer keeps it: see [`AsyncClient::read`].
    ///
    /// # Errors
    /// As for [`AsyncClient::read`].
    pub fn read<T>(&self, mut body: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
        let body = async |snapshot: &AsyncSnapshot| body(&Snapshot { inner: snapshot.clone() });
        block_on(self.inner.read(body))
    }

    /// Reads the value of a key: a transaction of one read.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        block_on(self.inner.get(key))
    }

    /// Lets a key hold a value: a transaction of one write.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        block_on(self.inner.put(key, value))
    }

    /// Deletes a key: a transaction of one write.
    ///
    /// # Errors
    /// As for [`Client::transact`].
    pub fn delete(&self, key: impl Into<Bytes>) -> Result<()> {
        block_on(self.inner.delete(key))
    }

    /// The keys of a range, in order, at most `limit`, of a snapshot: [`Client::read`].
    ///
    /// # Errors
    /// As for [`Client::read`] and [`Snapshot::scan`].
    pub fn scan(&self, range: &KeyRange, limit: usize) -> Result<Scanned> {
        block_on(self.inner.scan(range, limit))
    }
}

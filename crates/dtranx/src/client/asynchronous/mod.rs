//! The client whose calls are futures. They need no runtime: the links' own threads send, receive
//! and keep deadlines.

mod moves;
mod pause;
mod search;
mod snapshot;
mod transact;
mod transaction;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

pub use self::moves::RangeMoved;
pub use self::snapshot::AsyncSnapshot;
pub use self::transaction::AsyncTransaction;
use super::inner::{Inner, discover};
use super::reply::unexpected;
use super::retry::{current_items, kept};
use super::state::{CurrentItems, Earlier, TransactionState};
use super::stores::Stores;
use super::{Answer, ClientOptions, Error, Link, Result};
use crate::cluster::Cluster;
use crate::core::{Refusal, ServerId, StoreId};
use crate::wire::{Ask, Reply, ServerStatus};

/// A client of a cluster whose calls are futures, for any runtime or none. Clones are the same
/// client, and any number of transactions may be under way in it, up to a limit of requests per
/// server ([`crate::client::MAX_WAITING`]).
///
/// Every call ends within [`ClientOptions::request_ms`] for each of its requests, whether it is
/// polled in between or not. Dropping a future neither takes back what it has sent nor sends it
/// twice.
#[derive(Clone)]
pub struct AsyncClient {
    pub(super) inner: Arc<Inner>,
}

impl AsyncClient {
    /// Connects to a cluster. Each of the addresses suffices: a server describes the whole cluster.
    ///
    /// # Errors
    /// [`crate::client::Error::Unreachable`]: none of the addresses answers.
    pub async fn connect(addresses: &[SocketAddr], options: ClientOptions) -> Result<Self> {
        Self::of_cluster(discover(addresses, &options).await?, options)
    }

    /// A client of a cluster whose description is known. Servers are connected when they can be.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn of_cluster(cluster: Cluster, options: ClientOptions) -> Result<Self> {
        Ok(Self { inner: Arc::new(Inner::of_cluster(cluster, options)?) })
    }

    pub(super) fn with_links(
        cluster: Cluster,
        links: BTreeMap<ServerId, Arc<dyn Link>>,
        options: ClientOptions,
    ) -> Self {
        Self { inner: Arc::new(Inner::new(cluster, links, options, Stores::default())) }
    }

    /// Begins a transaction. It costs nothing until it reads or commits.
    pub fn begin(&self) -> AsyncTransaction {
        self.begin_with(CurrentItems::new(), None)
    }

    /// Begins a transaction once more after a refusal, for programs that retry by themselves
    /// instead of with [`AsyncClient::transact`]: the keys that were stale are not read again,
    /// because the refusal says what they hold (section 4.1), and locks that were kept for this
    /// attempt are taken. See also [`AsyncTransaction::tried_since`].
    pub fn begin_again(&self, refusal: Refusal) -> AsyncTransaction {
        let earlier = Earlier { since: Instant::now(), kept: kept(&refusal) };
        self.begin_with(current_items(refusal), Some(earlier))
    }

    fn begin_with(&self, current: CurrentItems, earlier: Option<Earlier>) -> AsyncTransaction {
        let state = TransactionState::with(self.inner.generation(), current, earlier);
        AsyncTransaction { client: self.clone(), state }
    }

    /// The cluster that this client is connected to, with the servers that have joined as far as
    /// the client has heard.
    pub fn cluster(&self) -> Arc<Cluster> {
        self.inner.cluster()
    }

    /// Status of a server: its stages, queues and log.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn status(&self, server: ServerId) -> Result<ServerStatus> {
        match self.inner.start(server, Ask::Status)?.reply().await? {
            Reply::Status(status) => Ok(*status),
            other => Err(unexpected(server, &other)),
        }
    }

    /// Asks a group to add a new store, which waits at this address, as a member. It gets a vote
    /// once it has caught up; [`AsyncClient::status`] says how far it is. Returns the number of the
    /// member. The same store may be asked for again: an election may take the change back.
    ///
    /// # Errors
    /// [`Error::Unchanged`]; the group does not answer.
    pub async fn add_member(&self, server: ServerId, address: SocketAddr, store: StoreId) -> Result<u8> {
        self.change_members(server, Ask::AddMember { address, store }).await
    }

    /// Asks a group to remove a member. Returns its number, at once, while the change is under way;
    /// [`AsyncClient::status`] says when it is over. An election may take the change back.
    ///
    /// # Errors
    /// [`Error::Unchanged`]; the group does not answer.
    pub async fn remove_member(&self, server: ServerId, number: u8) -> Result<u8> {
        self.change_members(server, Ask::RemoveMember(number)).await
    }

    async fn change_members(&self, server: ServerId, ask: Ask) -> Result<u8> {
        let call = self.inner.start(server, ask)?;
        if let Some(Answer::Reply(reply)) = call.answer().await {
            return match reply {
                Reply::Place(number) => Ok(number),
                Reply::Refused(why) => Err(Error::Unchanged { server, why }),
                other => Err(unexpected(server, &other)),
            };
        }
        Err(Error::Unavailable { server, why: "it did not answer in time".to_owned() })
    }
}

//! The client-side coordinator: everything between a command's meaning (`crate::command`) and the
//! server.
//!
//! It is made of types of one concern each, and [`Core`] has them all. A folder may use those above
//! it in this table and none below it; [`assemble`] puts the types together in this order.
//!
//! | folder | types | concern |
//! | --- | --- | --- |
//! | [`request`], [`stored`] | | the application's requests; how things are stored |
//! | [`stamps`] | | change stamps, as values and as this client's memory |
//! | [`server`] | [`Server`] | commands, as they are sent; the interfaces to documents |
//! | [`log`] | [`TxLog`], [`Records`] | decisions about status; the records of clients |
//! | [`siblings`] | | documents held by other transactions of the same client |
//! | [`catalog`] | [`Catalog`] | collections, as transactions see them |
//! | [`finishing`] | [`Finisher`], [`Repairs`], [`Holders`] | clean documents after the decision, by the owner or by a rival |
//! | [`queries`] | [`Pending`], [`Unprobed`] | what a query would have to see; queries that need no look for that |
//! | [`decisions`] | | the log's two implementations |
//! | [`cleaning`] | [`Sweeper`], [`Checkpoints`] | leftovers of dead clients; a pause of all decisions |
//! | [`schema`] | [`Schema`] | changes of collections and indexes that wait for transactions |
//! | [`read_set`] | | what a transaction has read, to be validated |
//! | [`transaction`] | | a transaction, and what is known of it until it ends |
//! | [`validating`] | [`Looks`], [`Unchanged`], [`QuietReader`] | reads that nothing has changed; quiet for a reader that loses again and again |
//! | [`lifecycle`] | [`Lifecycle`], [`Standings`], [`Reaper`] | begin, finish and roll back; checks that a transaction still stands; the idle ones |
//! | [`locking`] | [`Locking`], [`Locator`], [`ReadLocks`], [`Uniqueness`] | prepared writes, read locks, unique values |
//! | [`expiry`] | [`Expiries`] | TTL indexes: what the server may be about to remove |
//! | [`events`] | [`Events`] | numbers and waiters of change streams |
//!
//! Above it the commands take the whole of `Core`, and so do the types there that carry commands
//! out: validation (`Validation`, `CombinedRereads`), change streams (`EventLog`, `EventReader`)
//! and the commit.

pub(crate) mod assemble;
pub(crate) mod catalog;
pub(crate) mod cleaning;
pub(crate) mod decisions;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod finishing;
pub(crate) mod lifecycle;
pub(crate) mod locking;
pub(crate) mod log;
pub(crate) mod queries;
pub(crate) mod read_set;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod siblings;
pub(crate) mod stamps;
pub(crate) mod stored;
pub(crate) mod transaction;
pub(crate) mod validating;

use std::sync::Arc;

use tokio::runtime::Handle;

use self::{
    catalog::Catalog,
    cleaning::{checkpoint::Checkpoints, sweep::Sweeper},
    events::Events,
    expiry::Expiries,
    finishing::{finisher::Finisher, holders::Holders, repairs::Repairs},
    lifecycle::{Lifecycle, idle_limit::Reaper, standing::Standings},
    locking::{Locking, locate::Locator, read_locks::ReadLocks, unique::Uniqueness},
    log::{records::Records, txlog::TxLog},
    queries::{pending::Pending, read_lease::Unprobed},
    schema::Schema,
    server::Server,
    transaction::forecast::Forecast,
    validating::{looks::Looks, quiet_reader::QuietReader, unchanged::Unchanged},
};
use crate::options::ClientOptions;

/// The parts of one client, which all its handles share.
pub(crate) struct Core {
    pub(crate) server: Arc<Server>,
    pub(crate) log: Arc<dyn TxLog>,
    pub(crate) finisher: Finisher,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) repairs: Arc<Repairs>,
    pub(crate) holders: Holders,
    pub(crate) pending: Arc<Pending>,
    pub(crate) unprobed: Arc<Unprobed>,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) schema: Schema,
    pub(crate) records: Records,
    pub(crate) looks: Arc<Looks>,
    pub(crate) unchanged: Arc<Unchanged>,
    pub(crate) quiet: Arc<QuietReader>,
    pub(crate) standings: Arc<Standings>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) locator: Locator,
    pub(crate) read_locks: Arc<ReadLocks>,
    pub(crate) uniqueness: Arc<Uniqueness>,
    pub(crate) locking: Locking,
    pub(crate) expiries: Expiries,
    pub(crate) forecast: Arc<Forecast>,
    pub(crate) events: Arc<Events>,
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) reaper: Arc<Reaper>,
    /// The runtime in which the client was made: its background work goes on there, whichever
    /// handles are dropped. When that runtime has ended, so have the client's signs of life, and
    /// rivals clean up after its lease.
    pub(crate) runtime: Handle,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.reaper.wake();
    }
}

//! The client-side coordinator: everything between a command's meaning (`crate::command`) and the
//! server.
//!
//! It is made of types of one concern each, and [`Core`] has them all. Each may use those above it
//! in this table and none below it; [`assemble`] puts them together in this order.
//!
//! | type | concern | knows besides the server |
//! | --- | --- | --- |
//! | [`Server`] | commands, as they are sent; the doors to documents | |
//! | [`TxLog`] | decisions about status | |
//! | [`Finisher`] | clean documents after the decision | log |
//! | [`Catalog`] | collections, as transactions see them | |
//! | [`Repairs`] | what decided transactions have left | log, finisher, catalog |
//! | [`Holders`] | what became of who held a document | log, finisher |
//! | [`Pending`] | what a query would have to see | log, finisher, catalog, repairs |
//! | [`Unprobed`] | queries without a probe, and the read lease | log, finisher, pending |
//! | [`Sweeper`] | leftovers of dead clients | log, catalog, repairs |
//! | [`Checkpoints`] | a pause of all decisions | sweeper |
//! | [`Schema`] | changes of collections that wait for transactions | log, catalog, repairs, pending |
//! | [`Looks`], [`Unchanged`] | change stamps, and what nothing has changed | log, catalog |
//! | [`QuietReader`] | quiet for a reader that loses again and again | log |
//! | [`Standings`] | whether a transaction still stands | log |
//! | [`Lifecycle`] | begin, finish and roll back transactions | log, finisher, catalog, unchanged, quiet |
//! | [`Locator`], [`Expiries`] | where a document is; what the server may be about to remove | catalog |
//! | [`ReadLocks`], [`Uniqueness`] | read locks; unique indexes between pending and committed values | catalog, repairs |
//! | [`Events`] | numbers and waiters of change streams | |
//! | [`Core`] | all of these, and with them the locking of documents (`prepare…`) | all |
//!
//! Above it the commands take the whole of `Core`, and so do the types there that carry commands
//! out: validation (`Validation`, `Together`), change streams (`EventLog`, `EventReader`) and the
//! commit.
//!
//! | file | step |
//! | --- | --- |
//! | [`txlog`] | the interface of status decisions; [`client_record`] and [`published`] implement it |
//! | [`terms`], [`query`], [`pipeline`] | what the application asks, and the options that have a say in what it means |
//! | [`chance`] | expressions that have another value when they are asked again |
//! | [`transaction`], [`base`] | a transaction and what it holds; when it began |
//! | [`lifecycle`] | begin, finish, roll back; `crate::command::commit` commits |
//! | [`parked`] | transactions between two statements, and those that are left idle |
//! | [`prepare`], [`prepare_shown`] | lock and change one document, and show it |
//! | [`prepare_found`], [`found`] | find, lock and change a document by any key |
//! | [`by_key`] | documents that several want by another key than their `_id` |
//! | [`seen_keys`] | where documents are that a transaction has read by other keys than their `_id`s |
//! | [`prepare_each`], [`prepare_many`] | several documents, each with its own change; many with the same |
//! | [`answered_each`] | what the answer to the first of these tells |
//! | [`read_set`], [`witness`] | what a transaction has read, to be validated; what is remembered of an answer |
//! | [`kept`], [`as_read`] | documents as they were read, for who locks one |
//! | [`changes`], [`looks`] | when transactions last changed each collection, and who looks at that |
//! | [`unchanged`], [`own_changes`], [`fields`], [`notice`] | what nothing has changed since it was read; what this client changes, and which fields; what others say that they write |
//! | [`forecast`] | whether an insert is the last write of its transaction |
//! | [`quiet`], [`quiet_reader`] | quiet for a reader that loses again and again; when its transaction asks for it |
//! | [`own_collections`] | names of MongoTx's own collections |
//! | [`own_key`] | whether two `_id`s name the same document |
//! | [`address`], [`locate`] | which document a command is about, and how that is found out |
//! | [`siblings`] | documents held by other transactions of the same client |
//! | [`standing`] | whether a transaction still stands when a statement has its answer |
//! | [`lock_fields`] | which fields show the locks |
//! | [`repairs`], [`patience`] | what to do about a rival's lock: repair what is decided; wait, or conflict |
//! | [`holders`] | what became of who held a document when it was fetched |
//! | [`read_locks`] | read locks: taken, and looked after |
//! | [`strangers`] | locks of clients that have no record here |
//! | [`read_lease`] | queries of a client that is alone, which need no look for what is pending |
//! | [`pending`] | repair of what a query would have to see, and reads that may be a little old |
//! | [`schema`] | changes of collections and indexes that wait for transactions |
//! | [`unique`] | unique indexes between pending and committed values |
//! | [`roll`] | roll forward or back, any number of documents |
//! | [`events`] | state of change streams; `crate::command::events` writes and reads what they tell |
//! | [`expiry`] | TTL indexes: what the server may be about to remove |
//! | [`finisher`] | clean documents after the decision, many transactions in one command |
//! | [`sweep`], [`scratch`] | leftovers of dead clients, on start-up and on demand; collections that text searches leave |
//! | [`checkpoint`], [`hold`] | a pause of all decisions, with everything finished |
//! | [`records`], [`catalog`], [`server`] | client records as stored, collections as they are, commands as sent |
//! | [`nodes`] | what writes wait for where several servers keep the data |

pub(crate) mod address;
pub(crate) mod answered_each;
pub(crate) mod as_read;
pub(crate) mod assemble;
pub(crate) mod base;
pub(crate) mod by_key;
pub(crate) mod catalog;
pub(crate) mod chance;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod client_record;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod fields;
pub(crate) mod finisher;
pub(crate) mod forecast;
pub(crate) mod format;
pub(crate) mod found;
pub(crate) mod hold;
pub(crate) mod holders;
pub(crate) mod kept;
pub(crate) mod lifecycle;
pub(crate) mod locate;
pub(crate) mod lock_fields;
pub(crate) mod looks;
pub(crate) mod moment;
pub(crate) mod nodes;
pub(crate) mod notice;
pub(crate) mod own_changes;
pub(crate) mod own_collections;
pub(crate) mod own_key;
pub(crate) mod parked;
pub(crate) mod patience;
pub(crate) mod pending;
pub(crate) mod pipeline;
pub(crate) mod prepare;
pub(crate) mod prepare_each;
pub(crate) mod prepare_found;
pub(crate) mod prepare_many;
pub(crate) mod prepare_shown;
pub(crate) mod published;
pub(crate) mod query;
pub(crate) mod quiet;
pub(crate) mod quiet_reader;
pub(crate) mod read_lease;
pub(crate) mod read_locks;
pub(crate) mod read_set;
pub(crate) mod records;
pub(crate) mod repairs;
pub(crate) mod roll;
pub(crate) mod schema;
pub(crate) mod scratch;
pub(crate) mod seen_keys;
pub(crate) mod server;
pub(crate) mod siblings;
pub(crate) mod standing;
pub(crate) mod strangers;
pub(crate) mod sweep;
pub(crate) mod tag;
pub(crate) mod terms;
pub(crate) mod transaction;
pub(crate) mod txlog;
pub(crate) mod unchanged;
pub(crate) mod unique;
pub(crate) mod witness;

use std::sync::Arc;

use tokio::runtime::Handle;

use self::{
    by_key::WantedKeys, catalog::Catalog, checkpoint::Checkpoints, events::Events, expiry::Expiries,
    finisher::Finisher, forecast::Forecast, holders::Holders, lifecycle::Lifecycle, locate::Locator, looks::Looks,
    parked::Reaper, pending::Pending, quiet_reader::QuietReader, read_lease::Unprobed, read_locks::ReadLocks,
    records::Records, repairs::Repairs, schema::Schema, server::Server, standing::Standings, sweep::Sweeper,
    txlog::TxLog, unchanged::Unchanged, unique::Uniqueness,
};
use crate::options::ClientOptions;

/// The parts of one client, which all its handles share. Its own methods lock documents.
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
    pub(crate) standings: Standings,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) locator: Locator,
    pub(crate) read_locks: ReadLocks,
    pub(crate) uniqueness: Uniqueness,
    pub(crate) expiries: Expiries,
    pub(crate) forecast: Arc<Forecast>,
    pub(crate) wanted: WantedKeys,
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

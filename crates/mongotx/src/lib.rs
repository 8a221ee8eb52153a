//! ACID transactions with the full query language on MongoDB-compatible servers that have none.
//!
//! ```
//! use bson::doc;
//! # #[tokio::main]
//! # async fn main() -> mongotx::Result<()> {
//! let uri = "mongodb://127.0.0.1:27017";
//! # let server = local_mongod::Server::standalone().await.expect("a mongod");
//! # let uri = &server.uri();
//! let client = mongotx::Client::connect(uri).await?;
//! let accounts = client.database("bank").collection::<bson::Document>("accounts");
//! # accounts.insert_many(&[doc! {"_id": 1, "balance": 100}, doc! {"_id": 2, "balance": 0}]).await?;
//! let mut session = client.session();
//! session
//!     .with_transaction(async |session| {
//!         accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": -10}}).session(session).await?;
//!         accounts.update_one(doc! {"_id": 2}, doc! {"$inc": {"balance": 10}}).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! assert_eq!(accounts.find_one(doc! {"_id": 2}).await?, Some(doc! {"_id": 2, "balance": 10}));
//! # Ok(()) }
//! ```
//!
//! Start reading at [`Client`], [`Session`] and [`Collection`]; inside, at `command` (what each
//! MongoDB command means) and `coordinator` (how a transaction runs).

mod backoff;
#[cfg(doctest)]
mod book;
mod caller;
pub mod client;
mod clock;
pub mod collection;
mod command;
mod coordinator;
pub mod cursor;
pub mod database;
pub mod document;
pub mod error;
pub mod guard;
pub mod metrics;
mod namespace;
mod numbers;
pub mod options;
mod process_info;
mod scoped;
pub mod session;
mod steps;
mod waiting;

pub use protocol::{ClientId, Concern, TxId};

pub use self::{
    backoff::Backoff,
    client::{Changes, Client, ClientInfo, LockedDocument},
    clock::{Clock, LogicalClock},
    collection::{Aggregate, Collection, IndexModel, Modification, ReturnDocument, WriteModel},
    command::{
        bulk::{bulk_write::BulkWriteResult, direct_batch::PartialBulkResult},
        events::{Event, Position},
        writes::{find_and_modify::FindAndModifyResult, update::UpdateResult},
    },
    coordinator::{
        cleaning::{
            checkpoint::{Checkpoint, CheckpointPreparation, CheckpointResult},
            sweep::SweepResult,
        },
        log::{record_databases::drop_record_database, txlog::Outcome},
        stamps::retry_history::RetryHistory,
        stored::own_collections::is_own_collection,
    },
    cursor::Cursor,
    database::{CollectionInfo, Database},
    error::{Conflict, DuplicateKey, Error, ErrorKind, Result},
    metrics::Metrics,
    namespace::Namespace,
    options::{ChangeStreams, ClientOptions, Isolation, TransactionOptions, Verbosity},
    process_info::ProcessInfo,
    scoped::{with_comment, without_validation},
    session::Session,
    waiting::{Wait, Watch},
};
#[cfg(feature = "testing")]
pub use self::{
    options::Layout,
    steps::{Step, StepHook},
};

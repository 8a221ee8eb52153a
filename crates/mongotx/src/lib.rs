//! ACID transactions with the full query language on MongoDB-compatible servers that have none.
//!
//! ```no_run
//! use bson::doc;
//! # async fn example() -> mongotx::Result<()> {
//! let client = mongotx::Client::connect("mongodb://127.0.0.1:27017").await?;
//! let accounts = client.database("bank").collection::<bson::Document>("accounts");
//! let mut session = client.session();
//! session
//!     .with_transaction(async |session| {
//!         accounts.update_one(doc! {"_id": 1}, doc! {"$inc": {"balance": -10}}).session(session).await?;
//!         accounts.update_one(doc! {"_id": 2}, doc! {"$inc": {"balance": 10}}).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! Start reading at [`Client`], [`Session`] and [`Collection`]; inside, at `command` (what each
//! MongoDB command means) and `coordinator` (how a transaction runs).

mod about;
mod backoff;
#[cfg(doctest)]
mod book;
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
mod scoped;
pub mod session;
#[doc(hidden)]
pub mod steps;
mod waiting;

pub use protocol::{ClientId, Concern, TxId};

#[doc(hidden)]
pub use self::steps::{Step, StepHook};
pub use self::{
    about::About,
    backoff::Backoff,
    client::{Changes, Client, ClientInfo, LockedDocument},
    clock::{Clock, LogicalClock},
    collection::{Aggregate, Collection, IndexModel, Modification, ReturnDocument, WriteModel},
    command::{
        bulk::BulkWriteResult,
        each::FirstWrites,
        events::{Event, Position},
        find_and_modify::Modified,
        update::UpdateResult,
    },
    coordinator::{
        cleaning::{
            checkpoint::{Checkpoint, Ended, Settled},
            sweep::Swept,
        },
        log::{strangers::drop_record_database, txlog::Fate},
        stamps::quiet::Attempts,
        stored::own_collections::is_own_collection,
    },
    cursor::Cursor,
    database::{CollectionInfo, Database},
    error::{Conflict, DuplicateKey, Error, ErrorKind, Result},
    metrics::Metrics,
    namespace::Namespace,
    options::{ChangeStreams, ClientOptions, Isolation, Layout, TransactionOptions, Verbosity},
    scoped::{with_comment, without_validation},
    session::Session,
    waiting::{Wait, Watch},
};

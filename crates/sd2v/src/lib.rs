//! Single Document Two Versions: the stored document, and the rewriting of what users write into
//! what the server runs.
//!
//! Pure: BSON in, BSON out. No driver, no clock, no randomness, no async. Source: paper 000,
//! sections 4.2 and 5.2.
//!
//! - [`difference`]: what has changed between two versions of a document, as events of change
//!   streams state it.
//! - [`names`]: the reserved fields, the one place that spells them.
//! - [`stored`]: reading a stored document: its locks, its versions.
//! - [`statement`]: the update statements of the protocol: lock, mark as removed, finish, undo,
//!   read locks.
//! - [`fields`]: fields that filters, orders, projections and indexes look at, and updates change.
//! - [`filter`], [`expression`], [`update`], [`projection`]: rewriting from the application's
//!   fields to `_unsafe`.
//! - [`geo`]: queries by distance, on both versions.
//! - [`guard`]: no write brings a reserved field to the top level of a stored document.
//! - [`index`]: indexes as the application specifies them and as they are stored; which values an
//!   index holds.
//! - [`raw`]: documents and updates that are bytes still, and may stay so.
//! - [`shard`]: shard keys, which every command about one document carries.
//! - [`unheld`]: updates by `_id` that the server refuses where the document is held.
//! - [`validator`]: a collection's validator, made to judge unsafe versions.
//! - [`pipeline`]: aggregation pipelines, with every collection mapped where it is read.
//! - [`text`]: text searches in a transaction's own view, and what a text index refuses.
//! - [`view`]: aggregation stages that map each stored document to the version a transaction may
//!   see.
//!
//! A balance of 10 is raised by 5:
//!
//! ```
//! use bson::doc;
//! use sd2v::{
//!     names::{UNSAFE, WRITER, tx_id_to_bson},
//!     statement::{OwnReadLock, lock_copy},
//!     stored::{extract, whole_lock_state},
//!     update::{Update, rewrite_update},
//! };
//! use protocol::{ClientId, LockState, TxId, TxStatus, Version, lock::visible_version};
//!
//! let writer = TxId { client: ClientId([1; 12]), seq: 7 };
//!
//! // Two statements of MongoDB's `update`: one locks a clean document, one changes the copy.
//! let lock = lock_copy(doc! {"_id": 1}, writer, OwnReadLock::None, false);
//! let change = rewrite_update(&Update::parse_update(doc! {"$inc": {"balance": 5}}.into())?)?;
//! assert_eq!(change, doc! {"$inc": {"_unsafe.balance": 5}}.into());
//! let copied = lock.get_array("u").unwrap()[0].as_document().unwrap().get_document("$set").unwrap();
//! assert_eq!(copied.get_str(UNSAFE).unwrap(), "$$ROOT");
//!
//! // What the server stores then, and what transactions see of it.
//! let stored = doc! {"_id": 1, "balance": 10, UNSAFE: {"_id": 1, "balance": 15}, WRITER: tx_id_to_bson(writer)};
//! let locks = whole_lock_state(&stored)?;
//! assert_eq!(locks, LockState { writer: Some(writer), ..LockState::default() });
//! let seen = |status| visible_version(&locks, None, |_| status).and_then(|version| extract(stored.clone(), version));
//! assert_eq!(seen(TxStatus::Active), Some(doc! {"_id": 1, "balance": 10}));
//! assert_eq!(seen(TxStatus::Committed), Some(doc! {"_id": 1, "balance": 15}));
//! # Ok::<(), sd2v::Error>(())
//! ```
//!
//! What is *not* here: when a statement may be sent (`mongotx-protocol`), and sending it
//! (`mongotx`).

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod difference;
pub mod error;
pub mod expression;
pub mod fields;
pub mod filter;
pub mod geo;
pub mod guard;
pub mod index;
pub mod names;
mod near;
pub mod pipeline;
pub mod projection;
pub mod raw;
mod reserved;
pub mod shard;
mod shard_key;
pub mod statement;
pub mod stored;
pub mod text;
pub mod unheld;
pub mod update;
pub mod validator;
pub mod view;
pub mod visible;
pub mod words;

pub use error::Error;
pub use visible::Visible;

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

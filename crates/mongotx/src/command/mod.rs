//! One file per MongoDB command: the one place where each gets its transactional meaning.
//!
//! Every command takes the transaction it runs in, or none. Outside a transaction, a plain read
//! sees what is committed, a write of one document is one conditional command on a clean document,
//! and a write of several is a transaction of its own ([`implicit`]). Several writes of one
//! document each may share a command ([`direct_batch`]). [`commit`] ends a transaction with a
//! decision; [`events`] are commands in it, too, and leave the events of change streams.
//! [`validation`] reads again before a decision, or [`validation_ahead`] of it, behind the last
//! insert.
//!
//! Below the commands stands what they share, so that none of them uses one that uses it:
//!
//! | what | modules |
//! | --- | --- |
//! | reads by isolation level | [`committed`] (its header has the ways that a query takes), and on it [`repeatable`] and [`validated`] |
//! | the ways of a query | [`fetch`], [`fetch_key`], [`unprobed`], [`beside_own_changes`], [`probed`], [`one_command`], [`repair_first`], [`own_view`], [`text`] |
//! | reads that are sent again before a decision | [`combined_rereads`], on [`reads_in_order`] |
//! | the [`plan`] of a pipeline | [`views`], [`query_stages`], [`groups`] |
//! | writes as the application gives them | [`write_commands`] |
//! | the ways of a write in a bulk | [`combined_writes`], [`upserts`]; of an insert under unique indexes [`unique_inserts`] |
//! | writes outside transactions | [`direct`], [`direct_batch`], [`point_write`] |

pub(crate) mod aggregate;
mod beside_own_changes;
pub(crate) mod bulk;
mod collection_events;
pub(crate) mod combined_rereads;
mod combined_writes;
pub(crate) mod commit;
pub(crate) mod committed;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod direct;
pub(crate) mod direct_batch;
pub(crate) mod distinct;
pub(crate) mod documents;
pub(crate) mod drop;
mod either_version;
pub(crate) mod events;
pub(crate) mod explain;
mod fetch;
mod fetch_key;
pub(crate) mod find;
pub(crate) mod find_and_modify;
mod groups;
pub(crate) mod implicit;
pub(crate) mod insert;
pub(crate) mod one_command;
mod order;
pub(crate) mod output;
pub(crate) mod own_view;
mod plain_projection;
mod plan;
pub(crate) mod point_read;
pub(crate) mod point_write;
pub(crate) mod probe;
mod probed;
mod query_stages;
mod reads_in_order;
pub(crate) mod rematch;
pub(crate) mod rename;
mod repair_first;
pub(crate) mod repeatable;
pub(crate) mod text;
mod unique_inserts;
mod unprobed;
pub(crate) mod update;
mod upsert;
mod upserts;
pub(crate) mod validated;
pub(crate) mod validation;
mod validation_ahead;
pub(crate) mod views;
mod wide_probe;
pub(crate) mod write_commands;

//! One file per MongoDB command: the one place where each gets its transactional meaning.
//!
//! Every command takes the transaction it runs in, or none. Outside a transaction, a plain read
//! sees what is committed, a write of one document is one conditional command on a clean document,
//! and a write of several is a transaction of its own ([`implicit`]). Several writes of one
//! document each may share a command ([`each`]). [`commit`] ends a transaction with a decision;
//! [`events`] are commands in it, too, and leave the events of change streams. [`validation`] reads
//! again before a decision, or [`ahead`] of it, behind the last insert.
//!
//! Below the commands stands what they share, so that none of them uses one that uses it: reads by
//! isolation level ([`committed`], and on it [`repeatable`] and [`validated`]), the [`plan`] of a
//! pipeline, and the writes as the application gives them ([`write_commands`]).

pub(crate) mod aggregate;
mod ahead;
mod asking;
mod beside;
mod both;
pub(crate) mod bulk;
mod collection_events;
pub(crate) mod commit;
pub(crate) mod committed;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod direct;
pub(crate) mod distinct;
pub(crate) mod documents;
pub(crate) mod drop;
pub(crate) mod each;
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
mod picked;
mod placing;
mod plan;
pub(crate) mod point_read;
pub(crate) mod point_write;
pub(crate) mod probe;
mod probed;
mod query_stages;
pub(crate) mod rematch;
pub(crate) mod rename;
pub(crate) mod repeatable;
mod settled;
pub(crate) mod text;
mod together;
pub(crate) mod united;
mod unprobed;
pub(crate) mod update;
mod upsert;
mod upserts;
pub(crate) mod validated;
pub(crate) mod validation;
pub(crate) mod views;
mod wide_probe;
pub(crate) mod write_commands;

//! Commands that write documents, in a transaction and outside one. Documents are locked and
//! changed by `crate::coordinator::locking`; several writes of one call are in [`super::bulk`].
//!
//! | file | content |
//! | --- | --- |
//! | [`write_commands`] | the writes as the application gives them |
//! | [`insert`], [`update`], [`delete`], [`find_and_modify`] | a file for each command |
//! | [`insert_many`] | inserts of several documents, batch by batch |
//! | [`upsert`], [`rematch`] | an update that matched nothing: the insert, and another look after a duplicate key |
//! | [`unique_inserts`] | inserts under unique indexes, compared with what is committed by the same command |
//! | [`direct`], [`point_write`] | one document outside a transaction: one conditional command; the same as bytes |
//! | [`implicit`] | several documents outside a transaction: a transaction of its own |
//! | [`dry_run`] | how the server would answer a write that matches nothing |

pub(crate) mod delete;
pub(super) mod direct;
mod dry_run;
pub(crate) mod find_and_modify;
pub(crate) mod implicit;
pub(crate) mod insert;
pub(crate) mod insert_many;
pub(crate) mod point_write;
mod rematch;
mod unique_inserts;
pub(crate) mod update;
pub(super) mod upsert;
pub(crate) mod write_commands;

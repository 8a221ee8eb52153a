//! The one place where each MongoDB command gets its transactional meaning.
//!
//! Every command takes the transaction it runs in, or none. Outside a transaction, a plain read
//! sees what is committed, a write of one document is one conditional command on a clean document,
//! and a write of several is a transaction of its own.
//!
//! A folder may use those above it in this table and none below it. Start reading at
//! [`isolation::committed`], which has the ways that a query takes, at [`writes::update`] and at
//! [`commit`].
//!
//! | folder | content |
//! | --- | --- |
//! | [`query`] | parts of which queries and their answers consist |
//! | [`access_paths`] | the ways in which a query is sent |
//! | [`isolation`] | reads by isolation level, and validation |
//! | [`writes`] | commands that write documents |
//! | [`bulk`] | several writes of one call |
//! | [`reads`] | commands that read |
//! | [`events`] | the events of change streams, which are documents that a commit writes |
//! | [`collections`] | dropping and renaming, and indexes |
//! | [`commit`] | the end of a transaction: events, validation, decision |

mod access_paths;
pub(crate) mod bulk;
pub(crate) mod collections;
pub(crate) mod commit;
pub(crate) mod events;
pub(crate) mod isolation;
pub(crate) mod query;
pub(crate) mod reads;
pub(crate) mod writes;

//! Reads by isolation level, and the validation of what was read. Locks are in
//! `crate::coordinator::locking`, the reads that a transaction remembers in
//! `crate::coordinator::read_set`.
//!
//! | file | content |
//! | --- | --- |
//! | [`committed`] | read committed, on which the others build: which of the [access paths](super::access_paths) a query takes |
//! | [`repeatable`] | repeatable read: what is read is locked first |
//! | [`validated`] | snapshot and serializable: what is read is noted |
//! | [`bracket`] | answers that cannot be compared, and what is noted in their place |
//! | [`reads_of_writes`] | what statements that write have found |
//! | [`validation`] | at the commit, what was noted is read again |
//! | [`validation_ahead`] | the same behind the last insert, in its write |
//! | [`combined_rereads`] | the reads of a validation that go together |

mod bracket;
mod combined_rereads;
pub(super) mod committed;
pub(super) mod reads_of_writes;
pub(super) mod repeatable;
pub(super) mod validated;
pub(crate) mod validation;
pub(super) mod validation_ahead;

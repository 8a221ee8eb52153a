//! Change stamps: when transactions last changed each collection, as values and as memory of this
//! client. [`super::validating`] looks at those of others.
//!
//! | file | content |
//! | --- | --- |
//! | [`changes`] | the stamps in a client's record |
//! | [`change_look`] | a look at the stamps of all records, compared with another one |
//! | [`closed_records`] | records that are closed, which no look has to read again |
//! | [`tag`] | their names: a collection, and which of its documents |
//! | [`notice`] | collections in which a client says that it writes outside transactions |
//! | [`own_changes`] | stamps and fields that this client is changing |
//! | [`begin_point`] | the change stamps, and the own changes, at which a transaction began |
//! | [`retry_history`] | how the last transactions of a session have ended |
//! | [`quiet`] | a reader's request that no transaction is decided for a moment |
//! | [`moment`] | moments by two clocks, which only err to the safe side |

pub(crate) mod begin_point;
pub(crate) mod change_look;
pub(crate) mod changes;
pub(crate) mod closed_records;
pub(crate) mod moment;
pub(crate) mod notice;
pub(crate) mod own_changes;
pub(crate) mod quiet;
pub(crate) mod retry_history;
pub(crate) mod tag;

//! Documents are made clean after a decision: by the transaction's client, or by a rival that meets
//! them.
//!
//! | file | content |
//! | --- | --- |
//! | [`documents`] | finishes or undoes any number of documents by one command |
//! | [`finisher`] | the owner's: many transactions in one command, a moment after the decision |
//! | [`repairs`] | a rival's: what decided transactions have left |
//! | [`holders`] | statuses of the transactions that held a document when it was fetched |
//! | [`lock_wait`] | waiting for a rival that is not decided, then a conflict |

pub(crate) mod documents;
pub(crate) mod finisher;
pub(crate) mod holders;
pub(crate) mod lock_wait;
pub(crate) mod repairs;

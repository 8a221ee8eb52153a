//! A query without a probe beside what transactions of its own client have left, or are being
//! decided, explored completely: a small model of decision 0077.
//!
//! One server, one client that holds a read lease all the time, and three documents that every
//! query finds, whatever has become of them. The client's transactions write to some of them, take
//! over what an earlier one has left, begin to be decided, and are committed or not. Documents are
//! finished, in any order, by the client once it knows the outcome, or by a client that only reads
//! as soon as the server has decided. The query is permitted, reads the documents one after the
//! other in any order, asks for outcomes that it needs, looks at what has begun to be decided
//! meanwhile, and is believed or not. Any step may happen between two others.
//!
//! - `plan`: plans of explorations, and rules that can be broken on purpose.
//! - `state`: the states; `steps`: the names of the steps; `transaction`, `query`: what they do;
//!   `model`: all of it, as it is explored, and what must hold.
//!
//! The model leaves out: the lease, newcomers, and restarts of the server (`read_lease` has them,
//! and an answer is believed only in the process and the lease of its permit); changes of fields on
//! which it depends which documents are found, inserts and removals (they forbid the permit, and
//! the answer); answers of several batches (not believed); decisions whose outcome stays unknown
//! (the lease is lost); scans that miss a document (no index of the collection changes); documents
//! that the server refuses to finish; writes outside transactions, each of which is one document at
//! one moment; documents of the query's own transaction, which no other client changes while it
//! is under way.

pub mod model;
pub mod plan;
pub mod query;
pub mod state;
pub mod steps;
pub mod transaction;

pub use model::explore;
pub use plan::{Breakage, Plan};

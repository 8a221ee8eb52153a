//! A replica set whose primaries change, explored completely: a small model beside the one of a
//! single server, with the decisions of `protocol::recorder`, `protocol::status` and
//! `protocol::lock`.
//!
//! Three members keep a log each. A member that at least half of the others vote for becomes
//! primary in a new term, if its log is as new as theirs; a primary that has not heard of the new
//! term goes on answering. A member that follows another primary loses the other entries of its own
//! log. An entry that only one member has acknowledged can therefore be lost, and one that a
//! majority has cannot. A former primary that follows may become primary again. Connections to it
//! are kept all the while, so the epoch of a connection is no evidence here, and never changes in
//! this model.
//!
//! A transaction changes two documents. Each of its writes, its decision, every fence, repair,
//! finish and durable read counts when the majority has acknowledged it (`w: "majority"`, and no
//! `writeConcernError`). Stamps count when the primary has them, because the next write demands
//! them. A process sends no command to a primary that is older than one that has answered it; each
//! driver ensures that for its own connections.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `members`: logs, terms, elections; `state`: the states.
//! - `owner`: the transaction and its record; `sweeper`: a rival that fences, repairs and retires.
//! - `steps`: the steps that are possible; `properties`: the properties that must hold; `model`:
//!   all of it, as it is explored.
//!
//! The model of one server explores several transactions and clients, late messages, aborts, and
//! collections that a record lists. This model leaves out reads of users (from an old primary they
//! may be old), members without data, changes of the set's members, and restarts of members (the
//! majority's journals keep acknowledged writes).

pub mod breakage;
pub mod members;
pub mod model;
pub mod owner;
pub mod plan;
pub mod properties;
pub mod state;
pub mod steps;
pub mod sweeper;

pub use breakage::Breakage;
pub use model::explore;
pub use plan::{Faults, Plan};

//! A replica set whose primaries change, explored completely: a small model beside the one of a
//! single server, with the decisions of `protocol::recorder`, `protocol::status` and
//! `protocol::lock`.
//!
//! Three members keep a log each. A member that at least half of the others follow becomes primary
//! in a new term, if its log is as good as theirs; a primary that has not heard of it goes on
//! answering. A member that follows another primary loses what its own log has more. So what one
//! member has acknowledged can be lost, and what a majority has cannot. A member that was primary,
//! and follows, may be primary again: connections to it are kept all the while, so the epoch of a
//! connection says nothing here, and never changes in this model.
//!
//! A transaction changes two documents. Each of its writes, its decision, every fence, repair,
//! finish and durable read counts when the majority has acknowledged it (`w: "majority"`, and no
//! `writeConcernError`); stamps count when the primary has them, because the next write demands
//! them. A process sends nothing to a primary that is older than one that has answered it: drivers
//! see to it, for each of their own.
//!
//! - `plan`: what one exploration contains; `breakage`: what can be broken on purpose.
//! - `members`: logs, terms, elections; `state`: what there is.
//! - `owner`: the transaction and its record; `sweeper`: a rival that fences, repairs and retires.
//! - `steps`: which steps there are; `properties`: what must hold; `model`: all of it, as it is
//!   explored.
//!
//! Left out, because the model of one server explores it: several transactions and clients, late
//! messages, kills, collections that a record lists. Left out altogether: reads of users (from an
//! old primary they may be old), members without data, changes of the set's members, restarts of
//! members (the majority's journals keep what is acknowledged).

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

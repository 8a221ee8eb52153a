//! A client that reads without probes while it is alone, explored completely: a small model of
//! decision 0066.
//!
//! One server, and two clients. The *holder* writes a flag into its record, lists the open records,
//! and holds the lease for a while if it is alone; then it sends plain queries, which see only
//! finished documents. The *newcomer* inserts its record, looks for the flag, waits if it is there,
//! and then decides one transaction. The holder has a transaction of its own with two documents.
//!
//! Time is a number of ticks, and any number of steps may happen within a tick. Every command is
//! sent, carried out by the server later, and answered later still; commands overtake each other.
//! No client has to take a step that is possible: one that takes none is paused or dead, and a
//! command that is not carried out is late.
//!
//! Faults: ticks that the holder's clock misses, a sweep that fences and closes the record of a
//! living holder, a decision whose answer is lost, and a restart of the server, after which
//! finished documents may be back as they were before. The client learns from a connection which
//! process of the server it belongs to, before it sends a command over it.
//!
//! Where decision 0066 leaves a choice, the model takes the safe one, and the other is a breakage:
//! a lease that has run out begins a new period when it is renewed; a list that was sent before the
//! lease was dropped does not count; each flag has a new name, or is written only when the command
//! that takes away the one before was answered; a newcomer that has waited to the end takes a flag
//! away only where the record is fenced or closed.
//!
//! - `plan`: plans of explorations; `breakage`: rules that can be broken on purpose.
//! - `state`: the states; `lease`: the holder's flag and lists; `query`: its queries; `own`: its
//!   transaction; `newcomer`: the other client; `server`: sweeps, restarts, and time.
//! - `steps`: the steps; `properties`: the properties that must hold; `model`: all of it,
//!   as it is explored.
//!
//! The other models explore locks, decisions, repairs and sweeps; here a decision and a sweep are
//! one step each, and so is a look for pending documents with their finish. Collections are settled
//! only in plans with restarts: no other fault leaves something to find.
//!
//! The model leaves out: demand, and all numbers in milliseconds; clocks other than the holder's
//! (the newcomer's runs evenly; the server's, which dates closed records, is not set); newcomers at
//! the same time, and one that becomes a holder; a holder with several records, and one that
//! registers anew; flags that come back after a restart (they only make newcomers wait), and all
//! other losses of a restart (fences, flags and inserts are journaled before they count); documents
//! that the server refuses to finish; one-phase commits; own decisions that begin during a query
//! (its answer may show part of them); later batches of a query (what was decided before it was
//! sent is finished when its first batch counts); clients of earlier versions.

pub mod breakage;
pub mod lease;
pub mod model;
pub mod newcomer;
pub mod own;
pub mod plan;
pub mod properties;
pub mod query;
pub mod server;
pub mod state;
pub mod steps;

pub use breakage::Breakage;
pub use model::explore;
pub use plan::Plan;

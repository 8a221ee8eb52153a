//! The model: an exhaustive exploration of small clusters that run the real
//! [`Node`](crate::core::Node).
//!
//! Messages arrive in any order; within budgets they also arrive twice or never. Log records become
//! durable at any step. A server crashes at any step, within a budget; it keeps any prefix of the
//! records that were not durable, and all or none of the writes that the storage had not persisted;
//! those that it keeps may be lost in its next crash.
//! Timers go off when nothing else is under way, and within a budget also earlier. Garbage is
//! collected within a budget.
//!
//! In the plans whose names contain "apart", each event between two machines of a server is also a
//! step of its own, and any other step may come before it. A slow storage also carries out commands
//! in any order, and its answers arrive in any order.
//!
//! A request that waits for a lock gives way to older ones, or is dropped from the queue, at any
//! step at which a timer may go off.
//!
//! Within a budget, a server learns at any step that its connection to another server is lost.
//! Messages under way still arrive then; a connection that is lost for good is explored as a lost
//! connection and lost messages.
//!
//! A plan may begin after some transactions: the exploration then starts with their writes and with
//! the locks that are kept for them.
//!
//! In a plan that ruins a server, that server is lost for good at any step. At any step after that
//! an operator decides about what the others are in doubt about: every decision that their logs
//! allow.
//!
//! A transaction of a plan may move a range to another server. Clients ask the holder by the stored
//! maps, or always the first one.
//!
//! In a plan with old lists the last server joins: the others are restarted with a list that has
//! it, at any step, and it takes part once all have been. Messages between it and a server whose
//! list lacks it are lost.
//!
//! The model leaves out durations and late messages of clients, which the simulation covers, and
//! scans, and with them locks on ranges, but for those of moves. Of moves it leaves out what
//! clients learn from refusals, the limits of maps, and groups; of servers that join, how a list is
//! remembered, groups, and what clients learn.
//!
//! - `group`: a server that is a group of three, with its own steps and checks; Raft is abstract
//!   there. `members`: the machine of such members alone, with the real Raft.
//! - `plan`: the clients' transactions, and the budgets. `server`: a node with its disk. `state`:
//!   the cluster, and its possible steps. `step`: what a step does. `operator`: decisions about
//!   what is in doubt.
//! - `properties`: the checks of each state without messages under way, and of the state in which
//!   the cluster comes to rest from there without faults.

mod explore;
mod group;
mod members;
mod operator;
mod plan;
mod properties;
mod server;
mod state;
mod step;

mod tests;

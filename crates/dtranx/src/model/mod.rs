//! The model: small clusters of the real nodes, and everything that can happen to them, explored
//! exhaustively.
//!
//! Messages arrive in any order, within budgets also twice or never; records become durable when it
//! pleases the disk; a server crashes at any step, keeping any prefix of what was not durable, and
//! either all or nothing of what the storage had not persisted; timers go off when nothing else is
//! on its way, within a budget also early; garbage is collected within a budget.
//!
//! In the plans whose names say "apart", each event from one machine of a server to another is a
//! step of its own, too: anything else may happen before it arrives. Where the storage is slow, it
//! also does what it is asked in any order, and its answers are heard in any order.
//!
//! A request that waits for a lock gives way to older ones, or is dropped from the queue, at any
//! step at which a timer may go off.
//!
//! A server learns at any step that the connection to another is lost, within a budget; what is on
//! its way arrives all the same, so that all that comes of a connection that is lost for good is
//! messages that are lost.
//!
//! Where a plan says so, some transactions are over when it begins, and what is explored begins
//! with their writes and the locks that are kept for them.
//!
//! Left out: how long anything takes, clients whose messages are late (the simulation has both),
//! locks on ranges.
//!
//! - `plan`: what the clients do, and the budgets. `server`: a node with its disk. `state`: the
//!   cluster, and its steps.
//! - `properties`: what must be true whenever the network is empty, and of everything that comes of
//!   it without faults.

mod explore;
mod plan;
mod properties;
mod server;
mod state;

mod tests;

//! The model of a group's members: two to four real machines
//! ([`Group`](crate::core::group::Group)), with the kept Raft in them, and their disks.
//!
//! The model `group` has the node on top of a group, and keeps Raft abstract: an election is one
//! step there, and so is a batch. Here it is the other way round. Messages are those of the
//! machine: each arrives at any step, or never, and within a budget twice. Members sync at any
//! step; they crash at any step, within a budget, and keep any prefix of the records that were not
//! synced, which are states and entries. Members stand for election, leaders step down and begin
//! rounds, and their nodes append entries and say what speaks of now, at any step, within budgets.
//! Leaders change the members (decision 0088), by joint configurations that are entries like
//! others.
//!
//! In each state:
//! - a member acts on an entry (applies it, or tells its node of it) that is on its own disk and on
//!   a majority's, and all members act on the same ones; what was acted on stays on a majority's
//!   disks for good (G1, G2, G3, G5, G8, G17). A majority is one by the configuration that some
//!   member has in force;
//! - the leader of the latest term has, when it is elected, all that was acted on before, whatever
//!   the configurations are (0088: C1, C2, C3);
//! - a store that has taken a lost one's place follows without a vote, and when it has one, what
//!   was acted on is on a majority's disks again (0081: R1 to R5); before, the lost disk counts;
//! - a term has one leader and one life, which begins with its first entry on a majority's disks
//!   (G3, G4), and a leader that steps down ends its life;
//! - an answer that was said when a later term had a leader never leaves (G6);
//! - two logs that have an entry in common have all before it in common; no member stops;
//! - from a state with nothing under way, and nothing to sync, the members elect a leader, by
//!   PreVote, and come to rest with one log. A change of members that was under way is over then,
//!   or void, and those that are gone need not have that log.
//!
//! Left out:
//! - late messages that are sure to have no effect, rounds that nothing waits for, and, but in
//!   plans that say so, batches that their receiver refuses: they are forgotten;
//! - what is in the entries, and the node on top of them, which are those of `group`;
//! - clocks: PreVote and CheckQuorum only decide when to ask, so elections and ends of leaders come
//!   at any step, and PreVote is in the last property alone;
//! - damage, other stores (G9, G10), and removed entries and items, which are for unit tests, with
//!   them the configuration before a log's beginning (0088, C9);
//! - learners that are behind: those of a plan begin with what all have, and have met all others.
//!   Who meets an unknown member hears it at once, as a handshake would tell it (0088, C6);
//! - stores of places as notes: a lost store is exchanged in configurations when a member notes the
//!   next one (0088, C10), and a rejoining one is given the configuration of those that it asks;
//! - a second store that is lost, and with it the comparison of members in answers; a store that
//!   runs on after all others have noted another in its place, and two empty ones for one place;
//! - what a member writes about stores: it is durable when the member starts again (0081, R1);
//! - groups of five and seven.
//!
//! - `plan`: budgets. `change`: changes of the members. `state`: members, messages, steps, and what
//!   is noted in each. `rejoin`: a store that is lost, and the one in its place. `check`: the
//!   properties of a state.

mod change;
mod check;
mod plan;
mod rejoin;
mod state;

mod tests;

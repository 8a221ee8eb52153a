//! The model of a group: three members that keep one log, as decision 0075 describes it.
//!
//! For its cluster the group is server 1; server 2 stands alone and never fails. Whoever leads the
//! group runs the real [`Node`](crate::core::Node), and begins it from the log by the real
//! recovery, so transactions are those of the real protocol. Each record is an entry, and a
//! segment, of its own.
//!
//! Raft itself is taken from a crate and is abstract here: an election is one step, by the votes of
//! two members; so is a batch, from the leader that sends it to the follower that has it synced and
//! the leader that counts it; a member that a leader has not reached yet may be reached late, by a
//! leader that another one has replaced, or with fewer entries than before. Clocks are left out:
//! elections begin at any step, within a budget.
//!
//! What belongs to DTranx is kept (the rules have the numbers of the decision record):
//! - a leader's records are durable in its own log at any step later, and reported when they are
//!   committed, too (G1); batches and votes by term (G2, G10); the node of a life begins with its
//!   first entry (G4); members apply what is committed (G5);
//! - answers that speak of now wait for a round (G6), and inquiries are answered for earlier lives
//!   only (G7);
//! - a follower voids entries from the first that differs (G8); a log that lost what was synced,
//!   and a folder that is empty, have no vote (G9, G10), and get one when they have caught up;
//! - marks are entries, members remove what these cover by themselves, and a follower that needs
//!   what was removed gets the items (G11, G12).
//!
//! Members crash at any step, within a budget, and keep any prefix of the entries that were not
//! synced, and all or none of what their items had not persisted. Messages between the two servers
//! arrive in any order, and reach any member that believes to lead.
//!
//! Left out: the bytes of the log, and how damage is told from a torn tail; PreVote and
//! CheckQuorum, on which no result rests; term and vote that are synced late, which is the crate's;
//! changes of members as entries: a store gets its vote in one step, when all have caught up; a
//! transfer of items in pieces; messages that are lost or repeated, which the model of single
//! servers has; answers that a client asks for after an election.
//!
//! - `plan`: transactions, budgets, and the rules that a test breaks. `member`: a member's log and
//!   terms. `state`: steps. `replicate`: what passes between members. `check`: properties.

mod check;
mod member;
mod plan;
mod replicate;
mod state;

mod tests;

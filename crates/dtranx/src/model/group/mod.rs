//! The model of a group: three members that keep one log, as decision 0075 describes it.
//!
//! For its cluster the group is server 1; server 2 stands alone and never fails. The leader of the
//! group runs the real [`Node`](crate::core::Node), and begins it from the log by the real
//! recovery, so transactions are those of the real protocol. Each record is an entry, and a
//! segment, of its own.
//!
//! Raft itself is taken from a crate and is abstract here (the model `members` has the real one):
//! an election is one step, by the votes of two members; so is a batch, from the leader that sends
//! it to the follower that has it synced and the leader that counts it; a member that a leader has
//! not reached yet may be reached late, by a leader that another one has replaced, or with fewer
//! entries than before. Clocks are left out: elections begin at any step, within a budget.
//!
//! What belongs to DTranx is kept (the rules have the numbers of the decision record):
//! - a leader's records are durable in its own log at any step later, and reported when they are
//!   committed, too (G1); batches and votes by term (G2, G10); the node of a life begins with its
//!   first entry (G4); members apply what is committed (G5);
//! - answers that speak of now wait for a round that begins after them (G6); inquiries, and clients
//!   who ask after their commits, are answered for earlier lives only (G7, G14); epochs count once
//!   a committed entry reserves them (G13), and what was kept of replaced items counts for one life
//!   (G19);
//! - a follower voids entries from the first that differs (G8); a log that lost what was synced,
//!   and a folder that is empty, have no vote (G9, G10), and get one when they have caught up;
//! - the leader's node logs its marks, members remove what these cover by themselves, by the real
//!   garbage collection, and a follower that needs what was removed gets the items (G11, G12), in
//!   two pieces, under a name and without the leader's term (G15, G16);
//! - a follower may tell what its log ends with before it has a batch, and is counted if that
//!   matches (G17); a full log refuses transactions, and no entries (G20); a leader whose disk
//!   hangs steps down (G21).
//!
//! Members crash at any step, within a budget, and keep any prefix of the entries that were not
//! synced, and all or none of what their items had not persisted. Messages between the two servers
//! arrive in any order, and reach any member that believes to lead.
//!
//! Left out:
//! - the bytes of the log, how damage is distinguished from a torn tail, and segments of several
//!   entries: that a life begins with a new one (G18) only shows in the flaw;
//! - term and vote that are synced late (G3), which the model `members` has, and which of two
//!   records of them counts (the rest of G15): a member forgets neither here, and every election
//!   succeeds, so that no member votes in a term that another member stands for;
//! - acknowledgements that are kept for the leader's next sync (the rest of G17), which `members`
//!   has: all are counted anew at each step;
//! - reads and writes that are under way when a life ends (the rest of G19): the storage answers at
//!   once;
//! - PreVote and CheckQuorum, on which no result rests;
//! - changes of members as entries: a store gets its vote in one step, when all have caught up;
//! - messages that are lost or repeated, which the model of single servers has;
//! - how many requests of earlier lives are known: a life knows those that its log still has.
//!
//! - `plan`: transactions, budgets, and the rules that a test breaks. `member`: a member's log and
//!   terms. `state`: possible steps. `step`: what a step does. `clients`: what clients do.
//!   `replicate`, `transfer`: what passes between members. `collect`: what they remove. `check`:
//!   properties.

mod check;
mod clients;
mod collect;
mod member;
mod plan;
mod replicate;
mod state;
mod step;
mod transfer;

mod tests;

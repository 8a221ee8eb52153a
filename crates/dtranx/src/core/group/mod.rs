//! The machine of one member of a group: the kept Raft (`noraft`), and around it the rules of
//! decision 0075 that keep a node of DTranx right on top of a replicated log. Events go in,
//! commands come out; there is no clock, no chance and no file here.
//!
//! A server's stage `group` runs it; the model `model/members` explores it.
//!
//! What a member has written is one sequence of writes, each with a number: entries, and the
//! *state* (term, vote, committed index). A disk keeps a prefix of that sequence, so "synced" is a
//! number of a write ([`Event::Synced`]), and not an index: an index may be written three times.
//! Entries are known by index and term; what is in them stays with the caller, whose log it is.
//!
//! Rules, by their numbers in the record, and where they are:
//! - `id`, `event`, `message`: members, events and commands, and what members send each other.
//! - `raft`: the crate's node, as a value that can be compared and hashed.
//! - `log`: what is written and what of it is synced; what an entry makes void (G8).
//! - `outbox`: votes leave when the term is synced (G3). `acknowledgement`: a follower tells what
//!   it has synced (G3), and a leader counts what it has itself, synced (G1, G17).
//! - `life`: when a node begins, hears that something is logged, and ends (G1, G4, G5).
//! - `rounds`: answers that speak of now wait for a round that begins after them (G6).
//! - `canvass`: PreVote. `contact`: CheckQuorum, and the leader whose disk hangs (G21).
//! - `config`: what a machine is started with. `machine`: these together, [`Group`]; `receive`: its
//!   messages; `carry_out`: what the crate wants. Nothing of a store that is not a member gets past
//!   the first line there (G10). Terms of batches are the crate's (G2), and who answers inquiries
//!   is the coordinator's (G7).
//! - `rejoin`: a store in the place of a lost one, which has no vote yet (decision 0081).
//!   `promised`: what the lost one can have promised.
//! - `configuration`: who counts, and majorities. `change`: how that changes, and who is heard
//!   beside (decision 0088).
//! - `flaw`: rules that a test breaks. `disk`, `model`: what a crash leaves of a log, and
//!   what a model need not tell apart.

mod acknowledgement;
mod canvass;
mod carry_out;
mod change;
mod config;
mod configuration;
mod contact;
#[cfg(test)]
pub(crate) mod disk;
mod event;
mod flaw;
mod id;
mod life;
mod log;
mod machine;
mod message;
#[cfg(test)]
mod model;
mod outbox;
mod promised;
mod raft;
mod receive;
mod rejoin;
mod rounds;

pub(crate) use config::Config;
pub(crate) use configuration::{Configuration, Placed};
pub(crate) use event::{Command, Damage, Event, Found, State, Timer, Unchanged};
#[cfg(test)]
pub(crate) use flaw::Flaw;
pub(crate) use id::{AnswerId, Entries, Index, MemberId, Position, Term, WriteId};
pub(crate) use machine::Group;
pub(crate) use message::Message;
pub(crate) use promised::{Promised, Rejoin};

#[cfg(test)]
mod tests;

//! Servers that are groups of three members (decision 0075): each member runs the real machine
//! (`core::group`), on a disk of its own that keeps any beginning of what was not synced; the
//! leader runs the real node, and the others the real recovery. Between members messages are lost,
//! repeated and late as between servers; members cannot reach each other, stand still, crash, lose
//! their disk for good, and their disks hang.
//!
//! - `super::member`: the state of a member, and a stand-in for its log. What is in an entry is
//!   known by its index and term, and travels beside the messages.
//! - `run`: carries out what the machine wants, and gives it events. `life`: how a node begins and
//!   ends. `collect`: which segments go.
//!
//! Left out: the bytes of the log; transfers of items, because no segment goes before every member
//! that has its disk has what is in it; and new members: a lost one stays away.

mod collect;
mod life;
mod run;

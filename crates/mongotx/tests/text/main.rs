//! Text searches: the same documents with the same scores as the plain driver finds in a copy of the visible versions under
//! the same index; and what a text index refuses.
//!
//! - `compare`: random searches, inside and outside transactions. `writes`: updates and deletes of what is found.
//! - `scratch`: what a search costs, and what it leaves. `demands`: documents that the index cannot hold.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod demands;
#[path = "../differential/random.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod random;
mod scene;
mod scratch;
mod writes;

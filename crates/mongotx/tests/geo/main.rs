//! Queries by place, compared with what the test computes itself: in the view of a transaction with writes of its own and of
//! somebody outside, while rivals are active, committed and not finished, or dead.
//!
//! - `earth`: distances. `view`: the documents as each may see them, and the brute-force answer. `queries`: random ones.
//! - `world`: a collection with everybody at work on it. `compare`: finds. `stage`: the `$geoNear` stage.
//! - `writes`: updates and deletes of what is nearest. `cost`: commands and indexes used.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod cost;
mod earth;
mod queries;
#[path = "../differential/random.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod random;
mod stage;
mod view;
mod world;
mod writes;

//! What every target of the registry must do, according to what it says it is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alone;
#[path = "../common/mod.rs"]
mod common;
mod concurrent;
mod faults;
mod queries;
mod rig;
mod transactions;

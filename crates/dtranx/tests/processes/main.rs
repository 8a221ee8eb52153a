//! Three real servers, killed, paused and cut off from each other while clients work: nothing acknowledged is lost, and
//! what the clients saw is strictly serializable.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod appends;
mod bank;
mod commands;
mod history;
#[path = "../shared/limit.rs"]
mod limit;
mod proxy;
mod trio;

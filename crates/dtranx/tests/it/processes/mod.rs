//! Tests of three real servers that are killed, paused and cut off from each other while clients
//! work. No acknowledged transaction may be lost, and the clients' history must be strictly
//! serializable.
pub(crate) mod appends;
mod backup;
mod bank;
pub(crate) mod commands;
mod group;
mod history;
mod join;
mod members;
mod moves;
mod once;
mod proxy;
mod snapshots;
mod trio;

//! Crash at every step: a client's process, and mongod itself, die at each named step of the
//! protocol.
//!
//! [`plan`] lives each scenario once undisturbed and notes which steps it reaches and how often;
//! [`client`] kills the client's process at each of them, [`server`] the server. After each,
//! `common::verify` checks the properties. [`holes`] kills the server where un-journaled writes
//! matter most, [`settled`] between the two commands of
//! a query.

mod client;
mod holes;
mod plan;
mod server;
mod settled;

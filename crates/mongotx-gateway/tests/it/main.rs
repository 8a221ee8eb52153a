//! The integration tests of `mongotx-gateway`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod another_database;
mod api_versions;
mod bypassed_validators;
mod codec;
mod comments;
mod common;
mod corpus;
mod dollar_fields;
mod driver;
mod durable_writes;
mod error_words;
mod example_programs;
mod fail_points;
mod handshake;
mod histories;
mod hoarders;
mod login;
mod lossless;
mod lost_connections;
mod many_statements;
mod memory_limit;
mod metrics;
mod mistyped;
mod modules;
mod one_moment;
mod panics;
mod point_reads;
mod point_writes;
mod privileges;
mod refusals;
mod reloading;
mod replica_set_face;
mod replicas;
mod reserved;
mod retryable_writes;
mod side_by_side;
mod sockets;
mod tls;
mod transactions;
mod upstream;
mod validated_reads;
mod web;
mod who;
mod writes;

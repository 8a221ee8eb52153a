//! The integration tests of `mongotx`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod aggregate;
mod bulk;
mod collations;
mod collections;
mod common;
mod crash;
mod differences;
mod differential;
mod expressions;
mod geo;
mod growth;
mod indexes;
mod interleavings;
mod limits;
mod metrics;
mod orphans;
mod outcome;
mod quiet;
mod random;
mod read_locks;
mod read_only;
mod replicas;
mod round_trips;
mod scripts;
mod sharding;
mod siblings;
mod smoke;
mod special;
mod stale_reads;
mod taking_over;
mod text;
mod upsert_races;
mod waiting;
mod zombies;

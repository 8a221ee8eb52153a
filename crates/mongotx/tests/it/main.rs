//! The integration tests of `mongotx`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod aggregate;
mod another_database;
mod bulk;
mod collations;
mod collections;
mod common;
mod crash;
mod differences;
mod differential;
mod doomed;
mod expressions;
mod geo;
mod growth;
mod histories;
mod indexes;
mod interleavings;
mod late;
mod left_open;
mod limits;
mod lossless;
mod metrics;
mod orphans;
mod outcome;
mod quiet;
mod random;
mod read_locks;
mod read_only;
mod replicas;
mod reserved;
mod round_trips;
mod scripts;
mod sharding;
mod siblings;
mod smoke;
mod special;
mod stale_reads;
mod sweeping;
mod taking_over;
mod text;
mod unfinishable;
mod upsert_races;
mod validation;
mod waiting;
mod zombies;

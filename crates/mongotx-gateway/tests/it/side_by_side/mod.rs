//! The same commands to the gateway and to a real replica set: the same replies, but for what no
//! two servers agree in (times, ids of cursors) and the words of errors. Intended differences are
//! in `differences.rs`, numbered as in `docs/gateway.md`.

mod batches;
mod commands;
mod differences;
mod explain;
mod index_reads;
mod map_reduce;
pub(crate) mod pair;
mod renamed;
mod statistics;
mod tailable;
mod transactions;

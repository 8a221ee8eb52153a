//! The stages of a server, one file each, but for those with connections (see `network` and `embedded`).

pub(super) mod gc;
pub(super) mod read;
pub(super) mod storage;
pub(super) mod transaction;
pub(super) mod wal;

/// The most events that are taken from a queue at once.
pub(super) const BATCH: usize = 512;

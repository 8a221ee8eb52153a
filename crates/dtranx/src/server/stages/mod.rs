//! The stages of a server, one file each, but for those with connections (see `network` and
//! `embedded`).

mod ack;
mod committed;
pub(super) mod follow;
pub(super) mod gc;
pub(super) mod group;
pub(super) mod lock;
pub(super) mod member_wal;
pub(super) mod pin;
pub(super) mod read;
mod recovery;
pub(super) mod side;
pub(super) mod storage;
mod summaries;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
pub(super) mod transaction;
pub(super) mod transfer;
pub(super) mod wal;

use crate::core::machine::Event;

/// The most events that are taken from a queue at once.
pub(super) const BATCH: usize = 512;

/// Error for an event to a machine that this stage has no queue to.
fn unexpected(event: &Event) -> String {
    format!("an event that it cannot hand on: {event:?}")
}

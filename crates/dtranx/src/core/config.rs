//! Configuration of a node: its cluster, its times and its limits.

use super::{flaw::Flaw, id::ServerId, partition::Partition};

/// The settings of one server's node. Times are in milliseconds of the clock that the node is
/// called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeConfig {
    /// The server of this node.
    pub me: ServerId,
    /// Every server of the cluster, in order: those without keys too, because they coordinate, and
    /// their low-water marks are needed to reclaim the log.
    pub servers: Vec<ServerId>,
    /// Map that says which server holds a key.
    pub partition: Partition,
    /// True if this server is new: it takes no part before all others know it.
    pub joins: bool,
    /// Time that a request waits for locks, in milliseconds: less than `vote_attempts` times
    /// `vote_resend_ms`, after which its coordinator gives up.
    pub lock_wait_ms: u64,
    /// Time that a request which has, or may have, locks on other servers waits behind an older one
    /// while nothing changes about its keys, in milliseconds.
    pub lock_patience_ms: u64,
    /// Time that locks are kept for one more attempt of a transaction whose reads were stale, in
    /// milliseconds.
    pub lock_keep_ms: u64,
    /// Added to the time that the node is called with, it gives milliseconds since 1970: servers
    /// send each other the age of a transaction.
    pub epoch_ms: u64,
    /// Time without a vote after which the request for it is repeated, in milliseconds.
    pub vote_resend_ms: u64,
    /// Greatest number of vote requests before the transaction is refused.
    pub vote_attempts: u32,
    /// Time that acknowledgements wait for others, or for a decision, to be sent along (section
    /// 4.5), in milliseconds; 0 sends them at once.
    pub acknowledgement_delay_ms: u64,
    /// Time without an acknowledgement after which a decision is repeated, in milliseconds.
    pub decision_resend_ms: u64,
    /// Time that a participant waits for a decision before the recovery service inquires; each
    /// further wait is twice as long, up to [`MAX_INQUIRY_FACTOR`] times.
    pub inquiry_ms: u64,
    /// Number of transaction numbers that one log record reserves.
    pub number_block: u64,
    /// Greatest number of transactions under way as coordinator; as participant, twice as many, of
    /// which half are for other coordinators only.
    pub max_running: usize,
    /// Greatest number of validations under way as coordinator; as participant, of those that are
    /// found valid and wait for the log.
    pub max_validating: usize,
    /// Greatest number of commits of a coordinator that wait to be acknowledged by every
    /// participant; with more it begins nothing new that is logged.
    pub max_incomplete: usize,
    /// Number of remembered transactions from which on a participant votes for no new one.
    pub max_remembered: usize,
    /// Number of epochs that one log record reserves.
    pub epoch_block: u64,
    /// Number of a server's transactions above its low-water mark after which a record says which
    /// of them are complete; at least twice as many as are not. As many as that are taken for
    /// incomplete after a restart, although they are complete.
    pub complete_block: u64,
    /// Time for which commits of an epoch are not answered while a snapshot is made at its
    /// beginning, in milliseconds. If the snapshot is not made by then, it begins anew.
    pub snapshot_hold_ms: u64,
    /// Number of attempts at a snapshot before it is refused.
    pub snapshot_attempts: u32,
    /// Greatest number of clients that wait for a snapshot.
    pub max_snapshots: usize,
    /// Number of requests that earlier lives have committed, and that are remembered.
    pub max_past_requests: usize,
    /// Number of requests of one client that are remembered, with their answers.
    pub client_window: usize,
    /// Greatest number of connected clients.
    pub max_clients: usize,
    /// Step that is broken on purpose, in tests only.
    #[cfg(test)]
    pub(crate) flaw: Option<Flaw>,
}

/// Greatest factor by which the wait between inquiries grows.
pub const MAX_INQUIRY_FACTOR: u64 = 16;

impl NodeConfig {
    /// Time for which a transaction that locks one server after the other may hold locks before it
    /// has all of them: half of the time that a snapshot waits for it, on any number of servers.
    pub(crate) fn in_order_ms(&self) -> u64 {
        self.vote_resend_ms.saturating_mul(u64::from(self.vote_attempts)) / 2
    }

    /// The usual times and limits; the servers are those that hold keys.
    pub fn new(me: ServerId, partition: Partition) -> Self {
        Self {
            me,
            servers: partition.servers(),
            partition,
            joins: false,
            lock_wait_ms: 1000,
            lock_patience_ms: 10,
            lock_keep_ms: 100,
            epoch_ms: 0,
            vote_resend_ms: 200,
            vote_attempts: 10,
            acknowledgement_delay_ms: 5,
            decision_resend_ms: 200,
            inquiry_ms: 500,
            number_block: 1 << 16,
            max_running: 1 << 14,
            max_validating: 1 << 14,
            max_incomplete: 1 << 16,
            max_remembered: 1 << 20,
            epoch_block: 1 << 10,
            complete_block: 1 << 12,
            snapshot_hold_ms: 100,
            snapshot_attempts: 10,
            max_snapshots: 1 << 14,
            max_past_requests: 1 << 16,
            client_window: 64,
            max_clients: 1 << 12,
            #[cfg(test)]
            flaw: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    #[cfg(not(test))]
    pub(crate) const fn has(&self, _: Flaw) -> bool {
        false
    }
}

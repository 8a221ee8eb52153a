//! Epoch of this server, its durable reservation, and the parts that were accepted in it and are
//! neither applied nor aborted.
//!
//! An epoch ends when a snapshot is made (`snapshot`). A part is accepted in the epoch in which its
//! server is then; the transaction takes place in the largest of its parts' epochs, and every
//! participant enters that epoch when it commits, before it releases its locks. So a transaction
//! that comes after another in the order of any key has its epoch or a later one.
//!
//! Epochs are reserved in blocks by a log record, as transaction numbers are: for a snapshot
//! durably before it is entered, and otherwise before the first record of what takes place in it.
//! After a restart the server is in the last one that was reserved, so that nothing that it finds
//! in its log is of a later one.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    config::NodeConfig,
    flaw::Flaw,
    id::{Epoch, ServerId, TranxId},
};

/// The epochs of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Epochs {
    now: Epoch,
    /// Epochs up to this one are in a record, durable or not.
    reserved: Epoch,
    /// Last epoch that is also durable.
    usable: Epoch,
    /// Every server has been in this one or a later one.
    confirmed: Epoch,
    /// The largest epoch of an answer to a client that was given before the epoch was confirmed.
    answered: Epoch,
    /// There is no snapshot at the beginning of these epochs: clients had answers too early.
    disturbed: Epoch,
    /// The largest epoch that was heard of.
    heard: Epoch,
    /// Time until which answers of an epoch that is not confirmed are held back.
    hold_until_ms: u64,
    /// Parts that are accepted and neither applied nor aborted, by the epoch that they have at
    /// least.
    pending: BTreeSet<(Epoch, TranxId)>,
    /// Servers that want an answer once an epoch is entered.
    pub(super) raising: BTreeMap<ServerId, Epoch>,
    /// Servers that want an answer once everything before an epoch is applied or aborted; a server
    /// makes one snapshot at a time.
    pub(super) settling: BTreeMap<ServerId, Epoch>,
}

impl Epochs {
    /// State after a restart: epochs up to `reserved` may have been entered.
    pub(crate) fn restored(config: &NodeConfig, reserved: Epoch) -> Self {
        // Answers to clients in earlier lives are forgotten, but their epochs were durably
        // reserved.
        let answered = if config.has(Flaw::SnapshotOverRestart) { Epoch(0) } else { reserved };
        Self { now: reserved, reserved, usable: reserved, answered, heard: reserved, ..Self::default() }
    }

    /// Epoch that this server is in.
    pub(crate) fn now(&self) -> Epoch {
        self.now
    }

    /// Snapshots of the epochs before this one can be read: this server is in it, and its log has
    /// it. What was only heard of may be lost with this life: the next one would begin in an
    /// earlier epoch, and commit to a snapshot that this one has served (G13 in decision 0075).
    pub(crate) fn readable(&self, config: &NodeConfig) -> Epoch {
        if config.has(Flaw::SnapshotServedUnreserved) { self.now } else { self.now.min(self.usable) }
    }

    /// Last epoch in which this server may have been.
    pub(crate) fn reserved(&self) -> Epoch {
        self.reserved
    }

    /// Accepts a part: in this epoch, or a later one if another participant is in it.
    pub(crate) fn accept(&mut self, tranx: TranxId) -> Epoch {
        self.pending.insert((self.now, tranx));
        self.now
    }

    /// Takes over a part from the log, for which the epoch of its acceptance is not known.
    pub(crate) fn restore(&mut self, tranx: TranxId) {
        self.pending.insert((Epoch(0), tranx));
    }

    /// Notes that a part which was accepted in `accepted` is committed, in `epoch`. Returns the
    /// epoch to apply it in.
    pub(crate) fn committed(&mut self, config: &NodeConfig, tranx: TranxId, accepted: Epoch, epoch: Epoch) -> Epoch {
        if !config.has(Flaw::EpochNotEntered) {
            self.enter(epoch);
        }
        if config.has(Flaw::EpochOfParticipant) {
            return accepted;
        }
        self.pending.remove(&(accepted, tranx));
        self.pending.insert((epoch, tranx));
        epoch
    }

    /// Notes that a part is applied or aborted.
    pub(crate) fn done(&mut self, tranx: TranxId, epoch: Epoch) {
        self.pending.remove(&(epoch, tranx));
    }

    /// Enters an epoch that another server is in.
    pub(crate) fn enter(&mut self, epoch: Epoch) {
        self.now = self.now.max(epoch);
    }

    /// The first part of an epoch before this one that is neither applied nor aborted.
    pub(super) fn unsettled(&self, config: &NodeConfig, epoch: Epoch) -> Option<TranxId> {
        let first = self.pending.first().filter(|(accepted, _)| *accepted < epoch);
        first.map(|(_, tranx)| *tranx).filter(|_| !config.has(Flaw::SnapshotNotSettled))
    }

    /// An epoch is to be entered, or clients are to get answers of it. Returns the epoch that must
    /// be durably reserved first, unless that is under way.
    pub(super) fn reserve(&mut self, config: &NodeConfig, epoch: Epoch) -> Option<Epoch> {
        (epoch > self.reserved).then(|| {
            self.reserved = Epoch(epoch.0.saturating_add(config.epoch_block.max(1) - 1));
            self.reserved
        })
    }

    /// Notes that epochs up to this one are durably reserved.
    pub(super) fn reserve_logged(&mut self, through: Epoch) {
        self.usable = self.usable.max(through);
    }

    /// Servers that wait for an epoch that is entered now, each with its epoch.
    pub(super) fn raised(&mut self, config: &NodeConfig, now_ms: u64) -> Vec<(ServerId, Epoch)> {
        let waiting = std::mem::take(&mut self.raising).into_iter();
        let (raised, later): (Vec<_>, Vec<_>) = waiting.partition(|(_, epoch)| *epoch <= self.usable);
        self.raising.extend(later);
        for (_, epoch) in &raised {
            self.hear(config, *epoch, now_ms);
            self.enter(*epoch);
        }
        raised
    }

    /// Every server is in this epoch. Returns whether there is a snapshot at its beginning: no
    /// client had an answer of it, or of a later one, before this was known.
    pub(super) fn confirm(&mut self, config: &NodeConfig, epoch: Epoch) -> bool {
        if epoch > self.confirmed {
            // Snapshots of before this epoch may still be made, by other servers: they have not
            // been confirmed in time.
            let is_too_early = self.answered > self.confirmed && !config.has(Flaw::SnapshotDisturbedUnnoticed);
            let only_itself = config.has(Flaw::SnapshotOvertakenUnnoticed);
            if is_too_early && (self.answered >= epoch || !only_itself) {
                self.disturbed = self.disturbed.max(self.answered.min(epoch));
            }
            self.confirmed = epoch;
        }
        epoch > self.disturbed
    }

    /// Returns true if a client may get an answer of this epoch as far as the log is concerned: it
    /// is durable that this server may have been in it.
    pub(crate) fn is_reserved(&self, epoch: Epoch) -> bool {
        epoch <= self.usable
    }

    /// Time until which an answer of this epoch is held back.
    pub(crate) fn holds(&mut self, config: &NodeConfig, epoch: Epoch, now_ms: u64) -> Option<u64> {
        self.hear(config, epoch, now_ms);
        let is_held = epoch > self.confirmed && now_ms < self.hold_until_ms;
        (is_held && !config.has(Flaw::SnapshotDisturbedUnnoticed)).then_some(self.hold_until_ms)
    }

    /// Notes a new epoch, which begins with a snapshot that is being made.
    fn hear(&mut self, config: &NodeConfig, epoch: Epoch, now_ms: u64) {
        if epoch > self.heard {
            self.heard = epoch;
            self.hold_until_ms = now_ms.saturating_add(config.snapshot_hold_ms);
        }
    }

    /// Notes that a client gets an answer of this epoch.
    pub(crate) fn tell(&mut self, epoch: Epoch) {
        if epoch > self.confirmed {
            self.answered = self.answered.max(epoch);
        }
    }
}

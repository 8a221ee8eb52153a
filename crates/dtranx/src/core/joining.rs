//! A server that joins a running cluster (decision 0087): before it takes part, it waits until all
//! others know it, and enters an epoch that none of them is behind.
//!
//! 1. *Unmet*: some server may not have it in its list, and make snapshots without it.
//! 2. *Asking*: all others know it. It asks them for their epochs, again and again.
//! 3. *Entering*: the largest of these epochs is being reserved in the log.
//! 4. *Joined*: it is in that epoch, and takes parts of transactions and commits of clients.
//!
//! In every step it answers others' questions about snapshots. In the first three it refuses
//! requests for its vote: silence would keep locks waiting elsewhere. What it does to come from one
//! to the next is in `joining_steps`.
//!
//! Nothing of this is in the log. The caller remembers that a server has joined, and starts it as
//! one that has from then on; until then it begins anew after a crash, and has done nothing that it
//! could have forgotten.

use std::collections::BTreeSet;

use super::{
    config::NodeConfig,
    flaw::Flaw,
    id::{Epoch, Incarnation, ServerId},
    message::{JOINING_QUESTION, Message, SnapshotMessage},
    refusal::Refusal,
};

/// How far a server has come in joining its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Joining {
    /// A server may not know it.
    Unmet,
    /// It asks the others for their epochs.
    Asking(Asking),
    /// It waits until this epoch is durably reserved.
    Entering(Epoch),
    /// The server takes part in transactions and snapshots.
    Joined,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asking {
    /// Servers that have not answered.
    pub(super) missing: BTreeSet<ServerId>,
    /// The largest epoch that was heard of.
    pub(super) epoch: Epoch,
    /// True if it is time to ask.
    pub(super) is_due: bool,
    pub(super) ask_at_ms: u64,
}

impl Joining {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        if config.joins { Self::Unmet } else { Self::Joined }
    }

    /// Returns true if the server takes part.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Joined)
    }

    pub(super) fn refuses_parts(&self, config: &NodeConfig) -> bool {
        !self.is_over() && !config.has(Flaw::UnmetTakesParts)
    }

    pub(super) fn refuses_clients(&self, config: &NodeConfig) -> bool {
        !self.is_over() && !config.has(Flaw::UnmetCoordinates)
    }

    /// All other servers know this one.
    pub(super) fn meet(&mut self, config: &NodeConfig) {
        if *self == Self::Unmet {
            let missing = config.servers.iter().copied().filter(|server| *server != config.me).collect();
            *self = Self::Asking(Asking { missing, epoch: Epoch(0), is_due: true, ask_at_ms: 0 });
        }
    }

    /// Takes a server's answer to a question of this life.
    pub(super) fn answered(&mut self, life: Option<Incarnation>, from: ServerId, message: &SnapshotMessage) {
        if let (Self::Asking(asking), SnapshotMessage::Asked { by, number: JOINING_QUESTION, epoch }) = (self, message)
            && Some(*by) == life
        {
            asking.epoch = asking.epoch.max(*epoch);
            asking.missing.remove(&from);
        }
    }

    /// Has those that have not answered asked again, if it is time.
    pub(super) fn tick(&mut self, now_ms: u64) {
        if let Self::Asking(asking) = self {
            asking.is_due |= asking.ask_at_ms <= now_ms;
        }
    }

    pub(super) const fn next_deadline_ms(&self) -> Option<u64> {
        match self {
            Self::Asking(asking) if !asking.is_due => Some(asking.ask_at_ms),
            _ => None,
        }
    }
}

/// The answer of a server that takes no part to a request for its vote; `None`: it may hear the
/// message like any other server.
pub(crate) fn refuse(me: ServerId, message: &Message) -> Option<Message> {
    message.voted_against(|| Refusal::Joining { server: me })
}

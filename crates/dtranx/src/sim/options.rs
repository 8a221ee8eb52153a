//! Options of a simulated run: its size, and how wild it is.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::place::Place;
use crate::core::{NodeConfig, ServerId};
#[cfg(test)]
use crate::core::{flaw::Flaw, group};

/// Events of a run. Probabilities are in percent.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Number of servers: 1 to 5.
    pub servers: u16,
    /// Numbers of a server above its low-water mark after which its log says which are complete.
    pub complete_block: u64,
    /// Number of clients that run transactions at the same time.
    pub clients: usize,
    /// Number of transactions that each client tries.
    pub transactions: usize,
    /// Number of different keys: 1 to 26.
    pub keys: u8,
    /// Share of messages that are lost.
    pub loss: u32,
    /// Messages that arrive twice, the second time much later.
    pub duplication: u32,
    /// Number of crashes of servers.
    pub crashes: usize,
    /// Number of times that two servers cannot reach each other for a while.
    pub partitions: usize,
    /// Number of times that a server stands still for a while, and its clock then jumps.
    pub pauses: usize,
    /// Percentage of clients' work that is snapshots.
    pub snapshots: u32,
    /// Percentage of clients' work that moves a range to another server. With any, the keys are
    /// partitioned by ranges.
    pub moves: u32,
    /// Number of servers, the first ones, that are groups of three members.
    #[cfg(test)]
    pub(crate) groups: u16,
    /// Number of times that a leader is cut off from the others of its group for a while.
    #[cfg(test)]
    pub(crate) isolations: usize,
    /// Number of times that a member's disk syncs nothing for a while.
    #[cfg(test)]
    pub(crate) hangs: usize,
    /// Share of groups of which one member loses its disk for good.
    #[cfg(test)]
    pub(crate) lost_disks: u32,
    /// Step that is broken on purpose.
    #[cfg(test)]
    pub(crate) flaw: Option<Flaw>,
    /// Rule of a group's members that is broken on purpose.
    #[cfg(test)]
    pub(crate) group_flaw: Option<group::Flaw>,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            servers: 3,
            complete_block: 4,
            clients: 6,
            transactions: 25,
            keys: 8,
            loss: 3,
            duplication: 3,
            crashes: 4,
            partitions: 2,
            pauses: 2,
            snapshots: 15,
            moves: 0,
            #[cfg(test)]
            groups: 0,
            #[cfg(test)]
            isolations: 0,
            #[cfg(test)]
            hangs: 0,
            #[cfg(test)]
            lost_disks: 0,
            #[cfg(test)]
            flaw: None,
            #[cfg(test)]
            group_flaw: None,
        }
    }
}

impl SimOptions {
    /// Options that differ for each seed: the numbers of servers, clients and keys, and the faults.
    pub fn varied(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        Self {
            servers: rng.random_range(1..=5),
            clients: rng.random_range(2..=10),
            keys: [2, 3, 8, 20][rng.random_range(0..4)],
            loss: rng.random_range(0..15),
            duplication: rng.random_range(0..15),
            crashes: rng.random_range(0..12),
            partitions: rng.random_range(0..5),
            pauses: rng.random_range(0..5),
            snapshots: rng.random_range(0..50),
            ..Self::default()
        }
    }

    /// Places where a server's node may run.
    pub(crate) fn places(&self, server: ServerId) -> impl Iterator<Item = Place> + use<> {
        #[cfg(test)]
        let members = if server.0 <= self.groups { 1..=super::member::MEMBERS } else { 0..=0 };
        #[cfg(not(test))]
        let members = 0..=0;
        members.map(move |member| Place { server, member })
    }

    /// A node's configuration with short times, so that much happens in a run.
    pub(crate) fn configure(&self, config: &mut NodeConfig) {
        config.lock_wait_ms = 15;
        config.lock_patience_ms = 4;
        config.lock_keep_ms = 10;
        config.vote_resend_ms = 20;
        config.vote_attempts = 4;
        config.acknowledgement_delay_ms = 2;
        config.decision_resend_ms = 30;
        config.inquiry_ms = 40;
        config.number_block = 16;
        config.epoch_block = 3;
        config.complete_block = self.complete_block;
        config.snapshot_hold_ms = 10;
        config.snapshot_attempts = 3;
        config.client_window = 8;
        #[cfg(test)]
        {
            config.flaw = self.flaw;
        }
    }
}

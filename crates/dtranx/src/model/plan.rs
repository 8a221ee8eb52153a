//! What is explored: the cluster, its clients' transactions, and how much may go wrong.

use crate::core::{Epoch, Key, NodeConfig, Partition, ServerId, flaw::Flaw};

/// A transaction of a client.
#[derive(Clone, Debug)]
pub(crate) struct Tx {
    pub(crate) coordinator: ServerId,
    pub(crate) reads: Vec<Key>,
    pub(crate) puts: Vec<Key>,
    pub(crate) deletes: Vec<Key>,
    /// It begins only when this one has been answered.
    pub(crate) after: Option<usize>,
    /// It begins only when this one has been applied, or a part of it.
    pub(crate) sees: Option<usize>,
    /// It begins only when its coordinator is in this epoch, or a later one.
    pub(crate) from: Epoch,
    /// The attempt that it repeats: it begins when that one is answered, and takes over the locks
    /// that are kept for it.
    pub(crate) retries: Option<usize>,
    /// It names this transaction of its coordinator as the attempt before, whatever that is.
    pub(crate) names: Option<u64>,
    /// What it says about how long it has waited, and whether it wants its locks kept.
    pub(crate) waited_ms: u32,
    pub(crate) keeps: bool,
}

/// A snapshot that a client asks for, and then reads these keys of.
#[derive(Clone, Debug)]
pub(crate) struct Snap {
    pub(crate) maker: ServerId,
    pub(crate) keys: Vec<Key>,
    /// It begins only when this transaction has been answered.
    pub(crate) after: Option<usize>,
}

/// What is explored.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) servers: u16,
    pub(crate) txs: Vec<Tx>,
    /// So many of them, the first ones, have been answered before anything else begins, one after
    /// the other; all of them had read before. What is explored begins with what they have written,
    /// and the locks that are kept for them.
    pub(crate) before: usize,
    /// So many snapshots, the first ones, have been made after these: some of the epochs behind
    /// them are reserved.
    pub(crate) snaps_before: usize,
    /// Their numbers follow those of the transactions.
    pub(crate) snaps: Vec<Snap>,
    /// Are commits of an epoch answered only when every server is known to have entered it?
    /// Otherwise at once, so that they disturb snapshots.
    pub(crate) holds: bool,
    /// How often a server may crash.
    pub(crate) crashes: u8,
    /// Only this one may.
    pub(crate) crash_only: Option<u16>,
    /// How many messages may be lost.
    pub(crate) losses: u8,
    /// How many messages may arrive twice.
    pub(crate) duplicates: u8,
    /// How often a server may lose the connection over which another speaks; what is on its way
    /// still arrives.
    pub(crate) disconnections: u8,
    /// How often timers may go off while messages are on their way.
    pub(crate) early_ticks: u8,
    /// Only this one's may.
    pub(crate) ticks_only: Option<u16>,
    /// How often garbage may be collected before the end.
    pub(crate) collections: u8,
    /// Is each event between the machines of a server a step of its own? Otherwise they are
    /// delivered at once.
    pub(crate) apart: bool,
    /// This server's storage takes its time, and answers out of order; the others' answers at once.
    pub(crate) slow_storage: Option<u16>,
    /// Is the wait for locks unlimited? Then a request that is refused because of its wait has
    /// waited in a circle.
    pub(crate) waits_long: bool,
    pub(crate) flaw: Option<Flaw>,
}

/// The key that begins with the number of the server that holds it.
pub(crate) fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

/// A transaction: the coordinator, what it reads, what it puts.
pub(crate) fn tx(coordinator: u16, reads: &[&str], puts: &[&str]) -> Tx {
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
    Tx {
        coordinator: ServerId(coordinator),
        reads: keys(reads),
        puts: keys(puts),
        deletes: vec![],
        ..Tx::of(ServerId(coordinator))
    }
}

impl Tx {
    fn of(coordinator: ServerId) -> Self {
        Self {
            coordinator,
            reads: vec![],
            puts: vec![],
            deletes: vec![],
            after: None,
            sees: None,
            from: Epoch(0),
            retries: None,
            names: None,
            waited_ms: 0,
            keeps: false,
        }
    }
}

/// A snapshot: who makes it, what is read of it.
pub(crate) fn snap(maker: u16, keys: &[&str]) -> Snap {
    Snap { maker: ServerId(maker), keys: keys.iter().map(|name| key(name)).collect(), after: None }
}

impl Plan {
    pub(crate) fn new(servers: u16, txs: Vec<Tx>) -> Self {
        Self {
            servers,
            txs,
            before: 0,
            snaps_before: 0,
            snaps: vec![],
            holds: false,
            crashes: 0,
            crash_only: None,
            losses: 0,
            duplicates: 0,
            disconnections: 0,
            early_ticks: 0,
            ticks_only: None,
            collections: 0,
            apart: false,
            slow_storage: None,
            waits_long: false,
            flaw: None,
        }
    }

    /// Server n holds the keys that begin with the digit n.
    pub(crate) fn partition(&self) -> Partition {
        let first = |n: u16| if n == 1 { Key::smallest() } else { key(&n.to_string()) };
        Partition::Ranges((1..=self.servers).map(|n| (first(n), ServerId(n))).collect())
    }

    /// Nothing takes any time.
    pub(crate) fn config(&self, me: ServerId) -> NodeConfig {
        let mut config = NodeConfig::new(me, self.partition());
        config.lock_wait_ms = if self.waits_long { 1000 } else { 0 };
        config.lock_patience_ms = 0;
        config.lock_keep_ms = 0;
        config.epoch_ms = 1_000_000;
        config.vote_resend_ms = if self.waits_long { 1000 } else { 0 };
        config.vote_attempts = 2;
        config.acknowledgement_delay_ms = 0;
        config.decision_resend_ms = 0;
        config.inquiry_ms = 0;
        config.number_block = 4;
        config.epoch_block = 2;
        config.snapshot_hold_ms = u64::from(self.holds);
        config.snapshot_attempts = 2;
        config.flaw = self.flaw;
        config
    }
}

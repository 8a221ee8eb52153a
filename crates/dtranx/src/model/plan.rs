//! Plans of the model: the cluster, its clients' transactions and snapshots, and the budgets of
//! faults.

use crate::core::{
    Epoch, Key, KeyRange, Moving, NodeConfig, Partition, Read, ScanRead, ServerId, Transaction, TranxId, Value, Write,
    flaw::Flaw,
};

/// Transaction of a client. Other transactions are given by their index in the plan.
#[derive(Clone, Debug)]
pub(crate) struct Tx {
    pub(crate) coordinator: ServerId,
    pub(crate) reads: Vec<Key>,
    pub(crate) puts: Vec<Key>,
    pub(crate) deletes: Vec<Key>,
    /// The transaction begins only after the answer to this one.
    pub(crate) after: Option<usize>,
    /// The transaction begins only after some server has applied its part of this one.
    pub(crate) sees: Option<usize>,
    /// The transaction begins only when its coordinator is in this epoch or a later one.
    pub(crate) from: Epoch,
    /// Attempt that the transaction repeats. The transaction begins after the answer to that
    /// attempt and takes over the locks that are kept for it.
    pub(crate) retries: Option<usize>,
    /// Number of the coordinator's transaction that the client names as the attempt before, rightly
    /// or wrongly.
    pub(crate) names: Option<u64>,
    /// Time since the first attempt as the client gives it, in milliseconds.
    pub(crate) waited_ms: u32,
    /// Whether the client wants its locks kept for another attempt.
    pub(crate) keeps: bool,
    /// Range that the transaction moves. Its reads are the keys that may be there.
    pub(crate) moving: Option<Moving>,
}

/// Server that a client asks for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The one that holds it by the maps that the servers have stored.
    Holder,
    /// The one that has held it first, which says what it has, although its range has moved.
    First,
}

/// Snapshot that a client requests, and the keys that it then reads.
#[derive(Clone, Debug)]
pub(crate) struct Snap {
    pub(crate) maker: ServerId,
    pub(crate) keys: Vec<Key>,
    /// The client requests it only after the answer to this transaction.
    pub(crate) after: Option<usize>,
}

/// One cluster to explore, with its clients and the budgets of faults.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) servers: u16,
    pub(crate) txs: Vec<Tx>,
    /// Number of transactions, the first of `txs`, that are over when the exploration begins. All
    /// of them read first; then they commit one after the other. The exploration begins with their
    /// writes and the locks that are kept for them.
    pub(crate) before: usize,
    /// Whether garbage is collected after those transactions, so that no log has them any more.
    pub(crate) collected: bool,
    /// Number of snapshots, the first of `snaps`, that are made after those transactions. They
    /// leave some later epochs reserved.
    pub(crate) snaps_before: usize,
    /// Snapshots; their indices follow those of the transactions.
    pub(crate) snaps: Vec<Snap>,
    /// Whether commits of an epoch are answered only when every server is known to have entered it,
    /// or nothing else is under way. Otherwise they are answered at once, so that they disturb
    /// snapshots.
    pub(crate) holds: bool,
    /// Servers that clients ask for keys, outside of snapshots.
    pub(crate) asks: Asks,
    /// Servers whose lists lack the last server when the exploration begins: that one joins, and
    /// holds no key. If there are none, no server joins.
    pub(crate) old_lists: Vec<u16>,
    /// Budget of crashes, for all servers together.
    pub(crate) crashes: u8,
    /// The only server that may crash, if one is named.
    pub(crate) crash_only: Option<u16>,
    /// The server that may be lost for good, with its folder, at any step. What others are in doubt
    /// about because of it, an operator decides, from their logs.
    pub(crate) ruins: Option<u16>,
    /// Budget of lost messages.
    pub(crate) losses: u8,
    /// Budget of messages that arrive twice.
    pub(crate) duplicates: u8,
    /// Budget of lost connections from one server to another; messages under way still arrive.
    pub(crate) disconnections: u8,
    /// Budget of timers that go off while something is under way.
    pub(crate) early_ticks: u8,
    /// The only server whose timers may go off early, if one is named.
    pub(crate) ticks_only: Option<u16>,
    /// Budget of garbage collections before the final ones.
    pub(crate) collections: u8,
    /// Whether each event between the machines of a server is a step of its own. Otherwise such
    /// events are delivered at once.
    pub(crate) apart: bool,
    /// The server with a slow storage, which carries out commands and answers out of order. Every
    /// other storage answers at once.
    pub(crate) slow_storage: Option<u16>,
    /// Whether waits for locks have no time limit. A request that is refused because of its wait
    /// was then part of a circle of waits.
    pub(crate) waits_long: bool,
    pub(crate) flaw: Option<Flaw>,
}

/// Makes a key; its first digit is the number of the server that holds it.
pub(crate) fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

/// Transaction of this coordinator that reads the keys `reads` and then puts the keys `puts`.
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

/// Move of the range from the first to the last of `keys`, of which others may be there.
pub(crate) fn moving(coordinator: u16, from: u16, to: u16, keys: &[&str]) -> Tx {
    let range = KeyRange::through(key(keys[0]), key(keys[keys.len() - 1]));
    let moving = Moving { range, from: ServerId(from), to: ServerId(to), moves: 1 };
    Tx { moving: Some(moving), ..tx(coordinator, keys, &[]) }
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
            moving: None,
        }
    }

    /// The transaction as its client sends it: the plan's number `at` is the value of each key that
    /// it puts, and `seen` are the versions that the client has read.
    pub(super) fn transaction(&self, at: usize, seen: &[Option<TranxId>]) -> Transaction {
        let read = |(key, version): (&Key, &Option<TranxId>)| Read { key: key.clone(), version: *version };
        let value = Value::new(vec![at as u8]).unwrap();
        if let Some(moving) = self.moving.clone() {
            let found = self.found(seen);
            let writes = found.iter().map(|(key, _)| Write { key: key.clone(), value: Some(value.clone()) }).collect();
            let scans = vec![ScanRead { range: moving.range.clone(), found }];
            return Transaction { scans, writes, moving: Some(Box::new(moving)), ..Transaction::default() };
        }
        let put = self.puts.iter().map(|key| Write { key: key.clone(), value: Some(value.clone()) });
        let delete = self.deletes.iter().map(|key| Write { key: key.clone(), value: None });
        Transaction {
            reads: self.reads.iter().zip(seen).map(read).collect(),
            scans: vec![],
            writes: put.chain(delete).collect(),
            moving: None,
        }
    }

    /// The keys of its reads that were there, with their versions.
    fn found(&self, seen: &[Option<TranxId>]) -> Vec<(Key, TranxId)> {
        self.reads.iter().zip(seen).filter_map(|(key, version)| Some((key.clone(), (*version)?))).collect()
    }

    /// The keys that it puts; of a move, all that it has found.
    pub(super) fn put_keys(&self, seen: &[Option<TranxId>]) -> Vec<Key> {
        if self.moving.is_some() {
            self.found(seen).into_iter().map(|(key, _)| key).collect()
        } else {
            self.puts.clone()
        }
    }
}

/// Snapshot that server `maker` makes, of which a client reads `keys`.
pub(crate) fn snap(maker: u16, keys: &[&str]) -> Snap {
    Snap { maker: ServerId(maker), keys: keys.iter().map(|name| key(name)).collect(), after: None }
}

impl Plan {
    pub(crate) fn new(servers: u16, txs: Vec<Tx>) -> Self {
        Self {
            servers,
            txs,
            before: 0,
            collected: false,
            snaps_before: 0,
            snaps: vec![],
            holds: false,
            asks: Asks::Holder,
            old_lists: vec![],
            crashes: 0,
            crash_only: None,
            ruins: None,
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

    /// Partition in which server n holds the keys that begin with the digit n; one that joins holds
    /// none.
    pub(crate) fn partition(&self) -> Partition {
        let first = |n: u16| if n == 1 { Key::smallest() } else { key(&n.to_string()) };
        let holders = self.servers - u16::from(self.joiner().is_some());
        Partition::Ranges((1..=holders).map(|n| (first(n), ServerId(n))).collect())
    }

    /// The server that joins, if one does.
    pub(super) fn joiner(&self) -> Option<ServerId> {
        (!self.old_lists.is_empty()).then_some(ServerId(self.servers))
    }

    /// Configuration of one server. Times are zero or out of reach, because the model has no clock.
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
        config.complete_block = 1;
        config.snapshot_hold_ms = u64::from(self.holds);
        config.snapshot_attempts = 2;
        config.flaw = self.flaw;
        config
    }
}

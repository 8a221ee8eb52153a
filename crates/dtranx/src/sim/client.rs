//! A simulated client: reads without locks, then commits, sends again what is not answered, and
//! follows the advice.
//!
//! This is its state only; `world` moves it from one to the next.

use std::collections::{BTreeMap, VecDeque};

use super::{history::Snapshot, place::Place, workload::Plan};
use crate::core::{Again, ClientId, Key, KeyRange, MessageId, Moving, ServerId, Transaction, TranxId, Value};

/// Number of times that a commit is sent before the client gives up without knowing the outcome.
pub(crate) const MAX_SENDS: u32 = 12;

/// Number of times that the question what became of a commit is sent.
pub(crate) const MAX_QUESTIONS: u32 = 4;

/// Number of times that the same transaction is committed again after a refusal that advises it.
pub(crate) const MAX_RETRIES: u32 = 3;

/// A client of the simulated cluster.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Number of transactions that it has yet to begin.
    pub(crate) left: usize,
    /// Count of what the client has begun, so that late answers are recognised.
    pub(crate) turn: u64,
    pub(crate) attempt: usize,
    pub(crate) plan: Plan,
    /// Keys that are still to be read.
    pub(crate) reads: VecDeque<Key>,
    /// The parts that have to be scanned yet, each with its server.
    pub(crate) scans: VecDeque<(KeyRange, ServerId)>,
    pub(crate) found: Vec<(Key, TranxId)>,
    /// The range that it moves, and what was found in it.
    pub(crate) moving: Option<Moving>,
    pub(crate) values: Vec<(Key, Value)>,
    pub(crate) transaction: Transaction,
    /// The client's facts about attempts before.
    pub(crate) again: Again,
    /// Whether its next transaction is the same once more.
    pub(crate) repeats: bool,
    pub(crate) request: Option<Request>,
    pub(crate) connections: BTreeMap<Place, ClientId>,
    pub(crate) last_message: u64,
    /// The snapshot that it reads.
    pub(crate) snapshot: Option<Snapshot>,
    /// The last version that it saw of each key.
    pub(crate) cache: BTreeMap<Key, Option<TranxId>>,
    /// The largest number of each server's transactions that it has heard of.
    pub(crate) heard: BTreeMap<ServerId, u64>,
}

impl Client {
    /// Notes the number of a transaction that an answer has named: later requests get larger ones.
    pub(crate) fn hear(&mut self, tranx: TranxId) {
        let heard = self.heard.entry(tranx.server).or_default();
        *heard = tranx.number.max(*heard);
    }
}

/// A commit that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) server: Place,
    pub(crate) client: ClientId,
    pub(crate) message: MessageId,
    pub(crate) sends: u32,
    pub(crate) retries: u32,
    /// The largest number of the server's transactions that the client had heard of before.
    pub(crate) above: u64,
    /// Number of times that a later life was asked what became of it.
    pub(crate) questions: u32,
}

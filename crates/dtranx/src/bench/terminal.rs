//! One transaction under way, without a thread of its own: each answer says what is asked next.

use std::collections::BTreeMap;
use std::time::Instant;

use super::workload::Planned;
use crate::client::{Answer, Inner};
use crate::core::{CommitAnswer, Key, Read, ServerId, Transaction, Write};
use crate::wire::{Ask, Reply};

/// Where a transaction is.
pub(super) struct Terminal {
    pub(super) began: Instant,
    planned: Planned,
    reads: Vec<Read>,
    /// Which keys each server was asked for; gone when it has answered.
    asked: BTreeMap<ServerId, Vec<Key>>,
}

/// What comes after an answer.
pub(super) enum Next {
    /// Other answers are missing.
    Wait,
    Ask(ServerId, Ask),
    Over(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Refused,
    Failed,
}

impl Terminal {
    /// Begins a transaction: the reads to ask for, or, if there are none, the commit.
    pub(super) fn begin(planned: Planned, inner: &Inner) -> (Self, Vec<(ServerId, Ask)>) {
        let mut asked: BTreeMap<ServerId, Vec<Key>> = BTreeMap::new();
        for key in &planned.reads {
            asked.entry(inner.cluster.partition.server_of(key)).or_default().push(key.clone());
        }
        let mut asks: Vec<_> = asked.iter().map(|(server, keys)| (*server, Ask::Get(keys.clone()))).collect();
        let mut terminal = Self { began: Instant::now(), planned, reads: Vec::new(), asked };
        if asks.is_empty() {
            asks.push(terminal.commit(inner));
        }
        (terminal, asks)
    }

    pub(super) fn answered(&mut self, server: ServerId, answer: Answer, inner: &Inner) -> Next {
        match answer {
            Answer::Reply(Reply::Values(items)) => {
                let keys = self.asked.remove(&server).unwrap_or_default();
                let read = |(key, item): (Key, Option<crate::core::Item>)| Read {
                    key,
                    version: item.map(|item| item.version),
                };
                self.reads.extend(keys.into_iter().zip(items).map(read));
                if !self.asked.is_empty() {
                    return Next::Wait;
                }
                let (server, ask) = self.commit(inner);
                Next::Ask(server, ask)
            }
            Answer::Reply(Reply::Commit(CommitAnswer::Committed(_))) => Next::Over(Outcome::Committed),
            Answer::Reply(Reply::Commit(CommitAnswer::Refused(_))) => Next::Over(Outcome::Refused),
            _ => Next::Over(Outcome::Failed),
        }
    }

    fn commit(&mut self, inner: &Inner) -> (ServerId, Ask) {
        let first = self.planned.write.as_ref().map(|(key, _)| key).or_else(|| self.planned.reads.first());
        let server = first.map_or(ServerId(0), |key| inner.cluster.partition.server_of(key));
        let write = self.planned.write.take().map(|(key, value)| Write { key, value: Some(value) });
        let transaction = Transaction {
            reads: std::mem::take(&mut self.reads),
            scans: Vec::new(),
            writes: write.into_iter().collect(),
        };
        (server, Ask::Commit(transaction))
    }
}

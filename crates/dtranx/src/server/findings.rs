//! Reads the log of a member: what is known to be committed is applied, and the rest is kept.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::member_event::Pending;
use super::replay::Replay;
use crate::core::{NodeConfig, Recovery, TranxId, Write};
use crate::log::{self, LogReader, Outline, Position, SegmentNumber};
use crate::storage::Storage;

/// Applies a commit to the storage.
type Apply<'a> = Box<dyn FnMut((TranxId, Vec<Write>)) -> Result<(), String> + 'a>;

/// Reader of a member's log: what is committed is applied, and the rest is kept.
pub(super) struct Findings<'a> {
    replay: Replay<Apply<'a>>,
    pending: BTreeMap<u64, Pending>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(config: NodeConfig, storage: &'a dyn Storage) -> Self {
        let apply: Apply<'a> = Box::new(|commit| storage.apply(&[commit]).map_err(|error| error.to_string()));
        Self { replay: Replay::new(config, apply), pending: BTreeMap::new() }
    }

    /// The recovery, and the entries that are not known to be committed. An entry of which no
    /// record was read has none, or is a configuration.
    pub(super) fn end(mut self, outline: &Outline) -> (Recovery, VecDeque<Pending>) {
        let runs = |index| outline.runs.iter().rev().find(move |run| run.index <= index).map(|run| run.term);
        let empty = |index| {
            let entry = Position { term: runs(index).unwrap_or(outline.before.term), index };
            let configured = outline.configurations.iter().find(|configured| configured.at == entry);
            let payload = configured.map(|configured| log::configuration_payload(&configured.bytes).into());
            Pending { entry, segment: SegmentNumber(0), payload: payload.unwrap_or_default() }
        };
        let open = outline.committed + 1..=outline.last.index;
        let pending = open.map(|index| self.pending.remove(&index).unwrap_or_else(|| empty(index))).collect();
        (self.replay.recovery, pending)
    }
}

impl LogReader for Findings<'_> {
    fn state(&mut self, state: &[u8]) -> Result<(), String> {
        self.replay.state(state)
    }

    fn record(&mut self, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        self.replay.record(segment, record)
    }

    fn uncommitted(&mut self, entry: Position, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        let pending = self.pending.entry(entry.index).or_insert(Pending { entry, segment, payload: Bytes::new() });
        let mut payload = Vec::from(std::mem::take(&mut pending.payload));
        payload.extend(log::payload([record]));
        pending.payload = payload.into();
        Ok(())
    }
}

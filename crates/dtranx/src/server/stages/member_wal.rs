//! The WAL stage of a group's member: appends entries and states, makes a batch of them durable
//! once, says so once. It keeps the entries that are not committed, hands them on when they are,
//! and reads entries again that a follower lacks. It tells the garbage collection which segments
//! are complete (`committed`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::BATCH;
use super::committed::Committed;
use crate::core::machine::GcEvent;
use crate::core::{SegmentId, SegmentSummary};
use crate::log::{Cursor, Fetched, Position, SegmentNumber, TranxLog};
use crate::server::event::Garbage;
use crate::server::member_event::{Fetch, Follow, FromLog, LogWork, Pending};
use crate::server::stats::ServerStats;
use crate::stage::{Outlet, Source, Stage};
use crate::wire::BATCH_LIMIT_BYTES;

/// Time that the seal behind what was persisted last may wait for the next record before it is made
/// durable by itself, in milliseconds.
const SEAL_MS: u64 = 100;

pub(in crate::server) struct MemberWalStage {
    log: TranxLog,
    stats: Arc<ServerStats>,
    source: Source<LogWork>,
    outlets: Outlets,
    segment: SegmentNumber,
    /// Entries that are written and not acted on, in the order of their indices.
    pending: VecDeque<Pending>,
    /// Index of the entry that was acted on last.
    acted: u64,
    /// The segments, as far as their entries were acted on.
    committed: Committed,
    /// For each follower, where reading for it has ended.
    cursors: BTreeMap<u8, Cursor>,
    seal_at_ms: Option<u64>,
}

/// Queues to which the stage hands on.
pub(in crate::server) struct Outlets {
    pub(in crate::server) group: Outlet<FromLog>,
    pub(in crate::server) follow: Outlet<Follow>,
    pub(in crate::server) gc: Outlet<Garbage>,
}

impl MemberWalStage {
    /// `found` is what is committed in the segments, as they were read. `pending` are the entries
    /// that were found and are not known to be committed.
    pub(in crate::server) fn new(
        log: TranxLog,
        found: BTreeMap<SegmentId, SegmentSummary>,
        pending: VecDeque<Pending>,
        stats: Arc<ServerStats>,
        source: Source<LogWork>,
        mut outlets: Outlets,
    ) -> Self {
        let segment = log.current();
        let acted = log.last().index - pending.len() as u64;
        stats.note_space(log.space());
        outlets.gc.send(Garbage::MakeAhead);
        let (committed, cursors) = (Committed::new(found, acted), BTreeMap::new());
        Self { log, stats, source, outlets, segment, pending, acted, committed, cursors, seal_at_ms: None }
    }

    fn append(&mut self, entry: Position, payload: Bytes) -> Result<(), String> {
        let segment = self.log.append_entry(entry, &payload).map_err(|error| error.to_string())?;
        self.note_segment(segment);
        while self.pending.back().is_some_and(|pending| pending.entry.index >= entry.index) {
            self.pending.pop_back();
        }
        self.pending.push_back(Pending { entry, segment, payload });
        Ok(())
    }

    fn note_segment(&mut self, segment: SegmentNumber) {
        if segment != self.segment {
            self.segment = segment;
            self.outlets.gc.send(Garbage::MakeAhead);
            self.stats.note_space(self.log.space());
        }
    }

    /// Entries up to this one are committed, and synced here.
    fn act(&mut self, through: u64, applies: bool) -> Result<(), String> {
        for index in self.acted + 1..=through {
            let next = self.pending.pop_front().filter(|pending| pending.entry.index == index);
            let Some(Pending { segment, payload, .. }) = next else {
                return Err(format!("entry {index} is committed, and its records are not here"));
            };
            let segment = SegmentId(segment.0);
            self.committed.count(segment, index, &payload)?;
            if applies {
                self.outlets.follow.send(Follow::Apply { segment, payload });
            }
        }
        self.acted = self.acted.max(through);
        Ok(())
    }

    /// Tells the garbage collection which segments are complete. All that was appended is synced.
    fn tell_complete(&mut self) {
        let pending = self.pending.iter().map(|pending| pending.segment).min();
        let open = pending.map_or(self.segment, |first| first.min(self.segment));
        for (segment, summary) in self.committed.take_complete(SegmentId(open.0)) {
            self.outlets.gc.send(Garbage::Event(GcEvent::Sealed { segment, summary }));
        }
    }

    fn fetch(&mut self, fetch: Fetch) -> Result<(), String> {
        let cursor = self.cursors.entry(fetch.to).or_default();
        let found = self.log.fetch(cursor, fetch.wanted.iter().copied(), BATCH_LIMIT_BYTES);
        self.outlets.group.send(match found.map_err(|error| error.to_string())? {
            Fetched::Payloads(payloads) => {
                FromLog::Fetched { fetch, payloads: payloads.into_iter().map(Bytes::from).collect() }
            }
            Fetched::Removed => FromLog::Removed { to: fetch.to },
        });
        Ok(())
    }

    fn work(&mut self, batch: Vec<LogWork>, now_ms: u64) -> Result<(), String> {
        let mut last = None;
        for work in batch {
            match work {
                LogWork::Write { write, state, entries } => {
                    if let Some(state) = state {
                        self.log.append_state(state).map_err(|error| error.to_string())?;
                        self.note_segment(self.log.current());
                    }
                    for (entry, payload) in entries {
                        self.append(entry, payload)?;
                    }
                    last = Some(write);
                }
                LogWork::Act { through, applies } => self.act(through, applies)?,
                LogWork::Begin => {
                    self.log.roll().map_err(|error| error.to_string())?;
                    self.note_segment(self.log.current());
                    self.outlets.follow.send(Follow::Begin);
                }
                LogWork::Fetch(fetch) => self.fetch(fetch)?,
                LogWork::Spare { through } => self.committed.spare(through),
            }
        }
        if let Some(through) = last {
            self.persist()?;
            self.seal_at_ms = Some(now_ms + SEAL_MS);
            self.outlets.group.send(FromLog::Synced(through));
        }
        self.tell_complete();
        Ok(())
    }

    fn persist(&mut self) -> Result<(), String> {
        self.log.persist().map_err(|error| error.to_string())
    }
}

impl Stage for MemberWalStage {
    fn name(&self) -> &'static str {
        "wal"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let mut batch = Vec::new();
        // What is committed is applied before more is acknowledged: a leader waits for that.
        let handled = if self.outlets.follow.flush() { self.source.take(BATCH, &mut batch) } else { 0 };
        if handled > 0 {
            self.work(batch, now_ms)?;
        } else if self.seal_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.persist()?;
            self.seal_at_ms = None;
        }
        self.outlets.group.flush();
        self.outlets.follow.flush();
        self.outlets.gc.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        let are_clear = self.outlets.group.is_clear() && self.outlets.follow.is_clear() && self.outlets.gc.is_clear();
        !self.source.is_empty() || !are_clear
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.seal_at_ms
    }
}
